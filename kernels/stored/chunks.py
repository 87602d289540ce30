"""Rows cut into chunks, with feature ids replaced by indices into payloads of a store.

See `kernels/native/stored/chunks.hpp`. The mapping is that of Qin, Torres, Rusu, VLDB 2017,
section 6, done once a training instead of once an epoch.
"""

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuskml.errors import DataError, TuskError
from tuskml.kernels import structures
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Pass
from tuskml.kvstore import arrays

Keys = NDArray[np.uint64]
Widths = NDArray[np.uint32]
Locate = Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int32]]]
Sizes = Callable[[NDArray[np.int64]], NDArray[np.int64]]

CHUNK_TOO_LARGE, BAD_PLACE = 18, 19
FRAME_BYTES = 128
"""Bytes of a payload besides its weights."""
NUMBER_BYTES = 12
"""Bytes per entry of a chunk that is numbered; 8, and bitmaps of a fixed size."""


_MORE = "do not fit into a worker's share of the cache: raise option 'cache' or use fewer threads"
ONE_ROW, ONE_KEY = f"the weights of one row {_MORE}", f"the weights under one key {_MORE}"


MAP_BYTES = 32
"""Bytes per entry of a chunk that is mapped: ids, keys, slots, and lookup tables."""


class ChunkTooLarge(TuskError):
    """The payloads of a chunk do not fit into the share of one worker.

    chunk: its number.
    """

    def __init__(self, message: str, chunk: int) -> None:
        super().__init__(message)
        self.chunk = chunk


