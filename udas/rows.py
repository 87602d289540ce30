"""NumPy views of the rows of a group, in the layout of `udas/rowblock/rowblock.h`."""

import ctypes
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SEGMENT = np.dtype(
    [("next", "u8"), ("slab", "u8")]
    + [(name, "u4") for name in ("n_rows", "cap_rows", "nnz", "cap_nnz")]
)


def sparse_segments(
    group: np.void,
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int32]]]:
    """(starts, ids) of each segment of a sparse group (kernels.GROUP), in the order of its rows.

    starts: shape (n + 1,), places in ids of the segment's rows. Views, good as long as the rows.
    """
    place = int(group["head"])
    while place:
        segment = _view(place, SEGMENT, 1)[0]
        rows, room = int(segment["n_rows"]), int(segment["cap_rows"])
        starts_at = place + SEGMENT.itemsize + 8 * room
        ids_at = starts_at + (4 * (room + 1) + 7) // 8 * 8
        starts = _view(starts_at, np.dtype(np.uint32), rows + 1)
        if rows:
            yield starts, _view(ids_at, np.dtype(np.int32), int(starts[-1]))
        place = int(segment["next"])


def _view(place: int, dtype: "np.dtype[np.generic]", n: int) -> NDArray[np.generic]:
    size = n * dtype.itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(place), dtype, n)
