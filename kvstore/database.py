"""Partitions in LevelDB: batches of them as arrays, in memory that does not grow with the model.

LevelDB maps its tables (they are not compressed: weights do not shrink) and looks values up in the
mappings, so what bounds memory is how many tables it may keep mapped; its block cache serves the
tables that it cannot map. Every get verifies LevelDB's block checksum and the payload's own.
"""

import ctypes
import errno
import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from tuskml.errors import OF_SYSTEM, StoreError
from tuskml.kvstore import native
from tuskml.kvstore.files import is_at, raise_if_interrupted, remove_tree, reporting
from tuskml.kvstore.native import CORRUPT, ERROR_BYTES, NO_MEMORY, Array, Ids, Weights, address
from tuskml.partitioner import Cost, measure_cost

# LevelDB's background thread stays in the parent of a fork, so a child that waits for it hangs.
# LevelDB starts one thread for all databases of a process, once, and never checks that it still
# exists.
_used, _lost = threading.Event(), threading.Event()


def _lose() -> None:
    if _used.is_set():
        _lost.set()


os.register_at_fork(after_in_child=_lose)


def leveldb_lost() -> bool:
    """Returns whether this process was forked from one that had opened a store."""
    return _lost.is_set()


def use_leveldb() -> None:
    """Records the use of LevelDB. Raises StoreError in a fork without LevelDB's thread."""
    if _lost.is_set():
        raise StoreError(
            "this process was forked from one that had opened a store, whose threads it does not "
            "have: start it by 'spawn' (multiprocessing.get_context('spawn'))"
        )
    _used.set()


MEBIBYTE = 1 << 20
LEAST_MEMORY = 128 * MEBIBYTE
LARGEST_PARTITION = MEBIBYTE
"""Largest size of the weights under one key, in bytes."""
BATCH_KEYS, BATCH_BYTES = 1 << 15, 2 * MEBIBYTE  # limits of a native call: tens of milliseconds
BLOOM_BITS, BLOCK_SIZE = 10, 4096
BUFFERS_SHARE, MOST_BUFFERS = 8, 32 * MEBIBYTE
"""Share of a cache for LevelDB's buffers, as a divisor, and their largest size in bytes."""
NO_SPACE = os.strerror(errno.ENOSPC)
BATCHES = 8
"""A write batch has at most this fraction of the buffers, so two memtables can exceed their size
by a quarter of them.
"""
# LevelDB's minimum, and the number of files that it counts separately
_FEWEST_TABLES, _OTHER_FILES = 64, 10


@dataclass(frozen=True)
class Counters:
    """Counts of operations since the store was opened; sizes in bytes of payloads with their
    headers.

    requests: keys requested, also by `add`; found: those that existed; writes: keys written;
    batches: write batches.
    """

    requests: int = 0
    found: int = 0
    writes: int = 0
    batches: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def __add__(self, other: "Counters") -> "Counters":
        return Counters(*(a + b for a, b in zip(_numbers(self), _numbers(other), strict=True)))


def _numbers(counters: Counters) -> list[int]:
    return list(vars(counters).values())


