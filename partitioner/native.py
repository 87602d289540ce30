"""The native half (`partitioner/native/api.h`), called with the GIL released.

One build serves every processor: it chooses its popcount when it is loaded. Arrays are
C-contiguous and of the dtype that the header says.
"""

import ctypes
import functools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import TuskError
from tuskml.schedule import pool
from tuskml.schedule.declared import Interface

Ids = NDArray[np.int64]
Slots = NDArray[np.int32]

PARTITIONER = Interface(Path(__file__).parent)
"""What the partitioner's header declares."""
STEP, PLACE, RANGE, PAGE, RELATED = (
    PARTITIONER.dtype(f"tp_{name}") for name in ("step", "place", "range", "page", "related")
)


@functools.cache
def library() -> ctypes.CDLL:
    """The partitioner's library, its functions with their types."""
    path = Path(__file__).parent / "_native.so"
    if not path.exists():
        raise TuskError(f"the partitioner is not built: no {path}, reinstall tuskml")
    lib = PARTITIONER.declare(ctypes.CDLL(str(path)))
    lib.tp_use_pool(pool.functions())
    return lib


def check(code: int) -> None:
    """Raises the error of a native call's return code."""
    if code:
        raise MemoryError("no memory to relate features by their rows: partition fewer of them")
