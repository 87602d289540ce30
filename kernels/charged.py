"""Arrays that a training keeps beside its rows, charged to the rows' memory account."""

import ctypes
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tuskml.kernels.library import check_code, library
from tuskml.kernels.structures import MemoryUse

FLOOR = 32 << 20
"""Bytes that a training may take whatever the limit is."""


LIMITS: dict[int, Callable[[], None]] = {}
"""For each account, a function that updates its limits from the database."""


_looked: dict[int, int] = {}
"""For each account, the last statement that updated its limits."""


def look_at_limits(memory: int) -> None:
    """Updates the limits before a large allocation: they may have changed since the last look."""
    with suppress(Exception):
        LIMITS.get(memory, lambda: None)()


def look_once(memory: int, statement: int) -> None:
    """The same, but only once per statement. 0: an unknown statement."""
    if not statement or _looked.get(memory) != statement:
        look_at_limits(memory)
        if memory in LIMITS:
            _looked[memory] = statement


def forget(memory: int) -> None:
    """Forgets a closed database's account, because another may get the same address."""
    LIMITS.pop(memory, None)
    _looked.pop(memory, None)


def memory_use(memory: int) -> MemoryUse:
    """Limits and use of an account. Without an account there is no limit."""
    use = MemoryUse(budget=(1 << 63) - 1)
    if memory:
        library().tk_memory_use(memory, use)
    return use


class Charges:
    """A context whose end frees all arrays that it allocated, even those still referenced.

    memory: address of the account, which may spill to disk; 0: the heap.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._given: list[weakref.finalize[Any, Any]] = []

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """An uninitialised array. Raises MemoryError or TuskError if there is no memory.

        Its memory is freed with its last view, or with the context.
        """
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        handle, at = ctypes.c_void_p(), ctypes.c_void_p()
        check_code(
            library().tk_charged_new(self.memory, size, ctypes.byref(handle), ctypes.byref(at))
        )
        assert at.value is not None
        memory: Any = (ctypes.c_char * size).from_address(at.value)
        self._given = [each for each in self._given if each.alive]
        self._given.append(weakref.finalize(memory, library().tk_charged_free, handle))
        made: NDArray[Any] = np.frombuffer(memory, kind).reshape(shape)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the memory."""
        for each in self._given:
            each()
        self._given.clear()
