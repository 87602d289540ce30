"""Rows, and queries with their answers and errors, for tests of `train_model`."""

import duckdb
import pytest

ROWS = """
CREATE TABLE rows AS
SELECT i, i % 7 AS g, (i * 7919) % 1000 / 1000 AS a, (i * 104729) % 997 / 997 AS b,
       3 * a - 2 * b + 1 + ((i * 31) % 11 - 5) / 50 AS y
FROM range({n}) r(i)
"""


def fetch(con: duckdb.DuckDBPyConnection, sql: str, parameters: tuple = ()) -> list:
    return con.execute(sql, parameters).fetchall()


def one(con: duckdb.DuckDBPyConnection, sql: str, parameters: tuple = ()):
    return con.execute(sql, parameters).fetchall()[0][0]


def sentence(db: duckdb.DuckDBPyConnection, sql: str, parameters: tuple = ()) -> str:
    """The error that a query ends with; afterwards the same connection still trains."""
    with pytest.raises(duckdb.Error) as caught:
        db.execute(sql, parameters).fetchall()
    works = db.execute("SELECT train_model('linear', y, x).status IS NOT NULL FROM t").fetchall()
    assert works == [(True,)]
    return str(caught.value).removeprefix("Invalid Input Error: ")


def train(options: str = "", task: str = "'linear'", label: str = "y", features: str = "x") -> str:
    return f"SELECT train_model({task}, {label}, {features}{options and f', {options!s}'}) FROM t"
