"""The offline stage of a stored model: which features share a key (the paper's section 5)."""

import functools
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError, StoreError
from tuskml.kernels import passes
from tuskml.kernels.segments import sparse_segments
from tuskml.kvstore import StoreRoot, measure_store
from tuskml.kvstore.database import LARGEST_PARTITION
from tuskml.kvstore.frames import frame_bytes, frame_share
from tuskml.learners.options.table import Options
from tuskml.partitioner import WARM_LEVELDB, Cost, IndexMap, LiveFeatures, Profile, SparseRows
from tuskml.partitioner.affinity import (
    MARKED_ROWS,
    MOST_RELATED,
    FeatureSketches,
    Togetherness,
    by_frequency,
    choose_size,
    togetherness,
)
from tuskml.partitioner.index_map import Blocks
from tuskml.partitioner.live import MOST_GROUPS, MOST_IDS, WINDOW, Part
from tuskml.partitioner.native import Slots

Ids = NDArray[np.int64]
SAMPLE_ROWS = 10_000
SAMPLE_ENTRIES = 4_000_000
FEWEST_BATCHES = 32
PIECE_ROWS = 256
SMALL_BLOCK, WEIGHT_BYTES = 64, 4


@dataclass(frozen=True)
class Arrangement:
    """live: the features that occur, None for all ids; block: features per block, None to choose
    by a sample; told: the order of features and its reason, in words; several: weights of a
    feature.
    """

    live: LiveFeatures | None
    block: int | None = None
    told: str = ""
    several: int = 1


