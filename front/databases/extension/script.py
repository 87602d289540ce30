"""SQL scripts in PostgreSQL, statement by statement, as psql runs them."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tuskml.databases.script import Result, ScriptError
from tuskml.text.expressions import TOKEN

if TYPE_CHECKING:
    import psycopg


def statements(text: str) -> Iterator[tuple[int, str]]:
    """Yields each statement and the line of its start; comments before it are left out."""
    begin: int | None = None
    for token in TOKEN.finditer(text):
        piece = token[0]
        if piece == ";":
            if begin is not None:
                yield text.count("\n", 0, begin) + 1, text[begin : token.start()]
            begin = None
        elif begin is None and token.lastgroup != "comment" and not piece.isspace():
            begin = token.start()
    if begin is not None and text[begin:].strip():
        yield text.count("\n", 0, begin) + 1, text[begin:].rstrip()


def run_in_postgres(
    connection: "psycopg.Connection[Any]", text: str, name: str = "script"
) -> Iterator[Result]:
    """Runs a script and yields the results of its statements; each commits, as the connection
    does.

    Raises ScriptError if one fails, which ends the script, or if one is a command of psql.
    """
    import psycopg

    from tuskml.databases.postgres_connection import sentence

    for line, statement in statements(text):
        if statement.startswith("\\"):
            raise ScriptError(
                f"{name}, line {line}: {statement.split()[0]} is a command of psql's, "
                "expected SQL: run the script by psql -f"
            )
        try:
            cursor = connection.execute(statement.encode(connection.info.encoding))
        except psycopg.errors.QueryCanceled:
            raise
        except psycopg.Error as error:
            raise ScriptError(f"{name}, line {line}: {sentence(error)}") from error
        if cursor.description is not None:
            yield Result([column.name for column in cursor.description], cursor.fetchall())
