"""Arrays in files, for what a training keeps that grows with the number of features."""

import os
import tempfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tuskml.errors import DataError

Array = NDArray[Any]


def unnamed(folder: Path) -> IO[bytes]:
    """A file that is gone when it is closed, however the process ends."""
    return tempfile.TemporaryFile(dir=folder, buffering=0)


class Records:
    """An array in a file that is gone when it is closed: items at a place, or all after it."""

    def __init__(self, folder: Path, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.file: IO[bytes] = unnamed(folder)

    def write(self, at: int, items: Array) -> None:
        """Puts items at place `at`."""
        view = np.ascontiguousarray(items, self.dtype).view(np.uint8).data
        at *= self.dtype.itemsize
        while view:
            n = os.pwrite(self.file.fileno(), view, at)
            view, at = view[n:], at + n

    def read(self, at: int, n: int) -> Array:
        """n items from place `at`."""
        size = self.dtype.itemsize
        data = os.pread(self.file.fileno(), n * size, at * size)
        if len(data) < n * size:
            raise DataError("a file of a training's plan ends too early")
        return np.frombuffer(data, self.dtype)
