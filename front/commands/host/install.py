"""`tuskml install`: tuskml in plain connections of DuckDB, its command line, Node and others."""

import argparse
import json
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tuskml.commands.terminal.usage import Parser, add_json, describe
from tuskml.databases import trust
from tuskml.errors import ExtensionError
from tuskml.udas.duckdb import extension_path

ABOUT = (
    "Lets every client of DuckDB that this account runs load tuskml. It pins the public key of "
    "this environment's extension in DuckDB's folder in the home directory, as a repository named "
    "tuskml, and notes which Python trains; before it changes anything it says so. Then a "
    "connection of DuckDB 2.0 or later needs no setting: LOAD tuskml FROM tuskml. A client of "
    "DuckDB 1.5 must allow unsigned extensions, as `duckdb -unsigned` does, and loads the file by "
    "its path. The first training of a client starts the Python that was noted, in the client's "
    "process, or in a helper process if that Python has no shared library or if the environment "
    "variable TUSKML_HELPER is 'on'. TUSKML_PYTHON names another Python, or is 'off'."
)
EXAMPLES = """
tuskml install
tuskml install --for v2.1.0
tuskml install --remove
"""
LOAD = "LOAD tuskml FROM tuskml;"


def grammar(command: Parser) -> None:
    """Defines the grammar of `tuskml install`."""
    describe(command, run, ABOUT, EXAMPLES)
    other = "a client's version of DuckDB that is to load it too, such as v2.1.0; may be repeated"
    command.add_argument(
        "--for", dest="versions", action="append", default=[], metavar="VERSION", help=other
    )
    command.add_argument("--remove", action="store_true", help="take all of it away again")
    dry = "say what would change, and change nothing"
    command.add_argument("--dry-run", action="store_true", help=dry)
    command.add_argument("--note", action="store_true", help="print the note alone")
    add_json(command, "print the statements and what was noted as one JSON object")


def run(args: argparse.Namespace) -> None:
    """Prints the statement that loads the extension, or the planned changes."""
    if args.note:
        print(note(), end="")
    elif args.remove:
        remove(args.dry_run, args.json)
    else:
        install(tuple(map(normalize_version, args.versions)), args.dry_run, args.json)


def normalize_version(version: str) -> str:
    """A version of DuckDB as its folders have it."""
    if not re.fullmatch(r"v?[2-9]\d*\.\d+\.\d+", version):
        raise ExtensionError(
            f"--for is {version!r}, expected a version of DuckDB from 2.0.0 on, such as v2.1.0"
        )
    return "v" + version.removeprefix("v")


def install(versions: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Makes the repository and the notes; on DuckDB 1.5 the notes alone."""
    user, signed = trust.of_user(), trust.is_possible()
    if versions and not signed:
        raise ExtensionError("--for needs DuckDB 2.0 or later in this environment")
    say(changes(user, versions) if signed else describe_notes(), dry_run)
    if not dry_run:
        if signed:
            trust.make(user, versions)
        write_notes()
    path = str(extension_path()).replace("'", "''")
    by_path = f"LOAD '{path}';"
    load = LOAD if signed else by_path
    found = {"load": load, "load_unsigned": by_path, "executable": sys.executable}
    print(json.dumps(found | {"libpython": libpython()}) if as_json else load)


def changes(user: trust.Repository, versions: tuple[str, ...]) -> Iterator[str]:
    """Describes the changes of `install`, one per line."""
    own, platform = trust.version_and_platform()
    yield f"{user.key_file}: DuckDB trusts what the key {trust.fingerprint()} signed"
    for version in (own, *versions):
        yield f"{user.extension_file(version, platform)}: a link to {extension_path()}"
    yield f"{user.prefix}: the same links, for INSTALL"
    yield from describe_notes()


def describe_notes() -> Iterator[str]:
    """Describes the notes, one per line."""
    for path in notes():
        yield f"{path}: training uses {sys.executable}"


def say(lines: Iterator[str], dry_run: bool) -> None:
    """Prints the changes, before they are made."""
    print("would change:" if dry_run else "changing:", file=sys.stderr)
    for line in lines:
        print(f"  {line}", file=sys.stderr, flush=True)


def remove(dry_run: bool, as_json: bool) -> None:
    """Takes the repository and the notes away."""
    user = trust.of_user()
    if dry_run:
        gone = [path for path in (user.key_file, *user.all_installed(), *notes()) if path.exists()]
    else:
        gone = [*trust.remove(user), *(path for path in notes() if path.exists())]
        for path in notes():
            with suppress(PermissionError):
                path.unlink(missing_ok=True)
    if as_json:
        print(json.dumps({"removed": list(map(str, gone))}))
    elif gone:
        print("\n".join(map(str, gone)))
    else:
        print("nothing, there was no installation")


# --- the notes ---


def notes() -> list[Path]:
    """The paths where the extension searches for the note: next to its file, then in the
    user's data folder.
    """
    return [extension_path().with_name(trust.NOTE), trust.of_user().prefix.with_name(trust.NOTE)]


def write_notes() -> None:
    """Writes them in new files that this account alone may write, else the extension refuses them.

    An installation for all accounts may not be writable; then the one of the user serves.
    """
    *others, of_user = notes()
    for path in others:
        with suppress(PermissionError):
            write_note(path)
    write_note(of_user)


def write_note(path: Path) -> None:
    """Writes one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(os.fsencode(note()))
    path.chmod(0o644)


def note() -> str:
    """This environment's executable and its libpython, a line each."""
    return f"{sys.executable}\n{libpython()}\n"


def libpython() -> str:
    """The path of this Python's shared library; "" if it has none."""
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        return ""
    name = sysconfig.get_config_var("INSTSONAME")
    path = Path(str(sysconfig.get_config_var("LIBDIR")), str(name))
    folders = (path.parent, path.parent / str(sysconfig.get_config_var("MULTIARCH") or ""))
    found = (folder / path.name for folder in folders)
    return next((str(place) for place in found if place.exists()), "")