def choose_layout(
    group: np.void,
    options: Options,
    root: StoreRoot | None,
    rows_per_chunk: int,
    most: int,
    arranged: Arrangement,
    mark: int,
) -> IndexMap:
    """Chooses the index map for the rows of a group (passes.GROUP).

    The frequent features share keys by Algorithm 3 and all others are in blocks. A store is read
    once a chunk of rows, so chunks of the sample, not single rows, are the requests; most:
    features that a chunk may hold; arranged: `live_features`, `by_chunks` or `Arranging`; mark:
    the training's `cancel_count`. If bits must be reproducible, or root is None, costs are not
    measured.
    """
    assert isinstance(options.partition, int)
    top = min(options.partition, LARGEST_PARTITION // WEIGHT_BYTES // arranged.several)
    profile = Profile(top, SAMPLE_ROWS, options.seed)
    for starts, ids in sample_rows(group):
        passes.raise_if_cancelled(mark)
        profile.update(starts, ids)
    rows = min(profile.sample.rows_seen, SAMPLE_ROWS)
    batch = max(1, min(rows_per_chunk, rows // FEWEST_BATCHES))
    made = profile.partition(
        cost_for(options, root, arranged.live, arranged.several),
        block=arranged.block,
        batch_rows=batch,
        most=most,
        live=arranged.live,
        interrupted=lambda: passes.raise_if_cancelled(mark),
    )
    return bound_blocks(made.index, arranged.several)


def bound_blocks(index: IndexMap, several: int) -> IndexMap:
    """The index with blocks so small that a key has at most LARGEST_PARTITION bytes of weights, if
    features have several.

    Raises OptionError if a partition of frequent features has more.
    """
    most = LARGEST_PARTITION // WEIGHT_BYTES // several
    if several == 1:
        return index
    if (largest := int(np.bincount(index.partition).max(initial=0))) > most:
        raise OptionError(
            f"a key of the partitioning has {largest} features, expected at most {most} for a "
            f"model of {several} classes: make another with a smaller 'partition'"
        )
    wide, rule = 1 << (most.bit_length() - 1), index.blocks
    blocks = Blocks(rule.widths, tuple(min(size, wide) for size in rule.sizes))
    return IndexMap(index.features, index.partition, blocks, index.live)


def option_layout(
    group: np.void, options: Options, root: StoreRoot | None, mark: int, several: int = 1
) -> IndexMap | None:
    """The layout that options alone determine: a key each, a saved partitioning, or the paper's
    KV-VP (Algorithm 3 on sampled rows, a key for each other feature). None: choose the best.
    """
    if isinstance(options.partition, str):
        if root is None:
            raise StoreError("there is no directory of stores here")
        if "layout" in options.given:
            raise OptionError(
                f"option 'layout' is {options.layout!r}, but partitioning {options.partition!r} "
                "says already which features share a key: leave one of them out"
            )
        return bound_blocks(root.partitioning(options.partition), several)
    if not options.partition:
        return IndexMap.by_rule(1)
    if options.layout == "paper":
        return choose_layout(
            group, options, root, 1, MOST_IDS, Arrangement(None, 1, several=several), mark
        )
    return None


def cost_for(
    options: Options, root: StoreRoot | None, live: LiveFeatures | None, several: int = 1
) -> Cost:
    """The cost of a request, measured unless bits must be reproducible, or root is None; several:
    weights of a feature.
    """
    # The cache does not hold features that are ordered: a key is written before it is read again.
    writes = live is not None and live.order is not None
    cost = (
        WARM_LEVELDB if options.keeps_order or root is None else cost_of(root.path, writes=writes)
    )
    return Cost(cost.t_seek, cost.t_unit * several)


def live_features(
    group: np.void, known: Callable[[], Iterable[Ids]], dimension: int, cache: int, mark: int
) -> LiveFeatures | None:
    """The features of the rows of a group and those known before, all below `dimension`.

    None where to remember which they are, two bytes each or a bit for each that could be, takes
    more than the cache does.
    """
    if dimension > MOST_IDS:
        return None

    def parts() -> Iterator[NDArray[np.int32]]:
        for _, ids in sparse_segments(group):
            passes.raise_if_cancelled(mark)
            yield ids
        for more in known():
            yield more.astype(np.int32)

    live = LiveFeatures.of(parts, dimension, max(WINDOW, cache & -WINDOW))
    return live if live.nbytes <= cache else None


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


def all_fit(n_features: int, top: int, cache: int, several: int = 1) -> bool:
    """Returns whether the cache holds the frames of `n_features` features, of several weights
    each, in full blocks that are not small, and of `top` partitions.
    """
    block, one = (frame_bytes(n * several, WEIGHT_BYTES) for n in (SMALL_BLOCK, 1))
    return (n_features // SMALL_BLOCK + 1) * block + top * one <= frame_share(cache, 1)


def describe_layout(index: IndexMap) -> str:
    """Describes the layout for the model's `plan`."""
    if not index.n_partitions:
        return f"KV: features in {index.blocks}"
    frequent = f"{len(index.features)} features in {index.n_partitions} keys"
    return f"KV-VP: {frequent}, others in {index.blocks}"


def bytes_of_all(index: IndexMap, several: int = 1) -> int:
    """Returns the bytes of all frames of an index map of live features with several weights; 0 for
    another.
    """
    if index.live is None:
        return 0
    sizes, counts = index.widths()
    return sum(
        int(count) * frame_bytes(int(size) * several, WEIGHT_BYTES)
        for size, count in zip(sizes, counts, strict=True)
    )


def cost_of(root: Path, most: int = 1 << 23, writes: bool = False) -> Cost:
    """The cost of a request there, measured once a process; as in `measure_store`.

    The usual cost if the tens of megabytes of the measurement cannot be written: the model may
    need less, and otherwise its own store reports the error.
    """
    try:
        return measure_cost(root, most, writes)
    except StoreError:
        return WARM_LEVELDB


@functools.lru_cache(maxsize=16)
def measure_cost(root: Path, most: int, writes: bool) -> Cost:
    """Measures the cost; raises StoreError if that is impossible."""
    return measure_store(root, most=most, writes=writes)


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


# The order of rare features that the cache does not hold: those that occur together share blocks.
#
# Frequent features are in memory whatever the order; features that one chunk of rows has for
# itself lie by chunk already (`by_chunks`). This is about all others: by affinity, by frequency or
# by id, and in blocks of which size (`partitioner.affinity`).

NEIGHBOURS = 64
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
    ) -> Arrangement:
        """Arranges the features.

        layout: one of option `layout`, except "paper", which is no order; cost: called if needed;
        root: the folder of large sketches, None for the heap.
        """
        if layout == "auto":
            return self._best(cost, root)
        if layout == "affinity" and self.n_shared <= MOST_RELATED:
            places, size, _ = self._by_affinity(cost(), root)
            return Arrangement(self.live.with_order(places), size, "by affinity")
        if layout == "frequency":
            places = by_frequency(self._relate(root).counts())
            return Arrangement(
                self.live.with_order(places), self._choose_size(places, cost())[0], layout
            )
        size, _ = self._choose_size(np.arange(self.n_shared, dtype=np.int32), cost())
        return Arrangement(self.live, size, "by id")

    def _best(self, cost: Callable[[], Cost], root: StoreRoot | None) -> Arrangement:
        """Arranges features by affinity where that lowers the cost."""
        if self.n_shared > MOST_RELATED:
            return Arrangement(self.live, None, f"by id, more than {MOST_RELATED:,} are shared")
        found = self.togetherness()
        if not found.pays:
            return Arrangement(self.live, None, f"by id, as no affinity was found: {found}")
        places, size, asked = self._by_affinity(cost(), root)
        before, by_id = self._choose_size(np.arange(self.n_shared, dtype=np.int32), cost())
        if asked * cost().of(size) > GAIN * by_id * cost().of(before):
            return Arrangement(self.live, None, f"by id, which affinity does not better: {found}")
        told = f"by affinity, as {found}: {asked:,.0f} blocks per chunk, by id {by_id:,.0f}"
        return Arrangement(self.live.with_order(places), size, told)

    def togetherness(self) -> Togetherness:
        """Estimates the affinity of shared features from a small part of the rows."""
        marked, further = self._samples()
        empty = SparseRows(np.zeros(1, np.int64), np.zeros(0, np.int64))
        return togetherness(_join_rows(marked) if marked else empty, further)

    def _by_affinity(self, cost: Cost, root: StoreRoot | None) -> tuple[Slots, int, float]:
        """Numbers, block size, and blocks per chunk."""
        related = self._relate(root)
        with related.cluster(cost, self._check) as clusters:
            size, _ = self._choose_size(clusters.places(1), cost)
            places = clusters.places(size)
        return places, size, self._choose_size(places, cost, size)[1]

    def _relate(self, root: StoreRoot | None) -> FeatureSketches:
        related = FeatureSketches(self.n_shared, self.rows, lambda size: scratch(root, size))
        for starts, ids in sparse_segments(self.group):
            self._check()
            rows = SparseRows(starts.astype(np.int64), self.live.number(ids))
            related.update(rows)
        return related

    def _choose_size(self, places: Slots, cost: Cost, size: int = 0) -> tuple[int, float]:
        """Block size and blocks per chunk, by some chunks; size: where it is known."""
        chunks = _join_rows(
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
                    parts[number].append(np.unique(self._shared_features(rows).ids))
            self._kept = [np.unique(np.concatenate(some)) for some in parts.values() if some]
        return self._kept

    _kept: list[Ids] | None = None

    def _samples(self) -> tuple[list[SparseRows], Iterator[SparseRows]]:
        """Single rows, and pieces of others."""
        n_rows, entries = int(self.group["n_rows"]), self._entries()
        n_pieces = max(1, n_rows // NEIGHBOURS)
        every = max(1, n_pieces // MARKED_ROWS)
        share = max(SHARE, min(1.0, LEAST_ENTRIES / max(1, entries)))
        step = max(1, int(1 / share))
        marked: list[SparseRows] = []
        further: list[SparseRows] = []
        for number, (_, rows) in enumerate(self._pieces(NEIGHBOURS)):
            if number % every and number % step:
                continue
            mark = number % every == 0 and len(rows) > 0
            shared = self._shared_features(rows if number % step == 0 else _part(rows, 0, 1))
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

    def _shared_features(self, rows: SparseRows) -> SparseRows:
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
