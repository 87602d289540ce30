"""Payloads that travel between chunks of rows: weights that exceed memory, in a file.

See `native/routes/api.h`. Kernels acquire a chunk's weights, train them in place and release them,
as with `Frames`; but chunks come in a fixed order, so that each weight is sent straight to the
next chunk that needs it. An epoch reads and writes each chunk's weights once, in long runs.

Their plan says what chunks take over from each other (`native/routes/api.h`).
"""

import ctypes
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import StoreError
from tuskml.kvstore import arrays, native
from tuskml.kvstore.arrays import Records, open_unnamed
from tuskml.kvstore.database import leveldb_lost, raise_error, use_leveldb
from tuskml.kvstore.frames import FrameCounters
from tuskml.kvstore.native import ERROR_BYTES, Ids, Weights, address

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

    def link_around(self, around: Counts) -> None:
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

    def sort_around(self, around: Counts, scratch: NDArray[np.uint64]) -> None:
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


PAGE = 4096
BUFFERS = 4
"""Regions in memory: the current chunk, the next, the one being written, and its order."""
MOST_BEHIND = 256 << 10
"""Largest number of bytes per chunk that are gathered before they are written."""
CHUNK_BYTES = 256
"""Bytes of memory per chunk, here and in `native/routes`."""
PIECES, PIECE_KEYS = 16, 1 << 16
"""Least number of pieces of a region between passes; the key of piece p of chunk j is j * 2^16 +
p.
"""
PARTS, WEIGHT_BYTES = 4, 4
"""Rows of links per chunk, and bytes of a weight."""


