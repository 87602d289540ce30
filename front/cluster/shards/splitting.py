"""`tuskml.split`: rows into shards that are sorted by group, with a manifest.

The rows are sorted once, by DuckDB, which goes to disk where they are more than its memory. Shards
end between groups. Only a group larger than a shard has several, which hold no other group's rows.
Within each group a hash of the rows mixes them, so that all parts of a group are alike: a model
that hops from part to part would forget the rows of an earlier part that differs.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 5 (files of 25 MB, and groups that are shuffled once).
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from tuskml.cluster.shards.local import LocalFolder
from tuskml.cluster.shards.manifest import Manifest
from tuskml.cluster.shards.remote import RemoteFolder, is_remote
from tuskml.cluster.shards.writing import Writing
from tuskml.databases.connection import connect
from tuskml.databases.database import Database
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.opening import open_database
from tuskml.databases.results import keep_file
from tuskml.databases.sources import Rows, Source, rows_of, scope_of, split_expressions
from tuskml.errors import DataError, OptionError, TuskError
from tuskml.text.calls import with_clear_errors
from tuskml.text.expressions import quote_name

SHARD_BYTES = 25_000_000


@with_clear_errors
def split(
    connection: object,
    *,
    source: Rows,
    group_by: str | Sequence[str] = (),
    into: str | PathLike[str],
    shard_bytes: int = SHARD_BYTES,
    replace: bool = False,
) -> Manifest:
    """Writes rows as Parquet shards sorted by group, with `manifest.json`, into a new folder.

    connection, source, group_by: as for `train`; a key that is an expression becomes a column of
    its name. Without group_by the shards are for one model. The rows of each group are mixed by a
    hash of their values. into: the folder, which appears when it is complete, or one of a file
    system of fsspec, such as `s3://bucket/rows`, whose manifest is written last. shard_bytes: the
    most bytes of a shard, unless one row has more. replace: whether into may replace an earlier
    folder of shards.

    Returns the Manifest, whose `source` is what `train` takes. Raises DataError for a wrong source
    or key, and where the folder is there or cannot be written.

    >>> import tempfile, tuskml
    >>> con = tuskml.connect()
    >>> folder = tempfile.mkdtemp() + "/shards"
    >>> rows = "SELECT i % 3 AS g, i AS x FROM range(9) t(i)"
    >>> manifest = tuskml.split(con, source=rows, group_by="g", into=folder)
    >>> [(group.key, group.rows) for group in manifest.groups]
    [(('0',), 3), (('1',), 3), (('2',), 3)]
    """
    if not isinstance(shard_bytes, int) or shard_bytes < 1:
        raise OptionError(f"shard_bytes is {shard_bytes!r}, expected a whole number of bytes")
    folder = RemoteFolder(str(into)) if is_remote(str(into)) else LocalFolder(Path(into))
    folder.refuse_taken(replace)
    with (
        open_database(connection) as given,
        rows_of(given, source) as rows,
        local(given, *key_query(given, rows, group_by)) as (database, query, keys),
        sort_table(database, query, keys) as table,
        folder.fill() as here,
    ):
        writing = Writing(database, table, keys, here, shard_bytes, folder.take)
        return folder.complete(writing.manifest())


def key_query(
    database: Database, rows: Source, group_by: str | Sequence[str]
) -> tuple[str, list[str]]:
    """A query of all columns, with keys that are expressions as columns; and the keys' names."""
    scope = scope_of(database, rows)
    keys = [scope.key(text) for text in split_expressions(group_by, "group_by", scope.columns)]
    added = [(name, sql) for name, sql in keys if sql != quote_name(name)]
    for name, _ in added:
        if name.lower() in map(str.lower, scope.columns):
            raise DataError(
                f"group_by names a key {name!r}, which is a column of {rows.name}: name it "
                "otherwise, 'month(date) AS month'"
            )
    columns = ", ".join(["*", *(f"{sql} AS {quote_name(name)}" for name, sql in added)])
    return f"SELECT {columns} FROM {rows.sql}", [name for name, _ in keys]


@contextmanager
def local(
    database: Database, query: str, keys: list[str]
) -> Iterator[tuple[DuckDB, str, list[str]]]:
    """The query in DuckDB. Rows of PostgreSQL come by way of a file."""
    if isinstance(database, DuckDB):
        yield database, query, keys
        return
    with TemporaryDirectory(prefix="tuskml-") as folder, connect() as connection:
        rows = Path(folder) / "rows.parquet"
        keep_file(database, rows, query, replace=False)
        here = DuckDB(connection)
        yield here, f"SELECT * FROM read_parquet({here.text(str(rows))})", keys


@contextmanager
def sort_table(database: DuckDB, query: str, keys: Sequence[str]) -> Iterator[str]:
    """A temporary table whose row numbers follow the keys, and then a hash of the rows.

    So parts of a group are alike, and the same rows in another order make the same shards. Equal
    rows are numbered, since their hash would leave them side by side.
    """
    name = f"tusk_split_{secrets.token_hex(8)}"
    columns = ", ".join(quote_name(column) for column, _ in database.columns(query))
    mixed = f"hash(hash({columns}), row_number() OVER (PARTITION BY hash({columns}))) ASC"
    order = ", ".join([*(f"{quote_name(key)} ASC NULLS LAST" for key in keys), mixed])
    setting = "preserve_insertion_order"
    ((kept,),) = database.fetch(f"SELECT current_setting('{setting}')")
    try:
        if not kept:
            database.fetch(f"SET {setting} = true")
        database.fetch(f"CREATE TEMP TABLE {name} AS FROM ({query}) ORDER BY {order}")
        yield name
    finally:
        with suppress(TuskError):  # in a transaction that failed, which takes the table with it
            database.fetch(f"DROP TABLE IF EXISTS {name}")
            if not kept:
                database.fetch(f"SET {setting} = false")
