"""Sealed models: one immutable file, named by what is in it, mapped by any number of processes.

Little-endian:

    0          header: "TUSKSEAL", uint32 version 1, bytes of a weight (4 or 8), shift, 0, 0, CRC
    32         blocks of 2^shift weights by rising feature id (mapped/sealed_format.h)
    directory  24 bytes per block: number, offset, count, CRC (sealed_entry)
    index      the index map of the store it was trained in (partitioner/index_map.py)
    metadata   a JSON object
    footer     128 bytes: where those lie, their CRCs, the SHA-256 of all before it, its own CRC

The file's name is that SHA-256. Feature order, not key order: a reader needs no index map.
"""

import ctypes
import fcntl
import hashlib
import json
import os
import struct
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from tuskml.errors import DataError, StoreError
from tuskml.kvstore import native
from tuskml.kvstore.arrays import Records
from tuskml.kvstore.files import (
    CHUNK,
    Record,
    copy_metadata,
    create,
    is_at,
    open_plain,
    parse,
    temporary,
)
from tuskml.kvstore.native import (
    ENTRY,
    ERROR_BYTES,
    OK,
    Array,
    Ids,
    SealedAbout,
    Weights,
    address,
    crc32c,
    model_dtype,
)
from tuskml.partitioner import IndexMap

WINDOW = 1 << 12
"""Entries in memory at once: those of 2^24 features."""
LEAST_DIRECT = 4096


class Out(Protocol):
    """A writable stream."""

    def write(self, data: bytes) -> None:
        """Writes all of the data."""


class Entries:
    """Entries of the blocks that have weights, by rising number. Close it after use."""

    def __init__(self, folder: Path) -> None:
        """folder: directory for a temporary file if there are more than WINDOW entries."""
        self._folder, self._last, self._n = folder, -1, 0
        self._few: list[Array] = []
        self._waiting = 0
        self._file: Records | None = None

    def append(self, entries: Array) -> None:
        """Appends entries, ENTRY of shape (n,)."""
        self._few.append(entries.copy())
        self._waiting += len(entries)
        self._n, self._last = self._n + len(entries), int(entries["block"][-1])
        if self._waiting >= WINDOW:
            self._file = self._file or Records(self._folder, ENTRY)
            self._file.append(np.concatenate(self._few))
            self._few, self._waiting = [], 0

    def put(self, out: Out) -> tuple[int, bool, int]:
        """Writes the directory.

        Returns the number of entries, whether entry i is of block i, and the CRC of all. If so,
        empty blocks have entries too.
        """
        direct = self._last + 1 <= 4 * self._n + LEAST_DIRECT
        crc = n = 0
        for entries in self._direct() if direct else self._windows():
            data = entries.tobytes()
            out.write(data)
            crc, n = crc32c(data, crc), n + len(entries)
        return n, direct, crc

    def close(self) -> None:
        """Closes and removes the temporary file."""
        if self._file is not None:
            self._file.file.close()

    def _windows(self) -> Iterator[Array]:
        if self._file is not None:
            for at in range(0, self._file.count, WINDOW):
                yield self._file.read(at, min(WINDOW, self._file.count - at))
        yield from self._few

    def _direct(self) -> Iterator[Array]:
        end = 0
        for entries in self._windows():
            first, end = end, int(entries["block"][-1]) + 1
            every = np.zeros(end - first, ENTRY)
            every["block"] = np.arange(first, end)
            every[entries["block"].astype(np.int64) - first] = entries
            yield every


VERSION = 1
SHIFT = 12
"""log2 of features per block; 4,096 as float32 are 16 KiB, a page fault or a few."""
HEADER = struct.Struct("<8s5I")
FOOTER = struct.Struct("<8s8Q4I")  # followed by SHA-256 (32 bytes), 0 (4 bytes), CRC of the footer
SUFFIX = ".tusk"
MOST_PAIRS = 1 << 18
Pairs = Iterable[tuple[Ids, Weights]]
"""Feature ids, rising throughout, and their weights."""


@dataclass(frozen=True)
class SealedFile:
    """A complete file without its final name."""

    path: Path
    digest: str
    dimension: int
    nonzero: int
    size: int


@contextmanager
def closing_generator(pairs: Pairs) -> Iterator[None]:
    """Closes a generator when the context ends.

    One that waits at a `yield` keeps its resources, such as the gate of a store, for as long as an
    error's traceback refers to it.
    """
    try:
        yield
    finally:
        if isinstance(pairs, Generator):
            pairs.close()


