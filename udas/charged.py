"""Arrays for what a training keeps beside its rows, charged to the rows' account of memory."""

import ctypes
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tuskml.udas.library import check_code, library

FLOOR = 32 << 20
"""Bytes that a training may take whatever the limit is."""


class MemoryUse(ctypes.Structure):
    """`tusk_memory_use`, bytes."""

    _fields_ = [(name, ctypes.c_int64) for name in ("budget", "resident", "spilled", "peak")]
    budget: int
    resident: int
    spilled: int
    peak: int


LIMITS: dict[int, Callable[[], None]] = {}
"""By account what tells it the database's limits as they are now."""


def look_at_limits(memory: int) -> None:
    """Before much is taken: the account may not have been told of a change yet."""
    with suppress(Exception):
        LIMITS.get(memory, lambda: None)()


def memory_use(memory: int) -> MemoryUse:
    """What an account may have and has; without one there is no limit."""
    use = MemoryUse(budget=(1 << 63) - 1)
    if memory:
        library().tk_memory_use(ctypes.c_void_p(memory), ctypes.byref(use))
    return use


class Charges:
    """A context, at whose end the memory of all arrays that it gave goes, whoever has them.

    memory: address of the account, which may spill to disk; 0: the heap.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._given: list[weakref.finalize[Any, Any]] = []

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """An array, not yet written. MemoryError or TuskError where there is no room.

        Its memory goes with its last view, or with the context.
        """
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        handle, at = ctypes.c_void_p(), ctypes.c_void_p()
        check_code(
            library().tk_charged_new(
                ctypes.c_void_p(self.memory), ctypes.c_int64(size), ctypes.byref(handle),
                ctypes.byref(at),
            )
        )  # fmt: skip
        assert at.value is not None
        memory: Any = (ctypes.c_char * size).from_address(at.value)
        self._given = [each for each in self._given if each.alive]
        self._given.append(weakref.finalize(memory, library().tk_charged_free, handle))
        made: NDArray[Any] = np.frombuffer(memory, kind).reshape(shape)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets the memory go."""
        for each in self._given:
            each()
        self._given.clear()
