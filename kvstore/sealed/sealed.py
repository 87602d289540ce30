"""Sealed models, mapped for reading by any number of processes."""

import ctypes
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from tuskml.errors import DataError, StoreError
from tuskml.kvstore import native
from tuskml.kvstore.files.files import CHUNK, Record, open_plain, parse
from tuskml.kvstore.native import ERROR_BYTES, OK, Ids, SealedAbout, Weights, address
from tuskml.partitioner import IndexMap

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