def buffers_of(cache: int) -> int:
    """Bytes of a cache for LevelDB's memtables and block cache; the rest is for frames."""
    return min(cache // BUFFERS_SHARE, MOST_BUFFERS)


def options(memory: int, weight_size: int, create: bool, buffers: int = 0) -> native.Options:
    """LevelDB's settings within a budget of bytes.

    Three quarters for mapped tables, of which LevelDB keeps 64 at least; a table is as large as a
    memtable, or as max_file_size says where tables were merged. A sixteenth for the block cache.
    The two memtables, and indexes and filters of mapped tables, take less than the rest.
    buffers: bytes of the memtables and the block cache together, with what a write batch adds;
    a quarter for each of the three. 0: as above.
    """
    if memory < LEAST_MEMORY:
        raise StoreError(f"memory must be at least {LEAST_MEMORY} bytes, got {memory}")
    mapped = memory * 3 // 4
    table = min(mapped // _FEWEST_TABLES, 64 * MEBIBYTE)
    return native.Options(
        create=create,
        weight_size=weight_size,
        write_buffer=buffers // 4 or table,
        block_cache=buffers // 4 or memory // 16,
        max_file_size=table,
        block_size=BLOCK_SIZE,
        max_open_files=min(mapped // table, 1000) + _OTHER_FILES,
        bloom_bits=BLOOM_BITS,
    )


class Database:
    """A LevelDB directory. Keys are int64 of at least 0; no lock is taken here.

    Threads may call get, put, add and scan concurrently, but not close.
    """

    def __init__(
        self,
        path: Path,
        dtype: np.dtype[np.generic],
        memory: int,
        create: bool,
        buffers: int = 0,
    ) -> None:
        """Opens or creates it. Raises StoreError if the directory is missing, or exists,
        respectively.

        memory, buffers: as for `options`.
        """
        use_leveldb()
        self.path, self.dtype = path, dtype
        self._native = native.with_leveldb()
        self._store = ctypes.c_void_p()
        settings = options(memory, dtype.itemsize, create, buffers)
        self._batch = min(BATCH_BYTES, buffers // BATCHES or BATCH_BYTES)
        opened, error = ctypes.byref(self._store), ctypes.create_string_buffer(ERROR_BYTES)
        name = os.fsencode(path)
        self._check(self._native.ks_open(name, ctypes.byref(settings), opened, error), error)

    def close(self) -> None:
        """Waits for a running compaction and closes all files. No effect the second time."""
        # in a fork it would wait for a thread that does not exist
        if self._store and not leveldb_lost():
            self._native.ks_close(self._store)
        self._store = ctypes.c_void_p()

    @property
    def handle(self) -> ctypes.c_void_p:
        """Handle of the `ks_store`; null after `close`."""
        return self._store

    def get(self, keys: Ids, starts: Ids, out: Weights, found: Array | None = None) -> None:
        """Copies partition i into out[starts[i]:starts[i + 1]], zeros for a key that is not there.

        keys: (n,); starts: (n + 1,); out: (starts[n],) of the store's dtype; found: bool, (n,).
        """
        for a, b in _slices(starts, self._batch // self.dtype.itemsize):
            flags = None if found is None else address(found[a:])
            places = address(keys[a:]), b - a, address(starts[a:]), address(out)
            with self._reporting() as error:
                error.code = self._native.ks_get(self._store, *places, flags, error.text)

    def put(self, keys: Ids, starts: Ids, values: Weights, sync: bool = False) -> None:
        """Writes partitions, laid out as in `get`; each slice of up to 2 MiB is atomic."""
        for a, b in _slices(starts, self._batch // self.dtype.itemsize):
            places = address(keys[a:]), b - a, address(starts[a:]), address(values)
            with self._reporting() as error:
                error.code = self._native.ks_put(self._store, *places, sync, error.text)

    def add(self, keys: Ids, widths: Array, entries: Ids, slots: Array, deltas: Weights) -> None:
        """Get, merge, put: adds deltas[j] to slots[j] of partition i, j in entries[i:i + 2].

        widths: uint32, (n,), of partitions that are not there yet; slots: uint32, below the
        width. Threads lose none of each other's updates, whatever slots of a key they touch.
        """
        starts = np.zeros(len(keys) + 1, np.int64)
        np.cumsum(widths, out=starts[1:])
        for a, b in _slices(starts, self._batch // self.dtype.itemsize):
            parts = keys[a:], widths[a:], entries[a:], slots, deltas
            updates = native.Updates(*map(address, parts), b - a)
            with self._reporting() as error:
                error.code = self._native.ks_add(self._store, ctypes.byref(updates), error.text)

    def sync(self) -> None:
        """Flushes all writes to the disk."""
        with self._reporting() as error:
            error.code = self._native.ks_sync(self._store, error.text)

    def scan(
        self, first: int = 0, keys: int = 1 << 16, values: int = 1 << 18
    ) -> Iterator[tuple[Ids, Ids, Weights]]:
        """(keys, starts, values) of all partitions from a key on, in the order of keys.

        Up to a given number of keys and values at a time, in arrays of their own; as the store is
        when the scan begins, which must end before the store is closed.
        """
        use_leveldb()
        scan = self._native.ks_scan_open(self._store, first)
        if not scan:
            raise MemoryError
        try:
            while True:
                raise_if_interrupted()
                part = self._scan_next(scan, keys, values)
                if not len(part[0]):
                    return
                yield part
        finally:
            self._native.ks_scan_close(scan)

    def _scan_next(self, scan: int, keys: int, values: int) -> tuple[Ids, Ids, Weights]:
        names, starts = np.empty(keys, np.int64), np.empty(keys + 1, np.int64)
        weights = np.empty(values, self.dtype)
        page = native.Page(keys, values, address(names), address(starts), address(weights))
        with self._reporting() as error:
            error.code = self._native.ks_scan_next(scan, ctypes.byref(page), error.text)
        n = page.n
        return names[:n], starts[: n + 1], weights[: int(starts[n])]

    @property
    def counters(self) -> Counters:
        """Counts of operations since it was opened."""
        if not self._store or leveldb_lost():
            return Counters()
        numbers = (ctypes.c_int64 * 6)()
        self._native.ks_count(self._store, numbers)
        return Counters(*numbers)

    def property(self, name: str) -> str:
        """Value of a LevelDB property, such as "stats" or "approximate-memory-usage"; "" if
        unknown.
        """
        use_leveldb()
        text = self._native.ks_property(self._store, f"leveldb.{name}".encode())
        if not text:
            return ""
        try:
            return ctypes.string_at(text).decode(errors="replace")
        finally:
            self._native.ks_free(text)

    @contextmanager
    def _reporting(self) -> Iterator["_Error"]:
        if not self._store:
            raise StoreError(f"the store {self.path} is closed")
        use_leveldb()
        error = _Error()
        yield error
        self._check(error.code, error.text)

    def _check(self, code: int, text: "ctypes.Array[ctypes.c_char]") -> None:
        if code:
            raise_error(self.path, code, text)


def raise_error(path: Path, code: int, text: "ctypes.Array[ctypes.c_char]") -> NoReturn:
    """Raises the error of a native call on the store of this path."""
    reason = text.value.decode(errors="replace")
    if code == NO_MEMORY:
        raise MemoryError(reason)
    if code == CORRUPT:
        raise StoreError(f"the store {path} is damaged: {reason}")
    if NO_SPACE in reason:
        full = StoreError(
            f"the disk of the store {path} is full: free space there, or give stores another "
            "root (in DuckDB tuskml_set_store_root, in PostgreSQL tuskml.store_root)"
        )
        full.sqlstate = OF_SYSTEM[errno.ENOSPC][0]
        raise full
    raise StoreError(f"the store {path} failed: {reason}")


class _Error:
    """Code and message of a native call."""

    def __init__(self) -> None:
        self.code, self.text = 0, ctypes.create_string_buffer(ERROR_BYTES)


def _slices(starts: Ids, weights: int) -> Iterator[tuple[int, int]]:
    """Splits partitions into ranges of about `weights` weights, at least one partition each.

    Python handles signals between them, and the check of `files.interruptible` runs before each.
    """
    n, a = len(starts) - 1, 0
    while a < n:
        most = starts[a] + weights
        b = int(np.searchsorted(starts, most, side="right")) - 1
        b = min(max(b, a + 1), a + BATCH_KEYS, n)
        raise_if_interrupted()
        yield a, b
        a = b


PROBE_PREFIX = ".probe-"


def measure_store(
    folder: "Path | str",
    memory: int = 2 * LEAST_MEMORY,
    most: int = 1 << 23,
) -> Cost:
    """The cost function t_s + |P| t_u of LevelDB in a folder (`partitioner.measure_cost`).

    A store is written there and removed again; takes about a second, and little memory.
    """
    with reporting("measuring a store"), _directory(Path(folder)) as path:
        database = Database(path / "database", np.dtype(np.float32), memory, create=True)
        try:
            return measure_cost(database, most=most)
        finally:
            database.close()


@contextmanager
def _directory(folder: Path) -> Iterator[Path]:
    """A new locked directory; the collector removes that of a killed process."""
    handle = -1
    while handle < 0:
        path = Path(tempfile.mkdtemp(prefix=PROBE_PREFIX, dir=folder))
        handle = _lock(path)
    try:
        yield path
    finally:
        remove_tree(path)
        os.close(handle)


def _lock(path: Path) -> int:
    """Opens and locks the directory; returns the descriptor, -1 if a collector removed it
    first.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1
    fcntl.flock(handle, fcntl.LOCK_EX)
    if is_at(handle, path):
        return handle
    os.close(handle)
    return -1
