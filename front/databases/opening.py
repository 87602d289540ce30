"""Opens the database of an argument: a connection, a file, a URL or SQLAlchemy's engine.

One rule holds for files of DuckDB in every command and function: one that writes into a database
makes its file, one that only reads rejects a missing file.
"""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb

from tuskml.databases.connection import connect
from tuskml.databases.database import Database, failure
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.postgres import Postgres
from tuskml.databases.script import sentence
from tuskml.errors import DataError

IN_MEMORY = ":memory:"
DUCKDB_URL = "duckdb://"


def file_of(given: str | Path, make: bool = False) -> str:
    """The DuckDB file of a path or of an SQLAlchemy URL, `duckdb:///file`; or ":memory:".

    make: whether it need not exist. Raises DataError if it must, and does not.
    """
    path = str(given)
    if path.startswith(DUCKDB_URL):
        path = path.removeprefix(DUCKDB_URL).removeprefix("/").partition("?")[0] or IN_MEMORY
    url = "://" in path
    missing = not url and path != IN_MEMORY and not Path(path).exists()
    if url or (missing and not (make and Path(path).absolute().parent.is_dir())):
        scheme = path.partition("://")[0]  # the rest may hold a password
        what = f"the URL {scheme}://..." if url else f"{str(given)!r}, a file that does not exist"
        raise DataError(
            f"connection is {what}; expected a DuckDB file, ':memory:' or a URL such as "
            "postgresql://user@host/name or duckdb:///file"
        )
    return path


@contextmanager
def remove_on_failure(path: str) -> Iterator[None]:
    """Removes the empty file that a failure within would leave, so that a typing error makes
    none.
    """
    new = path != IN_MEMORY and not Path(path).exists()
    try:
        yield
    except BaseException:
        if new and empty(path):
            for file in (Path(path), Path(f"{path}.wal")):
                file.unlink(missing_ok=True)
        raise


CONTENT = """
SELECT 1 FROM duckdb_tables() WHERE NOT internal
UNION ALL SELECT 1 FROM duckdb_views() WHERE NOT internal
UNION ALL SELECT 1 FROM duckdb_schemas() WHERE NOT internal
UNION ALL SELECT 1 FROM duckdb_sequences()
UNION ALL SELECT 1 FROM duckdb_types() WHERE NOT internal
UNION ALL SELECT 1 FROM duckdb_functions() WHERE NOT internal LIMIT 1
"""


def empty(path: str) -> bool:
    """Returns whether a closed database file holds nothing; False where that cannot be seen."""
    try:
        with duckdb.connect(path) as connection:
            return connection.execute(CONTENT).fetchone() is None
    except duckdb.Error:
        return False


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
