"""`tuskml sql`: a script of SQL, statement by statement, with tuskml loaded."""

import argparse
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from tuskml.bar import bar
from tuskml.connection import connect
from tuskml.script import Result, run
from tuskml.usage import Commands, add_command, add_json, files

EXAMPLES = """
a tutorial, in memory:
  tuskml sql sql/examples/first_model.sql
a database file that keeps its tables:
  tuskml sql train.sql --database flights.duckdb
a statement from another program, its result to another:
  echo "SELECT * FROM models" | tuskml sql - --database flights.duckdb --json | jq '.[0]'
"""


def add_sql(commands: "Commands[Any]") -> None:
    """The grammar of `tuskml sql`."""
    command = add_command(
        commands,
        "sql",
        show_script,
        "run a SQL script and print its results",
        "Runs a SQL script in DuckDB with tuskml loaded, one statement after "
        "the other, and prints what each returns. The first statement that fails ends it. "
        "For PostgreSQL there is psql -f.",
        EXAMPLES,
    )
    add = command.add_argument
    files(add("file", metavar="FILE", help="the script; - reads standard input"))
    files(add("--database", default=":memory:", metavar="PATH", help="a DuckDB file (else none)"))
    add_json(command, "print each result as JSON, an array in one line")


def show_script(given: argparse.Namespace) -> None:
    """Runs a script and prints its results as they come."""
    with closing(connect(given.database)) as connection, bar():
        for place, result in enumerate(run(connection, *script(given.file))):
            print(result.as_json() if given.json else as_text(result, place))


def script(file: str) -> tuple[str, str]:
    """Its text, and what it is called."""
    if file == "-":
        return sys.stdin.read(), "standard input"
    return Path(file).read_text(encoding="utf-8"), file


def as_text(result: Result, place: int) -> str:
    """A result for a person, apart from the one before."""
    return ("\n" if place else "") + result.as_table()