@dataclass(frozen=True)
class Few:
    """A `locate` for `Chunks.map` that gets the ids of several chunks at once."""

    locate: Locate
    at_once: int

    def __call__(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Calls `locate`."""
        return self.locate(ids)

    @classmethod
    def within(cls, memory: int, locate: Locate, rows: Pass, rows_per_chunk: int) -> "Few":
        """A `locate` for as many chunks as take about `memory` bytes; at least one, at most two
        per thread.
        """
        n_rows = max(1, int(rows.groups["n_rows"].sum()))
        entries = rows.nonzeros() * min(rows_per_chunk, n_rows) // n_rows
        return cls(locate, max(1, min(2 * rows.threads, memory // max(1, MAP_BYTES * entries))))


@dataclass(frozen=True)
class Chunk:
    """Rows row .. row + rows - 1 of the group, and their payloads.

    keys: shape (k,), distinct, rising; widths: shape (k,), weights in each payload; weights: their
    sum; features: number of distinct ones; shift: 2^shift weights in a page of its table; wide: it
    is one row whose payloads do not fit together, and is trained by parts.
    """

    row: int
    rows: int
    entries: int
    keys: Keys
    widths: Widths
    weights: int
    features: int
    shift: int
    wide: bool


class Chunks:
    """The rows of one sparse group, with indices into payloads instead of feature ids.

    Close it, or use it as a context manager, before the rows are freed.
    """

    def __init__(self, rows: Pass, cut: structures.CutStructure) -> None:
        if rows.n_groups != 1 or not rows.sparse:
            raise DataError("a stored model needs the sparse rows of one group")
        self.rows = rows
        self._handle = ctypes.c_void_p()
        out = ctypes.byref(self._handle)
        check_code(library().tk_chunks_new(pointer(rows.groups), cut, out))

    @classmethod
    def map(
        cls,
        rows: Pass,
        locate: Locate,
        sizes: Sizes,
        rows_per_chunk: int,
        most_bytes: int,
        weight_size: int = 4,
        shift: int = -1,
    ) -> "Chunks":
        """Cuts the rows and overwrites their feature ids, in place and for good.

        locate, sizes: as in `partitioner.IndexMap`: keys, int64, and slots, int32, of ids; widths
        of keys; each distinct id and key of a chunk is passed once. most_bytes: of the payloads of
        one chunk, weight_size bytes per weight (4 or 8) and FRAME_BYTES per payload; chunks of
        rows_per_chunk rows with more are cut again, and one row with more is trained by parts.
        shift: pages of 2^shift weights in the tables through which weights are found; -1: the best
        for each chunk. `locate.at_once`, if present, is the number of chunks whose ids are passed
        in one call (`Few`).

        Raises ChunkTooLarge if one payload takes more than most_bytes. After any error the rows
        are unusable.
        """
        cut = structures.CutStructure(
            rows_per_chunk,
            most_bytes,
            FRAME_BYTES,
            weight_size,
            shift,
            rows.threads,
            rows.cancel_mark,
        )
        chunks = cls(rows, cut)
        try:
            at_once = getattr(locate, "at_once", 2 * rows.threads)
            while chunks._map_some(locate, sizes, at_once):
                pass
        except BaseException:
            chunks.close()
            raise
        return chunks

    @classmethod
    def of_rows(cls, rows: Pass, rows_per_chunk: int) -> "Chunks":
        """Cuts the rows and leaves their ids, for `number_ids`, `replace` and `put`."""
        threads, mark = rows.threads, rows.cancel_mark
        return cls(rows, structures.CutStructure(rows_per_chunk, 1 << 60, 0, 4, -1, threads, mark))

    def number_ids(self) -> Iterator[NDArray[np.int32]]:
        """Overwrites the ids of each chunk by their ranks; yields its distinct ids.

        int32 of shape (n,), rising, valid until the next. Takes NUMBER_BYTES of memory for each
        entry of the largest chunk.
        """
        most = max((chunk.entries for chunk in self), default=0)
        scratch, ids = arrays.empty(most, np.uint32), arrays.empty(most, np.int32)
        n = ctypes.c_int64()
        for number in range(len(self)):
            arguments = self._handle, number, pointer(scratch), pointer(ids), ctypes.byref(n)
            check_code(library().tk_chunk_number(*arguments))
            yield ids[: n.value]

    def replace(self, number: int, table: NDArray[np.int32]) -> None:
        """Overwrites each number in a chunk's rows by table[number]."""
        library().tk_chunk_replace(self._handle, self._check(number), pointer(table))

    def put(self, number: int, key: int, width: int) -> None:
        """Makes a chunk's entries indices into the payload of a key, of `width` weights."""
        check_code(library().tk_chunk_put(self._handle, self._check(number), key, width))

    def _map_some(self, locate: Locate, sizes: Sizes, limit: int) -> bool:
        """Maps up to `limit` chunks; returns False if all were mapped before."""
        lib, n = library(), ctypes.c_int64()
        check_code(lib.tk_chunks_ids(self._handle, limit, ctypes.byref(n)))
        if n.value < 0:
            return False
        ids = np.empty(n.value, np.int64)
        lib.tk_chunks_copy_ids(self._handle, pointer(ids))
        located = locate(ids)
        keys = np.ascontiguousarray(located[0], np.int64)
        slots = np.ascontiguousarray(located[1], np.int32)
        if not len(keys) == len(slots) == len(ids):
            raise DataError(f"{len(ids)} features were given {len(keys)} keys, {len(slots)} slots")
        code = lib.tk_chunks_keys(self._handle, pointer(keys), pointer(slots), ctypes.byref(n))
        check_code(code)
        keys = np.empty(n.value, np.int64)
        lib.tk_chunks_copy_keys(self._handle, pointer(keys))
        widths = check_widths(sizes(keys), len(keys))
        code = lib.tk_chunks_place(self._handle, pointer(widths))
        if code == BAD_PLACE:
            raise DataError("the index map gives a feature a slot that its payload does not have")
        if code == CHUNK_TOO_LARGE:
            raise ChunkTooLarge(ONE_KEY, -1)
        check_code(code)
        return True

    def split(self, number: int) -> None:
        """Halves a chunk for which the store has no room; increments the numbers of later
        chunks.
        """
        code = library().tk_chunks_split(self._handle, self._check(number))
        if code == CHUNK_TOO_LARGE:
            raise ChunkTooLarge(ONE_ROW, number)
        check_code(code)

    def close(self) -> None:
        """Frees the chunks."""
        library().tk_chunks_free(self._handle)
        self._handle = ctypes.c_void_p()

    def __enter__(self) -> "Chunks":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        count: int = library().tk_chunks_count(self._handle)
        return count

    def _check(self, number: int) -> int:
        if not 0 <= number < len(self):
            raise IndexError(f"there are {len(self)} chunks, no number {number}")
        return number

    def __getitem__(self, number: int) -> Chunk:
        c = structures.Chunk()
        library().tk_chunks_at(self._handle, self._check(number), c)
        keys = _copy_items(c.keys, c.n_keys, np.dtype(np.uint64))
        widths = _copy_items(c.widths, c.n_keys, np.dtype(np.uint32))
        about = c.weights, c.features, c.shift, bool(c.wide)
        return Chunk(c.row, c.rows, c.entries, keys, widths, *about)

    def __iter__(self) -> Iterator[Chunk]:
        return (self[i] for i in range(len(self)))

    def keys(self, which: "NDArray[np.int64] | None" = None) -> tuple[Keys, Widths]:
        """All distinct keys, rising, of some chunks or all, and their widths; both (k,)."""
        keys, widths = np.zeros(0, np.uint64), np.zeros(0, np.uint32)
        waiting: list[Chunk] = []  # merged when they are as many as those before, so rarely
        for number in range(len(self)) if which is None else which:
            waiting.append(self[int(number)])
            if sum(len(chunk.keys) for chunk in waiting) > len(keys):
                keys, widths = _merge_keys(keys, widths, waiting)
                waiting = []
        return _merge_keys(keys, widths, waiting)


def _merge_keys(keys: Keys, widths: Widths, chunks: list[Chunk]) -> tuple[Keys, Widths]:
    """Merges distinct keys of chunks with those given, rising, with their widths."""
    all_keys = np.concatenate([keys, *(chunk.keys for chunk in chunks)])
    all_widths = np.concatenate([widths, *(chunk.widths for chunk in chunks)])
    distinct, first = np.unique(all_keys, return_index=True)
    return distinct, all_widths[first]


def check_widths(widths: ArrayLike, n: int) -> NDArray[np.int64]:
    """Widths of n payloads as int64 of shape (n,)."""
    out = np.ascontiguousarray(widths, np.int64)
    if out.shape != (n,) or (n and not 1 <= out.min() <= out.max() < 2**31):
        raise DataError(f"{n} payloads must have a width each, from 1 to {2**31 - 1}")
    return out


def _copy_items(address: int | None, n: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Copies n items of memory that is not Python's."""
    data = ctypes.string_at(address, n * dtype.itemsize) if n and address else b""
    return np.frombuffer(data, dtype)
