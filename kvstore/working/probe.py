"""Measured cost of a store's requests on this machine's disk, for the partitioner."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tuskml.kvstore.files.files import remove_tree, reporting
from tuskml.kvstore.files.locks import is_at
from tuskml.kvstore.working.database import LEAST_MEMORY, Database
from tuskml.partitioner import Cost, measure_cost

PREFIX = ".probe-"


def measure_store(
    folder: "Path | str",
    memory: int = 2 * LEAST_MEMORY,
    most: int = 1 << 23,
    writes: bool = False,
) -> Cost:
    """The cost function t_s + |P| t_u of LevelDB in a folder (`partitioner.measure_cost`).

    A store is written there and removed again; takes about a second, and little memory.
    """
    with reporting("measuring a store"), _directory(Path(folder)) as path:
        database = Database(path / "database", np.dtype(np.float32), memory, create=True)
        try:
            return measure_cost(database, most=most, writes=writes)
        finally:
            database.close()


@contextmanager
def _directory(folder: Path) -> Iterator[Path]:
    """A new locked directory; the collector removes that of a killed process."""
    handle = -1
    while handle < 0:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder))
        handle = _locked(path)
    try:
        yield path
    finally:
        remove_tree(path)
        os.close(handle)


def _locked(path: Path) -> int:
    """Opens and locks the directory; returns the descriptor, -1 if a collector removed it
    first.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1
    fcntl.flock(handle, fcntl.LOCK_EX)
    if is_at(handle, path):
        return handle
    os.close(handle)
    return -1
