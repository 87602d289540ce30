"""Arrays that a training keeps beside its rows, charged to the rows' memory account."""

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tuskml.errors import TuskError
from tuskml.kernels.library import check_code, library
from tuskml.kernels.structures import MemoryUse

FLOOR = 32 << 20
"""Bytes that a training may take whatever the limit is."""


def memory_use(memory: int) -> MemoryUse:
    """Limits and use of an account. Without an account there is no limit."""
    use = MemoryUse(budget=(1 << 63) - 1)
    if memory:
        library().tk_memory_use(memory, use)
    return use


def room_beside(memory: int) -> int:
    """Bytes that a training may take beside its rows (`tusk_memory_reserve`)."""
    use = memory_use(memory)
    return int(max(use.budget - use.resident, use.budget // 4, FLOOR))


def held(handle: ctypes.c_void_p, at: int, n: int, dtype: DTypeLike) -> NDArray[Any]:
    """An array over memory of a `tk_charged`, which goes, and is refunded, with its last view.

    Nothing else may free it. Its account lives as long.
    """
    kind = np.dtype(dtype)
    memory: Any = (ctypes.c_char * (n * kind.itemsize)).from_address(at)
    owner: Any = weakref.finalize(memory, library().tk_charged_free, handle)
    owner.atexit = False
    made: NDArray[Any] = np.frombuffer(memory, kind)
    return made


class Charges:
    """Makes arrays in an account, which may spill to disk. 0: they are on the heap."""

    def __init__(self, memory: int) -> None:
        self.memory = memory

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """An uninitialised array, whose memory is refunded with its last view.

        Raises MemoryError or TuskError if there is no memory.
        """
        kind = np.dtype(dtype)
        n = int(np.prod(shape, dtype=np.int64))
        try:
            handle, at = self._taken(n * kind.itemsize)
        except (MemoryError, TuskError):
            gc.collect()  # arrays in cycles of references count until then
            handle, at = self._taken(n * kind.itemsize)
        return held(handle, at, n, kind).reshape(shape)

    def _taken(self, size: int) -> tuple[ctypes.c_void_p, int]:
        handle, at = ctypes.c_void_p(), ctypes.c_void_p()
        check_code(
            library().tk_charged_new(self.memory, size, ctypes.byref(handle), ctypes.byref(at))
        )
        assert at.value is not None
        return handle, at.value
