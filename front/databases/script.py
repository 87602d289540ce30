"""SQL scripts, statement by statement."""

import datetime
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from tuskml.errors import Interrupted, TuskError
from tuskml.text.table import table
from tuskml.text.type_errors import explain_message

MOST_ROWS = 100
INTERRUPTED = "the training was interrupted"
NEAR = re.compile(r'\n\s*(?:Did you mean|Candidate (?:bindings|Entries):) ("[^"]+"(?:, "[^"]+")*)')
"""DuckDB's suggestions of names, in a line of their own."""
PYTHON_OBJECT = re.compile(
    r'Python Object "([^"]*)" .* not suitable for replacement scans', re.DOTALL
)
"""DuckDB's error for a missing table if a Python variable has its name."""
BLANK = re.compile(r"(\s|--[^\n]*(\n|$)|/\*.*?\*/)*", re.DOTALL)
"""Space and comments, which belong to the statement before or behind them as DuckDB likes."""


class ScriptError(TuskError):
    """A statement that failed: the error, the line and the file."""


@dataclass(frozen=True)
class Result:
    """The result of a statement: column names and rows."""

    names: list[str]
    rows: list[tuple[Any, ...]]

    def as_table(self) -> str:
        """Formats at most MOST_ROWS rows for a person."""
        if not self.rows:
            return table(self.names, []) + "\n  (no rows)"
        first = self.rows[0][0]
        if len(self.rows) == len(self.names) == 1 and isinstance(first, dict):
            return table([self.names[0], ""], list(first.items()))
        text = table(self.names, self.rows[:MOST_ROWS])
        if len(self.rows) > MOST_ROWS:
            text += f"\n  ({MOST_ROWS} of {len(self.rows)} rows; --json prints all)"
        return text

    def as_json(self) -> str:
        """Writes an array of objects in one line, for a program."""
        rows = [dict(zip(self.names, map(plain, row), strict=True)) for row in self.rows]
        return json.dumps(rows, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """A value as JSON has them; NaN and infinity are null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value)


def sentence(error: Exception) -> str:
    """DuckDB's message in one line, without its kind and without the excerpt of the statement."""
    message = str(error).strip() or type(error).__name__
    if "Required module 'pytz'" in message:
        return (
            "the result holds a TIMESTAMP WITH TIME ZONE, which Python reads with the package "
            "pytz: install it, or cast the column to VARCHAR"
        )
    ours = PYTHON_OBJECT.search(message)
    if ours:
        return f"Table with name {ours[1]} does not exist"
    kind, colon, rest = message.partition("Error: ")
    plain = rest if colon and rest.strip() and len(kind.split()) <= 4 else message
    explanation = explain_message(plain)
    if explanation == plain:
        first = plain.split("\n\n")[0].splitlines()[0]
        explanation = explain_message(first)
    near = NEAR.search(message)
    return (
        f"{explanation.rstrip('!.')}; did you mean {near[1].replace(chr(34), chr(39))}?"
        if near
        else explanation
    )


def statements(text: str, name: str) -> Iterator[tuple[int, Any]]:
    """Yields each statement and the line of its start."""
    try:
        found = duckdb.extract_statements(text)
    except duckdb.Error as error:
        where = re.search(r"^LINE (\d+):", str(error), re.MULTILINE)
        line = f", line {where[1]}" if where else ""
        raise ScriptError(f"{name}{line}: {sentence(error)}") from error
    place = 0
    for statement in found:
        begin = text.find(statement.query, place)
        place = max(begin, place)
        blank = BLANK.match(statement.query)
        start = place + (blank.end() if blank else 0)
        yield text.count("\n", 0, start) + 1, statement
        place += len(statement.query) if begin >= 0 else 0


def run(
    connection: duckdb.DuckDBPyConnection, text: str, name: str = "script"
) -> Iterator[Result]:
    """Runs a script and yields the results of its statements.

    The whole script is parsed before its first statement runs; a statement that fails ends it.
    Raises Interrupted after a Ctrl-C, which DuckDB reports as a RuntimeError.
    """
    for line, statement in statements(text, name):
        try:
            connection.execute(statement)
            result = result_of(connection, statement)
        except (duckdb.InterruptException, RuntimeError) as error:
            raise Interrupted(INTERRUPTED) from error
        except duckdb.Error as error:
            if INTERRUPTED in str(error):
                raise Interrupted(INTERRUPTED) from error
            raise ScriptError(f"{name}, line {line}: {sentence(error)}") from error
        if result is not None:
            yield result


def result_of(connection: duckdb.DuckDBPyConnection, statement: Any) -> Result | None:
    """The rows of a statement that asks for some; None for CREATE, INSERT, SET and the like."""
    names = [column[0] for column in connection.description or ()]
    rows = connection.fetchall() if names else []
    counts = names in (["Count"], ["Success"])
    if not names or (counts and statement.type != duckdb.StatementType.SELECT):
        return None
    return Result(names, rows)
