"""Builds Debian packages of the PostgreSQL extensions and of the Python package that trains.

    python scripts/build/debian.py build/debian [--postgres 15]

The folder gets `postgresql-15-tuskml`, `python3-tuskml` and what dpkg-buildpackage says of them.
The tree that is built, below it, has the checkout's files and `packaging/debian` as its `debian`.
The Python that runs this compiles, with its own setuptools and cryptography.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import duckdb_headers

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "packaging" / "debian"
POSTGRES = "15"
CHANGELOG = """\
tuskml ({version}-1) unstable; urgency=medium

  * Version {version}: see /usr/share/doc/python3-tuskml/changelog.gz.

 -- The tuskml maintainers <maintainers@tuskml.invalid>  {date}
"""


def copy_checkout(tree: Path) -> None:
    """Copies the files that git knows or would add, as they are now."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)


def write_recipe(folder: Path, version: str, postgres: str) -> None:
    """Writes the folder `debian`: `PGVERSION` in files `*.in` is PostgreSQL's major version."""
    for path in RECIPE.iterdir():
        target = folder / path.name.removesuffix(".in")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text()
        target.write_text(text.replace("PGVERSION", postgres) if path.suffix == ".in" else text)
    (folder / "rules").chmod(0o755)
    date = format_datetime(datetime.now(UTC))
    (folder / "changelog").write_text(CHANGELOG.format(version=version, date=date))
    (folder / "source").mkdir(exist_ok=True)
    (folder / "source" / "format").write_text("3.0 (quilt)\n")
    for name in ("postgresql-" + postgres, "python3"):
        (folder / f"{name}-tuskml.docs").write_text("CHANGELOG.md\nREADME.md\n")


def build(folder: Path, postgres: str) -> list[Path]:
    """Returns the packages. Raises CalledProcessError where dpkg-buildpackage fails."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    tree = folder / f"tuskml-{version}"
    shutil.rmtree(tree, ignore_errors=True)
    copy_checkout(tree)
    write_recipe(tree / "debian", version, postgres)
    environment = os.environ | {
        "PYTHON": sys.executable,
        "TUSKML_DUCKDB_INCLUDE": str(duckdb_headers.folder()),
    }
    # -d: setuptools and cryptography are those of this Python, which dpkg does not know.
    command = ["dpkg-buildpackage", "-b", "-us", "-uc", "-d"]
    subprocess.run(command, cwd=tree, env=environment, check=True)
    return sorted(folder.glob(f"*_{version}-1_*.deb"))


def main() -> None:
    """Builds what the arguments say and prints the packages."""
    parser = argparse.ArgumentParser(description="Builds Debian packages.")
    parser.add_argument("folder", type=Path, help="where the packages are written")
    parser.add_argument("--postgres", default=POSTGRES, help="its major version")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    try:
        print(*build(given.folder.resolve(), given.postgres), sep="\n")
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(
            f"the packages were not built ({error}): apt install debhelper dh-python g++ "
            f"postgresql-server-dev-{given.postgres}"
        ) from None


if __name__ == "__main__":
    main()
