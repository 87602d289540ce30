"""The order of rare features that the cache does not hold: those that occur together share blocks.

Frequent features are in memory whatever the order; features that one chunk of rows has for itself
lie by chunk already (`by_chunks`). This is about all others: by affinity, by frequency or by id,
and in blocks of which size (`partitioner.affinity`).
"""

import os
import tempfile
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.segments import sparse_segments
from tuskml.kvstore import StoreRoot
from tuskml.learners.stored.layout import Arranged
from tuskml.partitioner import Cost, LiveFeatures, SparseRows
from tuskml.partitioner.affinity import (
    MARKED_ROWS,
    MOST_RELATED,
    Related,
    Togetherness,
    by_frequency,
    choose_size,
    togetherness,
)
from tuskml.partitioner.native import Slots

Ids = NDArray[np.int64]
PIECE_ROWS = 64
SHARE, LEAST_ENTRIES = 1 / 20, 100_000
SIZED_CHUNKS = 4
IN_A_FILE = 64 << 20
"""Bytes from which sketches are in a file that the system pages, not on the heap."""
GAIN = 0.9
"""An order is taken if its cost per chunk is below so much of that by id."""


class Arranging:
    """Finds the order for the rows of one group.

    rows: in a chunk; most: numbers that the blocks of a chunk may hold; mark: the training's
    `cancel_count`.
    """

    def __init__(
        self, group: np.void, live: LiveFeatures, rows: int, most: int, mark: int
    ) -> None:
        assert live.order is not None
        self.group, self.live, self.rows, self.most = group, live, rows, most
        self.n_shared, self._mark = live.order.n_shared, mark

    def __call__(
        self, layout: str, cost: Callable[[], Cost], root: StoreRoot | None = None
    ) -> Arranged:
        """Arranges the features.

        layout: one of option `layout`, except "paper", which is no order; cost: called if needed;
        root: the folder of large sketches, None for the heap.
        """
        if layout == "auto":
            return self._best(cost, root)
        if layout == "affinity" and self.n_shared <= MOST_RELATED:
            places, size, _ = self._by_affinity(cost(), root)
            return Arranged(self.live.ordered(places), size, "by affinity")
        if layout == "frequency":
            places = by_frequency(self._related(root).counts())
            return Arranged(self.live.ordered(places), self._sized(places, cost())[0], layout)
        size, _ = self._sized(np.arange(self.n_shared, dtype=np.int32), cost())
        return Arranged(self.live, size, "by id")

    def _best(self, cost: Callable[[], Cost], root: StoreRoot | None) -> Arranged:
        """Arranges features by affinity where that lowers the cost."""
        if self.n_shared > MOST_RELATED:
            return Arranged(self.live, None, f"by id, more than {MOST_RELATED:,} are shared")
        found = self.togetherness()
        if not found.found:
            return Arranged(self.live, None, f"by id, as no affinity was found: {found}")
        places, size, asked = self._by_affinity(cost(), root)
        before, by_id = self._sized(np.arange(self.n_shared, dtype=np.int32), cost())
        if asked * cost().of(size) > GAIN * by_id * cost().of(before):
            return Arranged(self.live, None, f"by id, which affinity does not better: {found}")
        told = f"by affinity, as {found}: {asked:,.0f} blocks per chunk, by id {by_id:,.0f}"
        return Arranged(self.live.ordered(places), size, told)

    def togetherness(self) -> Togetherness:
        """Estimates the affinity of shared features from a small part of the rows."""
        marked, further = self._samples()
        empty = SparseRows(np.zeros(1, np.int64), np.zeros(0, np.int64))
        return togetherness(_joined(marked) if marked else empty, further)

    def _by_affinity(self, cost: Cost, root: StoreRoot | None) -> tuple[Slots, int, float]:
        """Numbers, block size, and blocks per chunk."""
        related = self._related(root)
        with related.clustered(cost, self._check) as clusters:
            size, _ = self._sized(clusters.places(1), cost)
            places = clusters.places(size)
        return places, size, self._sized(places, cost, size)[1]

    def _related(self, root: StoreRoot | None) -> Related:
        related = Related(self.n_shared, self.rows, lambda size: scratch(root, size))
        for starts, ids in sparse_segments(self.group):
            self._check()
            rows = SparseRows(starts.astype(np.int64), self.live.number(ids))
            related.update(rows)
        return related

    def _sized(self, places: Slots, cost: Cost, size: int = 0) -> tuple[int, float]:
        """Block size and blocks per chunk, by some chunks; size: where it is known."""
        chunks = _joined(
            [
                SparseRows(np.array([0, len(one)]), one.astype(np.int64))
                for one in (np.unique(places[numbers]) for numbers in self._chunks())
            ]
        )
        if not size:
            return choose_size(chunks, cost, self.most)
        asked = SparseRows(chunks.starts, chunks.ids // size).distinct()
        return size, len(asked.ids) / max(1, len(chunks))

    def _chunks(self) -> list[Ids]:
        """Shared features of some chunks."""
        if self._kept is None:
            n = -(-int(self.group["n_rows"]) // self.rows)
            which = set(np.linspace(0, n - 1, min(n, SIZED_CHUNKS)).round().astype(int).tolist())
            parts: dict[int, list[Ids]] = {number: [] for number in sorted(which)}
            for first, rows in self._pieces(self.rows):
                if (number := first // self.rows) in parts:
                    parts[number].append(np.unique(self._shared(rows).ids))
            self._kept = [np.unique(np.concatenate(some)) for some in parts.values() if some]
        return self._kept

    _kept: list[Ids] | None = None

    def _samples(self) -> tuple[list[SparseRows], Iterator[SparseRows]]:
        """Single rows, and pieces of others."""
        n_rows, entries = int(self.group["n_rows"]), self._entries()
        n_pieces = max(1, n_rows // PIECE_ROWS)
        every = max(1, n_pieces // MARKED_ROWS)
        share = max(SHARE, min(1.0, LEAST_ENTRIES / max(1, entries)))
        step = max(1, int(1 / share))
        marked: list[SparseRows] = []
        further: list[SparseRows] = []
        for number, (_, rows) in enumerate(self._pieces(PIECE_ROWS)):
            if number % every and number % step:
                continue
            mark = number % every == 0 and len(rows) > 0
            shared = self._shared(rows if number % step == 0 else _part(rows, 0, 1))
            if mark:
                marked.append(_part(shared, 0, 1))
            if number % step == 0:
                further.append(_part(shared, int(mark), len(shared)))
        return marked, iter(further)

    def _pieces(self, rows: int) -> Iterator[tuple[int, SparseRows]]:
        """First row, and neighbouring rows of the group, cut where segments or `rows` end."""
        before = 0
        for starts, ids in sparse_segments(self.group):
            self._check()
            first, n = 0, len(starts) - 1
            while first < n:
                end = min(n, first + rows - (before + first) % rows)
                some = starts[first : end + 1].astype(np.int64)
                yield (
                    before + first,
                    SparseRows(some - some[0], ids[some[0] : some[-1]].astype(np.int64)),
                )
                first = end
            before += n

    def _shared(self, rows: SparseRows) -> SparseRows:
        """The rows' features that several chunks share, by number."""
        numbers = SparseRows(rows.starts, self.live.number(rows.ids))
        return numbers.only(numbers.ids < self.n_shared)

    def _entries(self) -> int:
        return sum(len(ids) for _, ids in sparse_segments(self.group))

    def _check(self) -> None:
        passes.raise_if_cancelled(self._mark)


def _part(rows: SparseRows, first: int, end: int) -> SparseRows:
    """A range of neighbouring rows."""
    starts = rows.starts[first : end + 1]
    return SparseRows(starts - starts[0], rows.ids[starts[0] : starts[-1]])


def _joined(rows: list[SparseRows]) -> SparseRows:
    lengths = np.concatenate([np.diff(one.starts) for one in rows])
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return SparseRows(starts, np.concatenate([one.ids for one in rows]))


def scratch(root: StoreRoot | None, size: int) -> NDArray[np.uint8]:
    """Bytes: large ones in an unlinked file in the root, which takes no memory for good."""
    if root is None or size < IN_A_FILE:
        return np.empty(size, np.uint8)
    os.makedirs(root.path, exist_ok=True)
    with tempfile.TemporaryFile(dir=root.path) as file:
        file.truncate(size)
        return np.memmap(file, np.uint8, "r+", shape=(size,)).view(np.ndarray)
