"""Which features share a key: Algorithm 3 of the paper for frequent ones, blocks for the others.

Qin, Torres, Rusu, *Scalable Asynchronous Gradient Descent Optimization for Out-of-Core Models*,
VLDB 2017, section 5. The objective and what differs from the listing stand in
`native/merging.hpp`.

Rare features share keys in blocks, whose size minimises the same cost function,

    cost(size) = (number of (row, block) pairs) * (t_seek + size * t_unit)

summed over the ranges of ids, which blocks do not cross. The pairs of each candidate are counted
exactly over the sampled rows, or over an even share of them with ENTRIES entries. Two families
are tried, and the cheaper one wins: one size for all ids, and a power of two for each number of
bits of the id. Size 1 is the paper's, a key per feature; it stays if ids say nothing about what
occurs together, as with hashed features.
"""

import ctypes
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.partitioner import native
from tuskml.partitioner.cost import Cost
from tuskml.partitioner.index_map import LARGEST, Blocks
from tuskml.partitioner.native import Ids, Slots
from tuskml.partitioner.rows import SparseRows
from tuskml.schedule import budget

MOST_FEATURES = 32_768  # their affinities take 2 GiB
FEATURES_A_CALL = 256
MERGES_A_CALL = 64  # calls between checks for Ctrl-C and `interrupted`


@dataclass(frozen=True)
class Merges:
    """The partitioning of features 0 .. K - 1, and how it came about.

    partition: int32 of shape (K,), the lowest feature of each feature's partition.
    steps: structured of shape (merges,), in order: `first` and `second`, the partitions merged,
    each named by its lowest feature; `together`, the rows that access both; `rows`, those that
    access the merged one; `saved`, the fall in the sample's cost in seconds.
    seconds_before, seconds_after: the cost of all requests for these features over the sample.
    """

    partition: Slots
    steps: NDArray[Any]
    seconds_before: float
    seconds_after: float


def merge_features(
    rows: SparseRows,
    n_features: int,
    cost: Cost,
    threads: int = 0,
    interrupted: Callable[[], None] | None = None,
) -> Merges:
    """Merges features into partitions while that lowers the cost of the rows' requests.

    rows: ids are features 0 .. n_features - 1; others are passed over, repeated ones count once.
    n_features: at most 32,768. Memory is 2 bytes * n_features^2 and n_features bits a row.
    threads: 0 for as many as the budget allows; the result does not depend on it.
    interrupted: called every 100 ms or so; what it raises ends the merging.
    """
    with Merging(rows, n_features, cost, threads) as merging:
        for begin in range(0, n_features, FEATURES_A_CALL):
            merging.count(begin, min(begin + FEATURES_A_CALL, n_features))
            if interrupted:
                interrupted()
        before = merging.seconds()
        steps = []
        while len(some := merging.merge(MERGES_A_CALL)):
            steps.append(some)
            if interrupted:
                interrupted()
        every = np.concatenate([np.zeros(0, native.STEP), *steps])
        return Merges(_lowest(n_features, every), every, before, merging.seconds())


class Merging:
    """A merging of partitions in progress. A context manager: it owns native memory."""

    def __init__(self, rows: SparseRows, n_features: int, cost: Cost, threads: int = 0) -> None:
        if not 0 <= n_features <= MOST_FEATURES:
            raise OptionError(f"top must be from 0 to {MOST_FEATURES}, got {n_features}")
        if len(rows) >= 2**31:
            raise OptionError(f"a sample has less than 2^31 rows, got {len(rows)}")
        self._n = n_features
        self._threads = budget.threads(threads)
        self._seek, self._unit, self._second = cost.whole_numbers(len(rows), n_features)
        features = np.where(rows.ids < n_features, rows.ids, -1).astype(np.int32)
        self._handle = ctypes.c_void_p()
        native.check(
            native.library().tp_open(
                rows.starts.ctypes.data,
                features.ctypes.data,
                len(rows),
                n_features,
                self._seek,
                self._unit,
                ctypes.byref(self._handle),
            )
        )

    def __enter__(self) -> "Merging":
        return self

    def __exit__(self, *_: object) -> None:
        native.library().tp_close(self._handle)
        self._handle = ctypes.c_void_p()

    def count(self, begin: int, end: int) -> None:
        """Counts the affinities of features begin .. end - 1 with all after them.

        Every feature must be counted once before the first merge.
        """
        native.check(native.library().tp_affinities(self._handle, begin, end, self._threads))

    def merge(self, limit: int) -> NDArray[Any]:
        """Merges the best pair up to `limit` times; an empty result means that no merge gains."""
        steps = np.zeros(limit, native.STEP)
        done = ctypes.c_int32()
        native.check(
            native.library().tp_merge(self._handle, limit, steps.ctypes.data, ctypes.byref(done))
        )
        steps = steps[: done.value]
        steps["saved"] *= self._second
        return steps

    def affinity(self) -> tuple[Slots, Slots]:
        """Lowest features of the partitions, shape (P,), and the affinity matrix, shape (P, P).

        Both int32. matrix[i, j]: number of rows that access partitions i and j; the diagonal holds
        the number of rows that access a partition.
        """
        n = len(self._partitions()[0])
        matrix = np.zeros((n, n), np.int32)
        return self._partitions(matrix)[0], matrix

    def seconds(self) -> float:
        """Current cost of the requests for all partitions over the sample, in seconds."""
        _, rows, sizes = self._partitions()
        return math.fsum(rows * (self._seek + sizes * float(self._unit))) * self._second

    def _partitions(self, matrix: Slots | None = None) -> tuple[Slots, Slots, Slots]:
        """Lowest feature, rows and number of features of each partition; fills the matrix."""
        arrays = [np.zeros(self._n, np.int32) for _ in range(3)]
        addresses = [array.ctypes.data for array in arrays]
        into = None if matrix is None else matrix.ctypes.data
        n = native.library().tp_partitions(self._handle, *addresses, into)
        lowest, rows, sizes = (array[:n] for array in arrays)
        return lowest, rows, sizes


def _lowest(n_features: int, steps: NDArray[Any]) -> Slots:
    """Lowest feature of each feature's partition after these merges."""
    lowest = np.arange(n_features, dtype=np.int32)
    for first, second in zip(
        steps["first"][::-1].tolist(), steps["second"][::-1].tolist(), strict=True
    ):
        lowest[second] = lowest[first]
    return lowest


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
    blocks = _join_ranges(widths, each) if cheaper and fits else Blocks.of(best.size)
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


def _join_ranges(widths: list[int], best: list[Candidate]) -> Blocks:
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
