"""Which weights travel from which chunk of rows to which, planned in bounded memory.

For rows whose features memory does not hold (`kvstore.working.routes`). All that grows with the
number of features lies in files: the ids of each chunk, rising, and for each of them the chunks
that have it before and after. They come from one range of ids at a time, so that planning takes no
more memory than the training (Aggarwal and Vitter, The input/output complexity of sorting and
related problems, CACM 1988): in the rows an id is replaced by its rank in its chunk at first, and
its rank by its place when that is known.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Pass
from tuskml.kernels.stored.chunks import NUMBER_BYTES, Chunks
from tuskml.kvstore import pages
from tuskml.kvstore.working.quiet import QuietThreads
from tuskml.kvstore.working.records import Records, ahead, give_back
from tuskml.kvstore.working.route_plan import (
    BUFFERS,
    CHUNK_BYTES,
    RoutePlan,
    ordered,
    planned,
    ranks,
    resting,
)
from tuskml.kvstore.working.routes import Routes
from tuskml.learners.stored.linking import Linking, made, range_bytes
from tuskml.learners.stored.ranges import GRAIN_BITS, Ranges
from tuskml.learners.stored.resting import PART_WEIGHTS, Pairs, Resting, Shelves, parts

Ids = NDArray[np.int64]
Array = NDArray[Any]
WEIGHT_BYTES = 4
BUFFER_SHARE = 1 / 2
"""Of memory for the regions of chunks; what is written behind them takes the rest."""
CHUNKS_SHARE = 1 / 4
"""Of memory at most for what is kept by chunk."""
MOST_LANES = 2
"""Threads that place weights, each with what it needs for a chunk."""
MOST_CHUNKS = 1 << 16
TRIES = 8


class TooWide(Exception):
    """A row has more features than a chunk may have, or there would be too many chunks."""


def most_features(memory: int, several: int = 1) -> int:
    """Features that a chunk may have, of several weights each, with so many bytes of memory."""
    return int(memory * BUFFER_SHARE) // (BUFFERS * WEIGHT_BYTES * several)


def most_rows(memory: int, n_rows: int, entries: int, fewest: int, several: int = 1) -> int:
    """Rows that a chunk may have by its entries; fewest: chunks at least; several: weights of a
    feature.
    """
    most_entries = max(most_features(memory, several), memory // NUMBER_BYTES)
    per_row = entries / max(1, n_rows)
    return max(1, min(-(-n_rows // fewest), int(most_entries / max(1.0, per_row))))


def fewer_rows(rows: int, largest: int, most: int) -> int:
    """Rows of smaller chunks, where a chunk has `largest` features, which are more than `most`."""
    return max(1, int(rows * min(0.9, 0.95 * most / largest)))


class Routing:
    """The plan for the rows of a group; to be closed.

    rows: of a chunk; plan: what travels; dimension: an id that is above all.
    """

    def __init__(
        self,
        rows: Pass,
        memory: int,
        folder: Path,
        fewest: int,
        check: Callable[[], None],
        several: int = 1,
    ) -> None:
        """rows: of one group, whose ids become places in the regions; memory: bytes, of planning
        and of training each; fewest: chunks at least; check: called often, what it raises ends the
        work; several: weights of a feature. TooWide where the memory is too small for the rows,
        which then are as they were.
        """
        self.several = several
        self.memory, self._check, self.n_rows = memory, check, int(rows.groups["n_rows"][0])
        self.entries, self.lanes = rows.nonzeros(), min(MOST_LANES, rows.threads)
        with ExitStack() as stack:
            self._ids, self.moves = made(stack, folder, "i4"), made(stack, folder, "i4")
            self.folder = folder
            each = range_bytes(memory, self.lanes)
            self._ranges = Ranges(rows.groups[0], self.entries, each, folder)
            stack.callback(self._ranges.close)
            self.chunks = self._cut(rows, fewest)
            stack.callback(self.chunks.close)
            self._first = self._ranges.first
            self._links = Linking(self._ids, self._ranges, memory, self.lanes, check)
            stack.callback(self._links.close)
            give_back()
            self.plan = planned(self.n_chunks, self._takes(), folder, memory, several)
            stack.callback(self.plan.links.file.close)
            self._links.takes = None
            give_back()
            self._order()
            give_back()
            self._close = stack.pop_all()

    def close(self) -> None:
        """Forgets the files."""
        self._close.close()

    def __enter__(self) -> "Routing":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def n_features(self) -> int:
        """Features that occur."""
        return self.plan.n_features

    @property
    def n_chunks(self) -> int:
        """Chunks of rows."""
        return self._ranges.n_chunks

    @property
    def dimension(self) -> int:
        """An id that is above all."""
        return max(1, self._ranges.dimension)

    # --- planning ---

    def _cut(self, group: Pass, fewest: int) -> Chunks:
        """Writes the ids of each chunk, and their ranks into the rows."""
        most = most_features(self.memory, self.several)
        rows = most_rows(self.memory, self.n_rows, self.entries, fewest, self.several)
        for _ in range(TRIES):
            if -(-self.n_rows // rows) >= MOST_CHUNKS:
                break
            chunks = Chunks.cut(group, rows)
            try:
                largest = self._number(chunks, most)
                if largest <= most and CHUNK_BYTES * self.n_chunks <= CHUNKS_SHARE * self.memory:
                    self.rows = rows
                    return chunks
                self._restore(chunks)
            except BaseException:
                chunks.close()
                raise
            chunks.close()
            if rows == 1 or largest <= most:
                break
            rows = fewer_rows(rows, largest, most)
        raise TooWide

    def _number(self, chunks: Chunks, most: int) -> int:
        """The features of the largest chunk; it stops at one that has more than `most`."""
        self._ranges.begin()
        largest = at = 0
        for distinct in chunks.numbered():
            self._check()
            self._ids.write(at, distinct)
            self._ranges.add(distinct)
            at, largest = at + len(distinct), max(largest, len(distinct))
            if largest > most:
                break
        self._first = self._ranges.first
        return largest

    def _restore(self, chunks: Chunks) -> None:
        """Puts the ids back where there were ranks."""
        for j in range(self.n_chunks):
            chunks.replace(j, self._ids_of(j))

    def _ids_of(self, chunk: int) -> Array:
        first, end = self._first[chunk : chunk + 2]
        return self._ids.read(int(first), int(end - first))

    def _around_of(self, chunk: int) -> Array:
        first, end = self._first[chunk : chunk + 2]
        return self._links.around.read(int(first), int(end - first))

    def _before_of(self, chunk: int) -> Array:
        return pages.narrowed(self._around_of(chunk), np.uint16)

    def _takes(self) -> Iterator[NDArray[np.uint32]]:
        """For each chunk the weights that it takes over from each."""
        if self._links.takes is not None:
            yield from self._links.takes
            return
        for j in range(self.n_chunks):
            self._check()
            counts = np.zeros(self.n_chunks, np.uint32)
            for around in self._links.around.windows(*self._span(j)):
                before = around.astype(np.uint16)
                counts += np.bincount(before, minlength=self.n_chunks).astype(np.uint32)
            yield counts

    def _order(self) -> None:
        """Writes in which order the weights of each chunk go on; their places into the rows."""
        with QuietThreads(self.lanes) as pool:
            for _ in pool.map(self._order_chunk, range(self.n_chunks)):
                self._check()

    def _order_chunk(self, j: int) -> None:
        around, given = self._around_of(j), self.plan.gives(j)[0]
        places, going = ordered(around, self.plan.takes(j)[1], np.cumsum(given) - given)
        self.moves.write(int(self._first[j]), going)
        np.multiply(places, self.several, out=places)
        self.chunks.replace(j, places)
        if len(around):
            self.chunks.put(j, int(self.plan.places[j]) * self.several)

    # --- the weights of a chunk ---

    def places(self, chunk: int) -> Array:
        """Of a chunk's features by rising id, the places in its region, int32 of shape (n,)."""
        return self._places(chunk, self._before_of(chunk))

    def _places(self, chunk: int, before: Array) -> Array:
        return ranks(before, self.plan.takes(chunk)[1])

    # --- all weights ---

    def fill(self, routes: Routes, weights: Callable[[Ids], Array]) -> None:
        """Puts weights(ids) into routes that were never used; weights: of features, shape (n,) or
        (n, several).
        """
        for j in range(self.n_chunks):
            self._check()
            before = self._before_of(j)
            rests = before >= j
            region = routes.read(j).copy()
            found = weights(self._ids_of(j)[rests].astype(np.int64))
            region[self._places(j, before)[rests]] = found
            routes.write(j, region)

    def pairs(self, routes: Routes) -> Pairs:
        """(ids, weights) of all features but some whose weight is 0, ids rising throughout, in
        parts that end at multiples of 2^12; of routes at rest. Weight k of a feature i with
        several has the id i * several + k.

        First the weights that rest with each chunk are put in the order of ids; then each range
        takes its part of every chunk.
        """
        with ExitStack() as stack:
            give_back()
            found = made(stack, self.folder, "f4" if self.several == 1 else "u4")
            self._weights = made(stack, self.folder, f"V{self.plan.weight_size}")
            first = np.cumsum(self.plan.rests) - self.plan.rests
            desks = [_Desk(self.plan) for _ in range(self.lanes)]
            rested = partial(self._rested, routes, found, first, desks)
            for _ in ahead(rested, range(self.n_chunks), self.lanes):
                self._check()
            del desks[:]
            give_back()
            shelves = Shelves(self._links.most_resting)

            def read(of: Resting) -> tuple[Resting, Array, Array]:
                return of, *self._links.resting(of, found, shelves)

            for item in ahead(read, self._resting_ranges(first)):
                self._check()
                for part in parts(*item):
                    yield from self._of_features(*part)
            give_back()

    def _rested(
        self, routes: Routes, found: Records, first: Ids, desks: "list[_Desk]", chunk: int
    ) -> None:
        """Writes the weights that rest with a chunk, by rising id."""
        desk = desks.pop()  # there is one for each thread
        try:
            self._put_in_order(routes, found, int(first[chunk]), desk, chunk)
        finally:
            desks.append(desk)

    def _put_in_order(
        self, routes: Routes, found: Records, at: int, desk: "_Desk", chunk: int
    ) -> None:
        begin, n = int(self.plan.resting[chunk]), int(self.plan.rests[chunk])
        if not n:
            return
        takes = self.plan.takes(chunk)[1] - np.uint32(begin)
        region, out, done = routes.read(chunk, begin, desk.region), desk.out[: n + 1], 0
        given = region if self.several == 1 else np.arange(len(region), dtype=np.uint32)
        for around in self._links.around.windows(*self._span(chunk)):
            done += resting(chunk, around, takes, given, out[done:])
        if self.several == 1:
            found.write(at, out[:done])
            return
        # In place of weights their numbers in a file go through the shelves, from 1 on.
        found.write(at, np.arange(at + 1, at + 1 + done, dtype=np.uint32))
        places = out[:done].view(np.uint32)
        step = max(1, PART_WEIGHTS // self.several)
        for k in range(0, done, step):
            some = region[places[k : k + step]]
            self._weights.write(at + k, some.view(self._weights.dtype))

    def _of_features(self, ids: Ids, weights: Array) -> Pairs:
        """The pairs of single weights of some features; weights: or their numbers in the file."""
        if self.several == 1:
            yield ids, weights
            return
        numbers = weights.view(np.uint32).astype(np.int64) - 1
        for some in grains(ids, PART_WEIGHTS // self.several):
            first = np.flatnonzero(np.diff(numbers[some], prepend=-2) != 1)  # of runs in the file
            lengths = np.diff(first, append=len(numbers[some]))
            found = self._weights.read_runs(numbers[some][first], lengths)
            each = found.view(np.float32).reshape(-1, self.several)
            where, which = np.nonzero(each.view(np.uint32))
            yield ids[some][where] * self.several + which, each[where, which]

    def _span(self, chunk: int) -> tuple[int, int]:
        """Where a chunk's features begin in the files, and how many they are."""
        first, end = (int(at) for at in self._first[chunk : chunk + 2])
        return first, end - first

    def _resting_ranges(self, begins: Ids) -> Iterator[Resting]:
        """What rests of each range; begins: where the weights of each chunk do, (C,)."""
        for number, (low, width) in enumerate(self._ranges.spans()):
            lengths = self._links.resting_lengths(number)
            yield Resting(number, low, width, begins, lengths)
            begins = begins + lengths


class _Desk:
    """What a thread has for the weights of a chunk: made once."""

    def __init__(self, plan: RoutePlan) -> None:
        self.region = pages.empty(plan.largest, np.uint8)
        self.out = pages.empty(int(plan.rests.max()) + 1, np.float32)


def grains(ids: Ids, most: int) -> Iterator[slice]:
    """Cuts rising ids into parts of about so many, which end at multiples of 2^GRAIN_BITS."""
    begin = 0
    while begin < len(ids):
        last = ids[min(len(ids), begin + max(1, most)) - 1] >> GRAIN_BITS
        end = int(np.searchsorted(ids, (last + 1) << GRAIN_BITS))
        yield slice(begin, end)
        begin = end
