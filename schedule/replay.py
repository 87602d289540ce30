"""Shares that are replayed from a file instead of shared with other trainings.

`TUSKML_SHARES_REPLAY` names the file, for benchmarks and tests. A line has the seconds since a
training began, and its threads from then on. A third number is the memory in MiB that the system
has for files from then on. So the profiles of volatility in Mahajan 2021, section 2.6.2, can be
repeated to the bit.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import TuskError

SETTING = "TUSKML_SHARES_REPLAY"


@dataclass(frozen=True)
class Replay:
    """Shares over time.

    seconds: (n,) since a training began, rising; threads: (n,) from then on; memory: bytes (n,)
    from then on, None for the system's.
    """

    seconds: NDArray[np.float64]
    threads: NDArray[np.int32]
    memory: NDArray[np.float64] | None = None

    def apply_to(self, library: Any) -> None:
        """Sets these shares for the calling thread's training."""
        seconds, threads = self.seconds.ctypes.data, self.threads.ctypes.data
        library.ts_training_replay(len(self.seconds), seconds, threads)

    def memory_at(self, age: float) -> float | None:
        """Bytes of memory at `age` seconds after the start of a training; None for the
        system's.
        """
        if self.memory is None:
            return None
        place = int(np.searchsorted(self.seconds, age, side="right")) - 1
        return float(self.memory[max(place, 0)])


def read_from_environment() -> Replay | None:
    """Reads the replay that the environment names; None without one. Raises TuskError."""
    path = os.environ.get(SETTING)
    return read(Path(path)) if path else None


def read(path: Path) -> Replay:
    """Reads the shares in a file. Raises TuskError."""
    try:
        lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
        seconds = np.array([float(at) for at, *_ in lines])
        threads = np.array([int(number) for _, number, *_ in lines], np.int32)
        more = np.array([[float(each) for each in line[2:]] for line in lines])
    except (OSError, ValueError) as error:
        raise TuskError(f"{SETTING} is '{path}', which cannot be read: {error}") from None
    wrong = not len(seconds) or (np.diff(seconds) <= 0).any() or (threads < 1).any()
    if wrong or more.shape[1] > 1 or not (more >= 0).all():
        expected = "expected lines of rising seconds and a number of threads, at least 1"
        raise TuskError(f"{SETTING} is '{path}', {expected}, and in all lines or none MiB")
    return Replay(seconds, threads, more[:, 0] * 2**20 if more.shape[1] else None)
