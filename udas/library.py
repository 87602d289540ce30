"""The kernels' library: which of its builds is loaded, how arrays are handed to it, how it is
cancelled.

Three builds of the same sources lie beside this file; the best that the processor runs is loaded.
"""

import ctypes
import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import Interrupted, TuskError
from tuskml.udas.instruction_sets import instruction_sets

Floats = NDArray[np.float64]
Triangles = Any
"""Packed lower triangles (G, p (p + 1) / 2): Floats, or where the rows are on a device the same
there (`tuskml.udas.gpu.triangles`)."""


@functools.cache
def library() -> ctypes.CDLL:
    """The kernels' library."""
    folder = Path(__file__).parent
    for suffix in instruction_sets():
        path = folder / f"_native{suffix}.so"
        if path.exists():
            lib = ctypes.CDLL(str(path))
            lib.tk_cancel_count.restype = ctypes.c_int64
            lib.tk_nonzeros.restype = ctypes.c_int64
            return lib
    raise TuskError(f"the kernels are not built: no _native*.so in {folder}, reinstall tuskml")


def address_of(array: NDArray[np.generic]) -> int:
    """Where a C-contiguous array's items lie; `array.ctypes.data` is several times slower."""
    if array.size and array.flags.writeable:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]
    return int(array.ctypes.data)


def pointer(array: NDArray[np.generic] | None) -> ctypes.c_void_p:
    """The same for a kernel's argument; NULL for None."""
    return ctypes.c_void_p(None if array is None else address_of(array))


CANCELLED, OUT_OF_TIME = 1, 5
"""Kernels' codes, `tk_code` in `native/api.h`."""


class OutOfTime(TuskError):
    """A deadline passed within a kernel; the loop of operators ends there."""


def check_code(code: int) -> None:
    """Raises what a kernel's code stands for."""
    if code == CANCELLED:
        raise Interrupted("the training was interrupted")
    if code == 2:
        raise MemoryError("no memory for the rows: raise memory_limit")
    if code == OUT_OF_TIME:
        raise OutOfTime("the option 'time' was over")
    if code == 3:
        raise TuskError(
            "no room for the rows: memory_limit is reached and temp_directory cannot take more"
        )


def cancel() -> None:
    """Ends every training in this process within milliseconds; each raises `Interrupted`."""
    library().tk_cancel()


def cancel_count() -> int:
    """How often `cancel` was called; a pass made before the last call stops."""
    return int(library().tk_cancel_count())


_begun = threading.local()


@contextmanager
def begun_at(mark: int) -> Iterator[None]:
    """Work of this thread that began, with the packing of its rows, at this `cancel_count`; -1:
    it is not known when."""
    before = getattr(_begun, "mark", None)
    _begun.mark = mark if mark >= 0 else None
    try:
        yield
    finally:
        _begun.mark = before


def cancel_mark() -> int:
    """What a pass made now compares `cancel_count` with: that of the statement's beginning, so
    that a cancel on the way from there is not lost."""
    mark = getattr(_begun, "mark", None)
    return cancel_count() if mark is None else int(mark)


def raise_if_cancelled(mark: int) -> None:
    """Raises `Interrupted` in a training that began at this `cancel_count`, if one came since."""
    if mark >= 0 and cancel_count() != mark:
        check_code(CANCELLED)


@contextmanager
def watching_sigint() -> Iterator[None]:
    """Ctrl-C cancels what runs inside, at once, then is handled as it would have been."""
    library().tk_watch_sigint(1)
    try:
        yield
    finally:
        library().tk_watch_sigint(0)
