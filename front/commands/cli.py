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

import duckdb

from tuskml.commands.completion import add_completion
from tuskml.commands.demo import add_demo
from tuskml.commands.explain import add_explain
from tuskml.commands.host.calibrate import add_calibrate
from tuskml.commands.host.install import add_install
from tuskml.commands.host.top import add_top
from tuskml.commands.models import add_models
from tuskml.commands.partition import add_partition
from tuskml.commands.postgres import add_postgres
from tuskml.commands.predict import add_predict
from tuskml.commands.report import add_report
from tuskml.commands.split import add_split
from tuskml.commands.sql import add_sql
from tuskml.commands.store import add_stores
from tuskml.commands.terminal.ctrl_c import ends_trainings
from tuskml.commands.terminal.usage import STATUSES, Commands, Parser, add_command, add_json
from tuskml.commands.train import add_train
from tuskml.databases.script import sentence
from tuskml.errors import Interrupted, TuskError
from tuskml.version import VERSION

FAILED, INTERRUPTED = 1, 130
COMMANDS = (
    add_demo,
    add_sql,
    add_train,
    add_predict,
    add_explain,
    add_report,
    add_split,
    add_partition,
    add_stores,
    add_models,
    add_postgres,
    add_install,
    add_top,
    add_calibrate,
)
"""Each adds a subcommand, with what runs it; in the order of `tuskml --help`."""
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
    for add in COMMANDS:
        add(commands)
    add_completion(commands, top)
    add_version(commands)
    return top


def add_version(commands: "Commands[Parser]") -> None:
    """The grammar of `tuskml version`."""
    versions = "Prints the version of tuskml; with --json those of Python and DuckDB too."
    command = add_command(
        commands, "version", show_version, "print the version", versions, "tuskml version --json"
    )
    add_json(command, "print one JSON object")


def show_version(given: argparse.Namespace) -> None:
    """Prints it."""
    found = {
        "tuskml": VERSION,
        "duckdb": duckdb.__version__,
        "python": platform.python_version(),
    }
    print(json.dumps(found) if given.json else f"tuskml {VERSION}")


def asked(argv: Sequence[str]) -> Sequence[str]:
    """The arguments; `tuskml help train` asks for help, too."""
    return [*argv[1:], "--help"] if argv[:1] == ["help"] else argv


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    logging.getLogger("psycopg").addHandler(logging.NullHandler())  # it would speak beside us
    try:
        given = parser().parse_args(asked(sys.argv[1:] if argv is None else argv))
        with ends_trainings():
            given.run(given)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse has printed why
        return int(stop.code or 0)
    except (KeyboardInterrupt, Interrupted):
        return complain("interrupted", INTERRUPTED)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except EXPECTED as error:
        return complain(reason(error), FAILED)
    return 0


EXPECTED = (duckdb.Error, TuskError, OSError, ImportError, MemoryError, UnicodeDecodeError)


def reason(error: Exception) -> str:
    """Why the job failed, in one sentence."""
    if isinstance(error, duckdb.Error):
        return sentence(error)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def complain(message: str, status: int) -> int:
    """One sentence on stderr."""
    print(f"tuskml: {message}", file=sys.stderr)
    return status
