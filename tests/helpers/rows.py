"""RowBlocks written by NumPy, in the layout of `udas/rowblock/rowblock.h`, to call kernels on."""

import ctypes
import functools
import itertools

import numpy as np

import tuskml
from tuskml.kernels.passes import GROUP, KINDS, Pass
from tuskml.kernels.structures import WEIGHTS
from tuskml.learners.linear.tasks import LINEAR

HEADER = np.dtype(
    [
        ("next", "u8"),
        ("slab", "u8"),
        ("n_rows", "u4"),
        ("cap_rows", "u4"),
        ("nnz", "u4"),
        ("cap_nnz", "u4"),
    ]
)
ROOM = 3
"""Rows and entries of unused room in each segment, which has random content."""


class Groups(np.ndarray):
    """Records of GROUP that keep alive the memory that they point into."""

    def __array_finalize__(self, parent):
        self.alive = getattr(parent, "alive", None)


def dense_segment(x, y):
    """The bytes of a segment of dense rows x (n, d), labels y (n,)."""
    room = np.full((ROOM, x.shape[1]), np.nan, x.dtype)
    return [padded(y), np.concatenate([x, room])], 0, 0


def sparse_segment(entries, y, dtype):
    """The bytes of a segment of sparse rows, each a pair of ids and values."""
    lengths = [len(ids) for ids, _ in entries]
    start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
    start = np.concatenate([start, np.full(ROOM, 2**32 - 1, np.uint32)])
    index = np.concatenate([*(ids for ids, _ in entries), np.full(ROOM, -1)]).astype(np.int32)
    values = np.concatenate([*(vs for _, vs in entries), np.full(ROOM, np.nan)]).astype(dtype)
    return [padded(y), start, index, values], sum(lengths), len(values)


def padded(y):
    """Labels with room behind them."""
    return np.concatenate([np.asarray(y, np.float64), np.full(ROOM, np.nan)])


def segment(arrays, n_rows, nnz, cap_nnz):
    """The arrays behind a header, each padded to eight bytes, in memory aligned to eight."""
    header = np.array([(0, 0, n_rows, n_rows + ROOM, nnz, cap_nnz)], HEADER)
    pieces = [piece.tobytes() for piece in (header, *arrays)]
    whole = b"".join(piece + bytes(-len(piece) % 8) for piece in pieces)
    return np.frombuffer(whole, np.uint64).copy()


def entries_of(x):
    """The non-zeros of each row of a matrix as ids and values."""
    return [(np.flatnonzero(row), row[np.flatnonzero(row)]) for row in x]


def block(x, y, kind="dense float64", segment_rows=1000, dim=None, weight=None):
    """One group: x is a matrix, or, for sparse kinds, also a list of (ids, values) and dim.

    weight: (n,), of the rows; None: they have none.
    """
    dtype = np.float32 if kind.endswith("32") else np.float64
    sparse = kind.startswith("sparse")
    if isinstance(x, np.ndarray):
        dim = x.shape[1]
        x = entries_of(x) if sparse else np.ascontiguousarray(x, dtype)
    segments = []
    for at in range(0, len(y), segment_rows):
        some, labels = x[at : at + segment_rows], y[at : at + segment_rows]
        made = sparse_segment(some, labels, dtype) if sparse else dense_segment(some, labels)
        extras = [] if weight is None else [padded(weight[at : at + segment_rows])]
        segments.append(segment(made[0] + extras, len(labels), *made[1:]))
    for before, after in itertools.pairwise(segments):
        before[0] = after.ctypes.data
    record = np.array(
        [(segments[0].ctypes.data, len(y), 0, dim, KINDS.index(kind), 0, extras_of(weight), 0, 0)],
        GROUP,
    )
    groups = record.view(Groups)
    groups.alive = segments
    return groups


def extras_of(weight):
    """The extras of a group's rows."""
    return 0 if weight is None else WEIGHTS


def together(blocks):
    """Several groups in one batch."""
    groups = np.concatenate([np.asarray(b) for b in blocks]).view(Groups)
    groups.alive = blocks
    return groups


def rows_pass(groups, task="linear", class_weight=None, smoothing=0.0, threads=1, stride=1):
    """A pass over the groups; label 1 counts as +1."""
    n = len(groups)
    weights = None if class_weight is None else np.tile(np.array(class_weight, float), (n, 1))
    kind = LINEAR.get(task, LINEAR["linear"])  # ratings have the squared loss
    positive = np.ones(n) if kind.classifies else None
    return Pass(
        groups,
        loss=kind.loss,
        positive=positive,
        class_weight=weights,
        fit_intercept=True,
        threads=threads,
        smoothing=smoothing,
        stride=stride,
    )


@functools.cache
def database():
    """A new database."""
    return tuskml.connect()


def account():
    """The address of its account, for kernels that copy rows; the first field of C's
    `database`.
    """
    ((found,),) = database().execute("SELECT _tusk_account()").fetchall()
    return ctypes.c_void_p.from_address(found).value
