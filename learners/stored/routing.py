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
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Pass
from tuskml.kernels.stored.chunks import NUMBER_BYTES, Chunks
from tuskml.kvstore.working.quiet import QuietThreads
from tuskml.kvstore.working.records import Records, ahead, give_back
from tuskml.kvstore.working.route_plan import (
    BUFFERS,
    CHUNK_BYTES,
    linked,
    neighbours,
    ordered,
    planned,
    ranks,
    resting,
)
from tuskml.kvstore.working.routes import Routes

Ids = NDArray[np.int64]
Array = NDArray[Any]
Pairs = Iterator[tuple[Ids, Array]]
WEIGHT_BYTES = 4
BUFFER_SHARE = 1 / 2
"""Of memory for the regions of chunks; what is written behind them takes the rest."""
CHUNKS_SHARE, CUTS_SHARE = 1 / 4, 1 / 16
"""Of memory at most for what is kept by chunk, and for where ranges begin in chunks."""
PAIR_BYTES, SEEN_BYTES, PAIR_LINKED = 20, 12, 8
"""Of memory while planning: for each (chunk, feature) of a range that is sorted; without a sort
for each id that is in the range, and for each pair.
"""
MOST_LANES = 2
"""Threads that place weights, each with what it needs for a chunk."""
GRAIN_BITS = 16
"""Ranges of ids begin at multiples of 2^16, so that no block of a store is in two."""
PART_WEIGHTS = 1 << 17
"""Weights that are handed out together at the end, about."""
MOST_CHUNKS = 1 << 16
TRIES = 8
PATIENCE = 4


class TooWide(Exception):
    """A row has more features than a chunk may have, or there would be too many chunks."""


def most_features(memory: int) -> int:
    """Features that a chunk may have, with so many bytes of memory."""
    return int(memory * BUFFER_SHARE) // (BUFFERS * WEIGHT_BYTES)


