"""`tuskml install`: training in DuckDB's own command line, Node, Java and other clients."""

import argparse
import json
import os
import sys
import sysconfig
from pathlib import Path

from tuskml.commands.terminal.usage import Parser, add_json, describe
from tuskml.udas.duckdb import extension_path

NOTE = "tuskml.python"
"""Beside the extension's file: two lines, the executable and its libpython, "" if it has none."""
ABOUT = (
    "Notes this environment's Python beside the extension's file and prints the statement that "
    "loads it. A client of DuckDB that allows unsigned extensions, such as `duckdb -unsigned`, "
    "runs that statement. Its first training starts the Python that was noted, in the client's "
    "process, or in a helper process if that Python has no shared library or if the environment "
    "variable TUSKML_HELPER is 'on'. TUSKML_PYTHON names another Python, or is 'off'."
)


def grammar(command: Parser) -> None:
    """The grammar of `tuskml install`."""
    describe(
        command,
        show_install,
        ABOUT,
        "tuskml install",
    )
    note = "print what would be noted, and change nothing"
    command.add_argument("--note", action="store_true", help=note)
    add_json(command, "print the statement and what was noted as one JSON object")


def show_install(given: argparse.Namespace) -> None:
    """Prints the statement that loads the extension, or what would be noted."""
    if given.note:
        print(note(), end="")
        return
    path = extension_path()
    write_note(path.with_name(NOTE))
    load = f"LOAD '{str(path).replace(chr(39), chr(39) * 2)}';"
    found = {"load": load, "executable": sys.executable, "libpython": libpython()}
    print(json.dumps(found) if given.json else load)


def write_note(path: Path) -> None:
    """Notes it in a new file that this account alone may write, else the extension refuses it."""
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
