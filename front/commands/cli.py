"""The `tuskml` command.

Exit status: 0 done, 1 the job failed (one sentence on stderr), 2 wrong usage, 130 Ctrl-C.
"""

import argparse
import json
import logging
import os
import platform
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module

from tuskml.commands.terminal.ctrl_c import ends_trainings
from tuskml.commands.terminal.usage import STATUSES, Parser, add_json, describe
from tuskml.errors import Interrupted, TuskError
from tuskml.version import VERSION

FAILED, INTERRUPTED = 1, 130
COMMANDS = {
    "demo": ("demo", "336,776 flights: one model per carrier, evaluated, with a picture"),
    "sql": ("sql", "run a SQL script and print its results"),
    "train": ("train", "train on a table, a query or Parquet files, and print the models"),
    "predict": ("predict", "score rows by the models of a table"),
    "explain": ("explain", "what a training would run and why, without training"),
    "report": ("report", "one HTML page of a training: statuses, curves, plans, coefficients"),
    "split": ("split", "write rows as Parquet shards, sorted by group"),
    "partition": ("partition", "how a model larger than memory is laid out in its store"),
    "store": ("store", "stored models: list, verify, export, import, gc"),
    "models": ("models", "models by name: create, register, list, show, deploy, rollback, drop"),
    "postgres": ("postgres", "the PostgreSQL extension: install, check, upgrade, uninstall"),
    "install": ("host.install", "let other clients of DuckDB train"),
    "top": ("host.top", "list the trainings that run on this host"),
    "calibrate": ("host.calibrate", "measure this machine, for the choice of training plans"),
    "completion": ("completion", "print what completes tuskml's commands in bash, zsh or fish"),
}
"""In the order of `tuskml --help`: the module of `tuskml.commands` with the grammar, imported
when the command is used, and the text in the list of commands.
"""
START = """
  tuskml demo                              see it work on 336,776 flights
  tuskml train --help                      train on a table of yours, by examples
  tuskml sql sql/examples/first_model.sql  read and run a tutorial
"""


def parser() -> Parser:
    """The command's grammar."""
    top = Parser(
        prog="tuskml",
        description="Machine learning inside the database, by SQL aggregates, in DuckDB and "
        "PostgreSQL. Results go to standard output, with --json for programs; progress and "
        "errors go to standard error.",
        epilog=f"where to begin:{START}\n{STATUSES}",
    )
    top.add_argument("--version", action="version", version=f"tuskml {VERSION}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (home, summary) in COMMANDS.items():
        commands.add_parser(name, help=summary, grammar=partial(add_grammar, home, top))
    commands.add_parser("version", help="print the version", grammar=version_grammar)
    return top


def add_grammar(home: str, top: Parser, command: Parser) -> None:
    """Adds a command's arguments and help.

    home: the module that has them; top: the whole grammar, which `tuskml completion` writes down.
    """
    command.set_defaults(top=top)
    import_module(f"tuskml.commands.{home}").grammar(command)


def version_grammar(command: Parser) -> None:
    """Defines the grammar of `tuskml version`."""
    versions = "Prints the version of tuskml; with --json those of Python and DuckDB too."
    describe(command, show_version, versions, "tuskml version --json")
    add_json(command, "print one JSON object")


def show_version(args: argparse.Namespace) -> None:
    """Prints the version."""
    import duckdb  # slow to import

    found = {
        "tuskml": VERSION,
        "duckdb": duckdb.__version__,
        "python": platform.python_version(),
    }
    print(json.dumps(found) if args.json else f"tuskml {VERSION}")


def arguments_of(argv: Sequence[str]) -> Sequence[str]:
    """The arguments; `tuskml help train` asks for help, too."""
    return [*argv[1:], "--help"] if argv[:1] == ["help"] else argv


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    logging.getLogger("psycopg").addHandler(logging.NullHandler())  # it would write to our stderr
    try:
        args = parser().parse_args(arguments_of(sys.argv[1:] if argv is None else argv))
        with ends_trainings():
            args.run(args)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse has printed why
        return int(stop.code or 0)
    except (KeyboardInterrupt, Interrupted):
        return complain("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except EXPECTED as error:
        return complain(reason(error), FAILED)
    except Exception as error:
        if not is_of_duckdb(error):
            raise
        return complain(sentence_of(error), FAILED)
    return 0


EXPECTED = (TuskError, OSError, ImportError, MemoryError, UnicodeDecodeError)


def is_of_duckdb(error: Exception) -> bool:
    """Returns whether DuckDB raised it, which only some commands import."""
    duckdb = sys.modules.get("duckdb")
    return duckdb is not None and isinstance(error, duckdb.Error)


def sentence_of(error: Exception) -> str:
    """DuckDB's message in one sentence."""
    from tuskml.databases.script import sentence

    return sentence(error)


def reason(error: Exception) -> str:
    """Says why the job failed, in one sentence."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def complain(message: str, status: int) -> int:
    """Prints one sentence to stderr; returns the status."""
    print(f"tuskml: {message}", file=sys.stderr)
    return status
