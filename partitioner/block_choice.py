"""The size of blocks of rare features, by the cost function that Algorithm 3 uses.

    cost(size) = (number of (row, block) pairs) * (t_seek + size * t_unit)

summed over the ranges of ids, which blocks do not cross. The pairs of each candidate are counted
exactly over the sampled rows, or over an even share of them with ENTRIES entries. Two families
are tried, and the cheaper one wins: one size for all ids, and a power of two for each number of
bits of the id. Size 1 is the paper's, a key per feature; it stays if ids say nothing about what
occurs together, as with hashed features.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.partitioner import native
from tuskml.partitioner.cost import Cost
from tuskml.partitioner.index.blocks import LARGEST, Blocks
from tuskml.partitioner.native import Ids, Slots
from tuskml.partitioner.rows import SparseRows

RUN_CANDIDATES = 8
ENTRIES = 2_000_000


@dataclass(frozen=True)
class Candidate:
    """Blocks of one size, and the requests and seconds per row of rare features with them."""

    size: int
    requests: float
    seconds: float


def choose_blocks(
    rare: SparseRows, cost: Cost, most: float = np.inf
) -> tuple[Blocks, list[Candidate]]:
    """The cheapest blocks, and the sizes for all ids that were tried, rising.

    rare: the sampled rows' rare features, ids rising and once each in a row; most: features that
    the blocks of a row may hold on average, as they must fit into memory together.
    """
    if not len(rare.ids):
        return Blocks.of(1), []
    counted = rare.every(-(-len(rare.ids) // ENTRIES))
    numbers = counted.row_numbers()
    tried = candidates(numbers, counted.ids, _sizes(counted), cost)
    n = len(counted)
    small = [one for one in tried if one.requests * one.size <= most * n]
    best = min(small or tried[:1], key=lambda one: one.seconds)
    widths, each = _by_width(numbers, counted.ids, cost)
    cheaper = sum(one.seconds for one in each) < best.seconds
    fits = sum(one.requests * one.size for one in each) <= most * n
    blocks = _joined(widths, each) if cheaper and fits else Blocks.of(best.size)
    return blocks, [Candidate(one.size, one.requests / n, one.seconds / n) for one in tried]


def candidates(row_numbers: Slots, ids: Ids, sizes: Iterable[int], cost: Cost) -> list[Candidate]:
    """Counts sizes, rising, until one request per row would cost more than the cheapest so far.

    Their requests and seconds are those of all rows.

    row_numbers: int32 of shape (n,), not falling, n > 0; ids rise within a row.
    """
    one_each = 1 + int(np.count_nonzero(np.diff(row_numbers)))
    tried: list[Candidate] = []
    cheapest = np.inf
    for size in sizes:
        if one_each * cost.of(size) > cheapest:
            break
        requests = count_requests(row_numbers, ids, size)
        tried.append(Candidate(size, requests, requests * cost.of(size)))
        cheapest = min(cheapest, tried[-1].seconds)
    return tried


def count_requests(row_numbers: Slots, ids: Ids, size: int) -> int:
    """Number of (row, block) pairs with blocks of one size."""
    ids, row_numbers = np.ascontiguousarray(ids), np.ascontiguousarray(row_numbers)
    return int(
        native.library().tp_requests(row_numbers.ctypes.data, ids.ctypes.data, len(ids), size)
    )


def bits_of(ids: Ids) -> NDArray[np.int64]:
    """Number of bits of each id: 0 for 0, 1 for 1, 2 for 2 and 3."""
    powers = np.left_shift(np.int64(1), np.arange(63, dtype=np.int64))
    return np.searchsorted(powers, ids, side="right").astype(np.int64)


def _by_width(row_numbers: Slots, ids: Ids, cost: Cost) -> tuple[list[int], list[Candidate]]:
    """Returns the cheapest power of two for each bit length of ids."""
    bits = bits_of(ids)
    widths = np.flatnonzero(np.bincount(bits)).tolist()
    best = []
    for width in widths:
        of_width = bits == width
        powers = [1 << k for k in range(max(1, width)) if 1 << k <= LARGEST]
        tried = candidates(row_numbers[of_width], ids[of_width], powers, cost)
        best.append(min(tried, key=lambda one: one.seconds))
    return widths, best


def _joined(widths: list[int], best: list[Candidate]) -> Blocks:
    """Merges ranges with equal sizes; bit lengths without ids join those below."""
    starts, sizes = [0], [best[0].size if widths[0] == 0 else 1]
    for width, one in zip(widths, best, strict=True):
        if one.size != sizes[-1]:
            starts.append(width)
            sizes.append(one.size)
    return Blocks(tuple(starts), tuple(sizes))


def _sizes(rare: SparseRows) -> list[int]:
    """Candidate sizes: powers of two, round numbers, and the commonest run lengths of ids in a
    row.

    Run lengths reveal the width of records in a model: if feature = user * rank + k, rows have
    runs of `rank` ids, and that very size costs one request per user.
    """
    powers = [1 << k for k in range(LARGEST.bit_length())]
    round_numbers = [m * 10**k for k in range(5) for m in (1, 2, 3, 5) if m * 10**k <= LARGEST]
    return sorted({*powers, *round_numbers, *_run_lengths(rare)})


def _run_lengths(rare: SparseRows) -> list[int]:
    """Lengths of runs of consecutive ids in a row, those that contain the most ids."""
    follows = np.diff(rare.ids) == 1
    heads = rare.starts[1:-1]
    follows[heads[(heads > 0) & (heads < len(rare.ids))] - 1] = False
    ends = np.flatnonzero(np.concatenate((~follows, [True])))
    lengths, counts = np.unique(np.diff(ends, prepend=-1), return_counts=True)
    order = np.argsort(-lengths * counts, kind="stable")[:RUN_CANDIDATES]
    return [int(length) for length in lengths[order] if length <= LARGEST]
