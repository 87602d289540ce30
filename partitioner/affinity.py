"""Which rare features lie together: those that the same rows hold.

The aim of Qin, Torres, Rusu (VLDB 2017, section 5) for features that are too many for a matrix of
affinities. `Related` takes a sketch of the rows of each feature while rows pass; its clusters come
from the sketches (`native/related.hpp`); and they are packed into blocks. `choose_size` sizes the
blocks by what whole chunks of rows ask for.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from tuskml.partitioner import native
from tuskml.partitioner.block_choice import count_requests
from tuskml.partitioner.cost import Cost
from tuskml.partitioner.native import Slots
from tuskml.partitioner.rows import SparseRows
from tuskml.schedule import budget

MOST_RELATED = 1 << 26
"""Features that are related at most: 28 bytes each while rows pass, 4 afterwards."""
LARGEST_CLUSTER = 64
BINS, BINS_A_CALL = 256, 16
SIZES = tuple(1 << k for k in range(3, 15))
"""Features per block that are tried."""


class Related:
    """Sketches of the rows of features 0 .. n - 1.

    chunk_rows: rows that are visited together; memory: a function that gives uninitialised bytes,
    np.empty unless they shall lie elsewhere.
    """

    def __init__(
        self,
        n: int,
        chunk_rows: int,
        memory: Callable[[int], NDArray[np.uint8]] = lambda size: np.empty(size, np.uint8),
    ) -> None:
        self.n, self._chunk_rows, self._rows = n, max(1, chunk_rows), 0
        self._items = memory(n * native.RELATED.itemsize).view(native.RELATED)
        native.library().tp_related_new(self._items.ctypes.data, n)

    def update(self, rows: SparseRows) -> None:
        """Adds rows, in their order; features outside 0 .. n - 1 are passed over."""
        native.library().tp_related_add(
            self._items.ctypes.data,
            self.n,
            rows.starts.ctypes.data,
            rows.ids.ctypes.data,
            len(rows),
            self._rows,
            self._chunk_rows,
        )
        self._rows += len(rows)

    def counts(self) -> NDArray[np.uint32]:
        """Entries of each feature, shape (n,); not after `clustered`."""
        return np.array(self._items["rows"])

    @contextmanager
    def clustered(
        self, cost: Cost, interrupted: Callable[[], None] = lambda: None
    ) -> Iterator["Clusters"]:
        """The clusters, while the context lasts. No more rows can be added."""
        lib, ends, threads = native.library(), np.empty(BINS, np.int64), budget.threads(0)
        at = self._items.ctypes.data
        lib.tp_related_bins(at, self.n, ends.ctypes.data)
        for first in range(0, BINS, BINS_A_CALL):
            interrupted()
            lib.tp_related_sort(at, ends.ctypes.data, first, first + BINS_A_CALL, threads)
        interrupted()
        handle = ctypes.c_void_p()
        given = cost.t_seek, cost.t_unit, LARGEST_CLUSTER, ctypes.byref(handle)
        native.check(lib.tp_clusters_open(at, self.n, *given))
        try:
            yield Clusters(handle, self.n)
        finally:
            lib.tp_clusters_close(handle)


class Clusters:
    """Features by cluster; `Related.clustered` makes them."""

    def __init__(self, handle: ctypes.c_void_p, n: int) -> None:
        self._handle, self._n = handle, n

    def __len__(self) -> int:
        return int(native.library().tp_clusters_count(self._handle))

    def places(self, block: int) -> Slots:
        """A number for each feature, int32 of shape (n,), a permutation: clusters lie together,
        and none of those that a block holds crosses the end of one.
        """
        places = np.empty(self._n, np.int32)
        lib = native.library()
        native.check(lib.tp_clusters_place(self._handle, block, places.ctypes.data))
        return places


def by_frequency(counts: NDArray[np.uint32]) -> Slots:
    """Numbers by falling count, equal ones by rising feature; int32 of shape (n,)."""
    places = np.empty(len(counts), np.int32)
    places[np.argsort(-counts.astype(np.int64), kind="stable")] = np.arange(len(counts))
    return places


def choose_size(chunks: SparseRows, cost: Cost, most: float) -> tuple[int, float]:
    """The block size with the least cost per chunk, and blocks per chunk with it.

    chunks: the numbers that some chunks of rows ask for, each one row, rising and once each; most:
    numbers that the blocks of a chunk may hold, beyond which the smallest size is taken.
    """
    numbers, n = chunks.row_numbers(), max(1, len(chunks))
    pairs = {size: count_requests(numbers, chunks.ids, size) / n for size in SIZES}
    fitting = [size for size in SIZES if pairs[size] * size <= most] or [SIZES[0]]
    best = min(fitting, key=lambda size: pairs[size] * cost.of(size))
    return best, pairs[best]
