"""Compiles every native source for another machine: python scripts/build/cross.py [TARGET]

It links nothing and needs no such machine: clang compiles for each of its targets, and the headers
of the C and C++ libraries come from the system's packages for cross compilation. Without
optimisation, which takes most of the time and refuses nothing. All sources are tried; the exit
status is 1 if the compiler warns of one or refuses one.

The sources of the PostgreSQL extension are compiled with this machine's server headers, which fit
every machine of 64 bits and little-endian order.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb_headers
import footer
import native

DEFAULT = "aarch64-linux-gnu"
WARNINGS = {".c": ["-Werror"], ".cpp": ["-Werror", "-Wno-psabi"]}
FORGIVEN = [  # style that clang would have otherwise, and flags that it does not need
    "-Wno-unknown-warning-option",
    "-Wno-unused-command-line-argument",
    "-Wno-missing-field-initializers",
    "-Wno-bitwise-instead-of-logical",
    "-Wno-bitwise-conditional-parentheses",
]


def from_python() -> Iterator[tuple[Path, list[str]]]:
    """The sources that setup.py builds on every machine, each with its library's flags."""
    numbers = footer.API_VERSION.removeprefix("v").split(".")
    parts = zip(("MAJOR", "MINOR", "PATCH"), numbers, strict=True)
    duckdb = [
        *(f"-DDUCKDB_EXTENSION_API_VERSION_{part}={number}" for part, number in parts),
        "-DDUCKDB_EXTENSION_NAME=tuskml",
        '-DTUSKML_VERSION="0"',
        f"-isystem{duckdb_headers.folder()}",
        f"-I{native.macros_header().parent}",
    ]
    for library in native.libraries():
        if any(library.name == native.KERNELS + suffix for suffix in native.X86_64_LEVELS):
            continue
        own = duckdb if library.name == native.EXTENSION else []
        for source in map(Path, library.sources):
            yield source, [*library.flags, *own]


def from_postgres() -> Iterator[tuple[Path, list[str]]]:
    """The sources of the PostgreSQL extension, where a server's headers are installed."""
    config = shutil.which("pg_config")
    asked = [config or "pg_config", "--includedir-server"]
    folder = subprocess.run(asked, capture_output=True, text=True, check=True) if config else None
    headers = Path(folder.stdout.strip()) if folder else None
    if headers is None or not (headers / "postgres.h").is_file():
        print("without the PostgreSQL extension: its server headers were not found", flush=True)
        return
    flags = ["-D_GNU_SOURCE", '-DTUSKML_VERSION="0"', '-DTUSKML_PYTHON_PATH=""']
    flags += [f"-isystem{headers}", "-Wno-declaration-after-statement"]
    for name in native.folders_below("udas/postgres"):
        for source in sorted(Path(name).glob("*.c")):
            yield source, flags


def command(target: str, source: Path, flags: list[str]) -> list[str]:
    """The command that compiles one source."""
    _, _, standard = native.LANGUAGES[source.suffix]
    name = os.environ.get("CLANG", "clang") + ("++" if source.suffix == ".cpp" else "")
    common = [flag for flag in native.COMMON_FLAGS if flag != "-O3"]
    return [
        name,
        f"--target={target}",
        *standard,
        *common,
        *flags,
        *WARNINGS[source.suffix],
        *FORGIVEN,
        "-O0",
        "-c",
    ]


def refusal(tried: list[str], source: Path, scratch: Path) -> str:
    """The compiler's errors for one source; empty without any."""
    target = scratch / ("_".join(source.parts) + ".o")
    done = subprocess.run(
        [*tried, "-o", str(target), str(source)], capture_output=True, text=True, check=False
    )
    target.unlink(missing_ok=True)
    return done.stderr if done.returncode else ""


def main() -> None:
    """Compiles all sources, prints errors, and exits with 1 if there are any."""
    target = sys.argv[1] if len(sys.argv) > 1 else DEFAULT
    tried = {
        (source, *command(target, source, flags)): source
        for source, flags in (*from_python(), *from_postgres())
    }
    with (
        tempfile.TemporaryDirectory() as scratch,
        ThreadPoolExecutor(native.processors()) as pool,
    ):
        said = []
        for text in pool.map(
            lambda one: refusal([*map(str, one[1:])], tried[one], Path(scratch)), tried
        ):
            said.append(text)
            if text:
                print(text, file=sys.stderr, flush=True)
    refused = sum(map(bool, said))
    print(f"{target}: {len(said) - refused} of {len(said)} sources compile")
    sys.exit(refused > 0)


if __name__ == "__main__":
    main()
