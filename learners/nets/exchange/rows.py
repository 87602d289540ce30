"""The rows that each worker trains on: those of its pieces, from the parts where they lie.

A group's rows are divided into pieces, and a batch has a part of each piece. The number of pieces
depends on the size of batches alone, and their gradients are added by pairs. So no bit depends on
the number of workers, as long as each of them has equally many consecutive pieces, and the number
of pieces is a power of two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.nets.pieces import RowsInUnits
from tuskml.kernels.parts.message import unpack_message

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


@dataclass(frozen=True)
class BatchRows:
    """Rows of a batch on a worker. begin: (pieces + 1,), piece by piece; pieces: (n,), the piece
    of each; total: rows of the batch on all workers.
    """

    rows: RowsInUnits
    begin: Places
    pieces: NDArray[np.intp]
    total: int


class OwnRows:
    """The rows of the pieces `own`, in the order of the parts; stride: floats of a row."""

    def __init__(self, rows: RowsInUnits, division: Division, own: range) -> None:
        self.rows, self.division, self.own = rows, division, own
        self.orders: list[Places] = []

    def arrange(self, seed: int, epoch: int | None) -> None:
        """Puts the rows of each piece in the order of an epoch; None: as they lie."""
        begin, first = self.division.begin, self.division.begin[self.own.start]
        self.orders = []
        for piece in self.own:
            n = int(self.division.sizes[piece])
            order = np.arange(n) if epoch is None else order_of(seed, epoch, piece, n)
            self.orders.append(begin[piece] - first + order)

    def batch(self, step: int) -> BatchRows:
        """The rows of a step."""
        low, high = self.division.until(step), self.division.until(step + 1)
        some = [order[low[p] : high[p]] for p, order in zip(self.own, self.orders, strict=True)]
        which, sizes = np.concatenate(some), [len(one) for one in some]
        given = self.rows
        weight = None if given.weight is None else given.weight[which]
        chosen = RowsInUnits(given.x[which], given.y[which], weight)
        begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        pieces = np.repeat(np.arange(len(some)), sizes)
        return BatchRows(chosen, begin, pieces, self.division.total(step))


def nothing(pieces: int, stride: int) -> BatchRows:
    """No rows, of `pieces` pieces."""
    rows = RowsInUnits(np.zeros((0, stride), np.float32), np.zeros(0, np.float32), None)
    return BatchRows(rows, np.zeros(pieces + 1, np.int64), np.zeros(0, np.intp), 0)


def read(
    ask: Callable[[int, bytes], bytes],
    message: bytes,
    counts: Sequence[int],
    begin: int,
    end: int,
    stride: int,
) -> RowsInUnits:
    """Reads rows `begin` to `end` of all parts concatenated; counts: rows of each part."""
    x = np.empty((end - begin, stride), np.float32)
    y = np.empty(end - begin, np.float32)
    weights: list[NDArray[np.float32]] = []
    first = 0
    for place, n in enumerate(counts):
        low, high = max(begin, first), min(end, first + n)
        if low < high:
            _, (own_x, own_y, own_weight) = unpack_message(ask(place, message))
            to, some = slice(low - begin, high - begin), slice(low - first, high - first)
            assert own_x is not None
            assert own_y is not None
            x[to], y[to] = own_x[some], own_y[some]
            if own_weight is not None:
                weights.append(own_weight[some])
        first += n
    return RowsInUnits(x, y, np.concatenate(weights) if weights else None)
