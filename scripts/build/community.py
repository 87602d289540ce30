"""Writes the source tree that DuckDB's community repository builds, and tries it.

    python scripts/build/community.py TREE              writes the tree
    python scripts/build/community.py TREE --build      builds it too, by cmake alone

The tree has the extension's sources, DuckDB's C headers (`duckdb_capi`), and what is in
`packaging/duckdb-community`: the description, the Makefile, CMakeLists.txt and the tests. There
`make` builds it with DuckDB's `extension-ci-tools`, which `git submodule add` brings.
"""

import argparse
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import duckdb_headers
import footer

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging" / "duckdb-community"
FOLDERS = ("udas/duckdb", "udas/rowblock", "udas/scalars", "kvstore/mapped")
SUFFIXES = (".c", ".cpp", ".h")
SINGLE = {
    "sql/duckdb/macros.sql": "sql/duckdb/macros.sql",
    "sql/duckdb/names.sql": "sql/duckdb/names.sql",
    "scripts/build/macros.py": "scripts/macros.py",
    "LICENSE": "LICENSE",
}


def version() -> str:
    """The package's version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def files() -> Iterator[tuple[Path, str]]:
    """Yields each file of the project that is part of the tree, and its path there."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES:
                yield path, str(path.relative_to(ROOT))
    for source, target in SINGLE.items():
        yield ROOT / source, target
    for path in sorted(PACKAGING.rglob("*")):
        if path.is_file():
            yield path, str(path.relative_to(PACKAGING))
    headers = duckdb_headers.folder()
    for name in duckdb_headers.HEADERS:
        yield headers / name, f"duckdb_capi/{name}"


def write(tree: Path) -> None:
    """Writes the tree; a file that is the same keeps its time, so that little is compiled anew."""
    wanted = {tree / target: source for source, target in files()}
    for target, source in wanted.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != source.read_bytes():
            shutil.copyfile(source, target)
    for folder in ("udas", "kvstore", "test"):
        for path in (tree / folder).rglob("*"):
            if path.is_file() and path not in wanted:
                path.unlink()
    numbered = tree / "VERSION"
    if not numbered.exists() or numbered.read_text() != version() + "\n":
        numbered.write_text(version() + "\n")


def build(tree: Path, *options: str) -> Path:
    """Builds the extension's file by cmake, with the footer that `make` there appends."""
    built = tree / "cmake_build"
    command = ["cmake", "-S", str(tree), "-B", str(built), "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run([*command, *options], check=True)
    subprocess.run(["cmake", "--build", str(built), "--parallel"], check=True)
    file = tree / "tuskml.duckdb_extension"
    file.write_bytes((built / "libtuskml.so").read_bytes() + footer.footer(version()))
    return file


def main() -> None:
    """Writes the tree that the arguments name, and builds it if they say so."""
    parser = argparse.ArgumentParser(description="Writes the community extension's source tree.")
    parser.add_argument("tree", type=Path)
    parser.add_argument("--build", action="store_true", help="build it by cmake")
    args = parser.parse_args()
    write(args.tree)
    print(build(args.tree) if args.build else args.tree)


if __name__ == "__main__":
    main()
