"""Which weights travel from which chunk of rows to which, planned in bounded memory.

For rows whose features memory does not hold (`kvstore.working.routes`). All that grows with the
number of features lies in files: the ids of each chunk, rising, and for each of them the chunks
that have it before and after. They come from sorts of one range of ids at a time, so that planning
takes no more memory than the training (Aggarwal and Vitter, The input/output complexity of sorting
and related problems, CACM 1988).
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels.segments import sparse_segments
from tuskml.kvstore.working.records import Records
from tuskml.kvstore.working.route_plan import BUFFERS, CHUNK_BYTES, planned
from tuskml.kvstore.working.routes import Routes

Ids = NDArray[np.int64]
Array = NDArray[Any]
Pairs = Iterator[tuple[Ids, Array]]
WEIGHT_BYTES = 4
BUFFER_SHARE = 1 / 2
"""Of memory for the regions of chunks; what is written behind them takes an eighth."""
CHUNKS_SHARE, CUTS_SHARE = 1 / 4, 1 / 16
"""Of memory at most for what is kept by chunk, and for where ranges begin in chunks."""
ENTRY_BYTES, PAIR_BYTES = 16, 48
"""Of memory for each entry of a chunk and for each (chunk, feature) of a sort, while planning."""
GRAIN_BITS = 16
"""Ranges of ids begin at multiples of 2^16, so that no block of a store is in two."""
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
    most_entries = max(most_features(memory), memory // ENTRY_BYTES)
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
        self, group: np.void, memory: int, folder: Path, fewest: int, check: Callable[[], None]
    ) -> None:
        """memory: bytes, of planning and of training each; fewest: chunks at least; check: called
        often, what it raises ends the work. TooWide where the memory is too small for the rows.
        """
        self.memory, self._check, self.n_rows = memory, check, int(group["n_rows"])
        self.entries = sum(len(ids) for _, ids in sparse_segments(group))
        with ExitStack() as stack:
            self._ids, self._before, self._next, self.moves = (
                self._made(stack, folder, dtype) for dtype in ("i4", "u2", "u2", "i4")
            )
            self.folder = folder
            self.rows = self._cut(group, fewest)
            self._bounds = self._ranges()
            self._sort()
            self.plan = planned(self.n_chunks, self._takes, folder, memory, WEIGHT_BYTES)
            stack.callback(self.plan.links.file.close)
            self._order()
            self._next.file.close()
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

    def _cut(self, group: np.void, fewest: int) -> int:
        """Writes the ids of each chunk; returns its rows."""
        most = most_features(self.memory)
        rows = most_rows(self.memory, self.n_rows, self.entries, fewest)
        for _ in range(TRIES):
            if -(-self.n_rows // rows) >= MOST_CHUNKS:
                break
            largest = self._write_ids(group, rows, most)
            if largest <= most:
                if CHUNK_BYTES * self.n_chunks > CHUNKS_SHARE * self.memory:
                    break
                return rows
            if rows == 1:
                break
            rows = fewer_rows(rows, largest, most)
        raise TooWide

    def _write_ids(self, group: np.void, rows: int, most: int) -> int:
        """The features of the largest chunk; it stops at one that has more than `most`."""
        first, largest = [0], 0
        for found in self._chunks(group, rows):
            self._check()
            ids = np.sort(found)
            distinct = ids[np.concatenate((ids[:1] == ids[:1], ids[1:] != ids[:-1]))]
            largest = max(largest, len(distinct))
            if largest > most:
                break
            self._ids.write(first[-1], distinct)
            first.append(first[-1] + len(distinct))
        self._first = np.array(first, np.int64)
        return largest

    def _chunks(self, group: np.void, rows: int) -> Iterator[Array]:
        """The ids of each so many rows."""
        parts, missing = [], rows
        for starts, ids in sparse_segments(group):
            at, n = 0, len(starts) - 1
            while at < n:
                end = min(n, at + missing)
                parts.append(ids[starts[at] : starts[end]])
                missing -= end - at
                at = end
                if not missing:
                    yield np.concatenate(parts)
                    parts, missing = [], rows
        if parts:
            yield np.concatenate(parts)

    def _ids_of(self, chunk: int) -> Array:
        first, end = self._first[chunk : chunk + 2]
        return self._ids.read(int(first), int(end - first))

    def _before_of(self, chunk: int) -> Array:
        first, end = self._first[chunk : chunk + 2]
        return self._before.read(int(first), int(end - first))

    def _ranges(self) -> Ids:
        """Ids that bound ranges with about as many pairs as a sort may have."""
        pairs = int(self._first[-1])
        stride = max(1, pairs * 8 * PATIENCE // self.memory)
        parts = [self._ids_of(j)[::stride].copy() for j in range(self.n_chunks)]
        sample = np.sort(np.concatenate(parts))
        last = [self._ids.read(int(end) - 1, 1)[0] for end in self._first[1:] if end]
        self.dimension = int(max(last, default=-1)) + 1
        n = max(1, -(-pairs * PAIR_BYTES // self.memory))
        cuts = sample[(len(sample) * np.arange(1, n)) // n].astype(np.int64)
        cuts = np.unique(cuts >> GRAIN_BITS << GRAIN_BITS)
        return np.concatenate(([0], cuts[cuts > 0], [max(self.dimension, 1)]))

    def _sort(self) -> None:
        """Writes which chunks have each feature before and after, range by range."""
        for begins, lengths in self._by_range(map(self._ids_of, range(self.n_chunks))):
            before, after = self._neighbours(begins, lengths)
            ends = np.cumsum(lengths)
            for j in np.flatnonzero(lengths):
                part = slice(int(ends[j] - lengths[j]), int(ends[j]))
                self._before.write(int(begins[j]), before[part])
                self._next.write(int(begins[j]), after[part])

    def _by_range(self, lists: Iterator[Array]) -> Iterator[tuple[Ids, Ids]]:
        """Range by range, where it begins in each list of rising ids, of all lists one after the
        other, and how many ids it has there.
        """
        n, width = self.n_chunks, len(self._bounds)
        with ExitStack() as stack:
            cuts, first = self._made(stack, self.folder, "u4"), np.zeros(n, np.int64)
            for j, ids in enumerate(lists):
                self._check()
                cuts.write(j * width, np.searchsorted(ids, self._bounds))
                first[j + 1 :] += len(ids)
            some = max(1, int(self.memory * CUTS_SHARE) // (8 * n))
            for r in range(0, width - 1, some):
                end = min(width, r + some + 1)
                slab = np.stack([cuts.read(j * width + r, end - r) for j in range(n)])
                for k in range(end - r - 1):
                    self._check()
                    begins = slab[:, k].astype(np.int64)
                    yield first + begins, slab[:, k + 1] - begins

    def _neighbours(self, begins: Ids, lengths: Ids) -> tuple[Array, Array]:
        """The chunks before and after of the pairs of a range, by chunk and by id."""
        pairs, at = np.empty(int(lengths.sum()), np.uint64), 0
        for j in np.flatnonzero(lengths).tolist():
            n = int(lengths[j])
            pairs[at : at + n] = self._ids.read(int(begins[j]), n)
            pairs[at : at + n] <<= np.uint64(16)
            pairs[at : at + n] |= np.uint64(j)
            at += n
        pairs.sort()  # by id, then by chunk
        chunk = pairs.astype(np.uint16)
        pairs >>= np.uint64(16)
        begin = np.flatnonzero(np.concatenate(([True], pairs[1:] != pairs[:-1])))
        end = np.append(begin[1:], len(pairs)) - 1
        if not len(pairs):
            return chunk, chunk
        del pairs
        before, after = np.roll(chunk, 1), np.roll(chunk, -1)
        before[begin], after[end] = chunk[end], chunk[begin]  # the order is a circle
        back = np.argsort(chunk, kind="stable")
        return before[back], after[back]

    def _takes(self, chunk: int) -> NDArray[np.uint32]:
        """Weights that a chunk takes over from each."""
        self._check()
        return np.bincount(self._before_of(chunk), minlength=self.n_chunks).astype(np.uint32)

    def _order(self) -> None:
        """Writes in which order the weights of each chunk go on."""
        for j in range(self.n_chunks):
            self._check()
            first, end = (int(at) for at in self._first[j : j + 2])
            going = np.argsort(self._next.read(first, end - first), kind="stable")
            self.moves.write(first, self.places(j)[going])

    # --- the weights of a chunk ---

    def places(self, chunk: int) -> Array:
        """Of a chunk's features by rising id, the places in its region, int32 of shape (n,)."""
        before = self._before_of(chunk)
        counts, starts = self.plan.takes(chunk)
        gaps = starts.astype(np.int64) - (np.cumsum(counts, dtype=np.int64) - counts)
        ranks = np.arange(len(before), dtype=np.int32)
        ranks += np.repeat(gaps.astype(np.int32), counts)
        places = np.empty(len(before), np.int32)
        places[np.argsort(before, kind="stable")] = ranks
        return places

    def locator(self) -> "Locator":
        """Finds the places of features for `Chunks.map`."""
        return Locator(self)

    def sizes(self, keys: Ids) -> Ids:
        """Weights under keys, which are numbers of chunks."""
        return self.plan.places[keys]

    # --- all weights ---

    def fill(self, routes: Routes, weights: Callable[[Ids], Array]) -> None:
        """Puts weights(ids) into routes that were never used."""
        for j in range(self.n_chunks):
            self._check()
            resting = self._before_of(j) >= j
            region = routes.read(j).copy()
            found = weights(self._ids_of(j)[resting].astype(np.int64))
            region[self.places(j)[resting]] = found
            routes.write(j, region)

    def pairs(self, routes: Routes) -> Pairs:
        """(ids, weights) of all features, ids rising throughout, in parts that end at multiples
        of 2^16; of routes at rest.
        """
        with ExitStack() as stack:
            ids = self._made(stack, self.folder, "i4")
            weights = self._made(stack, self.folder, "f4")

            def lists() -> Iterator[Array]:
                first = 0
                for j in range(self.n_chunks):
                    resting = self._before_of(j) >= j
                    mine = self._ids_of(j)[resting]
                    ids.write(first, mine)
                    weights.write(first, routes.read(j)[self.places(j)[resting]])
                    first += len(mine)
                    yield mine

            for begins, lengths in self._by_range(lists()):
                yield _joined(ids, weights, begins, lengths)


