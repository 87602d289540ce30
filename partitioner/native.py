"""The native half (`partitioner/native/api.h`), called with the GIL released.

One build serves every processor: it chooses its popcount when it is loaded. Arrays are
C-contiguous and of the dtype that the header says.
"""

import ctypes
import functools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import TuskError
from tuskml.schedule import pool

Ids = NDArray[np.int64]
Slots = NDArray[np.int32]

STEP = np.dtype(
    [
        ("first", np.int32),
        ("second", np.int32),
        ("together", np.int32),
        ("rows", np.int32),
        ("saved", np.float64),
    ]
)
PLACE = np.dtype(
    [("feature", np.int64), ("key", np.int64), ("slot", np.int32), ("unused", np.int32)]
)
RANGE = np.dtype([("start", np.int64), ("first_key", np.int64), ("size", np.int64)])
PAGE = np.dtype(
    [("first", np.int64), ("offset", np.int64), ("count", np.int32), ("is_bitmap", np.int32)]
)
RELATED = np.dtype(
    [
        ("sketch", np.uint32, 4),
        ("sum", np.uint32),
        ("rows", np.uint32),
        ("feature", np.int32),
    ]
)
_ADDRESS, _INT64, _INT32, _DOUBLE = (
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int32,
    ctypes.c_double,
)
_SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "tp_use_pool": ([_ADDRESS], None),
    "tp_open": (
        [_ADDRESS, _ADDRESS, _INT64, _INT32, _DOUBLE, _DOUBLE, _ADDRESS],
        ctypes.c_int,
    ),
    "tp_close": ([_ADDRESS], None),
    "tp_affinities": ([_ADDRESS, _INT32, _INT32, _INT32], ctypes.c_int),
    "tp_merge": ([_ADDRESS, _INT32, _ADDRESS, _ADDRESS], ctypes.c_int),
    "tp_partitions": ([_ADDRESS] * 5, _INT32),
    "tp_table": ([_ADDRESS, _ADDRESS, _ADDRESS, _INT64, _INT32, _ADDRESS], None),
    "tp_locate": (
        [_ADDRESS, _INT32, _ADDRESS, _ADDRESS, _INT64, _ADDRESS, _ADDRESS],
        None,
    ),
    "tp_live_mark": ([_ADDRESS, _INT64, _INT64, _ADDRESS, _INT64], None),
    "tp_live_count": ([_ADDRESS, _INT64, _ADDRESS], None),
    "tp_live_pack": ([_ADDRESS, _ADDRESS, _INT64, _ADDRESS], None),
    "tp_live_number": ([_ADDRESS, _INT64, _ADDRESS, _ADDRESS, _INT64, _ADDRESS], None),
    "tp_live_ids": ([_ADDRESS, _INT64, _ADDRESS, _ADDRESS, _INT64, _ADDRESS], None),
    "tp_order_mark": ([_ADDRESS, _ADDRESS, _INT64, ctypes.c_uint8], None),
    "tp_order_count": ([_ADDRESS, _INT64, _INT32, _ADDRESS], None),
    "tp_order_number": ([_ADDRESS, _INT32, _ADDRESS, _ADDRESS, _ADDRESS, _INT64], None),
    "tp_order_feature": (
        [_ADDRESS, _INT64, _INT32, _ADDRESS, _ADDRESS, _ADDRESS, _INT64],
        None,
    ),
    "tp_related_new": ([_ADDRESS, _INT64], None),
    "tp_related_add": (
        [_ADDRESS, _INT64, _ADDRESS, _ADDRESS, _INT64, _INT64, _INT64],
        None,
    ),
    "tp_related_bins": ([_ADDRESS, _INT64, _ADDRESS], None),
    "tp_related_sort": ([_ADDRESS, _ADDRESS, _INT32, _INT32, _INT32], None),
    "tp_clusters_open": (
        [_ADDRESS, _INT64, _DOUBLE, _DOUBLE, _INT32, _ADDRESS],
        ctypes.c_int,
    ),
    "tp_clusters_count": ([_ADDRESS], _INT64),
    "tp_clusters_place": ([_ADDRESS, _INT32, _ADDRESS], ctypes.c_int),
    "tp_clusters_close": ([_ADDRESS], None),
    "tp_requests": ([_ADDRESS, _ADDRESS, _INT64, _INT64], _INT64),
}


@functools.cache
def library() -> ctypes.CDLL:
    """The partitioner's library, its functions with their types."""
    path = Path(__file__).parent / "_native.so"
    if not path.exists():
        raise TuskError(f"the partitioner is not built: no {path}, reinstall tuskml")
    lib = ctypes.CDLL(str(path))
    for name, (arguments, result) in _SIGNATURES.items():
        function = getattr(lib, name)
        function.argtypes, function.restype = arguments, result
    lib.tp_use_pool(pool.functions())
    return lib


def check(code: int) -> None:
    """Raises what a native call's code says."""
    if code:
        raise MemoryError("no memory to relate features by their rows: partition fewer of them")
