"""Order of rare features by affinity: features of the same rows share blocks.

The aim of Qin, Torres, Rusu (VLDB 2017, section 5) for features that are too many for a matrix of
affinities. `FeatureSketches` updates a sketch of the rows of each feature while rows pass;
`native/related.hpp` clusters features by their sketches; and the clusters are packed into blocks.
`choose_size` sizes the blocks by the requests of whole chunks of rows.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from tuskml.partitioner import native
from tuskml.partitioner.cost import Cost
from tuskml.partitioner.merging import count_requests
from tuskml.partitioner.native import Slots
from tuskml.partitioner.rows import SparseRows
from tuskml.schedule import budget

MOST_RELATED = 1 << 26
"""Most features of a `FeatureSketches`: 28 bytes each while rows pass, 4 afterwards."""
LARGEST_CLUSTER = 64
BINS, BINS_A_CALL = 256, 16
SIZES = tuple(1 << k for k in range(15))
"""Candidate numbers of features per block."""


class FeatureSketches:
    """Sketches of the rows of features 0 .. n - 1.

    chunk_rows: number of rows that are visited together; memory: allocates uninitialised bytes, by
    default np.empty.
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
        """Adds rows in order; ignores features outside 0 .. n - 1."""
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
        """Number of entries of each feature, shape (n,); not available after `cluster`."""
        return np.array(self._items["rows"])

    @contextmanager
    def cluster(
        self, cost: Cost, interrupted: Callable[[], None] = lambda: None
    ) -> Iterator["Clusters"]:
        """Yields the clusters until the context ends. No more rows can be added."""
        lib, ends, threads = native.library(), np.empty(BINS, np.int64), budget.threads(0)
        at = self._items.ctypes.data
        lib.tp_related_bins(at, self.n, ends.ctypes.data)
        for first in range(0, BINS, BINS_A_CALL):
            interrupted()
            lib.tp_related_sort(at, ends.ctypes.data, first, first + BINS_A_CALL, threads)
        interrupted()
        handle = ctypes.c_void_p()
        arguments = cost.t_seek, cost.t_unit, LARGEST_CLUSTER, ctypes.byref(handle)
        native.check(lib.tp_clusters_open(at, self.n, *arguments))
        try:
            yield Clusters(handle, self.n)
        finally:
            lib.tp_clusters_close(handle)


class Clusters:
    """Features by cluster; `Related.cluster` makes them."""

    def __init__(self, handle: ctypes.c_void_p, n: int) -> None:
        self._handle, self._n = handle, n

    def __len__(self) -> int:
        return int(native.library().tp_clusters_count(self._handle))

    def places(self, block: int) -> Slots:
        """A number for each feature, int32 of shape (n,), a permutation.

        Clusters are contiguous, and no cluster that fits into a block crosses the end of one.
        """
        places = np.empty(self._n, np.int32)
        lib = native.library()
        native.check(lib.tp_clusters_place(self._handle, block, places.ctypes.data))
        return places


def by_frequency(counts: NDArray[np.uint32]) -> Slots:
    """Numbers features by falling count, ties by rising feature; int32 of shape (n,)."""
    places = np.empty(len(counts), np.int32)
    places[np.argsort(-counts.astype(np.int64), kind="stable")] = np.arange(len(counts))
    return places


def choose_size(chunks: SparseRows, cost: Cost, most: float) -> tuple[int, float]:
    """The block size with the least cost per chunk, and the mean number of blocks per chunk with
    it.

    chunks: a row per chunk with the numbers that it requests, rising and distinct; most: limit on
    the features in the blocks of a chunk; the smallest size is taken if all exceed it.
    """
    numbers, n = chunks.row_numbers(), max(1, len(chunks))
    pairs = {size: count_requests(numbers, chunks.ids, size) / n for size in SIZES}
    fitting = [size for size in SIZES if pairs[size] * size <= most] or [SIZES[0]]
    best = min(fitting, key=lambda size: pairs[size] * cost.of(size))
    return best, pairs[best]
