"""For each feature of a chunk of rows the chunks that have it before and after, range by range."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kvstore import pages
from tuskml.kvstore.working.records import Records, ahead
from tuskml.kvstore.working.route_range import Range
from tuskml.learners.stored.ranges import Ranges, Some, is_sparse
from tuskml.learners.stored.resting import Resting, Shelves

Array = NDArray[Any]
Ids = NDArray[np.int64]
LINK_SHARE, TAKES_SHARE, CUTS_SHARE = 3 / 4, 1 / 8, 1 / 16
"""Of memory for the ranges in hand, for pairs of chunks, and for where ranges begin."""


def range_bytes(memory: int, lanes: int) -> int:
    """Of memory that a range may take, where each of so many threads has one.

    As sealing has two, of 16 bytes per pair at most, one thread gets no more.
    """
    return int(memory * LINK_SHARE) // max(2, lanes)


class Linking:
    """The links of all pairs, in files; to be closed.

    around: uint32, as of `Range`, by chunk and by rising id; takes: how many weights each
    chunk takes over from each, uint32 of shape (chunks, chunks), None where that is too much;
    most_resting: features that rest in a range, at most.
    """

    def __init__(
        self, ids: Records, ranges: Ranges, memory: int, lanes: int, check: Callable[[], None]
    ) -> None:
        """ids: of each chunk, rising; memory: bytes; check: what it raises ends the work."""
        self._ids, self.n_chunks, self._lock = ids, ranges.n_chunks, Lock()
        fits = 4 * self.n_chunks**2 <= memory * TAKES_SHARE
        shape = self.n_chunks, self.n_chunks
        self.takes = np.zeros(shape, np.uint32) if fits else None
        with ExitStack() as stack:
            self.around, self._rests, self._counts = (
                made(stack, ids.folder, dtype) for dtype in ("u4", "i4", "u4")
            )
            self._lanes = [_Lane(ranges.largest) for _ in range(lanes)]
            each = enumerate(ranges.each(int(memory * CUTS_SHARE)))
            self._at: list[int] = []  # of the features that rest in each range, in `_rests`
            self.most_resting = 0
            for at, n in ahead(self._link, each, lanes):
                check()
                self._at.append(at)
                self.most_resting = max(self.most_resting, n)
            del self._lanes
            self._close = stack.pop_all()

    def close(self) -> None:
        """Forgets the files."""
        self._close.close()

    def _link(self, item: tuple[int, Some]) -> tuple[int, int]:
        number, (low, width, begins, lengths) = item
        lane, n = self._lanes.pop(), int(lengths.sum())  # there is one for each thread
        try:
            of, around = Range(lane.ids[:n], lengths, low, width), lane.around[:n]
            self._ids.read_runs(begins, lengths, of.ids)
            if is_sparse(n, width):
                of.sorted(around, lane.scratch[:n])
            else:
                of.linked(around)
            self.around.write_runs(begins, lengths, around)
            ids, counts = of.resting(around)
            with self._lock:
                at, self._rests.count = self._rests.count, self._rests.count + len(ids)
                if self.takes is not None:
                    of.tally(around, self.takes)
            self._rests.write(at, ids)
            self._counts.write(number * self.n_chunks, counts)
            return at, len(ids)
        finally:
            self._lanes.append(lane)

    def resting_lengths(self, number: int) -> Ids:
        """How many features of a range rest with each chunk, (chunks,)."""
        return self._counts.read(number * self.n_chunks, self.n_chunks).astype(np.int64)

    def resting(self, of: Resting, weights: Records, to: Shelves) -> tuple[Array, Array]:
        """Of a range the ids of the features that rest with each chunk, int32, chunk after chunk,
        and their weights; weights: of all that rest with each chunk, by rising id.
        """
        ids, found = to.of(of.number, int(of.lengths.sum()))
        self._rests.read(self._at[of.number], len(ids), ids)
        return ids, weights.read_runs(of.begins, of.lengths, found)


class _Lane:
    """What a thread has for the pairs of a range: made once, as memory that a thread frees stays
    with the process. What is not used takes none.
    """

    def __init__(self, most: int) -> None:
        self.ids, self.around = pages.empty(most, np.int32), pages.empty(most, np.uint32)
        self.scratch = pages.empty(most, np.uint64)


def made(stack: ExitStack, folder: Path, dtype: str) -> Records:
    """An array in a file, which the stack closes."""
    records = Records(folder, dtype)
    stack.callback(records.file.close)
    return records
