"""Order of rare features by affinity: features of the same rows share blocks.

The aim of Qin, Torres, Rusu (VLDB 2017, section 5) for features that are too many for a matrix of
affinities. `FeatureSketches` updates a sketch of the rows of each feature while rows pass;
`native/related.hpp` clusters features by their sketches; and the clusters are packed into blocks.
`choose_size` sizes the blocks by the requests of whole chunks of rows.

Whether rare features co-occur is tested first, on a few rows. Some are marked, and with them the
features that only one marked row has. Further rows are then searched for marked features. The two
features of a pair are *met together* if a further row has both and the same row was marked for
both. Were features independent, two hits of a row would belong to the same marked row by chance
alone; `lift` is the observed number of pairs over that expected number. `mean` is the mean number
of features of a marked row that are met at a time: for cliques of eight, eight.
"""

import ctypes
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.partitioner import native
from tuskml.partitioner.cost import Cost
from tuskml.partitioner.merging import count_requests
from tuskml.partitioner.native import Ids, Slots
from tuskml.partitioner.rows import SparseRows
from tuskml.schedule import budget

MARKED_ROWS = 256
LEAST_GROUPS = 16
LEAST_MEAN, LEAST_LIFT = 1.5, 4.0
_TABLE_BITS = 20


@dataclass(frozen=True)
class Togetherness:
    """Result of the test.

    groups: meetings of a marked and a further row; mean: features of each; lift: pairs found over
    pairs expected of independent features.
    """

    groups: int
    mean: float
    lift: float

    @property
    def pays(self) -> bool:
        """Returns whether features co-occur so often that an order by affinity pays."""
        return self.groups >= LEAST_GROUPS and self.mean >= LEAST_MEAN and self.lift >= LEAST_LIFT

    def __str__(self) -> str:
        if not self.groups:
            return "no rare feature of the sample occurs again"
        return f"{self.mean:.1f} rare features are met together, {self.lift:.3g} times chance"


def marks_of(rows: SparseRows) -> tuple[Ids, NDArray[np.int64]]:
    """Features that exactly one of the rows has, rising, and the number of that row."""
    distinct = rows.distinct()
    ids, first, counts = np.unique(distinct.ids, return_index=True, return_counts=True)
    only = counts == 1
    return ids[only], distinct.row_numbers()[first[only]].astype(np.int64)


class Marks:
    """The marked features, in a form for looking many ids up."""

    def __init__(self, rows: SparseRows) -> None:
        self.ids, self.row = marks_of(rows)
        self._table = np.zeros(1 << _TABLE_BITS, np.bool_)
        self._table[self._place(self.ids)] = True

    def meetings(self, rows: SparseRows) -> NDArray[np.int64]:
        """(further row, marked row) of each hit, shape (hits, 2)."""
        maybe = np.flatnonzero(self._table[self._place(rows.ids)])
        if not len(self.ids):
            maybe = maybe[:0]
        at = np.minimum(np.searchsorted(self.ids, rows.ids[maybe]), max(0, len(self.ids) - 1))
        hit = self.ids[at] == rows.ids[maybe] if len(maybe) else np.zeros(0, np.bool_)
        row = np.searchsorted(rows.starts, maybe[hit], side="right") - 1
        return np.stack((row, self.row[at[hit]]), axis=1)

    @staticmethod
    def _place(ids: Ids) -> Ids:
        mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (mixed >> np.uint64(64 - _TABLE_BITS)).astype(np.int64)


def togetherness(marked: SparseRows, further: Iterable[SparseRows]) -> Togetherness:
    """Tests rows.

    marked: about MARKED_ROWS rows; further: others, in parts.
    """
    marks, n_hits, n_groups, pairs, expected = Marks(marked), 0, 0, 0.0, 0.0
    of_rows = np.zeros(max(1, len(marked)), np.int64)
    pairs_of_rows = 0.0
    for part in further:
        hits_at = marks.meetings(part.distinct())
        _, each = np.unique(hits_at, axis=0, return_counts=True)
        n_hits, n_groups = n_hits + len(hits_at), n_groups + len(each)
        pairs += float((each * (each - 1)).sum())
        of_rows += np.bincount(hits_at[:, 1], minlength=len(of_rows))
        _, hits = np.unique(hits_at[:, 0], return_counts=True)
        pairs_of_rows += float((hits * (hits - 1)).sum())
    if not n_groups:
        return Togetherness(0, 0.0, 0.0)
    shares = of_rows / n_hits
    expected = pairs_of_rows * float((shares**2).sum())
    return Togetherness(n_groups, n_hits / n_groups, pairs / expected if expected else 0.0)


MOST_RELATED = 1 << 26
"""Most features of a `FeatureSketches`: 28 bytes each while rows pass, 4 afterwards."""
LARGEST_CLUSTER = 64
BINS, BINS_A_CALL = 256, 16
SIZES = tuple(1 << k for k in range(3, 15))
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
