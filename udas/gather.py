"""Rows of many small groups that lie scattered over memory, moved side by side."""

import ctypes
import threading
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.udas.kernels import Pass
from tuskml.udas.library import check_code, library, pointer
from tuskml.udas.segments import SEGMENT, dense_row_bytes

LEAST_GROUPS = 64
MOST_BYTES = 8 << 20
"""Rows that are moved together in one call: what about stays in a cache."""
_threads = threading.local()


def gathered(rows: Pass) -> Pass:
    """The same rows side by side, where many small groups lie scattered over memory.

    The copy is this thread's own, and good until its next one.
    """
    groups = rows.groups
    if rows.sparse or len(groups) < LEAST_GROUPS:
        return rows
    row = dense_row_bytes(rows.n_features, int(groups["kind"][0]))
    place = np.zeros(len(groups) + 1, np.int64)
    np.cumsum((SEGMENT.itemsize + groups["n_rows"] * row + 63) // 64 * 64, out=place[1:])
    struct = ctypes.byref(rows._struct())
    if place[-1] > MOST_BYTES or not library().tk_scattered(struct):
        return rows
    copy = np.empty_like(groups)
    memory = _scratch(int(place[-1]))
    check_code(library().tk_gather(struct, pointer(memory), pointer(place), pointer(copy)))
    return replace(rows, groups=copy)


def _scratch(size: int) -> NDArray[np.uint8]:
    """Memory of this thread's own, up to MOST_BYTES: fresh pages would cost more than the copy."""
    kept: NDArray[np.uint8] | None = getattr(_threads, "scratch", None)
    if kept is None or len(kept) < size:
        kept = _threads.scratch = np.empty(size, np.uint8)
    return kept
