"""Rows of correlated features for benchmarks of the lasso, the same for each contender."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

CORRELATION = 0.6
"""The correlation of neighbouring features."""
SUPPORT = 200
"""Features that the labels depend on."""
SIGNAL = 3.0
"""Signal over noise, as a ratio of standard deviations."""


def written(folder: Path, n: int, p: int) -> None:
    """Writes `x.npy`, (n, p) in the order of columns, and `y.npy`, unless they are there."""
    x_at, y_at = folder / f"x-{n}-{p}.npy", folder / f"y-{n}-{p}.npy"
    if y_at.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    x = np.lib.format.open_memmap(x_at, "w+", np.float64, (n, p), fortran_order=True)
    block = 100
    for at in range(0, n, block):
        rows = np.random.default_rng(at).normal(size=(min(block, n - at), p))
        rows[:, 1:] *= np.sqrt(1 - CORRELATION**2)
        x[at : at + block] = lfilter([1.0], [1.0, -CORRELATION], rows, axis=1)
    random = np.random.default_rng(n)
    where = np.sort(random.choice(p, SUPPORT, replace=False))
    y = x[:, where] @ random.normal(size=SUPPORT)
    y += random.normal(size=n) * y.std() / SIGNAL
    x.flush()
    np.save(y_at, y)


def read(
    folder: Path, n: int, p: int, mapped: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The rows in the order of columns, which may be left in the file, and the labels."""
    x = np.load(folder / f"x-{n}-{p}.npy", "r" if mapped else None)
    return x, np.load(folder / f"y-{n}-{p}.npy")
