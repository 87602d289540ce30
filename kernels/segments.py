"""Packed rows as NumPy views of the packers' memory (`udas/rowblock/rowblock.h`)."""

import ctypes
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.structures import SEGMENT, WEIGHTS

Number = TypeVar("Number", int, NDArray[np.int64])


def value_size(kind: int) -> int:
    """Bytes of a feature's value, by `kernels.KINDS`."""
    return 8 if kind & 1 else 4


def dense_row_bytes(n_features: Number, kind: int, extras: int = 0) -> Number:
    """Bytes of a dense row with its label, weight and offset, of one width or of many."""
    return n_features * value_size(kind) + 8 * (1 + extras.bit_count())


def dense_bytes(groups: NDArray[np.void]) -> int:
    """Bytes of the rows of dense groups (`kernels.GROUP`) of one kind, whatever their widths."""
    rows = dense_row_bytes(groups["dim"].astype(np.int64), int(groups["kind"][0]))
    return int(groups["n_rows"] @ rows)


SLAB = 1 << 21
"""Bytes of a block of memory in the account, `TUSK_SLAB_BYTES`."""


def charged(size: int) -> int:
    """Bytes charged for an allocation: a quarter of a slab or more takes whole slabs."""
    return size if size <= SLAB // 4 else -(-size // SLAB) * SLAB


def dense_charged(group: np.void) -> tuple[int, int]:
    """Bytes charged for the segments of a dense group, and those of its features among them.

    Both include unused space after the last rows of a segment.
    """
    value = int(group["dim"]) * value_size(int(group["kind"]))
    row = int(dense_row_bytes(int(group["dim"]), int(group["kind"]), int(group["extras"])))
    place, whole, features = int(group["head"]), 0, 0
    while place:
        header = _view(place, SEGMENT, 1)[0]
        cap_rows = int(header["cap_rows"])
        whole += charged(SEGMENT.itemsize + cap_rows * row)
        features += cap_rows * value
        place = int(header["next"])
    return whole, features


def rows_of_segments(group: np.void) -> Iterator[int]:
    """The number of rows of each segment of a group; of those with wide ids none."""
    place = int(group["head"])
    while place:
        header = _view(place, SEGMENT, 1)[0]
        yield int(header["n_rows"])
        place = int(header["next"])


def sparse_segments(
    group: np.void,
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int32]]]:
    """Starts, shape (n + 1,), and ids, shape (nnz,), of each segment of a group's sparse rows.

    Row i of a segment has ids[starts[i]:starts[i + 1]]. Views: they live as long as the group.
    """
    place = int(group["head"])
    while place:
        header = _view(place, SEGMENT, 1)[0]
        rows, cap_rows = int(header["n_rows"]), int(header["cap_rows"])
        starts = place + SEGMENT.itemsize + 8 * cap_rows
        ids = starts + (4 * (cap_rows + 1) + 7) // 8 * 8
        yield (
            _view(starts, np.dtype(np.uint32), rows + 1),
            _view(ids, np.dtype(np.int32), int(header["nnz"])),
        )
        place = int(header["next"])


def sparse_values(group: np.void) -> Iterator[NDArray[Any]]:
    """Values, float32 or float64 of shape (nnz,), of each segment of a group's sparse rows."""
    dtype = np.dtype(np.float64 if group["kind"] & 1 else np.float32)
    place = int(group["head"])
    while place:
        header = _view(place, SEGMENT, 1)[0]
        cap_rows, cap_nnz = int(header["cap_rows"]), int(header["cap_nnz"])
        ids = place + SEGMENT.itemsize + 8 * cap_rows + (4 * (cap_rows + 1) + 7) // 8 * 8
        yield _view(ids + (4 * cap_nnz + 7) // 8 * 8, dtype, int(header["nnz"]))
        place = int(header["next"])


def chunks(group: np.void) -> Iterator[tuple[int, Any, NDArray[np.float64]]]:
    """Number of the first row, features and labels of each segment of a group.

    Features are (n, d), of sparse rows (starts (n + 1,), ids, values). Views: they live as long as
    the group.
    """
    dtype: np.dtype[Any] = np.dtype(np.float64 if group["kind"] & 1 else np.float32)
    sparse = zip(sparse_segments(group), sparse_values(group), strict=True)
    place, first, d = int(group["head"]), 0, int(group["dim"])
    while place and first < int(group["n_rows"]):
        header = _view(place, SEGMENT, 1)[0]
        rows, cap_rows = int(header["n_rows"]), int(header["cap_rows"])
        labels = _view(place + SEGMENT.itemsize, np.dtype(np.float64), rows)
        if group["kind"] >= 2:
            (starts, ids), values = next(sparse)
            yield first, (starts, ids, values), labels
        else:
            at = place + SEGMENT.itemsize + 8 * cap_rows
            yield first, _view(at, dtype, rows * d).reshape(rows, d), labels
        first += rows
        place = int(header["next"])


def labels_of(group: np.void) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64] | None]]:
    """Labels of each segment of a group, and weights or None, as views."""
    size, place = value_size(int(group["kind"])), int(group["head"])
    left = int(group["n_rows"])
    number = np.dtype(np.float64)
    while place and left > 0:
        header = _view(place, SEGMENT, 1)[0]
        rows, cap_rows = int(header["n_rows"]), int(header["cap_rows"])
        begin = place + SEGMENT.itemsize
        end = begin + 8 * cap_rows
        if group["kind"] >= 2:
            cap_nnz = int(header["cap_nnz"])
            end += (4 * (cap_rows + 1) + 7) // 8 * 8 + (4 * cap_nnz + 7) // 8 * 8
            end += (cap_nnz * size + 7) // 8 * 8
        else:
            end += (cap_rows * int(group["dim"]) * size + 7) // 8 * 8
        weights = _view(end, number, rows) if group["extras"] & WEIGHTS else None
        yield _view(begin, number, rows), weights
        left -= rows
        place = int(header["next"])


def _view(place: int, dtype: np.dtype[Any], n: int) -> NDArray[Any]:
    if not n:
        return np.empty(0, dtype)
    memory: Any = (ctypes.c_char * (n * dtype.itemsize)).from_address(place)
    view: NDArray[Any] = np.frombuffer(memory, dtype)
    return view
