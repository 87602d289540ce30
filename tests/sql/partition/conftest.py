"""`clicks` in either database, for a module of tests."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tuskml

sys.path.append(str(Path(__file__).parent))

from clients import CLICKS, WIDE, Client


@pytest.fixture(scope="module")
def session(file_session: Any) -> Any:
    file_session.execute(CLICKS)
    return file_session


@pytest.fixture(scope="module")
def here() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect(threads=2) as connection:
        connection.execute(CLICKS)
        connection.execute(WIDE)
        yield connection


@pytest.fixture(scope="module")
def duck(here: duckdb.DuckDBPyConnection) -> Client:
    return Client(lambda sql: here.execute(sql).fetchall(), duckdb.Error)


@pytest.fixture(scope="module")
def post(session: Any) -> Client:
    import psycopg

    return Client(lambda sql: session.execute(sql).fetchall(), psycopg.Error)


@pytest.fixture(params=["duck", "post"])
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.getfixturevalue(request.param)
    return found
