"""The offline stage of method `kv-vp`: which features share a key (the paper's section 5).

Qin, Torres, Rusu, *Scalable Asynchronous Gradient Descent Optimization for Out-of-Core Models*,
VLDB 2017. All features may share keys, those that occur together by default; or only the K most
frequent ones do, by Algorithm 3.
"""

import itertools
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import StoreError
from tuskml.kernels import passes
from tuskml.kernels.segments import sparse_segments
from tuskml.kvstore import StoreRoot
from tuskml.kvstore.database import LARGEST_PARTITION
from tuskml.learners.machine import constants
from tuskml.learners.options.table import Options
from tuskml.learners.stored.layout import WEIGHT_BYTES, bound_blocks
from tuskml.partitioner import WARM_LEVELDB, Cost, IndexMap, LiveFeatures, Profile, SparseRows
from tuskml.partitioner.affinity import (
    MOST_RELATED,
    FeatureSketches,
    by_frequency,
    choose_size,
)
from tuskml.partitioner.index_map import Blocks
from tuskml.partitioner.live import MOST_GROUPS, Part
from tuskml.partitioner.native import Slots

Ids = NDArray[np.int64]
SAMPLE_ROWS = 10_000
SAMPLE_ENTRIES = 4_000_000
FEWEST_BATCHES = 32
PIECE_ROWS = 256


@dataclass(frozen=True)
class Arrangement:
    """live: the features that occur, in order; block: features per block; told: the order and its
    reason, in words.
    """

    live: LiveFeatures
    block: int
    told: str

    @property
    def index(self) -> IndexMap:
        """The index map of these blocks."""
        return IndexMap.by_rule(Blocks.of(self.block).of_live(self.live), self.live)


