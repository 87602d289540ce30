"""Directory entries of a sealed file during writing, in a file as they grow with the model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from tuskml.kvstore.native import ENTRY, Array, crc32c
from tuskml.kvstore.working.records import Records

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
