"""Shards that last as long as a training: the rows of a table or a query, for its workers."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tuskml.databases.duckdb import DuckDB
from tuskml.errors import DataError
from tuskml.shards.splitting import SHARD_BYTES, sorted_table
from tuskml.shards.writing import Writing

FOLDER = "TUSKML_CLUSTER_FOLDER"
"""The setting that says where they are written: a folder that all workers see at this path."""
PREFIX = "tuskml-shards-"


@contextmanager
def temporary_shards(database: DuckDB, query: str, keys: Sequence[str]) -> Iterator[str | None]:
    """Writes a query's rows as shards by these of its columns, and removes them at the end.

    Yields what `read_parquet` takes, or None for a query without rows. DataError where the shards
    have no place.
    """
    with folder_for_all() as folder:
        yield written(database, query, keys, Path(folder))


def folder_for_all() -> TemporaryDirectory[str]:
    """A new folder, where the setting says, or among the temporary ones of this machine."""
    parent = os.environ.get(FOLDER) or None
    try:
        return TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True)
    except OSError as error:
        where = parent or "the folder of temporary files"
        raise DataError(
            f"rows cannot be written to {where} for the workers: {error.strerror}; the setting "
            f"{FOLDER} names a folder that all workers see"
        ) from error


def written(database: DuckDB, query: str, keys: Sequence[str], folder: Path) -> str | None:
    """The glob of the shards; None for a query without rows."""
    with sorted_table(database, query, keys) as table:
        if not database.fetch(f"SELECT 1 FROM {table} LIMIT 1"):
            return None
        manifest = Writing(database, table, keys, folder, SHARD_BYTES).manifest()
        manifest.write()
        return manifest.source


def is_temporary(path: str) -> bool:
    """Whether a shard is one of these."""
    return Path(path).parent.name.startswith(PREFIX)