@dataclass(frozen=True)
class RoutePlan:
    """What chunks of rows take over from each other and where it lies; C chunks.

    weight_size: bytes of all weights of a feature, of which there are `several`: below "a weight"
    is all of a feature's. region: int64 of shape (C + 1,), bytes at which each chunk's region
    begins; first: int64 of shape (C + 1,), weights of the chunks before; resting: int64 of shape
    (C,), the place in each region from which on weights rest between passes; links: see
    `ks_route_plan`; behind: bytes that are gathered for each region before they are written;
    buckets: all of them, far_buckets: those not from the chunk just before, far_weights: weights
    of these; n_features: weights, each counted once; resting_buckets: those that hold them between
    passes.
    """

    region: Ids
    first: Ids
    resting: Ids
    links: Records
    weight_size: int
    several: int = 1
    behind: int = 0
    buckets: int = 0
    far_buckets: int = 0
    far_weights: int = 0
    resting_buckets: int = 0
    n_features: int = 0

    @property
    def n_chunks(self) -> int:
        """Number of chunks of rows."""
        return len(self.first) - 1

    @property
    def rests(self) -> Ids:
        """Number of weights that rest with each chunk between passes, (C,)."""
        return np.diff(self.first) - self.resting

    @property
    def places(self) -> Ids:
        """Number of weights in each region, (C,)."""
        return np.diff(self.region) // self.weight_size

    @property
    def largest(self) -> int:
        """Bytes of the largest region."""
        return int(np.diff(self.region).max())

    @property
    def piece(self) -> int:
        """Largest number of weights acquired together between passes."""
        return piece_of(int(self.places.max()), self.weight_size)

    @property
    def nbytes(self) -> int:
        """Bytes of memory of a training: buffers, and state by chunk."""
        return BUFFERS * self.largest + (CHUNK_BYTES + self.behind) * self.n_chunks

    @property
    def runs(self) -> int:
        """Approximate number of writes of an epoch: each region is written as two runs."""
        if not self.behind:
            return self.far_buckets
        return min(self.far_buckets, 2 * self.n_chunks + self.bytes_of_an_epoch // self.behind)

    @property
    def bytes_of_an_epoch(self) -> int:
        """Bytes that are read, and written, if nothing stays in memory."""
        return int(self.first[-1]) * self.weight_size

    def takes(self, chunk: int) -> tuple[Counts, Counts]:
        """Number of weights taken over from each chunk, and their first indices in the chunk's
        region.
        """
        return self._pair(chunk, 0)

    def gives(self, chunk: int) -> tuple[Counts, Counts]:
        """Number of weights given to each chunk, and their first indices in that chunk's
        region.
        """
        return self._pair(chunk, 2)

    def keys_at_rest(self) -> tuple[NDArray[np.uint64], Counts]:
        """Pieces that hold each weight once between passes, rising, and their widths in single
        weights.
        """
        left = self.places - self.resting
        pieces = -(-left // self.piece)
        chunk = np.repeat(np.arange(self.n_chunks), pieces)
        number = np.arange(len(chunk)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        widths = np.minimum(self.piece, left[chunk] - number * self.piece)
        keys = (chunk * PIECE_KEYS + number).astype(np.uint64)
        return keys, (widths * self.several).astype(np.uint32)

    def _pair(self, chunk: int, part: int) -> tuple[Counts, Counts]:
        n = self.n_chunks
        values = self.links.read((chunk * PARTS + part) * n, 2 * n)
        return values[:n], values[n:]


def plan_routes(
    n: int, takes: Iterable[Counts], folder: Path, memory: int, several: int = 1
) -> RoutePlan:
    """Plans the routes of n chunks; several: float32 weights per feature.

    takes: for each chunk the numbers of weights taken over from each, uint32 of shape (n,);
    memory: approximate bytes.
    """
    links, weight_size = Records(folder, "u4"), WEIGHT_BYTES * several
    counted = np.zeros((n, 5), np.int64)
    resting = np.empty(n, np.int64)
    for j, counts in enumerate(takes):
        ends = np.cumsum(counts, dtype=np.int64)
        links.write(j * PARTS * n, counts)
        links.write((j * PARTS + 1) * n, ends - counts)
        resting[j] = ends[j] - counts[j]
        near = counts[(j - 1) % n]
        total, some = int(counts.sum(dtype=np.int64)), np.count_nonzero
        later = counts[j:]
        far = some(counts) - (near > 0), total - int(near)
        counted[j] = (total, *far, some(later), int(later.sum(dtype=np.int64)))
    totals = counted.sum(axis=0)
    _transpose(links, n, memory)
    nears = counted[:, 0] - counted[:, 2]
    sizes = -(-counted[:, 0] * weight_size // PAGE) * PAGE
    return RoutePlan(
        region=_ends(sizes),
        first=_ends(counted[:, 0]),
        resting=resting,
        links=links,
        weight_size=weight_size,
        several=several,
        behind=gather_size(n, memory, int(sizes.max())),
        buckets=int(totals[1]) + int(np.count_nonzero(nears)),
        far_buckets=int(totals[1]),
        far_weights=int(totals[2]),
        resting_buckets=int(totals[3]),
        n_features=int(totals[4]),
    )


def gather_size(n: int, memory: int, largest: int) -> int:
    """Bytes gathered for each of n chunks: whole pages of otherwise unused memory.

    largest: bytes of the largest region. 0 if there is less than a page for each.
    """
    left = memory - BUFFERS * largest - CHUNK_BYTES * n
    return max(0, min(MOST_BEHIND, left // max(1, n) // PAGE * PAGE))


def ranks(chunks: NDArray[np.uint16], first: Counts) -> NDArray[np.int32]:
    """Counts earlier occurrences of each chunk number, starting at first[number]; int32 (n,).

    first: uint32 of shape (C,), C above all numbers.
    """
    out, counts = arrays.empty(len(chunks), np.int32), first.astype(np.uint32)
    at = native.address(np.ascontiguousarray(chunks, np.uint16))
    native.library().ks_route_ranks(at, len(chunks), native.address(counts), native.address(out))
    return out


def orders_of(around: Counts, takes: Counts, gives: Counts) -> tuple[Array, Array]:
    """Indices of a chunk's weights in its region, and the same in the order of departure.

    around: as in `Range`; takes: offsets of the region's buckets; gives: offsets of the departing
    buckets among all of the chunk.
    """
    places, going = arrays.empty((2, len(around)), np.int32)
    copies = takes.astype(np.uint32), gives.astype(np.uint32)
    native.library().ks_route_order(
        native.address(around),
        len(around),
        *map(native.address, copies),
        native.address(places),
        native.address(going),
    )
    return places, going


def copy_resting(
    chunk: int,
    around: Counts,
    takes: Counts,
    region: NDArray[np.float32],
    out: NDArray[np.float32],
) -> int:
    """Copies the weights that stay with a chunk to `out`, by rising id, and returns their number.

    around: chunks before and after each weight, as from `Range`; takes: uint32 (C,), first indices
    of the buckets in `region`, which are advanced; region: the chunk's region from the first
    weight that stays; out: float32, with room for one weight more.
    """
    n: int = native.library().ks_route_resting(
        native.address(around),
        len(around),
        chunk,
        native.address(takes),
        native.address(region),
        native.address(out),
    )
    return n


def piece_of(places: int, weight_size: int = 4) -> int:
    """Number of weights of a piece if the largest region has `places` weights."""
    return max(1, PAGE // weight_size, -(-places // PIECES))


def _ends(sizes: Ids) -> Ids:
    return np.concatenate(([0], np.cumsum(sizes)))


def _transpose(links: Records, n: int, memory: int) -> None:
    """Writes the outgoing buckets of each chunk, a slab of chunks at a time."""
    wide = max(1, min(n, memory // (32 * n)))
    for first in range(0, n, wide):
        some = min(wide, n - first)
        slab = arrays.empty((2, some, n), np.uint32)
        for j in range(n):
            for part in (0, 1):
                slab[part, :, j] = links.read((j * PARTS + part) * n + first, some)
        for k in range(some):
            links.write(((first + k) * PARTS + 2) * n, slab[:, k].ravel())


class Routes:
    """The weights of a plan, initially 0. Close it after use. A pass visits all chunks in order.

    moves: a file of int32, for each chunk the indices of its weights in its region, by destination
    chunk and then id; folder: directory for the file of weights.
    """

    def __init__(self, plan: RoutePlan, moves: IO[bytes], folder: Path) -> None:
        use_leveldb()
        self.plan, self.folder, self._native = plan, folder, native.library()
        self._handle = ctypes.c_void_p()
        self._file = open_unnamed(folder)
        self._last = FrameCounters()
        try:
            os.ftruncate(self._file.fileno(), int(plan.region[-1]))
            plan_structure = native.RoutePlan(
                plan.n_chunks,
                plan.weight_size,
                address(plan.region),
                address(plan.first),
                self._file.fileno(),
                moves.fileno(),
                plan.links.file.fileno(),
                plan.piece,
                plan.behind,
                plan.several,
            )
            self._keep = plan_structure, moves
            error = ctypes.create_string_buffer(ERROR_BYTES)
            opened = ctypes.byref(self._handle)
            self._check(
                self._native.ks_routes_open(ctypes.byref(plan_structure), opened, error), error
            )
        except BaseException:
            self._file.close()
            raise
        self._access = native.FrameAccess()
        self._native.ks_routes_access(self._handle, ctypes.byref(self._access))

    @property
    def access(self) -> int:
        """Address of a tusk_frame_access, valid until this object is closed."""
        if not self._handle:
            raise StoreError("the weights of this training are closed")
        return ctypes.addressof(self._access)

    @property
    def counters(self) -> FrameCounters:
        """Counts in buckets: hits never left memory, requests were read; written counts runs."""
        if self._handle:
            numbers = (ctypes.c_int64 * 10)()
            self._native.ks_routes_count(self._handle, numbers)
            names = (
                "wanted",
                "hits",
                "requests",
                "found",
                "written",
                "bytes_read",
                "bytes_written",
                "reading",
                "writing",
                "waiting",
            )
            self._last = FrameCounters(**dict(zip(names, numbers, strict=True)))
        return self._last

    @contextmanager
    def at_rest(self, fold: bool = False) -> Iterator[None]:
        """Brings weights to rest between passes.

        Each weight is in the file, in the region of the first chunk that has it, and its pieces
        (`RoutePlan.keys_at_rest`) may be acquired in any order; fold: stamps become 0.
        """
        self._rest(True, False)
        yield
        self._rest(False, fold)

    def read(self, chunk: int, place: int = 0, out: NDArray[np.uint8] | None = None) -> Weights:
        """Reads a chunk's region at rest, from index `place` on.

        Shape (places,), or (places, several) if features have several weights; out: bytes to read
        into.
        """
        begin, end = (int(at) for at in self.plan.region[chunk : chunk + 2])
        begin += place * self.plan.weight_size
        data = arrays.empty(end - begin, np.uint8) if out is None else out[: end - begin]
        view = data.data
        while view:
            n = os.preadv(self._file.fileno(), [view], begin)
            if not n:
                raise StoreError("the file of weights ends too early")
            view, begin = view[n:], begin + n
        if self.plan.several == 1:
            return data.view(f"f{self.plan.weight_size}")
        whole = len(data) // self.plan.weight_size * self.plan.weight_size
        return data[:whole].view(np.float32).reshape(-1, self.plan.several)

    def write(self, chunk: int, weights: Weights) -> None:
        """Replaces a chunk's region, at rest or before the first pass."""
        view = np.ascontiguousarray(weights).reshape(-1).view(np.uint8).data
        at = int(self.plan.region[chunk])
        while view:
            n = os.pwrite(self._file.fileno(), view, at)
            view, at = view[n:], at + n

    def copy(self, file: IO[bytes], back: bool = False) -> None:
        """Copies all weights, at rest, to a file; back: from there."""
        source, target = (file, self._file) if back else (self._file, file)
        at, size = 0, int(self.plan.region[-1])
        while at < size:
            at += os.copy_file_range(source.fileno(), target.fileno(), size - at, at, at)

    def close(self) -> None:
        """Frees memory and file. No effect the second time."""
        # in a fork it would wait for a thread that does not exist
        if self._handle and not leveldb_lost():
            with suppress(StoreError):
                self._last = self.counters
            self._native.ks_routes_close(self._handle)
        self._handle = ctypes.c_void_p()
        self._file.close()

    def __enter__(self) -> "Routes":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rest(self, rest: bool, fold: bool) -> None:
        error: Any = ctypes.create_string_buffer(ERROR_BYTES)
        self._check(self._native.ks_routes_rest(self._handle, rest, fold, error), error)

    def _check(self, code: int, text: "ctypes.Array[ctypes.c_char]") -> None:
        if code:
            raise_error(self.folder, code, text)
