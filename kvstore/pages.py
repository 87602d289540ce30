"""Arrays whose memory is mapped directly, and unmapped with their last view.

The C library keeps freed memory for its next caller: glibc maps large blocks at first, but raises
its threshold to 32 MiB with the blocks that it frees (mallopt(3), M_MMAP_THRESHOLD). A training
that allocates arrays of a share of its cache one after the other would hold several times the
cache.
"""

import ctypes
import math
import mmap
import tracemalloc
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LEAST = 1 << 16
"""Array size in bytes from which a mapping is worth its system call."""
DOMAIN = 0x7475736B
"""Domain in tracemalloc, which counts these arrays as it does NumPy's."""


def empty(shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Like `numpy.empty`; untouched pages take no memory. Raises MemoryError."""
    kind = np.dtype(dtype)
    shape = (shape,) if isinstance(shape, int | np.integer) else shape
    count = math.prod(int(n) for n in shape)
    if count * kind.itemsize < LEAST:
        return np.empty(shape, kind)
    try:
        pages = _Pages(count * kind.itemsize)
    except OSError as error:
        raise MemoryError(f"{count * kind.itemsize:,} bytes: {error.strerror}") from None
    return np.frombuffer(pages, kind, count).reshape(shape)


def narrowed(array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    """Copies to another type, with loss where it is narrower."""
    out = empty(array.shape, dtype)
    np.copyto(out, array, casting="unsafe")
    return out


class _Pages(mmap.mmap):
    """Anonymous memory of this process."""

    def __new__(cls, size: int) -> "_Pages":
        pages = super().__new__(cls, -1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        pages.traced = 0
        if tracemalloc.is_tracing():
            pages.traced = np.frombuffer(pages, np.uint8).ctypes.data
            _trace("PyTraceMalloc_Track", pages.traced, ctypes.c_size_t(size))
        return pages

    traced: int

    def __del__(self) -> None:
        if self.traced:
            _trace("PyTraceMalloc_Untrack", self.traced)


def _trace(name: str, at: int, *size: ctypes.c_size_t) -> None:
    getattr(ctypes.pythonapi, name)(ctypes.c_uint(DOMAIN), ctypes.c_size_t(at), *size)
