"""Routes of weights from chunk to chunk of rows, planned in bounded memory.

For rows whose features memory does not hold (`kvstore.routes`). Everything that grows with
the number of features is in files: the ids of each chunk, rising, and for each of them the chunks
that have it before and after. They are processed one range of ids at a time, so that planning
takes no more memory than the training (Aggarwal and Vitter, The input/output complexity of sorting
and related problems, CACM 1988): in the rows an id is first replaced by its rank in its chunk, and
its rank by its position once that is known.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tuskml.kernels.passes import Pass
from tuskml.kernels.segments import sparse_segments
from tuskml.kernels.stored.chunks import NUMBER_BYTES, Chunks
from tuskml.kvstore import arrays
from tuskml.kvstore.arrays import Records, ahead, give_back
from tuskml.kvstore.routes import (
    BUFFERS,
    CHUNK_BYTES,
    Range,
    RoutePlan,
    Routes,
    copy_resting,
    orders_of,
    plan_routes,
    ranks,
)
from tuskml.schedule.pool import QuietThreads

Ids = NDArray[np.int64]
Some = tuple[int, int, Ids, Ids]
GRAIN_BITS = 12
"""Ranges start at multiples of 2^12, so that no block of a store is in two."""
PAIR_BYTES, SORTED_BYTES = 12, 16
"""Bytes of memory for each pair of a range that is linked by a table, and by a sort."""
SPARSE = 8
"""Ids for each pair of a range from which on its pairs are sorted."""
FINER = 4
"""Parts that a range is put together of, about: so much may the sample be wrong."""
PER_PART = 64
"""Entries of the sample for each part."""


class Ranges:
    """Ranges, and their starts in each chunk, which `add` reports."""

    def __init__(self, group: np.void, entries: int, memory: int, folder: Path) -> None:
        """group: of sparse rows; entries: of them; memory: bytes that a range is to take."""
        self.memory, self._cuts = max(1, memory), Records(folder, "u4")
        parts = FINER * max(1, -(-entries * SORTED_BYTES // self.memory))
        self._bounds = _bounds(group, entries, parts)
        self.begin()

    def begin(self) -> None:
        """Starts without chunks."""
        self.dimension, self._first = 0, [0]
        self._totals = np.zeros(len(self._bounds) + 1, np.int64)

    def add(self, ids: NDArray[np.int32]) -> None:
        """Takes the next chunk's ids, which rise."""
        inner = np.searchsorted(ids, self._bounds)
        cut = np.concatenate(([0], inner, [len(ids)]))
        self._cuts.write(self.n_chunks * len(cut), cut)
        self._totals += np.diff(cut)
        self._first.append(self._first[-1] + len(ids))
        if len(ids):
            self.dimension = max(self.dimension, int(ids[-1]) + 1)

    def close(self) -> None:
        """Forgets the file."""
        self._cuts.file.close()

    @property
    def n_chunks(self) -> int:
        """Chunks that were added."""
        return len(self._first) - 1

    @property
    def first(self) -> Ids:
        """Pairs of the chunks before each, and of all, (n_chunks + 1,)."""
        return np.array(self._first, np.int64)

    @property
    def largest(self) -> int:
        """Pairs of the largest range."""
        return int(np.add.reduceat(self._totals, self._edges()[:-1]).max())

    def each(self, memory: int) -> Iterator[Some]:
        """Yields for each range its first id and the number of possible ids, its start in each
        chunk's list of ids, all lists concatenated, and the number of its ids there.

        memory: bytes for some of the starts, about.
        """
        n, width, edges = self.n_chunks, len(self._totals) + 1, self._edges()
        first, some = self.first[:-1], max(1, memory // (8 * n * FINER))
        spans = self.spans()
        for r in range(0, len(edges) - 1, some):
            at = edges[r : r + some + 1]
            span, inner = int(at[-1] - at[0]) + 1, at - at[0]
            slab = np.stack(
                [self._cuts.read(j * width + int(at[0]), span)[inner] for j in range(n)]
            )
            for k in range(len(at) - 1):
                begins = slab[:, k].astype(np.int64)
                yield *next(spans), first + begins, slab[:, k + 1] - begins

    def spans(self) -> Iterator[tuple[int, int]]:
        """Returns each range's first id and width."""
        for low, high in pairwise(self._lows()[self._edges()].tolist()):
            yield low, high - low

    def _lows(self) -> Ids:
        """The first id of each part, and one above all."""
        return np.concatenate(([0], self._bounds, [max(self.dimension, 1)])).astype(np.int64)

    def _edges(self) -> Ids:
        """The parts at which ranges start, and their number."""
        edges, total, lows = [0], 0, self._lows().tolist()
        for part, n in enumerate(self._totals.tolist()):
            if total and bytes_of(total + n, lows[part + 1] - lows[edges[-1]]) > self.memory:
                edges.append(part)
                total = 0
            total += n
        return np.array([*edges, len(self._totals)])


def is_sparse(pairs: int, width: int) -> bool:
    """Returns whether the pairs of a range with `width` ids are to be sorted."""
    return width > SPARSE * pairs


def bytes_of(pairs: int, width: int) -> int:
    """Returns the bytes that a range of `width` ids takes."""
    return pairs * (SORTED_BYTES if is_sparse(pairs, width) else PAIR_BYTES)


def _bounds(group: np.void, entries: int, parts: int) -> NDArray[np.int32]:
    """Ids between parts with about as many entries each."""
    rng, n = np.random.default_rng(0), min(entries, PER_PART * parts)
    drawn = [
        ids[rng.integers(0, len(ids), -(-n * len(ids) // entries))]
        for _, ids in sparse_segments(group)
        if len(ids)
    ]
    sample = np.sort(np.concatenate([np.zeros(0, np.int32), *drawn]))
    bounds = sample[len(sample) * np.arange(1, parts if len(sample) else 1) // parts]
    bounds = np.unique(bounds >> GRAIN_BITS << GRAIN_BITS)
    return bounds[bounds > 0]


# The weights of a range of ids in ascending order: a model's weights as they leave the chunks of
# rows.

Array = NDArray[Any]
Pairs = Iterator[tuple[Ids, Array]]
PART_WEIGHTS = 1 << 17
"""Weights that are yielded together, about."""


@dataclass(frozen=True)
class Resting:
    """The ids low .. low + width - 1 of a range: the start and the number of its weights that
    remain with each chunk, both (C,).
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
        self._ids = arrays.empty((2, most), np.int32)
        self._weights = arrays.empty((2, most), np.float32)

    def of(self, number: int, n: int) -> tuple[Array, Array]:
        """Room for n ids and weights of a range; those of the range before stay."""
        return self._ids[number % 2, :n], self._weights[number % 2, :n]


def parts(of: Resting, ids: Array, weights: Array) -> Pairs:
    """Yields (ids, weights) in ascending order of ids, in parts of PART_WEIGHTS at most, except
    for a block of ids.
    """
    yield from Range(ids, of.lengths, of.low, of.width).by_id(weights, PART_WEIGHTS)


# For each feature of a chunk of rows the chunks that have it before and after, range by range.

LINK_SHARE, TAKES_SHARE, CUTS_SHARE = 3 / 4, 1 / 8, 1 / 16
"""Shares of memory for the current ranges, for pairs of chunks, and for the starts of ranges."""


def range_bytes(memory: int, lanes: int) -> int:
    """Returns the bytes that a range may take when each of `lanes` threads has one.

    As sealing has two, of 16 bytes per pair at most, one thread gets no more.
    """
    return int(memory * LINK_SHARE) // max(2, lanes)


class Linking:
    """The links of all pairs, in files; to be closed.

    around: uint32, as in `Range`, by chunk and by rising id; takes: the number of weights that
    each chunk takes over from each, uint32 of shape (chunks, chunks), None if that is too large;
    most_resting: features of a range that remain with chunks, at most.
    """

    def __init__(
        self, ids: Records, ranges: Ranges, memory: int, lanes: int, check: Callable[[], None]
    ) -> None:
        """ids: of each chunk, rising; memory: bytes; check: called often, may raise to stop."""
        self._ids, self.n_chunks, self._lock = ids, ranges.n_chunks, Lock()
        fits = 4 * self.n_chunks**2 <= memory * TAKES_SHARE
        shape = self.n_chunks, self.n_chunks
        self.takes = np.zeros(shape, np.uint32) if fits else None
        with ExitStack() as stack:
            self.around, self._rests, self._counts = (
                make_records(stack, ids.folder, dtype) for dtype in ("u4", "i4", "u4")
            )
            self._lanes = [_Lane(ranges.largest) for _ in range(lanes)]
            each = enumerate(ranges.each(int(memory * CUTS_SHARE)))
            self._at: list[int] = []  # of the features that remain in each range, in `_rests`
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
                of.sort_around(around, lane.scratch[:n])
            else:
                of.link_around(around)
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
        """Counts the features of a range that remain with each chunk, (chunks,)."""
        return self._counts.read(number * self.n_chunks, self.n_chunks).astype(np.int64)

    def resting_ids(self, of: Resting) -> Array:
        """Feature ids (int32) of a range, concatenated by the chunk that they remain with."""
        return self._rests.read(self._at[of.number], int(of.lengths.sum()))

    def resting(self, of: Resting, weights: Records, to: Shelves) -> tuple[Array, Array]:
        """Feature ids (int32) of a range, concatenated by the chunk that they remain with, and
        their weights; weights: of all that remain with each chunk, by rising id.
        """
        ids, found = to.of(of.number, int(of.lengths.sum()))
        self._rests.read(self._at[of.number], len(ids), ids)
        return ids, weights.read_runs(of.begins, of.lengths, found)


class _Lane:
    """Buffers of a thread for the pairs of a range: made once, as memory that a thread frees stays
    with the process. Unused buffers take none.
    """

    def __init__(self, most: int) -> None:
        self.ids, self.around = arrays.empty(most, np.int32), arrays.empty(most, np.uint32)
        self.scratch = arrays.empty(most, np.uint64)


def make_records(stack: ExitStack, folder: Path, dtype: DTypeLike) -> Records:
    """An array in a file, which the stack closes."""
    records = Records(folder, dtype)
    stack.callback(records.file.close)
    return records


LAST = 1 << 62
"""An id above all."""
RANGE_BITS = 20
"""Ids of a range of `Ascending.ranges` have these bits in common but for the last."""


class Ascending:
    """Pairs by rising id, to be taken range by range."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = iter(pairs)
        self._ids, self._weights = np.zeros(0, np.int64), np.zeros(0, np.float32)

    def below(self, end: int) -> tuple[Ids, Array]:
        """The next pairs with ids below `end`."""
        found = []
        while self._more():
            cut = int(np.searchsorted(self._ids, end))
            found.append((self._ids[:cut], self._weights[:cut]))
            self._ids, self._weights = self._ids[cut:], self._weights[cut:]
            if len(self._ids):
                break
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        ids, weights = zip(*found, strict=True)
        return np.concatenate(ids), np.concatenate(weights)

    def ranges(self, end: int) -> Pairs:
        """Yields the next pairs with ids below `end`, in parts that end at multiples of
        2^RANGE_BITS.
        """
        while self._more() and self._ids[0] < end:
            yield self.below(min(end, ((int(self._ids[0]) >> RANGE_BITS) + 1) << RANGE_BITS))

    def _more(self) -> bool:
        """Returns whether there are pairs left, after it has made some available."""
        while not len(self._ids):
            part = next(self._pairs, None)
            if part is None:
                return False
            self._ids, self._weights = part
        return True


class Others:
    """Weights of features that no row has: those of a warm start, which penalties alone change.

    They lie in files. time: the sum of the steps so far (`kernels.stored.training.Model`).
    """

    def __init__(self, stack: ExitStack, folder: Path, l1: float, l2: float) -> None:
        self._ids = make_records(stack, folder, np.int64)
        self._weights = make_records(stack, folder, np.float32)
        self.l1, self.l2, self.time = l1, l2, 0.0

    def add(self, ids: Ids, weights: Array) -> None:
        """Appends weights, by rising id."""
        some = weights != 0
        self._ids.append(ids[some])
        self._weights.append(weights[some])

    def parts(self) -> Pairs:
        """Yields (ids, weights) by rising id, after the penalties of `time` (`Clock`)."""
        keeps = math.exp(-self.l2 * self.time)
        by = self.l1 * (-math.expm1(-self.l2 * self.time) / self.l2 if self.l2 else self.time)
        for at in range(0, self._ids.count, PART_WEIGHTS):
            n = min(PART_WEIGHTS, self._ids.count - at)
            weights = self._weights.read(at, n).astype(np.float64)
            left = np.sign(weights) * np.maximum(np.abs(weights) * keeps - by, 0.0)
            yield self._ids.read(at, n), left.astype(np.float32)

    def sums(self) -> tuple[float, float]:
        """The sums of squares and of absolute values."""
        found = [(np.square(w, dtype=float).sum(), np.abs(w).sum()) for _, w in self.parts()]
        squares, sizes = zip(*found, strict=True) if found else ((), ())
        return float(sum(squares)), float(sum(sizes))

    def merge(self, pairs: Pairs) -> Pairs:
        """Yields the pairs of rows' features and these, in parts that end as those do."""
        mine = Ascending(self.parts())
        for ids, weights in pairs:
            if not len(ids):
                continue
            grain = int(ids[0]) >> GRAIN_BITS << GRAIN_BITS
            yield from mine.ranges(grain)
            more, values = mine.below(((int(ids[-1]) >> GRAIN_BITS) + 1) << GRAIN_BITS)
            both = np.concatenate([ids, more])
            order = np.argsort(both) if len(more) else slice(None)
            yield both[order], np.concatenate([weights, values])[order]
        yield from mine.ranges(LAST)


WEIGHT_BYTES = 4
BUFFER_SHARE = 1 / 2
"""Share of memory for the regions of chunks; write buffers take the rest."""
CHUNKS_SHARE = 1 / 4
"""Share of memory for data kept by chunk, at most."""
MOST_LANES = 2
"""Threads that place weights, each with buffers for a chunk."""
MOST_CHUNKS = 1 << 16
TRIES = 8


class TooWide(Exception):
    """A row has more features than a chunk may have, or there would be too many chunks."""


def most_features(memory: int, several: int = 1) -> int:
    """Features that a chunk may have, of several weights each, with `memory` bytes."""
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

    rows: of a chunk; plan: the weights that travel; dimension: an id that is above all.
    """

    def __init__(
        self,
        rows: Pass,
        memory: int,
        folder: Path,
        fewest: int,
        check: Callable[[], None],
        several: int = 1,
        held: Pass | None = None,
    ) -> None:
        """rows: of one group, whose ids become positions in the regions; memory: bytes, of
        planning and of training each; fewest: chunks at least; check: called often, may raise to
        stop; several: weights of a feature; held: further rows, whose chunks come after the
        others. Raises TooWide if the memory is too small for the rows, which then are unchanged.
        """
        self.several = several
        self.memory, self._check = memory, check
        self._passes = [rows] if held is None else [rows, held]
        self.entries = sum(one.nonzeros() for one in self._passes)
        self.lanes = min(MOST_LANES, rows.threads)
        with ExitStack() as stack:
            self._ids, self.moves = (
                make_records(stack, folder, "i4"),
                make_records(stack, folder, "i4"),
            )
            self.folder = folder
            each = range_bytes(memory, self.lanes)
            self._ranges = Ranges(rows.groups[0], self.entries, each, folder)
            stack.callback(self._ranges.close)
            self._chunks = self._cut_chunks(fewest)
            for one in self._chunks:
                stack.callback(one.close)
            self._first = self._ranges.first
            self._links = Linking(self._ids, self._ranges, memory, self.lanes, check)
            stack.callback(self._links.close)
            give_back()
            self.plan = plan_routes(self.n_chunks, self._takes(), folder, memory, several)
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
    def chunks(self) -> Chunks:
        """The chunks of the rows."""
        return self._chunks[0]

    @property
    def held(self) -> Chunks:
        """The chunks of the held-out rows."""
        return self._chunks[1]

    @property
    def dimension(self) -> int:
        """An id that is above all."""
        return max(1, self._ranges.dimension)

    # --- planning ---

    def _cut_chunks(self, fewest: int) -> list[Chunks]:
        """Writes the ids of each chunk, and their ranks into the rows."""
        most = most_features(self.memory, self.several)
        n_rows = [int(one.groups["n_rows"][0]) for one in self._passes]
        rows = most_rows(self.memory, n_rows[0], self._passes[0].nonzeros(), fewest, self.several)
        for _ in range(TRIES):
            if sum(-(-n // rows) for n in n_rows) >= MOST_CHUNKS:
                break
            with ExitStack() as stack:
                self._chunks = [
                    stack.enter_context(Chunks.of_rows(one, rows)) for one in self._passes
                ]
                largest = self._number(most)
                if largest <= most and CHUNK_BYTES * self.n_chunks <= CHUNKS_SHARE * self.memory:
                    stack.pop_all()
                    self.rows = rows
                    return self._chunks
                for j in range(self.n_chunks):  # puts the ids back where there were ranks
                    chunks, number = self._own(j)
                    chunks.replace(number, self._ids_of(j))
            if rows == 1 or largest <= most:
                break
            rows = fewer_rows(rows, largest, most)
        raise TooWide

    def _number(self, most: int) -> int:
        """The features of the largest chunk; it stops at one that has more than `most`."""
        self._ranges.begin()
        largest = at = 0
        for distinct in chain.from_iterable(one.number_ids() for one in self._chunks):
            self._check()
            self._ids.write(at, distinct)
            self._ranges.add(distinct)
            at, largest = at + len(distinct), max(largest, len(distinct))
            if largest > most:
                break
        self._first = self._ranges.first
        return largest

    def _own(self, chunk: int) -> tuple[Chunks, int]:
        """The rows of a chunk, and its number among theirs."""
        n = len(self._chunks[0])
        return (self._chunks[0], chunk) if chunk < n else (self._chunks[1], chunk - n)

    def _ids_of(self, chunk: int) -> Array:
        first, end = self._first[chunk : chunk + 2]
        return self._ids.read(int(first), int(end - first))

    def _around_of(self, chunk: int) -> Array:
        first, end = self._first[chunk : chunk + 2]
        return self._links.around.read(int(first), int(end - first))

    def _before_of(self, chunk: int) -> Array:
        return arrays.narrow(self._around_of(chunk), np.uint16)

    def _takes(self) -> Iterator[NDArray[np.uint32]]:
        """Counts for each chunk the weights that it takes over from each other chunk."""
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
        """Writes the order in which the weights of each chunk travel on, and their positions into
        the rows.
        """
        with QuietThreads(self.lanes) as pool:
            for _ in pool.map(self._order_chunk, range(self.n_chunks)):
                self._check()

    def _order_chunk(self, j: int) -> None:
        around, given = self._around_of(j), self.plan.gives(j)[0]
        places, going = orders_of(around, self.plan.takes(j)[1], np.cumsum(given) - given)
        self.moves.write(int(self._first[j]), going)
        np.multiply(places, self.several, out=places)
        chunks, number = self._own(j)
        chunks.replace(number, places)
        if len(around):
            chunks.put(number, j, int(self.plan.places[j]) * self.several)

    # --- the weights of a chunk ---

    def places(self, chunk: int) -> Array:
        """Returns the offsets of a chunk's features, by rising id, in its region: int32 (n,)."""
        return self._places(chunk, self._before_of(chunk))

    def _places(self, chunk: int, before: Array) -> Array:
        return ranks(before, self.plan.takes(chunk)[1])

    # --- all weights ---

    def fill(self, routes: Routes, pairs: Pairs, others: Callable[[Ids, Array], None]) -> None:
        """Puts weights into routes that were never used, as `pairs` yields them.

        pairs: (ids, weights) by rising id, in parts; others: gets those that no row has.
        """
        left = Ascending(pairs)
        with ExitStack() as stack:
            found = make_records(stack, self.folder, f"V{self.plan.weight_size}")
            first = np.cumsum(self.plan.rests) - self.plan.rests
            for of in self._resting_ranges(first):
                self._check()
                ids = self._links.resting_ids(of).astype(np.int64) * self.several
                there, given = left.below((of.low + of.width) * self.several)
                weights = np.zeros((len(ids), self.several), np.float32)
                if len(there):
                    known = np.zeros(len(there), np.bool_)
                    for k in range(self.several):
                        at = np.minimum(np.searchsorted(there, ids + k), len(there) - 1)
                        hit = there[at] == ids + k
                        weights[hit, k] = given[at[hit]]
                        known[at[hit]] = True
                    if not known.all():
                        others(there[~known], given[~known])
                found.write_runs(of.begins, of.lengths, weights.view(found.dtype).reshape(-1))
            for rest in left.ranges(LAST):
                others(*rest)
            for j in range(self.n_chunks):
                self._check()
                before = self._before_of(j)
                region = routes.read(j).copy()
                weights = found.read(int(first[j]), int(self.plan.rests[j])).view(np.float32)
                region[self._places(j, before)[before >= j]] = weights.reshape(
                    -1, *region.shape[1:]
                )
                routes.write(j, region)

    def pairs(self, routes: Routes) -> Pairs:
        """Yields (ids, weights) of all features except some whose weight is 0, in ascending order,
        in parts that end at multiples of 2^12; routes: inactive. Weight k of a feature i with
        several has the id i * several + k.

        First the weights that remain with each chunk are sorted by id; then each range takes its
        part of every chunk.
        """
        with ExitStack() as stack:
            give_back()
            found = make_records(stack, self.folder, "f4" if self.several == 1 else "u4")
            self._weights = make_records(stack, self.folder, f"V{self.plan.weight_size}")
            first = np.cumsum(self.plan.rests) - self.plan.rests
            desks = [_Desk(self.plan) for _ in range(self.lanes)]
            rested = partial(self._write_resting, routes, found, first, desks)
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

    def _write_resting(
        self, routes: Routes, found: Records, first: Ids, desks: "list[_Desk]", chunk: int
    ) -> None:
        """Writes the weights that remain with a chunk, by rising id."""
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
            done += copy_resting(chunk, around, takes, given, out[done:])
        if self.several == 1:
            found.write(at, out[:done])
            return
        # The shelves carry the weights' numbers in a file, from 1 on, instead of the weights.
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
        """The start of a chunk's features in the files, and their number."""
        first, end = (int(at) for at in self._first[chunk : chunk + 2])
        return first, end - first

    def _resting_ranges(self, begins: Ids) -> Iterator[Resting]:
        """Yields the remaining weights of each range; begins: the start of each chunk's weights,
        (C,).
        """
        for number, (low, width) in enumerate(self._ranges.spans()):
            lengths = self._links.resting_lengths(number)
            yield Resting(number, low, width, begins, lengths)
            begins = begins + lengths


class _Desk:
    """Buffers of a thread for the weights of a chunk: made once."""

    def __init__(self, plan: RoutePlan) -> None:
        self.region = arrays.empty(plan.largest, np.uint8)
        self.out = arrays.empty(int(plan.rests.max()) + 1, np.float32)


def grains(ids: Ids, most: int) -> Iterator[slice]:
    """Cuts rising ids into parts of about that many, which end at multiples of 2^GRAIN_BITS."""
    begin = 0
    while begin < len(ids):
        last = ids[min(len(ids), begin + max(1, most)) - 1] >> GRAIN_BITS
        end = int(np.searchsorted(ids, (last + 1) << GRAIN_BITS))
        yield slice(begin, end)
        begin = end
