"""Rows of NumPy arrays in the packers' format, for trainings without a database."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import Floats
from tuskml.kernels.rows.cells import Cells
from tuskml.kernels.structures import GROUP, SEGMENT

FLOAT64 = 1
"""Kind of dense rows of float64 (`kernels.KINDS`)."""
LINE = 64


@dataclass(frozen=True)
class WrittenRows:
    """Rows in cells, as in `Cells`, and their memory."""

    cells: Cells
    memory: NDArray[np.uint8]


def copy_to_cells(
    x: Floats, y: Floats, group: NDArray[np.intp], fold: NDArray[np.intp], shape: tuple[int, int]
) -> WrittenRows:
    """Copies rows x (n, d), y (n,) to cells of G groups and F folds; shape: (G, F).

    The rows of a cell keep their order in x.
    """
    n_groups, folds = shape
    cell = group * folds + fold
    counts = np.bincount(cell, minlength=n_groups * folds)
    d = x.shape[1]
    sizes = (SEGMENT.itemsize + counts * 8 * (d + 1) + LINE - 1) // LINE * LINE
    places = np.cumsum(sizes) - sizes
    memory = np.zeros(int(sizes.sum()) + LINE, np.uint8)
    base = -memory.ctypes.data % LINE
    order = np.argsort(cell, kind="stable")
    first = 0
    for place, n in zip(places.tolist(), counts.tolist(), strict=True):
        rows = order[first : first + n]
        _write(memory[base + place :], x[rows], y[rows])
        first += n
    out = np.zeros(n_groups * folds, GROUP)
    out["head"] = np.where(counts > 0, memory.ctypes.data + base + places, 0)
    out["n_rows"], out["dim"], out["kind"] = counts, d, FLOAT64
    return WrittenRows(Cells(out.reshape(shape), folds, 1), memory)


def _write(to: NDArray[np.uint8], x: Floats, y: Floats) -> None:
    """Writes one segment without room for more rows."""
    header = np.zeros(1, SEGMENT)
    header["n_rows"] = header["cap_rows"] = len(y)
    bytes_of = [np.ascontiguousarray(part).view(np.uint8).ravel() for part in (header, y, x)]
    at = 0
    for part in bytes_of:
        to[at : at + len(part)] = part
        at += len(part)
