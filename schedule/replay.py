"""Shares that are replayed from a file instead of being told by other trainings, for benches and
tests: `TUSKML_SHARES_REPLAY` names it.

A line has the seconds since a training began, and its threads from then on. So the profiles of
volatility in Mahajan 2021, section 2.6.2, can be repeated to the bit.
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
    """seconds (n,) since a training began, rising, and threads (n,), from then on."""

    seconds: NDArray[np.float64]
    threads: NDArray[np.int32]

    def given_to(self, library: Any) -> None:
        """The calling thread's training has these shares."""
        seconds, threads = self.seconds.ctypes.data, self.threads.ctypes.data
        library.ts_training_replay(len(self.seconds), seconds, threads)


def asked() -> Replay | None:
    """What the environment asks for; None: nothing. Raises TuskError."""
    path = os.environ.get(SETTING)
    return read(Path(path)) if path else None


def read(path: Path) -> Replay:
    """The shares in a file. Raises TuskError."""
    try:
        lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
        seconds = np.array([float(at) for at, _ in lines])
        threads = np.array([int(number) for _, number in lines], np.int32)
    except (OSError, ValueError) as error:
        raise TuskError(f"{SETTING} is '{path}', which cannot be read: {error}") from None
    if not len(seconds) or (np.diff(seconds) <= 0).any() or (threads < 1).any():
        expected = "expected lines of rising seconds and a number of threads, at least 1"
        raise TuskError(f"{SETTING} is '{path}', {expected}")
    return Replay(seconds, threads)
