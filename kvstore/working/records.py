"""Arrays in files, for state of a training that grows with the number of features."""

import ctypes
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tuskml.errors import DataError, StoreError
from tuskml.kvstore import native, pages
from tuskml.kvstore.native import ERROR_BYTES, Ids, address
from tuskml.kvstore.working.quiet import QuietThreads

Array = NDArray[Any]
Item = TypeVar("Item")
Read = TypeVar("Read")
REQUESTS = 8
"""Concurrent requests of a file: a disk serves them in the time of one."""


WINDOW = 1 << 18
"""Items that are read at once if the whole would take too much memory."""


def unnamed(folder: Path) -> IO[bytes]:
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
        self.file: IO[bytes] = unnamed(folder)

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
        out = pages.empty(n, self.dtype) if out is None else out
        self._fill(out, at)
        return out

    def windows(self, at: int, n: int) -> Iterator[Array]:
        """Yields n items from index `at` on, WINDOW at a time, each valid until the next.

        A thread reads ahead. It allocates nothing, as memory that a thread frees stays with the
        process.
        """
        buffers = pages.empty((2, min(WINDOW, n)), self.dtype)

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
        out = pages.empty(int(lengths.sum()), self.dtype) if out is None else out
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
