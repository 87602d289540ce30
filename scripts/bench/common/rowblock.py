"""Rows in memory as tuskml's packer leaves them, written by NumPy, for timing a kernel alone."""

from __future__ import annotations

import numpy as np
from data import Floats
from numpy.typing import NDArray

HEADER = np.dtype(
    [
        ("next", np.uintp),
        ("slab", np.uintp),
        ("n_rows", np.uint32),
        ("cap_rows", np.uint32),
        ("nnz", np.uint32),
        ("cap_nnz", np.uint32),
    ]
)
DENSE_FLOAT32 = 0


def one_segment(X: Floats, y: NDArray[np.uint8]) -> tuple[NDArray[np.void], NDArray[np.uint8]]:
    """A group of one dense segment, and the memory that holds it: udas/rowblock/rowblock.h."""
    from tuskml.kernels.passes import GROUP

    n, d = X.shape
    memory = np.zeros(HEADER.itemsize + 8 * n + X.nbytes, np.uint8)
    header = memory[: HEADER.itemsize].view(HEADER)
    header["n_rows"] = header["cap_rows"] = n
    labels = memory[HEADER.itemsize : HEADER.itemsize + 8 * n]
    labels.view(np.float64)[:] = y
    memory[HEADER.itemsize + 8 * n :].view(np.float32)[:] = X.ravel()
    group = np.zeros(1, GROUP)
    group["head"], group["n_rows"] = memory.ctypes.data, n
    group["dim"], group["kind"] = d, DENSE_FLOAT32
    return group, memory
