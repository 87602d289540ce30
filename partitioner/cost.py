"""Cost function of requests, and its measurement on a store."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.partitioner.native import Ids

FIRST_KEY = 3 << 61
"""First key of measurements: above those of every index map."""
PART = 1 << 20
"""Numbers that are written or read at once."""
APART = 1 << 20
"""Distance between measured keys: a store reads adjacent keys together, in a tenth of the time."""


@dataclass(frozen=True)
class Cost:
    """The cost function of Qin, Torres, Rusu (VLDB 2017, section 5): t_s + |P| t_u.

    t_seek: seconds a request takes whatever its payload; t_unit: seconds that each feature of the
    payload adds.
    """

    t_seek: float
    t_unit: float

    def __post_init__(self) -> None:
        if not (0 < self.t_seek < math.inf and 0 <= self.t_unit < math.inf):
            raise OptionError(
                "t_seek must be above 0 and t_unit at least 0 seconds, "
                f"got {self.t_seek} and {self.t_unit}"
            )

    def of(self, size: float) -> float:
        """Seconds to read a partition of `size` features once."""
        return self.t_seek + size * self.t_unit

    def whole_numbers(self, n_rows: int, n_features: int) -> tuple[int, int, float]:
        """The cost function in whole numbers, so that sums of costs are exact and ties are ties.

        Returns seek and unit, and the seconds that 1 stands for, a power of two: the largest such
        that n_rows requests of n_features features stay below 2^53.
        """
        most = max(1, n_rows) * self.of(max(1, n_features))
        scale = 2.0 ** (52 - math.frexp(most)[1])
        return round(self.t_seek * scale), round(self.t_unit * scale), 1 / scale


WARM_LEVELDB = Cost(t_seek=0.83e-6, t_unit=0.86e-9)
"""LevelDB with its tables in memory: 1.2M one-weight keys per second, 598M weights per second in
blocks of 1,024 float32 (measured). A disk's seek takes a thousand times that: measure
yours.
"""


class BatchStore(Protocol):
    """What can be measured: a key-value store that reads and writes batches, as `kvstore` has.

    keys: int64 of shape (n,); starts: int64 of shape (n + 1,); the payload of keys[i] is
    values[starts[i]:starts[i + 1]], of the store's dtype.
    """

    dtype: np.dtype[Any]

    def put(self, keys: Ids, starts: Ids, values: Any, /) -> Any:
        """Stores the payloads of keys."""

    def get(self, keys: Ids, starts: Ids, out: Any, /) -> Any:
        """Reads the payloads of keys into `out`."""


def measure_cost(
    store: BatchStore,
    sizes: Sequence[int] = (1, 16, 128, 1024, 4096),
    requests: int = 2_000,
    repeats: int = 5,
    seed: int = 0,
    most: int = 1 << 23,
) -> Cost:
    """Measures `get` on a store, which is written to: use one that may be thrown away.

    For each payload size, in features, writes `requests` keys from FIRST_KEY on, of large
    payloads as many as have `most` features, far from each other, and reads them in random order,
    `repeats` times; the median counts. The line through seconds a request by size is fitted by
    least squares of the relative error, neither of its coefficients below zero.
    """
    if len(set(sizes)) < 2 or min(sizes) < 1 or requests < 1 or repeats < 1:
        raise OptionError("to measure, at least two sizes, one request and one repeat are needed")
    random = np.random.default_rng(seed)
    written = [
        _write(store, number * requests, size, max(1, min(requests, most // size)), random)
        for number, size in enumerate(sizes)
    ]
    seconds = [
        _median_seconds(store, keys, size, repeats, random) / len(keys)
        for size, keys in zip(sizes, written, strict=True)
    ]
    return fit_cost(np.array(sizes, np.float64), np.array(seconds))


def _write(
    store: BatchStore, before: int, size: int, requests: int, random: np.random.Generator
) -> Ids:
    """The keys, behind that many others, of payloads of one size. All sizes are written before one
    is read: what was written last would be read from where the store gathers it.
    """
    first = FIRST_KEY + before * APART
    keys = first + APART * np.arange(requests, dtype=np.int64)
    for part in _parts(requests, size):
        n = len(keys[part])
        values = random.standard_normal(n * size, np.float32).astype(store.dtype, copy=False)
        store.put(keys[part], _starts(n, size), values)
    return keys


def _parts(requests: int, size: int) -> list[slice]:
    """Requests at a time, so few that a measurement takes little memory."""
    step = max(1, PART // size)
    return [slice(first, first + step) for first in range(0, requests, step)]


def _starts(requests: int, size: int) -> Ids:
    return np.arange(0, requests * size + 1, size, dtype=np.int64)


def _median_seconds(
    store: BatchStore,
    keys: Ids,
    size: int,
    repeats: int,
    random: np.random.Generator,
) -> float:
    parts = _parts(len(keys), size)
    out = np.empty(len(keys[parts[0]]) * size, store.dtype)
    taken = []
    for _ in range(repeats):
        order = random.permutation(keys)
        begin = time.perf_counter()
        for part in parts:
            starts = _starts(len(keys[part]), size)
            store.get(order[part], starts, out[: starts[-1]])
        taken.append(time.perf_counter() - begin)
    return float(np.median(taken))


def fit_cost(sizes: NDArray[np.float64], seconds: NDArray[np.float64]) -> Cost:
    """The cost function nearest to seconds a request by payload size, in relative error."""
    seconds = np.maximum(seconds, 1e-12)
    columns = np.column_stack((1 / seconds, sizes / seconds))
    (seek, unit), *_ = np.linalg.lstsq(columns, np.ones(len(sizes)), rcond=None)
    if unit < 0:
        seek, unit = 1 / np.mean(1 / seconds), 0.0
    return Cost(max(float(seek), 1e-12), float(unit))
