"""Greedy vertical partitioning of the frequent features: Algorithm 3 of the paper.

Qin, Torres, Rusu, *Scalable Asynchronous Gradient Descent Optimization for Out-of-Core Models*,
VLDB 2017, section 5. The objective and what differs from the listing stand in
`native/merging.hpp`.
"""

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.partitioner import native
from tuskml.partitioner.cost import Cost
from tuskml.partitioner.native import Slots
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
