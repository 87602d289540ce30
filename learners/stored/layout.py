"""Blocks of weights under a key: their features, their sizes, and whether the cache holds them."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels import passes
from tuskml.kernels.segments import sparse_segments
from tuskml.kvstore.database import LARGEST_PARTITION
from tuskml.kvstore.frames import frame_bytes, frame_share
from tuskml.partitioner import IndexMap, LiveFeatures
from tuskml.partitioner.index_map import Blocks
from tuskml.partitioner.live import MOST_IDS, WINDOW

Ids = NDArray[np.int64]
SMALL_BLOCK, CACHED_BLOCK, WEIGHT_BYTES = 64, 4096, 4


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


def all_fit(n_features: int, cache: int, several: int = 1) -> bool:
    """Returns whether the cache holds the frames of `n_features` features, of several weights
    each, in full blocks that are not small.
    """
    block = frame_bytes(SMALL_BLOCK * several, WEIGHT_BYTES)
    return (n_features // SMALL_BLOCK + 1) * block <= frame_share(cache, 1)


def describe_layout(index: IndexMap) -> str:
    """Describes the layout for the model's `plan`."""
    if not index.n_partitions:
        name = "KV" if set(index.blocks.sizes) == {1} else "KV-VP"
        return f"{name}: features in {index.blocks}"
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
