"""Packed rows as NumPy views of the packers' memory (`udas/rowblock/rowblock.h`)."""

import ctypes
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.structures import COUNTS, SEGMENT, WEIGHTS

Number = TypeVar("Number", int, NDArray[np.int64])


def value_size(kind: int) -> int:
    """Bytes of a feature's value, by `kernels.KINDS`."""
    return 8 if kind & 1 else 4


def dense_row_bytes(n_features: Number, kind: int, extras: int = 0) -> Number:
    """Bytes of a dense row with its label, weight and offset, of one width or of many."""
    return n_features * value_size(kind) + 8 * (1 + (extras & ~COUNTS).bit_count())


def dense_bytes(groups: NDArray[np.void]) -> int:
    """Bytes of the rows of dense groups (`kernels.GROUP`) of one kind, whatever their widths."""
    rows = dense_row_bytes(groups["dim"].astype(np.int64), int(groups["kind"][0]))
    return int(groups["n_rows"] @ rows)


SLAB = 1 << 21
"""Bytes of a block of memory in the account, `TUSK_SLAB_BYTES`."""


def charged_bytes(size: int) -> int:
    """Bytes charged for an allocation: a quarter of a slab or more takes whole slabs."""
    return size if size <= SLAB // 4 else -(-size // SLAB) * SLAB


def dense_charged(group: np.void) -> tuple[int, int]:
    """Bytes charged for the segments of a dense group, and those of its features among them.

    Both include unused space after the last rows of a segment.
    """
    value = int(group["dim"]) * value_size(int(group["kind"]))
    row = int(dense_row_bytes(int(group["dim"]), int(group["kind"]), int(group["extras"])))
    caps = [int(header["cap_rows"]) for _, header in _segments(group)]
    return sum(charged_bytes(SEGMENT.itemsize + cap * row) for cap in caps), sum(caps) * value


def rows_of_segments(group: np.void) -> Iterator[int]:
    """The number of rows of each segment of a group; of those with wide ids none."""
    return (int(header["n_rows"]) for _, header in _segments(group))


def sparse_segments(
    group: np.void,
) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int32]]]:
    """Starts, shape (n + 1,), and ids, shape (nnz,), of each segment of a group's sparse rows.

    Row i of a segment has ids[starts[i]:starts[i + 1]]. Views: they live as long as the group.
    """
    for place, header in _segments(group):
        starts = place + SEGMENT.itemsize + 8 * int(header["cap_rows"])
        yield (
            _view(starts, np.dtype(np.uint32), int(header["n_rows"]) + 1),
            _view(_ids(place, header), np.dtype(np.int32), int(header["nnz"])),
        )


def sparse_values(group: np.void) -> Iterator[NDArray[Any]]:
    """Values, float32 or float64 of shape (nnz,), of each segment of a group's sparse rows."""
    dtype = np.dtype(np.float64 if group["kind"] & 1 else np.float32)
    for place, header in _segments(group):
        yield _view(_values(place, header), dtype, int(header["nnz"]))


def rows_given(groups: NDArray[np.void]) -> NDArray[np.int64]:
    """The number of rows that the database gave each group (GROUP), (G,): equal ones may be one
    row, whose weight is their number.
    """
    given = groups["n_rows"].copy()
    for place in np.flatnonzero(groups["extras"] & COUNTS).tolist():
        weights = (one for _, one in labels_of(groups[place]))
        given[place] = sum(int(one.sum()) for one in weights if one is not None)
    return np.asarray(given)


def chunks(group: np.void) -> Iterator[tuple[int, Any, NDArray[np.float64]]]:
    """Number of the first row, features and labels of each segment of a group.

    Features are (n, d), of sparse rows (starts (n + 1,), ids, values). Views: they live as long as
    the group.
    """
    dtype: np.dtype[Any] = np.dtype(np.float64 if group["kind"] & 1 else np.float32)
    sparse = zip(sparse_segments(group), sparse_values(group), strict=True)
    first, d = 0, int(group["dim"])
    for place, header in _segments(group):
        if first >= int(group["n_rows"]):
            return
        rows = int(header["n_rows"])
        labels = _view(place + SEGMENT.itemsize, np.dtype(np.float64), rows)
        if group["kind"] >= 2:
            (starts, ids), values = next(sparse)
            yield first, (starts, ids, values), labels
        else:
            at = place + SEGMENT.itemsize + 8 * int(header["cap_rows"])
            yield first, _view(at, dtype, rows * d).reshape(rows, d), labels
        first += rows


def labels_of(group: np.void) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64] | None]]:
    """Labels of each segment of a group, and weights or None, as views."""
    size, left = value_size(int(group["kind"])), int(group["n_rows"])
    number = np.dtype(np.float64)
    for place, header in _segments(group):
        if left <= 0:
            return
        rows, cap_rows = int(header["n_rows"]), int(header["cap_rows"])
        begin = place + SEGMENT.itemsize
        if group["kind"] >= 2:
            end = _values(place, header) + _whole(int(header["cap_nnz"]) * size)
        else:
            end = begin + 8 * cap_rows + _whole(cap_rows * int(group["dim"]) * size)
        weights = _view(end, number, rows) if group["extras"] & WEIGHTS else None
        yield _view(begin, number, rows), weights
        left -= rows


def offsets_of(group: np.void) -> Iterator[NDArray[np.float64]]:
    """Offsets of the rows of each segment of a dense group that has them, as views."""
    size = int(group["dim"]) * value_size(int(group["kind"]))
    for place, header in _segments(group):
        cap_rows = int(header["cap_rows"])
        before = 8 * cap_rows * (2 if group["extras"] & WEIGHTS else 1)
        at = place + SEGMENT.itemsize + before + _whole(cap_rows * size)
        yield _view(at, np.dtype(np.float64), int(header["n_rows"]))


def _segments(group: np.void) -> Iterator[tuple[int, np.void]]:
    """The address and the header of each segment of a group."""
    place = int(group["head"])
    while place:
        header = _view(place, SEGMENT, 1)[0]
        yield place, header
        place = int(header["next"])


def _whole(size: int) -> int:
    """Bytes up to the next multiple of 8."""
    return (size + 7) // 8 * 8


def _ids(place: int, header: np.void) -> int:
    """The address of the ids of a segment of sparse rows."""
    cap_rows = int(header["cap_rows"])
    return place + SEGMENT.itemsize + 8 * cap_rows + _whole(4 * (cap_rows + 1))


def _values(place: int, header: np.void) -> int:
    """The address of the values of a segment of sparse rows."""
    return _ids(place, header) + _whole(4 * int(header["cap_nnz"]))


def _view(place: int, dtype: np.dtype[Any], n: int) -> NDArray[Any]:
    if not n:
        return np.empty(0, dtype)
    memory: Any = (ctypes.c_char * (n * dtype.itemsize)).from_address(place)
    view: NDArray[Any] = np.frombuffer(memory, dtype)
    return view
