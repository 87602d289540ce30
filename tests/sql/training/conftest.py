"""A connection with a small table, for tests of what is refused."""

# ruff: noqa: E501, SQL is read better on one line

from collections.abc import Iterator

import duckdb
import pytest

import tuskml

TABLE_SQL = """
CREATE TABLE t AS SELECT * FROM (VALUES
    (1.0::DOUBLE, [1.0, 2.0]::DOUBLE[], [0, 1], [1.0, 2.0]::DOUBLE[]), (2.0, [2.0, 1.0], [1, 0], [3.0, 1.0]),
    (2.0, [4.0, 4.5], [0, 2], [2.0, 1.0])) v(y, x, ids, amounts)
"""


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect(threads=2) as con:
        con.execute(TABLE_SQL)
        yield con
