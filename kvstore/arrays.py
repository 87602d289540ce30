"""Arrays that grow with the number of features of a training: in mapped memory, and in files.

The C library keeps freed memory for its next caller: glibc maps large blocks at first, but raises
its threshold to 32 MiB with the blocks that it frees (mallopt(3), M_MMAP_THRESHOLD). A training
that allocates arrays of a share of its cache one after the other would hold several times the
cache. So `empty` maps its memory directly, and it is unmapped with its last view.
"""

import ctypes
import math
import mmap
import os
import tempfile
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tuskml.errors import DataError, StoreError
from tuskml.kvstore import native
from tuskml.kvstore.native import ERROR_BYTES, Ids, address
from tuskml.schedule.pool import QuietThreads

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


def narrow(array: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
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


Array = NDArray[Any]
Item = TypeVar("Item")
Read = TypeVar("Read")
REQUESTS = 8
"""Concurrent requests of a file: a disk serves them in the time of one."""


WINDOW = 1 << 18
"""Items that are read at once if the whole would take too much memory."""


def open_unnamed(folder: Path) -> IO[bytes]:
    """A file that is removed when it is closed, however the process ends.

    The kernel's read-ahead is off: readers request everything that they need next.
    """
    file: IO[bytes] = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
    return file


def ahead(read: Callable[[Item], Read], items: Iterable[Item], threads: int = 1) -> Iterator[Read]:
    """Yields read(item) of each item in order; `threads` threads prefetch the next ones."""
    with QuietThreads(threads) as pool:
        coming: deque[Future[Read]] = deque()
        for item in items:
            coming.append(pool.submit(read, item))
            if len(coming) > threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()


def give_back() -> None:
    """Returns freed memory to the system, so that it is not counted (glibc's malloc_trim)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class Records:
    """An array in a file that is removed when it is closed."""

    def __init__(self, folder: Path, dtype: DTypeLike) -> None:
        self.folder, self.dtype, self.count = folder, np.dtype(dtype), 0
        self.file: IO[bytes] = open_unnamed(folder)

    def write(self, at: int, items: Array) -> None:
        """Writes items from index `at` on."""
        view = np.ascontiguousarray(items, self.dtype).reshape(-1).view(np.uint8).data
        at *= self.dtype.itemsize
        while view:
            n = os.pwrite(self.file.fileno(), view, at)
            view, at = view[n:], at + n

    def append(self, items: Array) -> None:
        """Appends items after all those appended before."""
        self.write(self.count, items)
        self.count += len(items)

    def read(self, at: int, n: int, out: Array | None = None) -> Array:
        """Reads n items from index `at` on.

        out: array to read into.
        """
        out = empty(n, self.dtype) if out is None else out
        self._fill(out, at)
        return out

    def windows(self, at: int, n: int) -> Iterator[Array]:
        """Yields n items from index `at` on, WINDOW at a time, each valid until the next.

        A thread reads ahead. It allocates nothing, as memory that a thread frees stays with the
        process.
        """
        buffers = empty((2, min(WINDOW, n)), self.dtype)

        def read(k: int) -> Array:
            first = k * WINDOW
            out = buffers[k % 2, : min(WINDOW, n - first)]
            self._fill(out, at + first)
            return out

        return ahead(read, range(-(-n // WINDOW)))

    def _fill(self, out: Array, at: int) -> None:
        view, place = out.view(np.uint8).data, at * self.dtype.itemsize
        while view:
            done = os.preadv(self.file.fileno(), [view], place)
            if not done:
                raise DataError("a file of a training's plan ends too early")
            view, place = view[done:], place + done

    def read_runs(self, at: Ids, lengths: Ids, out: Array | None = None) -> Array:
        """Reads lengths[k] items from each index at[k], concatenated, (sum of lengths,).

        out: array to read into.
        """
        out = empty(int(lengths.sum()), self.dtype) if out is None else out
        self._move(out, at, lengths, writes=False)
        return out

    def write_runs(self, at: Ids, lengths: Ids, items: Array) -> None:
        """Writes concatenated runs of lengths[k] items to each index at[k]."""
        self._move(np.ascontiguousarray(items, self.dtype), at, lengths, writes=True)

    def _move(self, items: Array, at: Ids, lengths: Ids, writes: bool) -> None:
        some = lengths > 0
        size = self.dtype.itemsize
        places, counts = (np.ascontiguousarray(a[some] * size, np.int64) for a in (at, lengths))
        runs = native.Runs(
            self.file.fileno(),
            REQUESTS,
            writes,
            address(items),
            address(places),
            address(counts),
            len(places),
        )
        error = ctypes.create_string_buffer(ERROR_BYTES)
        if native.library().ks_move_runs(ctypes.byref(runs), error):
            raise StoreError(f"a file of a training's plan: {error.value.decode()}")
