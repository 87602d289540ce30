"""Memory accounting of a training: the limits of its account, and arrays charged to it.

Large arrays are charged one by one (`Charges`), and all other arrays of NumPy while a training
runs (`charge_memory`).
"""

import ctypes
import functools
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tuskml.errors import TuskError
from tuskml.kernels.library import check_code, library
from tuskml.kernels.structures import MemoryUse

FLOOR = 32 << 20
"""Bytes that a training may always take, whatever the limit is."""


def memory_use(memory: int) -> MemoryUse:
    """Limits and usage of an account. Without an account there is no limit."""
    use = MemoryUse(budget=(1 << 63) - 1)
    if memory:
        library().tk_memory_use(memory, use)
    return use


def room_beside(memory: int) -> int:
    """Bytes that a training may take in addition to its rows (`tusk_memory_reserve`)."""
    use = memory_use(memory)
    return int(max(use.budget - use.resident, use.budget // 4, FLOOR))


def wrap_memory(handle: ctypes.c_void_p, at: int, n: int, dtype: DTypeLike) -> NDArray[Any]:
    """Wraps memory of a `tk_charged`, which is freed and refunded with the last view of the array.

    Nothing else may free it. Its account must live as long.
    """
    kind = np.dtype(dtype)
    memory: Any = (ctypes.c_char * (n * kind.itemsize)).from_address(at)
    owner: Any = weakref.finalize(memory, library().tk_charged_free, handle)
    owner.atexit = False
    array: NDArray[Any] = np.frombuffer(memory, kind)
    return array


class Charges:
    """Allocates arrays in an account, which may spill to disk. 0: they are on the heap."""

    def __init__(self, memory: int) -> None:
        self.memory = memory

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
        """An uninitialised array, whose memory is refunded with its last view.

        Raises MemoryError or TuskError if there is no memory.
        """
        kind = np.dtype(dtype)
        n = int(np.prod(shape, dtype=np.int64))
        try:
            handle, at = self._take(n * kind.itemsize)
        except (MemoryError, TuskError):
            gc.collect()  # arrays in cycles of references count until then
            handle, at = self._take(n * kind.itemsize)
        return wrap_memory(handle, at, n, kind).reshape(shape)

    def _take(self, size: int) -> tuple[ctypes.c_void_p, int]:
        handle, at = ctypes.c_void_p(), ctypes.c_void_p()
        check_code(
            library().tk_charged_new(self.memory, size, ctypes.byref(handle), ctypes.byref(at))
        )
        assert at.value is not None
        return handle, at.value


# NumPy's arrays. NumPy allocates through the handler of the running thread (NEP 49). While a
# training runs, this is our handler, which allocates no more than the account allows.

SET_HANDLER = 304
"""`PyDataMem_SetHandler` in NumPy's table of functions, since NumPy 1.22."""


@functools.cache
def _set_handler() -> Callable[[Any], Any]:
    """NumPy's function that sets this thread's handler and returns the previous one."""
    core = getattr(np, "_core", None) or np.core
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = get(core._multiarray_umath._ARRAY_API, None)
    function = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[SET_HANDLER]
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(function)


def _capsule(handler: int) -> Any:
    """Wraps a handler in the capsule that NumPy expects."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(handler, _NAME, None)


_NAME = b"mem_handler"  # NumPy's own name, kept here since a capsule does not copy it


@contextmanager
def charge_memory(memory: int) -> Iterator[None]:
    """Counts NumPy's arrays and the kernels' allocations in the account `memory`.

    Beyond its limit NumPy raises MemoryError, and so do kernels. 0: nothing is counted.
    """
    if not memory:
        yield
        return
    lib = library()
    working = lib.tk_working_open(memory, FLOOR)
    if not working:
        raise MemoryError("out of memory: no room for the training")
    try:
        before = _set_handler()(_capsule(lib.tk_working_handler(working)))
        try:
            yield
        finally:
            _set_handler()(before)
    finally:
        lib.tk_working_close(working)


def here() -> int | None:
    """Handle of the calling thread's accounting for `count_as`; None without one."""
    number: int | None = library().tk_working_here()
    return number


@contextmanager
def count_as(training: int | None) -> Iterator[None]:
    """Counts the kernels' allocations on this thread as those of a training, from its `here`.

    NumPy's arrays are counted if the thread runs in a copy of that thread's context.
    """
    before = here()
    library().tk_working_enter(training)
    try:
        yield
    finally:
        library().tk_working_enter(before)
