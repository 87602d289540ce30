"""Pairs of a chunk of rows and a feature in a range of ids, and the routes of their weights."""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kvstore import native
from tuskml.kvstore.native import Ids, address

Counts = NDArray[np.uint32]
Array = NDArray[np.int32]
LINKED_AT_ONCE = 1 << 15
"""Ids in a table that stays in a core's cache."""


@dataclass(frozen=True)
class Range:
    """All pairs with ids low .. low + width - 1, of C chunks.

    ids: int32 of shape (n,), those of each chunk rising, one chunk after the other; lengths: int64
    of shape (C,), how many each chunk has. `around`, uint32 of shape (n,), is for each pair the
    chunk that has its id before it, and 2^16 times the one after it.
    """

    ids: Array
    lengths: Ids
    low: int
    width: int

    def linked(self, around: Counts) -> None:
        """Computes `around` with a table of the ids."""
        table = np.empty((min(self.width, LINKED_AT_ONCE), 3), np.uint32)
        next_ = np.empty(len(self.lengths), np.int64)
        native.library().ks_route_linked(
            ctypes.byref(self._native()),
            address(table),
            len(table),
            address(next_),
            address(around),
        )

    def sorted(self, around: Counts, scratch: NDArray[np.uint64]) -> None:
        """Computes `around` by a sort, for sparse ids; scratch: of shape (n,)."""
        ends = np.cumsum(self.lengths)
        scratch[:] = self.ids
        scratch <<= np.uint64(16)
        for j in np.flatnonzero(self.lengths).tolist():
            scratch[int(ends[j] - self.lengths[j]) : int(ends[j])] |= np.uint64(j)
        scratch.sort()  # by id, then by chunk
        next_ = ends - self.lengths
        arguments = address(scratch), len(scratch), address(next_), address(around)
        native.library().ks_route_neighbours(*arguments)

    def tally(self, around: Counts, takes: Counts) -> None:
        """Adds the number of weights that each chunk takes over from each to takes, (C, C)."""
        native.library().ks_route_tally(
            ctypes.byref(self._native()), address(around), address(takes)
        )

    def resting(self, around: Counts) -> tuple[Array, Counts]:
        """Ids of the features that rest with their chunk between passes, by chunk, and counts
        (C,).

        They overwrite all ids.
        """
        counts = np.empty(len(self.lengths), np.uint32)
        n = native.library().ks_route_rests(
            ctypes.byref(self._native()), address(around), address(counts)
        )
        return self.ids[:n], counts

    def by_id(self, weights: NDArray[Any], most: int) -> Iterator[tuple[Ids, NDArray[np.float32]]]:
        """Yields (ids, weights) of nonzero weights by rising id, as arrays that share blocks of
        ids.

        weights: 4 bytes each, shape (n,). At most `most` + LINKED_AT_ONCE pairs at a time, of
        whole blocks of LINKED_AT_ONCE ids.
        """
        ends = np.cumsum(self.lengths)
        next_ = np.stack([ends - self.lengths, ends])
        table, room = np.empty(LINKED_AT_ONCE, np.uint32), most + LINKED_AT_ONCE
        ids, values = np.empty(room, np.int64), np.empty(room, np.float32)
        range_ = self._native()
        rest = native.Rest(
            ctypes.addressof(range_),
            address(weights),
            address(next_),
            address(table),
            len(table),
            room,
        )
        by_id = native.library().ks_route_by_id
        while n := by_id(ctypes.byref(rest), address(ids), address(values)):
            yield ids[:n].copy(), values[:n].copy()

    def _native(self) -> native.Range:
        ids, lengths = address(self.ids), address(self.lengths)
        return native.Range(ids, lengths, len(self.lengths), self.low, self.width)
