"""Rows generated for the calibration, in the layout of `udas/rowblock/rowblock.h`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import GROUP, KINDS, address_of

SPARSE_ROW = 32
"""Entries of a sparse row in the mean."""

Arrays = list[NDArray[Any]]


def made_arrays(
    storage: str, rows: int, features: int, each: int
) -> tuple[NDArray[np.float64], Arrays, int]:
    """Labels 0 and 1, the rows' arrays, and how many entries sparse ones have.

    Dense values are normal, float32 at heart: drawing doubles takes longer, and kernels do not
    look at them. Sparse ids follow Zipf's law, as words do, and lie in no order; the lengths of
    rows vary, which processors notice.
    """
    rng = np.random.default_rng(rows + features)
    dtype = np.float32 if storage.endswith("32") else np.float64
    labels = (rng.random(rows) < 0.5).astype(np.float64)
    if not storage.startswith("sparse"):
        block = rng.standard_normal((min(rows, 1 << 14), features), np.float32).astype(dtype)
        return labels, [np.resize(block, (rows, features))], 0
    lengths = np.clip(rng.poisson(min(each, features), rows), 1, None)
    start = np.zeros(rows + 1, np.uint32)
    np.cumsum(lengths, out=start[1:])
    entries = int(start[-1])
    rank = np.minimum(features ** rng.random(entries), features).astype(np.int64) - 1
    ids = rng.permutation(features).astype(np.int32)[rank]
    return labels, [start, ids, rng.random(entries, np.float32).astype(dtype)], entries


def groups_of(
    labels: NDArray[np.float64], arrays: Arrays, entries: int, storage: str, features: int
) -> tuple[NDArray[np.uint64], NDArray[np.void]]:
    """The segment, which must outlive the group (GROUP, shape (1,)) that points to it."""
    head = np.zeros(4, np.uint64)
    head[2:] = np.array([len(labels), len(labels), entries, entries], np.uint32).view(np.uint64)
    pieces = [piece.tobytes() for piece in (head, labels, *arrays)]
    whole = b"".join(piece + bytes(-len(piece) % 8) for piece in pieces)
    segment = np.frombuffer(whole, np.uint64).copy()
    group = np.zeros(1, GROUP)
    group["head"], group["n_rows"] = address_of(segment), len(labels)
    group["dim"], group["kind"] = features, KINDS.index(storage)
    return segment, group
