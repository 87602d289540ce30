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


class Shelves:
    """Memory for the weights of ranges while they are put in order: made once, as what is taken
    and freed for each range would stay with the process, or cost its pages again.
    """

    def __init__(self, most: int) -> None:
        """most: weights of a range."""
        self._ids, self._weights = np.empty((2, most), np.int32), np.empty((2, most), np.float32)
        self._table = np.empty(DENSE * most, np.float32)

    def of(self, number: int, n: int) -> tuple[Array, Array]:
        """Room for n ids and weights of a range; those of the range before stay."""
        return self._ids[number % 2, :n], self._weights[number % 2, :n]

    def parts(self, of: Resting, ids: Array, weights: Array) -> Pairs:
        """(ids, weights) by rising id, in parts of about PART_WEIGHTS; those given are spoilt."""
        low, width = of.low, of.width
        parts = max(1, min(len(ids) // PART_WEIGHTS, width >> GRAIN_BITS))
        cuts = (low + width * np.arange(1, parts) // parts) >> GRAIN_BITS << GRAIN_BITS
        if width <= DENSE * len(ids):
            table = self._table[:width]
            table[:] = 0
            yield from _by_table(ids, weights, low, table, cuts)
        else:
            yield from _by_sort(ids, weights, cuts)


def _by_table(ids: Array, weights: Array, low: int, table: Array, cuts: Ids) -> Pairs:
    ids -= low
    table[ids] = weights
    for begin, end in pairwise([0, *(cuts - low).tolist(), len(table)]):
        part = table[begin:end]
        there = np.flatnonzero(part.view(np.uint32))
        yield there + (low + begin), part[there]


def _by_sort(ids: Array, weights: Array, cuts: Ids) -> Pairs:
    pairs = ids.astype(np.uint64)
    pairs <<= np.uint64(32)
    pairs |= weights.view(np.uint32)
    pairs.sort()
    for part in np.split(pairs, np.searchsorted(pairs, cuts.astype(np.uint64) << np.uint64(32))):
        yield (part >> np.uint64(32)).astype(np.int64), part.astype(np.uint32).view(np.float32)
