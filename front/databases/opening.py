"""Opens the database of an argument: a connection, a file, a URL or SQLAlchemy's engine."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb

from tuskml.databases.connection import connect
from tuskml.databases.database import Database, failure
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.files import file_of, remove_on_failure
from tuskml.databases.postgres import Postgres
from tuskml.databases.script import sentence
from tuskml.errors import DataError

URLS = ("postgresql://", "postgres://", "postgresql+psycopg://")


@contextmanager
def open_database(connection: object, make: bool = False) -> Iterator[Database]:
    """The database of an argument: an open connection, a path, a URL or an engine.

    Connections opened here are closed again; others stay open. make: whether the caller writes, so
    that a DuckDB file need not exist.
    """
    if isinstance(connection, duckdb.DuckDBPyConnection):
        yield DuckDB(connection)
    elif isinstance(connection, str) and connection.startswith(URLS):
        from tuskml.databases.postgres_connection import open_connection

        with open_connection(connection.replace("+psycopg://", "://", 1)) as session:
            yield Postgres(session)
    elif isinstance(connection, str | Path):
        path = file_of(connection, make)
        with remove_on_failure(path), connect_file(path) as session:
            yield DuckDB(session)
    else:
        with driver(connection) as session:
            yield session


def connect_file(path: str) -> duckdb.DuckDBPyConnection:
    """A connection to a DuckDB file. Raises DataError if it is not one, or another process has
    it.
    """
    try:
        return connect(path)
    except duckdb.Error as error:
        raise failure(error, sentence(error)) from error


@contextmanager
def driver(connection: Any) -> Iterator[Database]:
    """psycopg's connections, and SQLAlchemy's engines and connections above it or DuckDB."""
    module = type(connection).__module__.partition(".")[0]
    if module == "psycopg" and hasattr(connection, "transaction"):
        yield Postgres(connection)
    elif module == "duckdb_engine":  # its wrapper of a connection keeps it to itself
        inner = [
            item
            for item in vars(connection).values()
            if isinstance(item, duckdb.DuckDBPyConnection)
        ]
        yield DuckDB(inner[0])
    elif _is_sqlalchemy(connection):
        with _through_sqlalchemy(connection) as found:
            yield found
    else:
        kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
        raise DataError(
            f"connection is of type {kind}, expected a DuckDB connection or file, a psycopg one, "
            "a URL such as postgresql://user@host/name, or SQLAlchemy's engine over either"
        )


def _is_sqlalchemy(connection: Any) -> bool:
    """Returns whether it is one of SQLAlchemy's, which is imported already then."""
    if "sqlalchemy" not in sys.modules:
        return False
    from sqlalchemy import URL, Connection, Engine

    return isinstance(connection, (URL, Engine, Connection))


@contextmanager
def _through_sqlalchemy(connection: Any) -> Iterator[Database]:
    """The database of a URL, an engine or a connection."""
    from sqlalchemy import URL, Connection

    if isinstance(connection, URL):
        with open_database(connection.render_as_string(hide_password=False)) as found:
            yield found
    elif isinstance(connection, Connection):
        with open_database(connection.connection.driver_connection) as found:
            yield found
    elif connection.dialect.name == "duckdb":
        with (
            closing(connection.raw_connection()) as raw,
            open_database(raw.driver_connection) as found,
        ):
            yield found
    else:
        with (
            connection.begin() as within,
            open_database(within.connection.driver_connection) as found,
        ):
            yield found
