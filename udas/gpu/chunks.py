"""How rows are shared out to a kernel's blocks, and where their sums go."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = np.dtype([("first", "i8"), ("rows", "i4"), ("group", "i4"), ("place", "i8")])
SPAN = np.dtype([("group", "i8"), ("first", "i8"), ("last", "i8")])
MOST_CHUNKS = 1 << 12
"""Of the rows of a pass: many times what a GPU runs at once, so that its last blocks are few."""
LEAST_ROWS = 1 << 10
SAMPLED_ROWS = 1 << 10
"""Of a chunk where every so-maniest is read."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """Chunks (CHUNK) of G groups' rows and the spans (SPAN) of those of more than one.

    A chunk writes row `place` of the sums: its group's own where that has no other chunk, else one
    of n_partial behind them.
    """

    chunks: NDArray[Any]
    spans: NDArray[Any]
    n_partial: int


def chunk_rows(n_rows: Ints, stride: int) -> int:
    """Rows of a chunk, by the rows alone: a multiple of 32."""
    if stride > 1:
        return SAMPLED_ROWS
    wanted = -(-int(n_rows.sum()) // MOST_CHUNKS)
    return max(LEAST_ROWS, -(-wanted // 256) * 256)


def table(first: Ints, n_rows: Ints, rows: int, stride: int = 1) -> Table:
    """Cuts groups, whose rows begin at `first`, into chunks of `rows`; of these every stride-th.

    Groups without rows have no chunk.
    """
    all_chunks = -(-n_rows // rows)
    count = -(-all_chunks // stride)  # of each group
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
    return Table(chunks, spans, int(shared.sum()))


def within(first: Ints, n_rows: Ints, low: int, high: int) -> tuple[Ints, Ints]:
    """The same groups' rows between two places alone: firsts counted from `low`, and numbers."""
    begin = np.clip(first, low, high)
    end = np.clip(first + n_rows, low, high)
    return begin - low, end - begin
