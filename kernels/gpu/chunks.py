"""How rows are distributed to a kernel's blocks, and where their sums go."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = np.dtype([("first", "i8"), ("rows", "i4"), ("group", "i4"), ("place", "i8")])
SPAN = np.dtype([("group", "i8"), ("first", "i8"), ("last", "i8")])
MOST_CHUNKS = 1 << 12
"""Chunks per pass: many times what a GPU runs at once, so that few blocks run alone at the end."""
LEAST_ROWS = 1 << 10
SAMPLED_ROWS = 1 << 10
"""Rows of a chunk when only every k-th chunk is read."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """Chunks (CHUNK) of the rows of G groups, and spans (SPAN) of groups with several chunks.

    A chunk writes row `place` of the sums. If its group has no other chunk, this is the group's
    row; else it is one of the n_partial rows after the groups' rows.
    """

    chunks: NDArray[Any]
    spans: NDArray[Any]
    n_partial: int
    n_groups: int


def chunk_rows(n_rows: Ints, stride: int) -> int:
    """Rows per chunk: a multiple of 32 that depends only on the numbers of rows and the stride."""
    if stride > 1:
        return SAMPLED_ROWS
    wanted = -(-int(n_rows.sum()) // MOST_CHUNKS)
    return max(LEAST_ROWS, -(-wanted // 256) * 256)


def table(first: Ints, n_rows: Ints, rows: int, stride: int = 1) -> Table:
    """Cuts groups, whose rows begin at `first`, into chunks of `rows` and takes every stride-th.

    Groups without rows have no chunk.
    """
    all_chunks = -(-n_rows // rows)
    count = -(-all_chunks // stride)  # number of chunks of each group
    group = np.repeat(np.arange(len(n_rows)), count)
    begin = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    number = (np.arange(len(group)) - begin[group]) * stride
    chunks = np.empty(len(group), CHUNK)
    chunks["group"] = group
    chunks["first"] = first[group] + number * rows
    chunks["rows"] = np.minimum(rows, n_rows[group] - number * rows)
    shared = count[group] > 1
    place = group.astype(np.int64)
    place[shared] = len(n_rows) + np.arange(int(shared.sum()))
    chunks["place"] = place
    several = np.flatnonzero(count > 1)
    spans = np.empty(len(several), SPAN)
    spans["group"] = several
    last = len(n_rows) + np.cumsum(count[several])
    spans["last"] = last
    spans["first"] = last - count[several]
    return Table(chunks, spans, int(shared.sum()), len(n_rows))


def within(first: Ints, n_rows: Ints, low: int, high: int) -> tuple[Ints, Ints]:
    """The groups' rows with indices in low .. high - 1: first rows, from `low`, and row counts."""
    begin = np.clip(first, low, high)
    end = np.clip(first + n_rows, low, high)
    return begin - low, end - begin
