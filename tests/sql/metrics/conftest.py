"""Rows as literals, and metrics of them in either database."""

import json
from collections.abc import Sequence
from typing import Any

import duckdb
import pytest


class Asked:
    """A database whose answers to SELECT are plain values."""

    def __init__(self, connection: Any, postgres: bool) -> None:
        self.connection, self.postgres = connection, postgres

    def rows(self, rows: Sequence[Sequence[Any]], names: str) -> str:
        """What follows FROM: literals of text, numbers, truth values, dicts of shares and None."""
        texts = [[*map(self.literal, row)] for row in rows]
        for place, column in enumerate(zip(*rows, strict=True)):
            if self.postgres and all(value is None for value in column):
                texts[0][place] = "NULL::float8"  # or it would be text
        lines = ", ".join(f"({', '.join(row)})" for row in texts)
        return f"(VALUES {lines}) AS given ({names})"

    def literal(self, value: Any) -> str:
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str):
            return "'" + value.replace("'", "''") + ("'::text" if self.postgres else "'")
        if isinstance(value, dict):
            text = json.dumps(value).replace("'", "''")
            return f"'{text}'::jsonb" if self.postgres else self.map(value)
        return f"'{float(value)!r}'::float8"

    def map(self, shares: dict[str, float | None]) -> str:
        names = ", ".join(map(self.literal, shares))
        values = ", ".join(map(self.literal, shares.values()))
        return f"map([{names}]::VARCHAR[], [{values}]::DOUBLE[])"

    def one(self, expression: str, rows: Sequence[Sequence[Any]], names: str) -> Any:
        """The value of an aggregate over rows; a table as a list of tuples."""
        found = self.all(f"SELECT {expression} FROM {self.rows(rows, names)}")[0][0]
        return [tuple(row.values()) for row in found] if isinstance(found, list) else found

    def table(self, call: str, columns: str, source: str) -> list[tuple[Any, ...]]:
        """The rows of a metric that is a table."""
        shown = ", ".join(f"(row).{column.strip()}" for column in columns.split(","))
        return self.all(f"SELECT {shown} FROM (SELECT unnest({call}) AS row FROM {source}) AS t")

    def all(self, query: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.connection.execute(query).fetchall()
        return found

    def sentence(self, query: str) -> str:
        """What a query is refused with."""
        with pytest.raises(Exception, match=r".") as raised:
            self.all(query)
        return " ".join(str(raised.value).split())


@pytest.fixture(scope="module")
def there(file_session: Any) -> Asked:
    return Asked(file_session, True)


@pytest.fixture
def here(con: duckdb.DuckDBPyConnection) -> Asked:
    return Asked(con, False)


@pytest.fixture(params=["here", "there"])
def asked(request: pytest.FixtureRequest) -> Asked:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Asked)
    return found
