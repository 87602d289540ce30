"""The weights of a range of ids by rising id: how a model leaves the chunks of rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kvstore import pages
from tuskml.kvstore.working.route_range import Range

Array = NDArray[Any]
Ids = NDArray[np.int64]
Pairs = Iterator[tuple[Ids, Array]]
PART_WEIGHTS = 1 << 17
"""Weights that are handed out together, about."""


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
    """Memory for the weights of ranges while they are put in order: 16 bytes for each."""

    def __init__(self, most: int) -> None:
        """most: weights of a range."""
        self._ids = pages.empty((2, most), np.int32)
        self._weights = pages.empty((2, most), np.float32)

    def of(self, number: int, n: int) -> tuple[Array, Array]:
        """Room for n ids and weights of a range; those of the range before stay."""
        return self._ids[number % 2, :n], self._weights[number % 2, :n]


def parts(of: Resting, ids: Array, weights: Array) -> Pairs:
    """(ids, weights) by rising id, in parts of PART_WEIGHTS at most, but for a block of ids."""
    yield from Range(ids, of.lengths, of.low, of.width).by_id(weights, PART_WEIGHTS)