def _joined(ids: Records, weights: Records, begins: Ids, lengths: Ids) -> tuple[Ids, Array]:
    """The pairs of a range, from the runs of all chunks."""
    runs = [(b, n) for b, n in zip(begins.tolist(), lengths.tolist(), strict=True) if n]
    if not runs:
        return np.zeros(0, np.int64), np.zeros(0, np.float32)
    found = np.concatenate([ids.read(*run) for run in runs])
    order = np.argsort(found, kind="stable")
    values = np.concatenate([weights.read(*run) for run in runs])
    return found[order].astype(np.int64), values[order]


class Locator:
    """Keys and slots of the features of one chunk after the other: its number, and places."""

    at_once = 1

    def __init__(self, routing: Routing) -> None:
        self._routing, self._chunk = routing, -1

    def __call__(self, ids: Ids) -> tuple[Ids, NDArray[np.int32]]:
        """Of the features of the next chunk, in any order."""
        self._chunk += 1
        chunk, routing = self._chunk, self._routing
        order = np.argsort(ids)
        if not np.array_equal(ids[order], routing._ids_of(chunk)):
            raise DataError(f"chunk {chunk} has other features than when it was planned")
        slots = np.empty(len(ids), np.int32)
        slots[order] = routing.places(chunk)
        return np.full(len(ids), chunk, np.int64), slots