def sampled_layout(
    group: np.void,
    options: Options,
    top: int,
    block: int | None,
    batch_rows: int,
    most: float,
    mark: int,
    several: int = 1,
) -> IndexMap:
    """The index map by a sample of the rows of a group (passes.GROUP): the `top` most frequent
    features share keys by Algorithm 3, all others are in blocks of `block` neighbours by id, or
    of the cheapest size.

    batch_rows: that are one request, as a store is read once a chunk of rows; most: features that
    a chunk may hold; mark: the training's `cancel_count`; several: weights of a feature.
    """
    top = min(top, LARGEST_PARTITION // WEIGHT_BYTES // several)
    profile = Profile(top, SAMPLE_ROWS, options.seed)
    for starts, ids in sample_rows(group):
        passes.raise_if_cancelled(mark)
        profile.update(starts, ids)
    rows = min(profile.sample.rows_seen, SAMPLE_ROWS)
    made = profile.partition(
        cost_for(options, several),
        block=block,
        batch_rows=max(1, min(batch_rows, rows // FEWEST_BATCHES)),
        most=most,
        interrupted=lambda: passes.raise_if_cancelled(mark),
    )
    return bound_blocks(made.index, several)


def option_layout(
    group: np.void, options: Options, root: StoreRoot | None, mark: int, several: int = 1
) -> IndexMap | None:
    """The layout that options alone determine: a key each, a saved partitioning, or that of the
    paper (Algorithm 3 on sampled rows, a key for each other feature). None: all features may share
    keys.
    """
    if options.method == "kv" or options.partition == 0:
        return IndexMap.by_rule(1)
    if isinstance(options.partition, str):
        if root is None:
            raise StoreError("there is no directory of stores here")
        return bound_blocks(root.partitioning(options.partition), several)
    if options.partition is None:
        return None
    return sampled_layout(group, options, options.partition, 1, 1, np.inf, mark, several)


def cost_for(options: Options, several: int = 1) -> Cost:
    """The cost of a request: as `tuskml calibrate` measured it, unless bits must be reproducible,
    or LevelDB's usual one; several: weights of a feature.
    """
    known = None if options.keeps_order else constants.of_host().store
    cost = WARM_LEVELDB if known is None else Cost(*known)
    return Cost(cost.t_seek, cost.t_unit * several)


def by_chunks(live: LiveFeatures, group: np.void, rows: int, mark: int) -> LiveFeatures:
    """The features in the order of the chunks of `rows` rows, or of several of them together, that
    request them.
    """
    n_chunks = -(-int(group["n_rows"]) // rows)
    each = rows * -(-n_chunks // MOST_GROUPS)

    def ids_of(parts: Iterator[tuple[int, Part]]) -> Iterator[Part]:
        for _, ids in parts:
            passes.raise_if_cancelled(mark)
            yield ids

    groups = itertools.groupby(_by_rows(group, each), key=lambda part: part[0])
    return live.by_groups(ids_of(parts) for _, parts in groups)


def _by_rows(group: np.void, each: int) -> Iterator[tuple[int, Part]]:
    """Number and ids, in parts, of every few rows of a group."""
    row = 0
    for starts, ids in sparse_segments(group):
        first, n = 0, len(starts) - 1
        while first < n:
            number = (row + first) // each
            end = min(n, (number + 1) * each - row)
            yield number, ids[starts[first] : starts[end]]
            first = end
        row += n


def sample_rows(group: np.void) -> Iterator[tuple[Ids, Ids]]:
    """(indptr, ids) of pieces spread over the rows: about SAMPLE_ENTRIES entries of them."""
    total = sum(len(ids) for _, ids in sparse_segments(group))
    stride = max(1, total // SAMPLE_ENTRIES)
    number = -1
    for starts, ids in sparse_segments(group):
        for first in range(0, len(starts) - 1, PIECE_ROWS):
            number += 1
            if number % stride:
                continue
            indptr = starts[first : first + PIECE_ROWS + 1].astype(np.int64)
            yield indptr - indptr[0], ids[indptr[0] : indptr[-1]].astype(np.int64)


# The order of features in blocks of keys: those that occur together share blocks.
#
# Features that one chunk of rows has for itself lie by chunk already (`by_chunks`). This is about
# all others: by affinity, by frequency or by id, and in blocks of which size
# (`partitioner.affinity`).

SIZED_CHUNKS = 4
IN_A_FILE = 64 << 20
"""Bytes from which sketches are in a file that the system pages, not on the heap."""


class Arranging:
    """Finds the order for the rows of one group.

    rows: in a chunk; most: numbers that the blocks of a chunk may hold; cost: of a request; mark:
    the training's `cancel_count`; root: the folder of large sketches, None for the heap; chunks:
    the features of some chunks, None for those of chunks spread over the rows.
    """

    def __init__(
        self,
        group: np.void,
        live: LiveFeatures,
        rows: int,
        most: float,
        cost: Cost,
        mark: int,
        root: StoreRoot | None = None,
        chunks: SparseRows | None = None,
    ) -> None:
        assert live.order is not None
        self.group, self.live, self.rows, self.most, self.cost = group, live, rows, most, cost
        self.n_shared, self._mark, self._root = live.order.n_shared, mark, root
        self._requests = self._chunks() if chunks is None else self._shared_features(chunks)

    def __call__(self, layout: str, block: int | None = None) -> Arrangement:
        """Arranges the features.

        layout: one of option `layout`; with affinity ids decide where they cost less; block:
        features per block, None for the cheapest size.
        """
        by_id = np.arange(self.n_shared, dtype=np.int32)
        if layout == "frequency":
            places = by_frequency(self._relate().counts())
            size, _ = self._choose_size(places, block)
            return Arrangement(self.live.with_order(places), size, "by frequency")
        size, requests = self._choose_size(by_id, block)
        if layout == "id":
            return Arrangement(self.live, size, "by id")
        if self.n_shared > MOST_RELATED:
            told = f"by id, as more than {MOST_RELATED:,} features are shared"
            return Arrangement(self.live, size, told)
        with self._relate().cluster(self.cost, self._check) as clusters:
            other, _ = self._choose_size(clusters.places(1), block)
            places = clusters.places(other)
        _, fewer = self._choose_size(places, other)
        if fewer * self.cost.of(other) >= requests * self.cost.of(size):
            told = f"by id, which costs less than affinity: {requests:,.1f} blocks per chunk"
            return Arrangement(self.live, size, told)
        told = f"by affinity: {fewer:,.1f} blocks per chunk, by id {requests:,.1f}"
        return Arrangement(self.live.with_order(places), other, told)

    def _relate(self) -> FeatureSketches:
        """Sketches of the shared features."""
        memory = lambda size: scratch(self._root, size)  # noqa: E731
        related = FeatureSketches(self.n_shared, self.rows, memory)
        for starts, ids in sparse_segments(self.group):
            self._check()
            rows = SparseRows(starts.astype(np.int64), self.live.number(ids))
            related.update(rows)
        return related

    def _choose_size(self, places: Slots, size: int | None) -> tuple[int, float]:
        """Block size and blocks per chunk, by some chunks; size: where it is known."""
        asked = SparseRows(self._requests.starts, places[self._requests.ids].astype(np.int64))
        asked = asked.distinct()
        if size is None:
            return choose_size(asked, self.cost, self.most)
        blocks = SparseRows(asked.starts, asked.ids // size).distinct()
        return size, len(blocks.ids) / max(1, len(asked))

    def _chunks(self) -> SparseRows:
        """Shared features of some chunks."""
        n = -(-int(self.group["n_rows"]) // self.rows)
        which = set(np.linspace(0, n - 1, min(n, SIZED_CHUNKS)).round().astype(int).tolist())
        parts: dict[int, list[Ids]] = {number: [] for number in sorted(which)}
        for number, ids in _by_rows(self.group, self.rows):
            self._check()
            if number in parts:
                one = SparseRows(np.array([0, len(ids)]), ids.astype(np.int64))
                parts[number].append(np.unique(self._shared_features(one).ids))
        found = [np.unique(np.concatenate(some)) for some in parts.values() if some]
        return _join_rows([SparseRows(np.array([0, len(one)]), one) for one in found])

    def _shared_features(self, rows: SparseRows) -> SparseRows:
        """The rows' features that several chunks share, by number."""
        numbers = SparseRows(rows.starts, self.live.number(rows.ids))
        return numbers.only(numbers.ids < self.n_shared)

    def _check(self) -> None:
        passes.raise_if_cancelled(self._mark)


def _join_rows(rows: list[SparseRows]) -> SparseRows:
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
