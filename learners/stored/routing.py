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
from tuskml.kvstore.working.quiet import QuietThreads
from tuskml.kvstore.working.records import Records, ahead
from tuskml.kvstore.working.route_plan import BUFFERS, CHUNK_BYTES, neighbours, planned, ranks
from tuskml.kvstore.working.routes import Routes

Ids = NDArray[np.int64]
Array = NDArray[Any]
Pairs = Iterator[tuple[Ids, Array]]
WEIGHT_BYTES = 4
BUFFER_SHARE = 1 / 2
"""Of memory for the regions of chunks; what is written behind them takes an eighth."""
CHUNKS_SHARE, CUTS_SHARE = 1 / 4, 1 / 16
"""Of memory at most for what is kept by chunk, and for where ranges begin in chunks."""
ENTRY_BYTES, PAIR_BYTES = 16, 18
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
            self._ids, self._around, self.moves = (
                self._made(stack, folder, dtype) for dtype in ("i4", "u4", "i4")
            )
            self.folder = folder
            self.rows = self._cut(group, fewest)
            self._bounds = self._ranges()
            self._sort()
            self.plan = planned(self.n_chunks, self._takes(), folder, memory, WEIGHT_BYTES)
            stack.callback(self.plan.links.file.close)
            self._order()
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

    def _around_of(self, chunk: int) -> Array:
        first, end = self._first[chunk : chunk + 2]
        return self._around.read(int(first), int(end - first))

    def _before_of(self, chunk: int) -> Array:
        return self._around_of(chunk).astype(np.uint16)

    def _ranges(self) -> Ids:
        """Ids that bound ranges with about as many pairs as a sort may have."""
        pairs = int(self._first[-1])
        stride = max(1, pairs * 8 * PATIENCE // self.memory)
        lists = ahead(self._ids_of, range(self.n_chunks))
        parts = [ids[::stride].copy() for ids in lists]
        sample = np.sort(np.concatenate(parts))
        last = [self._ids.read(int(end) - 1, 1)[0] for end in self._first[1:] if end]
        self.dimension = int(max(last, default=-1)) + 1
        n = max(1, -(-pairs * PAIR_BYTES // self.memory))
        cuts = sample[(len(sample) * np.arange(1, n)) // n].astype(np.int64)
        cuts = np.unique(cuts >> GRAIN_BITS << GRAIN_BITS)
        return np.concatenate(([0], cuts[cuts > 0], [max(self.dimension, 1)]))

    def _sort(self) -> None:
        """Writes which chunks have each feature before and after, range by range."""
        for begins, lengths in self._by_range(ahead(self._ids_of, range(self.n_chunks))):
            self._around.write_runs(begins, lengths, self._neighbours(begins, lengths))

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

    def _neighbours(self, begins: Ids, lengths: Ids) -> Array:
        """`neighbours` of the pairs of a range."""
        pairs = self._ids.read_runs(begins, lengths).astype(np.uint64)
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
        """Writes in which order the weights of each chunk go on."""
        for j, around in enumerate(ahead(self._around_of, range(self.n_chunks))):
            self._check()
            after, before = (around >> 16).astype(np.uint16), around.astype(np.uint16)
            given = self.plan.gives(j)[0]
            going = np.empty(len(around), np.int32)
            going[ranks(after, np.cumsum(given) - given)] = self._places(j, before)
            self.moves.write(int(self._first[j]), going)

    # --- the weights of a chunk ---

    def places(self, chunk: int) -> Array:
        """Of a chunk's features by rising id, the places in its region, int32 of shape (n,)."""
        return self._places(chunk, self._before_of(chunk))

    def _places(self, chunk: int, before: Array) -> Array:
        return ranks(before, self.plan.takes(chunk)[1])

    def locator(self, threads: int = 1) -> "Locator":
        """Finds the places of features for `Chunks.map`, of so many chunks at a time."""
        return Locator(self, threads)

    def sizes(self, keys: Ids) -> Ids:
        """Weights under keys, which are numbers of chunks."""
        return self.plan.places[keys]

    # --- all weights ---

    def fill(self, routes: Routes, weights: Callable[[Ids], Array]) -> None:
        """Puts weights(ids) into routes that were never used."""
        for j in range(self.n_chunks):
            self._check()
            before = self._before_of(j)
            resting = before >= j
            region = routes.read(j).copy()
            found = weights(self._ids_of(j)[resting].astype(np.int64))
            region[self._places(j, before)[resting]] = found
            routes.write(j, region)

    def pairs(self, routes: Routes) -> Pairs:
        """(ids, weights) of all features, ids rising throughout, in parts that end at multiples
        of 2^16; of routes at rest.
        """
        with ExitStack() as stack:
            found = self._made(stack, self.folder, "u8")

            def lists() -> Iterator[Array]:
                first = 0
                read = lambda j: (self._before_of(j), self._ids_of(j), routes.read(j))  # noqa: E731
                for j, (before, ids, region) in enumerate(ahead(read, range(self.n_chunks))):
                    resting = before >= j
                    mine, places = ids[resting], self._places(j, before)[resting]
                    found.write(first, joined(mine, region[places]))
                    first += len(mine)
                    yield mine

            for begins, lengths in self._by_range(lists()):
                pairs = found.read_runs(begins, lengths)
                pairs.sort()
                yield (pairs >> np.uint64(32)).astype(np.int64), weights_of(pairs)


def joined(ids: Array, weights: Array) -> NDArray[np.uint64]:
    """A number for each id and its float: the bits of the weight are below the id."""
    return ids.astype(np.uint64) << np.uint64(32) | weights.view(np.uint32)


def weights_of(pairs: NDArray[np.uint64]) -> NDArray[np.float32]:
    """The weights in such numbers."""
    return pairs.astype(np.uint32).view(np.float32)


class Locator:
    """Keys and slots of the features of chunks in their order: its number, and places."""

    def __init__(self, routing: Routing, at_once: int) -> None:
        """at_once: chunks in a call, each on a thread of its own."""
        self._routing, self._chunk, self.at_once = routing, 0, at_once

    def __call__(self, ids: Ids) -> tuple[Ids, NDArray[np.int32]]:
        """Of the features of the next chunks, each in any order."""
        sizes = np.diff(self._routing._first[self._chunk :])
        ends = np.cumsum(sizes[: self.at_once])
        n = int(np.searchsorted(ends, len(ids))) + 1
        chunks = range(self._chunk, self._chunk + n)
        self._chunk += n
        slots = np.empty(len(ids), np.int32)
        parts = [slice(int(end - size), int(end)) for end, size in zip(ends, sizes, strict=False)]
        with QuietThreads(n) as pool:
            done = [
                pool.submit(self._locate, chunk, ids[part], slots[part])
                for chunk, part in zip(chunks, parts, strict=False)
            ]
            for one in done:
                one.result()
        return np.repeat(np.array(chunks, np.int64), sizes[:n]), slots

    def _locate(self, chunk: int, ids: Ids, out: NDArray[np.int32]) -> None:
        """Writes the places of a chunk's ids into `out`."""
        routing, order = self._routing, np.argsort(ids)
        if not np.array_equal(ids[order], routing._ids_of(chunk)):
            raise DataError(f"chunk {chunk} has other features than when it was planned")
        out[order] = routing.places(chunk)
