"""Completes a folder of archives to a release: python scripts/build/release.py DIST [--key KEY]

Beside the sdist and the wheel in DIST it writes

    tuskml-VERSION.cdx.json   what they are made of and depend on: an SBOM of CycloneDX
    SHA256SUMS                the checksum of each file
    SHA256SUMS.sig            its signature by ssh-keygen, if a key is given

The SBOM describes an environment in which the wheel is installed: a new one, or that of --python.
"""

import argparse
import hashlib
import json
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "tuskml-release"
SUMS = "SHA256SUMS"
OWNER = "OWNER"
"""Where the URLs in pyproject.toml name the account that publishes, until one is known."""


def run(*command: str) -> str:
    """The output of a program; raises SystemExit with its errors if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def archives(dist: Path, version: str) -> list[Path]:
    """The sdist and the wheels of this version; raises SystemExit unless both kinds are there,
    alone.
    """
    sdist, wheels = dist / f"tuskml-{version}.tar.gz", sorted(dist.glob(f"tuskml-{version}-*.whl"))
    if not sdist.is_file() or not wheels:
        raise SystemExit(f"{dist} has no sdist and wheel of tuskml {version}: make wheel")
    strange = {*dist.glob("*.tar.gz"), *dist.glob("*.whl")} - {sdist, *wheels}
    if strange:
        names = ", ".join(sorted(path.name for path in strange))
        raise SystemExit(f"{dist} has archives of other versions, expected none: {names}")
    return [sdist, *wheels]


def own(files: list[Path]) -> Path:
    """The wheel that this machine can install, or else the first."""
    wheels = [path for path in files if path.suffix == ".whl"]
    fitting = [path for path in wheels if path.stem.endswith((platform.machine(), "any"))]
    return (fitting or wheels)[0]


def environment(wheel: Path, folder: Path) -> str:
    """The Python of a new environment with the wheel and its dependencies."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    return python


def sbom(python: str) -> dict[str, Any]:
    """The SBOM of an environment that has tuskml."""
    command = [
        sys.executable,
        "-m",
        "cyclonedx_py",
        "environment",
        "--of",
        "JSON",
        "--mc-type",
        "library",
    ]
    text = run(*command, "--pyproject", str(ROOT / "pyproject.toml"), python)
    made: dict[str, Any] = json.loads(text)
    return made


def linked_in(wheel: Path) -> list[dict[str, Any]]:
    """The foreign parts of the wheel's libraries: the C++ library, unless it is the system's."""
    with zipfile.ZipFile(wheel) as opened:
        libraries = [opened.read(name) for name in opened.namelist() if name.endswith(".so")]
    said = [re.search(rb"GCC: \([^)]*\) (\d+[.\d]*)", library) for library in libraries]
    versions = {match[1].decode() for match in said if match}
    dynamic = any(b"libstdc++.so" in library for library in libraries)
    if dynamic or not versions:
        return []
    return [
        {
            "type": "library",
            "name": "libstdc++",
            "version": max(versions),
            "bom-ref": "libstdc++",
            "scope": "required",
            "description": "GCC's C++ library, linked into the native libraries",
            "licenses": [{"expression": "GPL-3.0-or-later WITH GCC-exception-3.1"}],
        }
    ]


def sums(files: list[Path]) -> str:
    """Checksums as `sha256sum --check` reads them."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in files]
    return "\n".join(lines) + "\n"


def sign(path: Path, key: Path) -> Path:
    """Signs a file by `ssh-keygen -Y sign`; the signature is written next to it."""
    signature = path.with_name(path.name + ".sig")
    signature.unlink(missing_ok=True)
    run("ssh-keygen", "-Y", "sign", "-q", "-n", NAMESPACE, "-f", str(key), str(path))
    return signature


def release(dist: Path, version: str, python: str | None, key: Path | None) -> list[str]:
    """Writes missing files in the folder, and returns lines about them."""
    files = archives(dist, version)
    with tempfile.TemporaryDirectory() as scratch:
        made = sbom(python or environment(own(files), Path(scratch)))
    made.setdefault("components", []).extend(linked_in(own(files)))
    bill = dist / f"tuskml-{version}.cdx.json"
    bill.write_text(json.dumps(made, indent=1) + "\n")
    checksums = dist / SUMS
    checksums.write_text(sums([*files, bill]))
    said = [
        f"{bill}: {len(made['components'])} components",
        f"{checksums}: {len(files) + 1} files",
    ]
    if key is None:
        (dist / f"{SUMS}.sig").unlink(missing_ok=True)
        return [*said, "not signed: give a key by make release KEY=~/.ssh/id_ed25519"]
    return [*said, f"{sign(checksums, key)}: signed by {key}"]


def main() -> None:
    """Completes the folder that the arguments name."""
    parser = argparse.ArgumentParser(
        description="Writes SBOM, checksums and signature of a release."
    )
    parser.add_argument("dist", type=Path, help="the folder with the sdist and the wheel")
    parser.add_argument("--key", type=Path, help="a private or public key of ssh that signs")
    parser.add_argument("--python", help="of an environment that has the wheel already")
    parser.add_argument("--tag", help="that the release has; it must name the version")
    args = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    if args.tag and args.tag != f"v{project['version']}":
        raise SystemExit(f"the tag is {args.tag}, expected v{project['version']}")
    unnamed = [name for name, url in project["urls"].items() if OWNER in url.split("/")]
    if args.tag and unnamed:
        raise SystemExit(
            f"pyproject.toml has {OWNER} in the URLs {', '.join(unnamed)}, expected the account "
            "that publishes"
        )
    for line in release(args.dist, project["version"], args.python, args.key):
        print(line)


if __name__ == "__main__":
    main()
