"""Rows of many small groups that lie scattered over memory, moved side by side."""

import threading
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Pass
from tuskml.kernels.segments import dense_row_bytes
from tuskml.kernels.structures import SEGMENT

LEAST_GROUPS = 64
MOST_BYTES = 8 << 20
"""Bytes of rows moved in one call, so that they about fit into a cache."""
_threads = threading.local()


def gathered(rows: Pass) -> Pass:
    """The same rows side by side, where many small groups lie scattered over memory.

    The copy belongs to this thread and is valid until the thread's next copy.
    """
    groups = rows.groups
    if rows.sparse or len(groups) < LEAST_GROUPS:
        return rows
    row = dense_row_bytes(rows.n_features, int(groups["kind"][0]), int(groups["extras"][0]))
    place = np.zeros(len(groups) + 1, np.int64)
    np.cumsum((SEGMENT.itemsize + groups["n_rows"] * row + 8 + 63) // 64 * 64, out=place[1:])
    struct = rows.struct
    if place[-1] > MOST_BYTES or not library().tk_scattered(struct):
        return rows
    copy = np.empty_like(groups)
    memory = _scratch(int(place[-1]))
    given = pointer(memory), pointer(place), pointer(copy)
    check_code(library().tk_gather(struct, *given), "a copy of the rows")
    return replace(rows, groups=copy)


def _scratch(size: int) -> NDArray[np.uint8]:
    """Memory of this thread's own, up to MOST_BYTES: fresh pages would cost more than the copy."""
    kept: NDArray[np.uint8] | None = getattr(_threads, "scratch", None)
    if kept is None or len(kept) < size:
        kept = _threads.scratch = np.empty(size, np.uint8)
    return kept
