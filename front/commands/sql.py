"""`tuskml sql`: a script of SQL, statement by statement, in either database."""

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tuskml.commands.terminal.bar import bar
from tuskml.commands.terminal.prompt import prompt
from tuskml.commands.terminal.usage import Parser, add_json, describe, files
from tuskml.databases.connection import connect
from tuskml.databases.opening import IN_MEMORY, URLS, file_of, remove_on_failure
from tuskml.databases.script import Result, run
from tuskml.errors import DataError, OptionError

Execute = Callable[[str, str], Iterator[Result]]
MAGIC, MAGIC_AT = b"DUCK", 8
"""The bytes in a DuckDB file that follow its checksum, and their position."""
EXAMPLES = """
a tutorial, in memory:
  tuskml sql sql/examples/first_model.sql
a database file that keeps its tables:
  tuskml sql train.sql --database flights.duckdb
the same in PostgreSQL:
  tuskml sql sql/examples/first_model.sql --database postgresql:///shop
a prompt for statements, on a terminal:
  tuskml sql --database flights.duckdb
groups of Parquet files on a Ray cluster:
  tuskml sql train.sql --cluster ray
a statement from another program, its result to another:
  echo "SELECT * FROM models" | tuskml sql - --database flights.duckdb --json | jq '.[0]'
"""


def grammar(command: Parser) -> None:
    """Defines the grammar of `tuskml sql`."""
    describe(
        command,
        show_script,
        "Runs a SQL script in DuckDB with tuskml loaded, or in PostgreSQL, one statement after "
        "the other, and prints what each returns. The first statement that fails ends it.",
        EXAMPLES,
    )
    add = command.add_argument
    what = "the script; - reads standard input; without it a terminal gets a prompt"
    files(add("file", nargs="?", metavar="FILE", help=what))
    command_text = "statements instead of a script, such as -c 'SELECT 1'"
    add("-c", "--command", metavar="SQL", dest="statements", help=command_text)
    where = "a DuckDB file, or a URL such as postgresql://user@host/name (default: in memory)"
    files(add("--database", default=":memory:", metavar="PATH|URL", help=where))
    cluster = "where FROM train(...) trains groups of Parquet files, and may train if its options "
    cluster += "say so: ray, host:port of a Ray cluster, or threads"
    add("--cluster", metavar="WHERE", help=cluster)
    add_json(command, "print each result as JSON, an array in one line")


def show_script(args: argparse.Namespace) -> None:
    """Runs a script and prints its results as they come."""
    file, database = args.file, args.database
    if file is not None and is_database(file):
        if database != IN_MEMORY:
            raise DataError(f"{file} is a database, and so is --database {database}: expected one")
        file, database = None, file
    if args.statements is not None and file is not None:
        raise DataError("-c and FILE are given, expected one of them")
    if file is None and args.statements is None and sys.stdin.isatty():
        with session(database, args.cluster) as execute:
            prompt(execute, args.json)
        return
    text, name = (args.statements, "command") if args.statements is not None else script(file)
    with session(database, args.cluster) as execute:
        for place, result in enumerate(execute(text, name)):
            print(result.as_json() if args.json else ("\n" if place else "") + result.as_table())


def is_database(file: str) -> bool:
    """Returns whether a database stands where a script is expected."""
    if file.startswith(URLS):
        return True
    try:
        with Path(file).open("rb") as opened:
            return opened.read(len(MAGIC) + MAGIC_AT)[MAGIC_AT:] == MAGIC
    except OSError:
        return False


@contextmanager
def session(database: str, cluster: str | None = None) -> Iterator[Execute]:
    """A function that runs a named script, and yields the results of its statements."""
    if database.startswith(URLS):
        if cluster is not None:
            raise OptionError(
                f"--cluster is {cluster!r}, and statements of PostgreSQL train in its server: "
                "tuskml train --cluster trains rows of PostgreSQL on a cluster"
            )
        from tuskml.databases.extension.script import run_in_postgres
        from tuskml.databases.postgres_connection import open_connection

        with open_connection(database) as connection:
            yield partial(run_in_postgres, connection)
    else:
        path = file_of(database, make=True)
        with remove_on_failure(path), connect(path, cluster=cluster) as opened, bar():
            yield partial(run, opened)


def script(file: str | None) -> tuple[str, str]:
    """Reads a script: its text and its name; without a file, standard input."""
    if file is None or file == "-":
        return sys.stdin.read(), "standard input"
    if " " in file and not Path(file).exists():
        raise DataError(
            f"FILE is {file!r}, a statement and no script's name: tuskml sql -c 'SELECT ...' runs "
            "it"
        )
    try:
        return Path(file).read_text(encoding="utf-8"), file
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is not text in UTF-8 from byte {error.start + 1} on, expected a script"
        ) from error
