"""The kernels' library: arguments of its functions, its errors, cancellation, and memory.

A training has an account of memory, with limits. Large arrays are charged one by one (`Charges`),
and all other arrays of NumPy while a training runs (`charge_memory`).
"""

import ctypes
import functools
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tuskml.errors import Interrupted, TuskError
from tuskml.kernels import kernels_path
from tuskml.kernels.structures import KERNELS, MemoryUse
from tuskml.schedule import pool

Floats = NDArray[np.float64]
Triangles = Any
"""Packed lower triangles (G, p (p + 1) / 2): Floats, or for rows on a device the equivalent there
(`tuskml.kernels.gpu.passes`).
"""


@functools.cache
def library() -> ctypes.CDLL:
    """The kernels' library."""
    lib = KERNELS.declare(ctypes.CDLL(str(kernels_path())))
    lib.tk_use_pool(pool.functions())
    lib.tk_use_progress(pool.progress())
    pool.library().ts_watch_cancels(ctypes.cast(lib.tk_cancel_count, ctypes.c_void_p))
    return lib


def address_of(array: NDArray[np.generic]) -> int:
    """Returns where a C-contiguous array's items lie; `array.ctypes.data` is several times
    slower.
    """
    if array.size and array.flags.writeable:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    return int(array.ctypes.data)


class Address(int):
    """An array's address, which keeps the array: one that is made for a call lives as long as its
    arguments.
    """

    array: NDArray[np.generic]


def pointer(array: NDArray[np.generic] | None) -> Address | None:
    """The array's address for a kernel's argument or a structure's field. None is NULL.

    A structure keeps the number alone, so that its array has to live elsewhere.
    """
    if array is None:
        return None
    found = Address(address_of(array))
    found.array = array
    return found


CANCELLED, NO_MEMORY, DISK_FULL, OUT_OF_TIME = KERNELS.constants(
    "TK_", "CANCELLED NO_MEMORY DISK_FULL OUT_OF_TIME"
)
"""The kernels' return codes, `tk_code` in `native/shared/api.h`."""


class OutOfTime(TuskError):
    """A deadline passed within a kernel. It ends the loop of operators."""


def check_code(code: int, what: str = "the training") -> None:
    """Raises the error of a kernel's return code.

    what: the purpose of the kernel's memory.
    """
    if code == CANCELLED:
        raise Interrupted("the training was interrupted")
    if code == NO_MEMORY:
        raise MemoryError(f"no memory for {what}: raise memory_limit")
    if code == OUT_OF_TIME:
        raise OutOfTime("the limit of option 'time' was reached")
    if code == DISK_FULL:
        raise TuskError(
            f"no room for {what}: memory_limit is reached and temp_directory cannot take more"
        )


def cancel() -> None:
    """Ends every training in this process within milliseconds; each raises `Interrupted`."""
    library().tk_cancel()


def cancel_count() -> int:
    """Returns the number of calls of `cancel`; a pass created before the last call stops."""
    count: int = library().tk_cancel_count()
    return count


_begun = threading.local()


@contextmanager
def mark_begin(mark: int) -> Iterator[None]:
    """Marks this thread's work as begun at a `cancel_count`; -1: unknown."""
    before = getattr(_begun, "mark", None)
    _begun.mark = mark if mark >= 0 else None
    try:
        yield
    finally:
        _begun.mark = before


def cancel_mark() -> int:
    """The `cancel_count` that a new pass compares with.

    It is the count when the statement began, so a cancel between that and the pass is not lost.
    """
    mark = getattr(_begun, "mark", None)
    return cancel_count() if mark is None else int(mark)


def raise_if_cancelled(mark: int) -> None:
    """Raises `Interrupted` if a cancel came after `mark`, the `cancel_count` at the start."""
    if mark >= 0 and cancel_count() != mark:
        check_code(CANCELLED)


@contextmanager
def watching_sigint() -> Iterator[None]:
    """Makes Ctrl-C cancel all work at once. Its usual handler runs afterwards."""
    library().tk_watch_sigint(1)
    try:
        yield
    finally:
        library().tk_watch_sigint(0)


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