def most_rows(memory: int, n_rows: int, entries: int, fewest: int) -> int:
    """Rows that a chunk may have by its entries; fewest: chunks at least."""
    most_entries = max(most_features(memory), memory // NUMBER_BYTES)
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
        self, rows: Pass, memory: int, folder: Path, fewest: int, check: Callable[[], None]
    ) -> None:
        """rows: of one group, whose ids become places in the regions; memory: bytes, of planning
        and of training each; fewest: chunks at least; check: called often, what it raises ends the
        work. TooWide where the memory is too small for the rows, which then are as they were.
        """
        self.memory, self._check, self.n_rows = memory, check, int(rows.groups["n_rows"][0])
        self.entries, self.lanes = rows.nonzeros(), min(MOST_LANES, rows.threads)
        with ExitStack() as stack:
            self._ids, self._around, self.moves = (
                self._made(stack, folder, dtype) for dtype in ("i4", "u4", "i4")
            )
            self.folder = folder
            self.chunks = self._cut(rows, fewest)
            stack.callback(self.chunks.close)
            self._bounds = self._ranges()
            self._sort()
            give_back()
            self.plan = planned(self.n_chunks, self._takes(), folder, memory, WEIGHT_BYTES)
            stack.callback(self.plan.links.file.close)
            give_back()
            self._order()
            give_back()
            self._close = stack.pop_all()

    @staticmethod
    def _made(stack: ExitStack, folder: Path, dtype: str) -> Records:
        made = Records(folder, dtype)
        stack.callback(made.file.close)
        return made

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
        return len(self._first) - 1

    # --- planning ---

    def _cut(self, group: Pass, fewest: int) -> Chunks:
        """Writes the ids of each chunk, and their ranks into the rows."""
        most = most_features(self.memory)
        rows = most_rows(self.memory, self.n_rows, self.entries, fewest)
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
        first, largest = [0], 0
        for distinct in chunks.numbered():
            self._check()
            self._ids.write(first[-1], distinct)
            first.append(first[-1] + len(distinct))
            largest = max(largest, len(distinct))
            if largest > most:
                break
        self._first = np.array(first, np.int64)
        return largest

    def _restore(self, chunks: Chunks) -> None:
        """Puts the ids back where there were ranks."""
        for j in range(self.n_chunks):
            chunks.replace(j, self._ids_of(j))

    def _ids_of(self, chunk: int) -> Array:
        first, end = self._first[chunk : chunk + 2]
        return self._ids.read(int(first), int(end - first))

    def _windows(self, chunk: int) -> Iterator[Array]:
        """The ids of a chunk, some at a time."""
        first, end = self._first[chunk : chunk + 2]
        return self._ids.windows(int(first), int(end - first))

    def _around_of(self, chunk: int) -> Array:
        first, end = self._first[chunk : chunk + 2]
        return self._around.read(int(first), int(end - first))

    def _before_of(self, chunk: int) -> Array:
        return self._around_of(chunk).astype(np.uint16)

    def _ranges(self) -> Ids:
        """Ids that bound ranges with about as many pairs as a sort may have."""
        pairs = int(self._first[-1])
        stride = max(1, pairs * 8 * PATIENCE // self.memory)
        parts = [ids[::stride].copy() for j in range(self.n_chunks) for ids in self._windows(j)]
        sample = np.sort(np.concatenate([np.zeros(0, np.int32), *parts]))
        last = [self._ids.read(int(end) - 1, 1)[0] for end in self._first[1:] if end]
        self.dimension = int(max(last, default=-1)) + 1
        n = max(1, -(-pairs * PAIR_BYTES // self.memory))
        cuts = sample[(len(sample) * np.arange(1, n)) // n].astype(np.int64)
        cuts = np.unique(cuts >> GRAIN_BITS << GRAIN_BITS)
        return np.concatenate(([0], cuts[cuts > 0], [max(self.dimension, 1)]))

    def _sort(self) -> None:
        """Writes which chunks have each feature before and after, range by range."""
        lists = (self._windows(j) for j in range(self.n_chunks))
        for low, width, begins, lengths in self._by_range(lists):
            self._around.write_runs(begins, lengths, self._linked(low, width, begins, lengths))

    def _linked(self, low: int, width: int, begins: Ids, lengths: Ids) -> Array:
        """`neighbours` of a range."""
        ids = self._ids.read_runs(begins, lengths)
        if SEEN_BYTES * width + PAIR_LINKED * len(ids) <= PAIR_BYTES * len(ids):
            return linked(ids, lengths, low, width)
        return self._neighbours(ids, lengths)

    def _by_range(self, lists: Iterator[Iterator[Array]]) -> Iterator[tuple[int, int, Ids, Ids]]:
        """Each range's first id and how many there may be; where it begins in each list of rising
        ids, of all lists one after the other, and how many ids it has there.

        lists: each in windows.
        """
        n, width = self.n_chunks, len(self._bounds)
        with ExitStack() as stack:
            cuts, first = self._made(stack, self.folder, "u4"), np.zeros(n, np.int64)
            for j, windows in enumerate(lists):
                cut, total = np.zeros(width, np.int64), 0
                for ids in windows:
                    self._check()
                    cut += np.searchsorted(ids, self._bounds)
                    total += len(ids)
                cuts.write(j * width, cut)
                first[j + 1 :] += total
            give_back()
            some = max(1, int(self.memory * CUTS_SHARE) // (8 * n))
            for r in range(0, width - 1, some):
                end = min(width, r + some + 1)
                slab = np.stack([cuts.read(j * width + r, end - r) for j in range(n)])
                for k in range(end - r - 1):
                    self._check()
                    begins = slab[:, k].astype(np.int64)
                    low, high = (int(bound) for bound in self._bounds[r + k : r + k + 2])
                    yield low, high - low, first + begins, slab[:, k + 1] - begins

    @staticmethod
    def _neighbours(ids: Array, lengths: Ids) -> Array:
        """`neighbours` of the ids of a range, by a sort."""
        pairs = ids.astype(np.uint64)
        pairs <<= np.uint64(16)
        ends = np.cumsum(lengths)
        for j in np.flatnonzero(lengths).tolist():
            pairs[int(ends[j] - lengths[j]) : int(ends[j])] |= np.uint64(j)
        pairs.sort()  # by id, then by chunk
        return neighbours(pairs, lengths)

    def _takes(self) -> Iterator[NDArray[np.uint32]]:
        """For each chunk the weights that it takes over from each."""
        for before in ahead(self._before_of, range(self.n_chunks)):
            self._check()
            yield np.bincount(before, minlength=self.n_chunks).astype(np.uint32)

    def _order(self) -> None:
        """Writes in which order the weights of each chunk go on; their places into the rows."""
        with QuietThreads(self.lanes) as pool:
            for _ in pool.map(self._order_chunk, range(self.n_chunks)):
                self._check()

    def _order_chunk(self, j: int) -> None:
        around, given = self._around_of(j), self.plan.gives(j)[0]
        places, going = ordered(around, self.plan.takes(j)[1], np.cumsum(given) - given)
        self.moves.write(int(self._first[j]), going)
        self.chunks.replace(j, places)
        if len(around):
            self.chunks.put(j, int(self.plan.places[j]))

    # --- the weights of a chunk ---

    def places(self, chunk: int) -> Array:
        """Of a chunk's features by rising id, the places in its region, int32 of shape (n,)."""
        return self._places(chunk, self._before_of(chunk))

    def _places(self, chunk: int, before: Array) -> Array:
        return ranks(before, self.plan.takes(chunk)[1])

    # --- all weights ---

    def fill(self, routes: Routes, weights: Callable[[Ids], Array]) -> None:
        """Puts weights(ids) into routes that were never used."""
        for j in range(self.n_chunks):
            self._check()
            before = self._before_of(j)
            rests = before >= j
            region = routes.read(j).copy()
            found = weights(self._ids_of(j)[rests].astype(np.int64))
            region[self._places(j, before)[rests]] = found
            routes.write(j, region)

    def pairs(self, routes: Routes) -> Pairs:
        """(ids, weights) of all features, ids rising throughout, in parts that end at multiples
        of 2^16; of routes at rest.
        """
        with ExitStack() as stack:
            give_back()
            found = self._made(stack, self.folder, "u8")
            lists = (self._resting(j, routes, found) for j in range(self.n_chunks))
            for low, width, begins, lengths in self._by_range(lists):
                yield from parts_of(found.read_runs(begins, lengths), low, width)
                give_back()

    def _resting(self, chunk: int, routes: Routes, found: Records) -> Iterator[Array]:
        """Writes the weights that rest with a chunk behind those before; their ids, in windows."""
        region, takes = routes.read(chunk), self.plan.takes(chunk)[1].copy()
        first, end = (int(at) for at in self._first[chunk : chunk + 2])
        around = self._around.windows(first, end - first)
        for ids, more in zip(self._windows(chunk), around, strict=True):
            mine = resting(chunk, ids, more, takes, region)
            found.append(mine)
            yield (mine >> np.uint64(32)).astype(np.int32)


def parts_of(pairs: NDArray[np.uint64], low: int, width: int) -> Pairs:
    """(ids, weights) by rising id of the pairs of a range of ids, which are sorted in place."""
    pairs.sort()
    for part in np.split(pairs, np.searchsorted(pairs, bounds(low, width, len(pairs)))):
        yield (part >> np.uint64(32)).astype(np.int64), weights_of(part)


def bounds(low: int, width: int, n: int) -> NDArray[np.uint64]:
    """Of numbers of a range of ids, which has n of them: what cuts it into parts of about
    PART_WEIGHTS, at multiples of 2^16.
    """
    parts = max(1, min(n // PART_WEIGHTS, width >> GRAIN_BITS))
    cuts = (low + width * np.arange(1, parts) // parts) >> GRAIN_BITS << GRAIN_BITS
    return cuts.astype(np.uint64) << np.uint64(32)


def weights_of(pairs: NDArray[np.uint64]) -> NDArray[np.float32]:
    """The weights in such numbers."""
    return pairs.astype(np.uint32).view(np.float32)
