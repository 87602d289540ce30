"""What a request of a store costs on this machine's disk, for the partitioner."""

import shutil
import tempfile
from pathlib import Path

import numpy as np

from tuskml.kvstore.database import LEAST_MEMORY, Database
from tuskml.kvstore.files import reporting
from tuskml.partitioner import Cost, measure_cost


def measure_store(
    folder: "Path | str",
    memory: int = 2 * LEAST_MEMORY,
    most: int = 1 << 23,
    writes: bool = False,
) -> Cost:
    """The cost function t_s + |P| t_u of LevelDB in a folder (`partitioner.measure_cost`).

    A store is written there and removed again; takes about a second, and twice `most` numbers of
    memory.
    """
    with reporting("measuring a store"):
        path = Path(tempfile.mkdtemp(prefix=".probe-", dir=folder))
        try:
            database = Database(path / "database", np.dtype(np.float32), memory, create=True)
            try:
                return measure_cost(database, most=most, writes=writes)
            finally:
                database.close()
        finally:
            shutil.rmtree(path, ignore_errors=True)
