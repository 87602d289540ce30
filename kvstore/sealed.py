"""Sealed models, mapped for reading by any number of processes."""

import contextlib
import ctypes
import hashlib
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from tuskml.errors import DataError, StoreError
from tuskml.kvstore import native
from tuskml.kvstore.files import CHUNK, Record, open_plain, parse
from tuskml.kvstore.native import CORRUPT, ENTRY, Ids, SealedFile, Weights, address, crc32c
from tuskml.kvstore.sealing import FOOTER, FOOTER_SIZE, HEADER, HEADER_SIZE, VERSION
from tuskml.partitioner import IndexMap

MEMORY = 1 << 28
BLOCK_MEMORY = 1 << 18  # of a block: its bytes, and what the kernel maps around them


@dataclass(frozen=True)
class _Footer:
    digest: str
    dimension: int
    nonzero: int
    directory: int
    n_entries: int
    index: int
    index_length: int
    metadata: int
    metadata_length: int
    direct: int
    directory_crc: int
    index_crc: int
    metadata_crc: int


class SealedModel:
    """The weights of a finished model, in a file that never changes.

    dimension: number of features; dtype: float32 or float64; nonzero: weights that are not 0;
    metadata: the JSON object given when it was sealed; digest: SHA-256 of the file, in hex, which
    is its name too. Threads may use one together; after `close` nothing may be read.
    """

    def __init__(self, path: Path, digest: str | None = None, memory: int = MEMORY) -> None:
        """Maps the file; StoreError if it is missing, damaged, another version's or another's.

        digest: what its content must be; memory: bytes of the mapping that may count as the
        process's, roughly: beyond, it lets go of them, and they stay in the page cache. Header,
        directory, index map and metadata are checked now; each block of weights when it is first
        read, or all by `verify`.
        """
        self.path, self._memory = path, memory
        with open_plain(path) as file:
            if os.fstat(file.fileno()).st_size < HEADER_SIZE + FOOTER_SIZE:
                raise StoreError(f"{path} is damaged: it is too short for a sealed model")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._bytes = np.frombuffer(self._map, np.uint8)
        size, shift = self._read_header()
        foot = self._footer = self._read_footer(digest)
        self.dtype = np.dtype(f"f{size}")
        self.dimension, self.nonzero, self.digest = foot.dimension, foot.nonzero, foot.digest
        entries = self._section(foot.directory, foot.n_entries * ENTRY.itemsize)
        self._expect(entries, foot.directory_crc, "directory")
        self._entries = entries.view(ENTRY)
        text = self._section(foot.metadata, foot.metadata_length)
        self._expect(text, foot.metadata_crc, "metadata")
        self.metadata: Record = parse(text.tobytes(), path)
        self._checked = np.zeros(foot.n_entries, np.uint8)
        self._touched = ctypes.c_int64()
        self._room = max(1, memory // BLOCK_MEMORY) if len(self._bytes) > memory else 1 << 20
        self._file = self._describe(shift)

    def weights(self, ids: ArrayLike) -> Weights:
        """Weights of features, of the shape of ids; 0 for ids below 0 or from dimension on.

        StoreError if a block that holds one of them is damaged.
        """
        features = np.asarray(ids, np.int64, order="C")
        out = np.empty(features.shape, self.dtype)
        for start in range(0, features.size, self._room):
            n, bad = min(self._room, features.size - start), ctypes.c_int64()
            places = address(features) + start * 8, n, address(out) + start * self.dtype.itemsize
            code = native.library().ks_gather(self._reference(), *places, ctypes.byref(bad))
            self._check(code, bad.value)
            self._let_go()
        return out

    def items(self, weights: int = 1 << 18) -> Iterator[tuple[Ids, Weights]]:
        """(ids, weights) of all that is not 0, by rising id, about so many at a time."""
        step = max(1, weights >> self._file.shift)
        room = step << self._file.shift
        for first in range(0, self._footer.n_entries, step):
            ids, values = np.empty(room, np.int64), np.empty(room, self.dtype)
            last, n, bad = (
                min(first + step, self._footer.n_entries),
                ctypes.c_int64(),
                ctypes.c_int64(),
            )
            arrays = address(ids), address(values), ctypes.byref(n), ctypes.byref(bad)
            code = native.library().ks_unseal(self._reference(), first, last, *arrays)
            self._check(code, bad.value)
            self._let_go()
            if n.value:
                yield ids[: n.value], values[: n.value]

    def verify(self) -> None:
        """Reads the whole file; StoreError unless each byte is as it was sealed."""
        sha = hashlib.sha256()
        end = len(self._bytes) - 40
        for start in range(0, end, CHUNK):
            sha.update(self._bytes[start : min(start + CHUNK, end)].data)
            self._let_go(CHUNK // BLOCK_MEMORY)
        if sha.hexdigest() != self.digest:
            raise StoreError(f"{self.path} is damaged: its content is not what its name says")
        for _ in self.items():
            pass

    @property
    def index(self) -> IndexMap:
        """The index map of the store it was trained in."""
        data = self._section(self._footer.index, self._footer.index_length)
        self._expect(data, self._footer.index_crc, "index map")
        try:
            return IndexMap.from_bytes(data.tobytes())
        except DataError as error:
            raise StoreError(f"{self.path} is damaged: {error}") from error

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self._bytes)

    def close(self) -> None:
        """Lets go of the mapping once no array of it is left."""
        self._file = SealedFile()
        self._bytes = self._entries = np.empty(0, np.uint8)
        with contextlib.suppress(BufferError):  # an array still looks at it: it goes with that
            self._map.close()

    def __enter__(self) -> "SealedModel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SealedModel({self.dimension} features, {self.dtype}, {self.digest[:16]})"

    def _read_header(self) -> tuple[int, int]:
        """Bytes of a weight, and shift."""
        head = self._bytes[: HEADER.size].tobytes()
        magic, version, size, shift, *_ = HEADER.unpack(head)
        if magic != b"TUSKSEAL":
            raise StoreError(f"{self.path} is no sealed model")
        stored = struct.unpack("<I", self._bytes[HEADER.size : HEADER_SIZE].tobytes())[0]
        if stored != crc32c(head):
            raise StoreError(f"{self.path} is damaged: its header's checksum is wrong")
        if version != VERSION or size not in (4, 8) or shift > 16:
            raise StoreError(
                f"{self.path} has version {version}, this tuskml reads {VERSION}: seal it again"
            )
        return size, shift

    def _read_footer(self, digest: str | None) -> _Footer:
        tail = self._bytes[-FOOTER_SIZE:].tobytes()
        magic, *numbers = FOOTER.unpack_from(tail)
        crc = struct.unpack("<I", tail[-4:])[0]
        if magic != b"TUSKFOOT" or crc32c(tail[:-4]) != crc:
            raise StoreError(f"{self.path} is damaged: it does not end as a sealed model")
        foot = _Footer(tail[FOOTER.size : FOOTER.size + 32].hex(), *numbers)
        if digest is not None and foot.digest != digest:
            raise StoreError(f"{self.path} is another model than the one asked for")
        return foot

    def _section(self, start: int, length: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
        if start + length > len(self._bytes):
            raise StoreError(f"{self.path} is damaged: a section lies outside")
        return self._bytes[start : start + length]

    def _expect(
        self, data: "np.ndarray[tuple[int], np.dtype[np.uint8]]", crc: int, name: str
    ) -> None:
        if crc32c(data) != crc:
            raise StoreError(f"{self.path} is damaged: its {name}'s checksum is wrong")

    def _describe(self, shift: int) -> SealedFile:
        foot = self._footer
        return SealedFile(
            base=address(self._bytes),
            entries=address(self._entries),
            checked=address(self._checked),
            n_entries=foot.n_entries,
            dimension=foot.dimension,
            data_end=foot.directory,
            shift=shift,
            weight_size=self.dtype.itemsize,
            direct=foot.direct,
            touched=ctypes.addressof(self._touched),
        )

    def _let_go(self, blocks: int = 0) -> None:
        """Unmaps the pages when enough blocks were touched, `blocks` of them uncounted so far."""
        self._touched.value += blocks
        if len(self._bytes) > self._memory and self._touched.value >= self._room:
            self._touched.value = 0
            self._map.madvise(mmap.MADV_DONTNEED)
            self._checked &= 1

    def _reference(self) -> object:
        if not self._file.base:
            raise StoreError(f"the sealed model {self.path} is closed")
        return ctypes.byref(self._file)

    def _check(self, code: int, entry: int) -> None:
        if code == CORRUPT:
            block = int(self._entries["block"][entry])
            raise StoreError(f"{self.path} is damaged: the checksum of block {block} is wrong")
