"""The division of a group's rows into pieces, and of pieces into batches.

A batch has a part of each piece. The number of pieces depends on the size of batches alone, and
their gradients are added by pairs. So no bit depends on the number of workers, as long as each of
them has equally many consecutive pieces, and the number of pieces is a power of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
MOST_PIECES = 16
AT_ONCE = 4096
"""Rows of a batch, at least, if only losses are computed."""


def pieces_of(batch: int) -> int:
    """The largest power of two that is at most the rows of a batch and `MOST_PIECES`."""
    return min(MOST_PIECES, 1 << (batch.bit_length() - 1))


@dataclass(frozen=True)
class Division:
    """n: rows in all; batch: rows of a batch, about; pieces: of each batch."""

    n: int
    batch: int
    pieces: int

    @cached_property
    def begin(self) -> Places:
        """(pieces + 1,), the first row of each piece, in the order of the parts."""
        return self.n * np.arange(self.pieces + 1, dtype=np.int64) // self.pieces

    @cached_property
    def sizes(self) -> Places:
        """(pieces,), the rows of each."""
        return np.diff(self.begin)

    @cached_property
    def steps(self) -> int:
        """Batches of an epoch."""
        return -(-self.n // self.batch)

    def until(self, step: int) -> Places:
        """(pieces,), how many rows of each piece the batches before this step have.

        Pieces take turns in having a row more, so that batches are about equal.
        """
        turn = np.arange(self.pieces, dtype=np.int64) * self.steps // self.pieces
        return (self.sizes * step + turn) // self.steps

    def total(self, step: int) -> int:
        """Rows of the batch of a step."""
        return int((self.until(step + 1) - self.until(step)).sum())

    def own(self, rank: int, workers: int) -> range:
        """The pieces of a worker."""
        each = self.pieces // workers
        return range(rank * each, (rank + 1) * each)


def order_of(seed: int, epoch: int, piece: int, n: int) -> Places:
    """The rows of a piece in the order of an epoch."""
    return np.random.default_rng((seed & (2**64 - 1), epoch, piece)).permutation(n)
