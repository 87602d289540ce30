"""A worker's unit: it reads its shards, trains their groups, and returns Arrow."""

import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from tuskml.cluster.shards.catalogue import damage_error
from tuskml.cluster.shards.manifest import checksum
from tuskml.cluster.shards.storages import register
from tuskml.cluster.shards.temporary import FOLDER, is_temporary
from tuskml.databases.connection import connect
from tuskml.databases.duckdb import DuckDB
from tuskml.errors import DataError
from tuskml.groups.execution.worker import share
from tuskml.schedule.pool import hold_in_forks

TASK = "the rows of a part"
"""Stands for the handle of the receiver in the query of a part (`parts/part_rows.py`)."""
WORK = "tuskml.cluster.worker:train_unit"
_lock = hold_in_forks(threading.Lock())
_connections: dict[int, duckdb.DuckDBPyConnection] = {}
"""Connections by process: a forked one has a copy that it cannot use."""
_verified: set[tuple[str, int, int]] = set()


def train_unit(payload: bytes) -> bytes:
    """The models of a unit (`units.py`) as an Arrow stream: keys as text, and the model.

    Raises DataError for a shard that is missing or damaged, and the errors of a training.
    """
    given = json.loads(payload)
    for shard in given["shards"]:
        verify(shard)
    with cursor(given["settings"], given["storages"]) as connection:
        query = given["query"]
        try:
            table = DuckDB(connection).attempt(lambda session: session.sql(query).to_arrow_table())
        except DataError:
            for shard in given["shards"]:
                verify(shard)  # it may have vanished since
            raise
    return as_bytes(table)


def verify(shard: Mapping[str, Any]) -> None:
    """Checks a shard against the manifest; an unchanged one is read once."""
    path = Path(shard["path"])
    if "://" in shard["path"]:
        return
    try:
        found = path.stat()
        seen = (str(path), found.st_size, found.st_mtime_ns)
        if shard["checksum"] is None or seen in _verified:
            return
        if checksum(path) != shard["checksum"]:
            raise DataError(damage_error(str(path)))
    except OSError as error:
        remedy = f": {FOLDER} names a folder for them" if is_temporary(str(path)) else ""
        raise DataError(
            f"the shard {path} cannot be read on a worker ({error.strerror}): all workers have to "
            f"see the files at the same path{remedy}"
        ) from error
    _verified.add(seen)


def cursor(settings: Mapping[str, str], storages: Sequence[str] = ()) -> duckdb.DuckDBPyConnection:
    """A new connection to the process's in-memory database.

    storages: names of file systems that it reads from (`shards/storages.py`).
    """
    with _lock:
        process = os.getpid()
        if process not in _connections:
            _connections[process] = connect(**limits())
        register(_connections[process], storages)
        session = _connections[process].cursor()
    for name, value in settings.items():
        session.execute(f"SET {name} = '{value}'")
    return session


def limits() -> dict[str, Any]:
    """DuckDB's settings for the resources of this process."""
    mine = share()
    found: dict[str, Any] = {}
    if mine.threads is not None:
        found["threads"] = mine.threads
    if mine.memory is not None:
        found["memory_limit"] = f"{max(mine.memory // 10**6, 1)}MB"
    return found


def as_bytes(table: Any) -> bytes:
    """An Arrow table as a stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data
