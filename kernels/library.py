"""The kernels' library: arguments of its functions, its errors, and cancellation."""

import ctypes
import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import Interrupted, TuskError
from tuskml.kernels import kernels_path
from tuskml.kernels.structures import KERNELS
from tuskml.schedule import pool

Floats = NDArray[np.float64]
Triangles = Any
"""Packed lower triangles (G, p (p + 1) / 2): Floats, or for rows on a device the equivalent there
(`tuskml.kernels.gpu.linear_systems`).
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
