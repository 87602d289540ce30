"""The offline stage of a stored model: which features share a key (the paper's section 5)."""

import functools
import itertools
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
from tuskml.partitioner import WARM_LEVELDB, Cost, IndexMap, LiveFeatures, Profile
from tuskml.partitioner.index_map import Blocks
from tuskml.partitioner.live import MOST_GROUPS, MOST_IDS, WINDOW, Part

Ids = NDArray[np.int64]
SAMPLE_ROWS = 10_000
SAMPLE_ENTRIES = 4_000_000
FEWEST_BATCHES = 32
PIECE_ROWS = 256
SMALL_BLOCK, WEIGHT_BYTES = 64, 4


@dataclass(frozen=True)
class Arranged:
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
    arranged: Arranged,
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
    for starts, ids in sampled(group):
        passes.raise_if_cancelled(mark)
        profile.update(starts, ids)
    rows = min(profile.sample.seen, SAMPLE_ROWS)
    batch = max(1, min(rows_per_chunk, rows // FEWEST_BATCHES))
    made = profile.partition(
        cost_for(options, root, arranged.live, arranged.several),
        block=arranged.block,
        batch_rows=batch,
        most=most,
        live=arranged.live,
        interrupted=lambda: passes.raise_if_cancelled(mark),
    )
    return bounded(made.index, arranged.several)


def bounded(index: IndexMap, several: int) -> IndexMap:
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


def given_layout(
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
        return bounded(root.partitioning(options.partition), several)
    if not options.partition:
        return IndexMap.by_rule(1)
    if options.layout == "paper":
        return choose_layout(
            group, options, root, 1, MOST_IDS, Arranged(None, 1, several=several), mark
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
    cost = WARM_LEVELDB if options.ordered or root is None else cost_of(root.path, writes=writes)
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
        return measured_cost(root, most, writes)
    except StoreError:
        return WARM_LEVELDB


@functools.lru_cache(maxsize=16)
def measured_cost(root: Path, most: int, writes: bool) -> Cost:
    """Measures the cost; raises StoreError if that is impossible."""
    return measure_store(root, most=most, writes=writes)


def sampled(group: np.void) -> Iterator[tuple[Ids, Ids]]:
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
