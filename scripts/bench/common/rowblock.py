"""Rows in memory in the layout of tuskml's packer, written by NumPy: `udas/rowblock/rowblock.h`.

For timing a kernel alone, or a training whose rows a database would have to hold a second time.
"""

from __future__ import annotations

from collections.abc import Iterable

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
DENSE_FLOAT32, SPARSE_FLOAT32 = 0, 2
Memory = NDArray[np.uint8]


def one_segment(X: Floats, y: NDArray[np.uint8]) -> tuple[NDArray[np.void], Memory]:
    """A group of one dense segment, and the memory that holds it."""
    n, d = X.shape
    memory = np.zeros(HEADER.itemsize + 8 * n + X.nbytes, np.uint8)
    header = memory[: HEADER.itemsize].view(HEADER)
    header["n_rows"] = header["cap_rows"] = n
    labels = memory[HEADER.itemsize : HEADER.itemsize + 8 * n]
    labels.view(np.float64)[:] = y
    memory[HEADER.itemsize + 8 * n :].view(np.float32)[:] = X.ravel()
    return _group(memory, n, d, DENSE_FLOAT32), memory


def sparse_segments(
    parts: Iterable[tuple[NDArray[np.int32], NDArray[np.bool_]]], dimension: int
) -> tuple[NDArray[np.void], list[Memory]]:
    """A group of sparse segments whose values are all 1, and the memory that holds it.

    parts: for each segment ids, shape (rows, entries per row), and labels, shape (rows,).
    """
    kept: list[Memory] = []
    total = 0
    for ids, labels in parts:
        kept.append(_sparse_segment(ids, labels))
        if len(kept) > 1:
            kept[-2][: HEADER.itemsize].view(HEADER)["next"] = kept[-1].ctypes.data
        total += len(labels)
    return _group(kept[0], total, dimension, SPARSE_FLOAT32), kept


def _sparse_segment(ids: NDArray[np.int32], labels: NDArray[np.bool_]) -> Memory:
    n, each = ids.shape
    starts = (4 * (n + 1) + 7) // 8 * 8
    entries = (4 * n * each + 7) // 8 * 8
    memory = np.empty(HEADER.itemsize + 8 * n + starts + 2 * entries, np.uint8)
    memory[: HEADER.itemsize].view(HEADER)[0] = (0, 0, n, n, n * each, n * each)
    at = HEADER.itemsize
    memory[at : at + 8 * n].view(np.float64)[:] = labels
    at += 8 * n
    memory[at : at + 4 * (n + 1)].view(np.uint32)[:] = np.arange(n + 1) * each
    at += starts
    memory[at : at + 4 * n * each].view(np.int32)[:] = ids.ravel()
    memory[at + entries : at + entries + 4 * n * each].view(np.float32)[:] = 1
    return memory


def linked_entries(
    parts: Iterable[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]],
    dimension: int,
) -> tuple[NDArray[np.void], list[Memory]]:
    """Links rows with any number of entries. parts: for each segment the start of each row
    among its entries, (rows + 1,), ids and values of the entries.
    """
    kept: list[Memory] = []
    total = 0
    for begin, ids, values in parts:
        n, room = len(begin) - 1, (4 * len(ids) + 7) // 8 * 8
        starts = (4 * (n + 1) + 7) // 8 * 8
        memory = np.zeros(HEADER.itemsize + 8 * n + starts + 2 * room, np.uint8)
        memory[: HEADER.itemsize].view(HEADER)[0] = (0, 0, n, n, len(ids), len(ids))
        at = HEADER.itemsize + 8 * n
        memory[at : at + 4 * (n + 1)].view(np.uint32)[:] = begin
        at += starts
        memory[at : at + 4 * len(ids)].view(np.int32)[:] = ids
        memory[at + room : at + room + 4 * len(ids)].view(np.float32)[:] = values
        kept.append(memory)
        if len(kept) > 1:
            kept[-2][: HEADER.itemsize].view(HEADER)["next"] = memory.ctypes.data
        total += n
    return _group(kept[0], total, dimension, SPARSE_FLOAT32), kept


def _group(memory: Memory, n: int, d: int, kind: int) -> NDArray[np.void]:
    from tuskml.kernels.passes import GROUP

    group = np.zeros(1, GROUP)
    group["head"], group["n_rows"] = memory.ctypes.data, n
    group["dim"], group["kind"] = d, kind
    return group
