"""DuckDB's C headers, taken once from its source archive and kept in the user's cache folder."""

import os
import runpy
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

VERSION = "2.0.0"
SHA256 = "09de511ef0dc76a5213e8d3d87a8b89bb4d3e8a6fe73a9f60dc001269946b44f"
HEADERS = ("duckdb.h", "duckdb_extension.h")
INSIDE = f"duckdb-{VERSION}/external/duckdb/src/include"
FOLDERS = Path(__file__).resolve().parents[2] / "front" / "user_folders.py"
cache_folder: Callable[[], Path] = runpy.run_path(str(FOLDERS))["cache_folder"]


def folder() -> Path:
    """The folder with the headers: `TUSKML_DUCKDB_INCLUDE`, or the cache, filled when needed."""
    given = os.environ.get("TUSKML_DUCKDB_INCLUDE")
    cached = Path(given) if given else cache_folder() / f"duckdb-{VERSION}"
    missing = [name for name in HEADERS if not (cached / name).is_file()]
    if missing and given:
        raise FileNotFoundError(f"TUSKML_DUCKDB_INCLUDE={given} holds no {missing[0]}")
    if missing:
        download(cached)
    return cached


def download(target: Path) -> None:
    """Fetches the archive, checks its hash, and moves the complete headers to the target."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as name:
        scratch = Path(name)
        wanted = scratch / "requirements.txt"
        wanted.write_text(f"duckdb=={VERSION} --hash=sha256:{SHA256}\n")
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        pip += ["--no-binary", "duckdb", "--require-hashes"]
        pip += ["--dest", name, "--requirement", str(wanted)]
        if subprocess.run(pip, check=False).returncode:
            raise OSError(
                f"DuckDB's headers could not be downloaded (duckdb {VERSION} source archive): "
                "check the network, or set TUSKML_DUCKDB_INCLUDE to a folder that holds them"
            )
        with tarfile.open(scratch / f"duckdb-{VERSION}.tar.gz") as archive:
            for header in HEADERS:
                member = archive.extractfile(f"{INSIDE}/{header}")
                assert member is not None
                (scratch / header).write_bytes(member.read())
                (scratch / header).replace(target / header)
