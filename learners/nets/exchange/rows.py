"""The rows that a worker trains on: those of its pieces, from the parts where they lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.nets.pieces import Places, RowsInUnits
from tuskml.kernels.parts.message import unpacked
from tuskml.learners.nets.exchange.division import Division, order_of


@dataclass(frozen=True)
class Chosen:
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

    def batch(self, step: int) -> Chosen:
        """The rows of a step."""
        low, high = self.division.until(step), self.division.until(step + 1)
        some = [order[low[p] : high[p]] for p, order in zip(self.own, self.orders, strict=True)]
        which, sizes = np.concatenate(some), [len(one) for one in some]
        given = self.rows
        weight = None if given.weight is None else given.weight[which]
        chosen = RowsInUnits(given.x[which], given.y[which], weight)
        begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        pieces = np.repeat(np.arange(len(some)), sizes)
        return Chosen(chosen, begin, pieces, self.division.total(step))


def nothing(pieces: int, stride: int) -> Chosen:
    """No rows, of `pieces` pieces."""
    rows = RowsInUnits(np.zeros((0, stride), np.float32), np.zeros(0, np.float32), None)
    return Chosen(rows, np.zeros(pieces + 1, np.int64), np.zeros(0, np.intp), 0)


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
            _, (own_x, own_y, own_weight) = unpacked(ask(place, message))
            to, some = slice(low - begin, high - begin), slice(low - first, high - first)
            assert own_x is not None
            assert own_y is not None
            x[to], y[to] = own_x[some], own_y[some]
            if own_weight is not None:
                weights.append(own_weight[some])
        first += n
    return RowsInUnits(x, y, np.concatenate(weights) if weights else None)