@contextmanager
def sealing(
    folder: Path,
    pairs: Pairs,
    dtype: DTypeLike,
    dimension: int | None,
    index: bytes,
    metadata: "Record | None",
) -> Iterator[SealedFile]:
    """Writes a model into a new file of the folder, to be given its name before the context ends.

    pairs: the weights; zeros are not stored. dimension: features in all, None for one more than
    the last. The file is on the disk when the context begins. It is locked meanwhile: the
    collector removes those without a lock, and so does the context's end.
    """
    path = temporary(folder / "sealed")
    try:
        with _create_locked(path) as file:
            written = _write(file, path, pairs, dtype, dimension, index, copy_metadata(metadata))
            file.flush()
            os.fsync(file.fileno())
            yield written
    finally:
        path.unlink(missing_ok=True)


def _create_locked(path: Path) -> BinaryIO:
    """Creates and locks a file; retries if a collector removed it before the lock."""
    while True:
        file = create(path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if is_at(file.fileno(), path):
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _write(
    file: BinaryIO,
    path: Path,
    pairs: Pairs,
    dtype: DTypeLike,
    dimension: int | None,
    index: bytes,
    metadata: Record,
) -> SealedFile:
    with closing_generator(pairs), closing(Entries(path.parent)) as entries:
        blocks = _Blocks(_HashingFile(file), model_dtype(dtype), entries)
        for ids, weights in pairs:
            blocks.add(ids, weights)
        blocks.finish()
        out, start = blocks.out, blocks.out.size
        n_entries, direct, crc = entries.put(out)
    last = blocks.last + 1
    if dimension is not None and dimension < last:
        raise StoreError(f"a model of {dimension} features has a weight of feature {last - 1}")
    dimension = last if dimension is None else dimension
    text = json.dumps(metadata, sort_keys=True).encode()
    sections = []
    for section in (index, text):
        sections += [out.size, len(section)]
        out.write(section + bytes(-len(section) % 8))
    crcs = crc, crc32c(index), crc32c(text)
    numbers = dimension, blocks.nonzero, start, n_entries, *sections
    foot = FOOTER.pack(b"TUSKFOOT", *numbers, direct, *crcs)
    out.write(foot)
    digest = out.sha.digest()
    foot += digest + bytes(4)
    out.write(foot[FOOTER.size :] + struct.pack("<I", crc32c(foot)))
    return SealedFile(path, digest.hex(), dimension, blocks.nonzero, out.size)


class _HashingFile:
    """A file with the SHA-256 of the bytes written so far."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.sha, self.size = file, hashlib.sha256(), 0

    def write(self, data: "bytes | memoryview") -> None:
        self.sha.update(data)
        self._file.write(data)
        self.size += len(data)


class _Blocks:
    """Splits rising pairs into blocks; keeps the last one, which may be incomplete."""

    def __init__(self, out: _HashingFile, dtype: "np.dtype[np.generic]", entries: Entries) -> None:
        self.out, self.dtype, self._entries = out, dtype, entries
        self.nonzero, self.last = 0, -1
        self._ids, self._weights = np.empty(0, np.int64), np.empty(0, dtype)
        head = HEADER.pack(b"TUSKSEAL", VERSION, dtype.itemsize, SHIFT, 0, 0)
        out.write(head + struct.pack("<I", crc32c(head)))

    def add(self, ids: Ids, weights: Weights) -> None:
        """Appends pairs."""
        stored = weights.view(f"u{self.dtype.itemsize}") != 0
        ids, weights = ids[stored], weights[stored]
        if not len(ids):
            return
        if (ids[1:] <= ids[:-1]).any() or ids[0] <= self.last:
            raise StoreError("feature ids must rise, none below 0")
        self.last, self.nonzero = int(ids[-1]), self.nonzero + len(ids)
        self._ids = np.concatenate((self._ids, ids))
        self._weights = np.concatenate((self._weights, weights))
        self._seal(int(np.searchsorted(self._ids, ids[-1] >> SHIFT << SHIFT)))

    def finish(self) -> None:
        """Writes the remaining pairs."""
        self._seal(len(self._ids))

    def _seal(self, count: int) -> None:
        """Writes the blocks of the first `count` pairs, about MOST_PAIRS at a time."""
        while count:
            n = count
            if n > MOST_PAIRS:  # up to the end of a block
                n = int(np.searchsorted(self._ids, (self._ids[MOST_PAIRS] >> SHIFT) + 1 << SHIFT))
            n = min(n, count)
            self._seal_chunk(n)
            self._ids, self._weights, count = self._ids[n:], self._weights[n:], count - n

    def _seal_chunk(self, n: int) -> None:
        size = self.dtype.itemsize
        ids = np.ascontiguousarray(self._ids[:n])
        weights = np.ascontiguousarray(self._weights[:n])
        most = min(n, int(ids[-1] >> SHIFT) - int(ids[0] >> SHIFT) + 1)
        out, entries = np.empty(n * (size + 10), np.uint8), np.empty(most, ENTRY)
        n_entries = ctypes.c_int64()
        written = native.library().ks_seal(
            address(ids),
            address(weights),
            n,
            self.out.size,
            SHIFT,
            size,
            address(out),
            address(entries),
            ctypes.byref(n_entries),
        )
        self.out.write(out[:written].data)
        self._entries.append(entries[: n_entries.value])


MEMORY = 1 << 28
_AFTER_DIGEST = 40  # bytes of the footer from the digest on


class SealedModel:
    """The weights of a finished model, in a file that never changes.

    dimension: number of features; dtype: float32 or float64; nonzero: weights that are not 0;
    metadata: the JSON object given when it was sealed; digest: SHA-256 of the file, in hex, which
    is its name too. Threads may use one together; after `close` nothing may be read. The databases
    read these files by the same code (`mapped/sealed_file.h`).
    """

    def __init__(self, path: Path, digest: str | None = None, memory: int = MEMORY) -> None:
        """Maps the file. Raises StoreError if it is missing or damaged, or has another format
        version or another digest than expected.

        digest: of the content; memory: about how many bytes of the mapping may count as the
        process's: beyond that it releases pages, which stay in the page cache. Header, directory
        and metadata are checked now; each block of weights when it is first read, or all by
        `verify`.
        """
        self.path = path
        self._file = ctypes.c_void_p()
        with open_plain(path) as file:
            descriptor = os.dup(file.fileno())
        label, wanted = os.fsencode(path), digest.encode() if digest else None
        self._call(
            "open", descriptor, label, wanted, memory, ctypes.byref(self._file), opened=True
        )
        about = self._about = SealedAbout()
        native.library().ks_sealed_describe(self._file, ctypes.byref(about))
        self.dtype = np.dtype(f"f{about.weight_size}")
        self.dimension, self.nonzero = int(about.dimension), int(about.nonzero)
        self.digest = about.digest.decode()
        try:
            text = ctypes.string_at(about.metadata or 0, about.metadata_length)
            self.metadata: Record = parse(text, path)
        except BaseException:
            self.close()
            raise

    def weights(self, ids: ArrayLike) -> Weights:
        """Weights of features, in the shape of ids; 0 for ids below 0 or from dimension on.

        Raises StoreError if a block with one of them is damaged.
        """
        features = np.asarray(ids, np.int64, order="C")
        out = np.empty(features.shape, self.dtype)
        self._call("gather", self._file, address(features), features.size, address(out))
        return out

    def items(self, weights: int = 1 << 18) -> Iterator[tuple[Ids, Weights]]:
        """Yields (ids, weights) of nonzero weights by rising id, about `weights` at a time."""
        shift, end = self._about.shift, self._about.n_entries
        step = max(1, weights >> shift)
        capacity = step << shift
        for first in range(0, end, step):
            ids, values = np.empty(capacity, np.int64), np.empty(capacity, self.dtype)
            n = ctypes.c_int64()
            arrays = address(ids), address(values), ctypes.byref(n)
            self._call("items", self._file, first, min(first + step, end), *arrays)
            if n.value:
                yield ids[: n.value], values[: n.value]

    def verify(self) -> None:
        """Reads the whole file. Raises StoreError if any byte has changed."""
        sha = hashlib.sha256()
        self._require_open()
        data = (ctypes.c_char * (self.size - _AFTER_DIGEST)).from_address(self._about.bytes or 0)
        view = memoryview(data)
        for start in range(0, len(view), CHUNK):
            sha.update(view[start : start + CHUNK])
            native.library().ks_sealed_let_go(self._file)
        if sha.hexdigest() != self.digest:
            raise StoreError(f"{self.path} is damaged: its content is not what its name says")
        for _ in self.items():
            pass

    @property
    def index(self) -> IndexMap:
        """Index map of the store in which it was trained, without the live features."""
        start, length = ctypes.c_void_p(), ctypes.c_uint64()
        self._call("index", self._file, ctypes.byref(start), ctypes.byref(length))
        try:
            return IndexMap.from_bytes(ctypes.string_at(start.value or 0, length.value))
        except DataError as error:
            raise StoreError(f"{self.path} is damaged: {error}") from error

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return int(self._about.size)

    def close(self) -> None:
        """Unmaps the file."""
        file, self._file = self._file, ctypes.c_void_p()
        if file:
            native.library().ks_sealed_close(file)

    def __enter__(self) -> "SealedModel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_file", None):
            self.close()

    def __repr__(self) -> str:
        return f"SealedModel({self.dimension} features, {self.dtype}, {self.digest[:16]})"

    def _require_open(self) -> None:
        if not self._file:
            raise StoreError(f"the sealed model {self.path} is closed")

    def _call(self, name: str, *arguments: object, opened: bool = False) -> None:
        """Calls the reader. Raises StoreError with its sentence on failure."""
        if not opened:
            self._require_open()
        error = ctypes.create_string_buffer(ERROR_BYTES)
        if getattr(native.library(), f"ks_sealed_{name}")(*arguments, error) != OK:
            raise StoreError(error.value.decode(errors="replace"))
