"""Roles with and without the right to train, for a module of tests."""

# ruff: noqa: E501, SQL is read better on one line

import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="module")
def people(pg: psycopg.Connection) -> Iterator[None]:
    """ann may train, bob may not."""
    pg.execute("CREATE ROLE ann LOGIN IN ROLE tuskml_user; CREATE ROLE bob LOGIN")
    pg.execute(
        "CREATE TABLE t AS SELECT i, i % 2 AS owner, i::float8 AS y, ARRAY[i % 7, i % 5]::float8[] AS x, i AS secret FROM generate_series(1, 100) AS i"
    )
    pg.execute("GRANT SELECT (i, owner, y, x) ON t TO ann, bob")
    yield
    pg.execute("DROP OWNED BY ann, bob CASCADE; DROP ROLE ann, bob")
