"""Storage of results: a new table of the database, or a Parquet or CSV file."""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path

from tuskml.databases.connection import connect
from tuskml.databases.database import Database
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.postgres import Postgres
from tuskml.errors import DataError
from tuskml.text.expressions import check_text, quote_name, split_dotted

FORMATS = {".parquet": "parquet", ".parq": "parquet", ".pq": "parquet", ".csv": "csv"}
OTHER_FILES = ("json", "jsonl", "ndjson", "tsv", "txt", "xlsx", "xls", "feather", "arrow", "gz")
EXISTS = "already exists"
TYPES = {
    "smallint": "SMALLINT",
    "integer": "INTEGER",
    "bigint": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "numeric": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp without time zone": "TIMESTAMP",
    "timestamp with time zone": "TIMESTAMPTZ",
}
"""The types of a file's columns by PostgreSQL's types; any other type becomes text."""
SCHEMA_OF = """
SELECT relnamespace::regnamespace::text FROM pg_catalog.pg_class WHERE oid = {}::regclass
"""
Into = str | PathLike[str]


def is_file(into: Into) -> bool:
    """Returns whether results go to a file: into ends as a Parquet or CSV file's name does."""
    return isinstance(into, str | PathLike) and Path(into).suffix.lower() in FORMATS


def result_name(into: Into) -> str:
    """`table models`, `file scored.parquet`."""
    return f"{'file' if is_file(into) else 'table'} {into}"


def keep(database: Database, into: Into, query: str, replace: bool = False) -> int:
    """Keeps a query's rows in a new table or file; returns their number.

    replace: whether one that is there may go; it stays until the new one is complete. Raises
    DataError if it is there and may not.
    """
    if isinstance(into, str | PathLike):
        check_text(str(into), "into")
    if is_file(into):
        return keep_file(database, Path(into), query, replace)
    names = table_names(into)
    try:
        if replace:
            return replace_table(database, names, query)
        return database.create(".".join(map(quote_name, names)), query)
    except DataError as error:
        if replace or EXISTS not in str(error):
            raise
        raise DataError(there(into)) from error


def there(into: Into) -> str:
    """Makes the error for a name that is taken."""
    return (
        f"the {result_name(into)} {EXISTS}: give into another name, or replace=True (--replace on "
        "the command line)"
    )


def table_names(into: Into) -> list[str]:
    """The name of a table to make, its schema first where it has one."""
    names = split_dotted(into) if isinstance(into, str) else None
    if names is None:
        raise DataError(f"into is {into!r}, expected the name of a new table")
    if len(names) > 1 and names[-1].lower() in OTHER_FILES:
        raise DataError(
            f"into is {into!r}, expected a table's name or a file that ends in .parquet or .csv"
        )
    return names


def replace_table(database: Database, names: Sequence[str], query: str) -> int:
    """Replaces a table, which the query may read, by the query's result."""
    *schema, table = map(quote_name, names)
    if isinstance(database, DuckDB):
        return database.create(".".join([*schema, table]), query, replace=True)
    assert isinstance(database, Postgres)
    fresh = ".".join([*schema, quote_name(f"tusk_new_{secrets.token_hex(8)}")])
    with database.connection.transaction():
        count = database.create(fresh, query)
        ((within,),) = database.fetch(SCHEMA_OF.format(database.text(fresh)))
        database.execute(f"DROP TABLE IF EXISTS {within}.{table}")
        database.execute(f"ALTER TABLE {fresh} RENAME TO {table}")
    return count


def keep_file(database: Database, path: Path, query: str, replace: bool) -> int:
    """A file of a query's rows, which appears when it is complete."""
    if path.exists() and not replace:
        raise DataError(there(path))
    if not path.parent.is_dir():
        raise DataError(f"into is {str(path)!r}, in a folder that does not exist")
    with temporary_path(path) as partial:
        form = FORMATS[path.suffix.lower()]
        if isinstance(database, Postgres):
            count = postgres_file(database, partial, form, query)
        else:
            count = duckdb_file(database, partial, form, query)
        os.replace(partial, path)
    return count


@contextmanager
def temporary_path(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder, removed at the end; raises DataError if it cannot be
    written.

    Its name is random, so that no link can have been placed there.
    """
    partial = path.with_name(f".{path.stem}-{secrets.token_hex(8)}{path.suffix}")
    try:
        yield partial
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def duckdb_file(database: Database, path: Path, form: str, query: str) -> int:
    """Written by DuckDB."""
    options = f"FORMAT {form}{', HEADER' if form == 'csv' else ''}"
    (count,) = database.fetch(f"COPY ({query}) TO {database.text(str(path))} ({options})")[0]
    return int(count)


def postgres_file(database: Postgres, path: Path, form: str, query: str) -> int:
    """CSV by COPY, by way of which DuckDB writes Parquet here."""
    columns = database.columns(query)
    if any(kind.endswith("tuskml_model") for _, kind in columns):
        raise DataError(
            f"into is {path.name!r}, but models of PostgreSQL are kept in a table: expected the "
            "name of a new table"
        )
    target = path if form == "csv" else path.with_suffix(".csv")
    try:
        count = copy_rows(database, query, target)
        if form == "parquet":
            to_parquet(
                target, path, [(name, TYPES.get(kind, "VARCHAR")) for name, kind in columns]
            )
    finally:
        if target != path:
            target.unlink(missing_ok=True)
    return count


def copy_rows(database: Postgres, query: str, path: Path) -> int:
    """Rows as CSV, as the server sends them."""
    with database.connection.transaction(), database.connection.cursor() as cursor:
        text = f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)"
        with path.open("wb") as file, cursor.copy(text.encode(database.encoding)) as rows:
            for some in rows:
                file.write(some)
        return int(cursor.rowcount)


def to_parquet(source: Path, target: Path, types: list[tuple[str, str]]) -> None:
    """Writes the rows of a CSV file, in which an unquoted nothing is NULL, as Parquet."""
    with connect() as connection:
        database = DuckDB(connection)
        columns = ", ".join(f"{database.text(n)}: {database.text(kind)}" for n, kind in types)
        rows = (
            f"SELECT * FROM read_csv({database.text(str(source))}, header = true, delim = ',', "
            f"quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false, "
            f"auto_detect = false, columns = {{{columns}}})"
        )
        duckdb_file(database, target, "parquet", rows)
