"""The weights of a range of ids by rising id: how a model leaves the chunks of rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.learners.stored.ranges import GRAIN_BITS

Array = NDArray[Any]
Ids = NDArray[np.int64]
Pairs = Iterator[tuple[Ids, Array]]
PART_WEIGHTS = 1 << 17
"""Weights that are handed out together, about."""
DENSE = 4
"""Ids for each weight up to which weights are put in order by a table of the ids."""


@dataclass(frozen=True)
class Resting:
    """Of a range, low .. low + width - 1: where those of its weights begin that rest with each
    chunk, and how many they are, both (C,).
    """

    number: int
    low: int
    width: int
    begins: Ids
    lengths: Ids


def parts_of(ids: Array, weights: Array, low: int, width: int) -> Pairs:
    """(ids, weights) by rising id, of a range of ids, in parts of about PART_WEIGHTS."""
    parts = max(1, min(len(ids) // PART_WEIGHTS, width >> GRAIN_BITS))
    cuts = (low + width * np.arange(1, parts) // parts) >> GRAIN_BITS << GRAIN_BITS
    dense = width <= DENSE * len(ids)
    yield from (_by_table if dense else _by_sort)(ids, weights, low, width, cuts)


def _by_table(ids: Array, weights: Array, low: int, width: int, cuts: Ids) -> Pairs:
    table = np.zeros(width, np.float32)
    ids -= low
    table[ids] = weights
    edges = [0, *(cuts - low).tolist(), width]
    for begin, end in pairwise(edges):
        part = table[begin:end]
        there = np.flatnonzero(part.view(np.uint32))
        yield there + (low + begin), part[there]


def _by_sort(ids: Array, weights: Array, low: int, width: int, cuts: Ids) -> Pairs:
    pairs = ids.astype(np.uint64)
    pairs <<= np.uint64(32)
    pairs |= weights.view(np.uint32)
    pairs.sort()
    for part in np.split(pairs, np.searchsorted(pairs, cuts.astype(np.uint64) << np.uint64(32))):
        yield (part >> np.uint64(32)).astype(np.int64), part.astype(np.uint32).view(np.float32)
