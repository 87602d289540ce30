"""A file system `slow://` that reads local files at the rate of a network link.

Each thread that reads has a link of its own, as each node of a cluster has: bytes take as long as
the link needs for them, however fast the disk is. Latency is left out.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileOpener, LocalFileSystem

SLOW = "slow"


class SlowFile(LocalFileOpener):
    """A local file that is open for reading.

    DuckDB's threads share it, and others may run between a seek and the read that belongs to it.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.places = threading.local()

    def seek(self, place: int, whence: int = 0) -> int:
        """Returns where this thread reads next."""
        self.places.next = super().seek(place, whence)
        return self.places.next

    def read(self, length: int = -1) -> bytes:
        """Reads up to `length` bytes, at the rate of the link."""
        place = getattr(self.places, "next", 0)
        data = bytearray(self.size - place if length < 0 else length)
        return bytes(data[: self.readinto(data)])

    def readinto(self, data: Any) -> int:
        """Reads into memory of the caller."""
        began, place = time.perf_counter(), getattr(self.places, "next", 0)
        n = os.preadv(self.f.fileno(), [data], place)
        self.places.next = place + n
        SlowFileSystem.carried += n
        time.sleep(max(0.0, n / SlowFileSystem.rate - (time.perf_counter() - began)))
        return n


class SlowFileSystem(LocalFileSystem):
    """rate: bytes a second of each link, or infinity; carried: bytes of all links so far.

    fsspec makes an object for each thread, so both are of the class.
    """

    protocol = SLOW
    rate = float("inf")
    carried = 0

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return LocalFileSystem._strip_protocol(str(path).removeprefix(f"{SLOW}://"))

    def unstrip_protocol(self, name: str) -> str:
        """The address of a file."""
        return f"{SLOW}://{self._strip_protocol(name)}"

    def _open(
        self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any
    ) -> Any:
        return SlowFile(path, mode, fs=self, **options)


def linked(connection: Any, rate: float) -> type[SlowFileSystem]:
    """Registers the file system with a connection; rate: bytes a second of each link."""
    fsspec.register_implementation(SLOW, SlowFileSystem, clobber=True)
    SlowFileSystem.rate, SlowFileSystem.carried = rate, 0
    connection.register_filesystem(fsspec.filesystem(SLOW))
    return SlowFileSystem
