"""Approximate frequencies of features, in memory that does not grow with the model.

The paper (Qin, Torres, Rusu, VLDB 2017, section 5, "Sampling & frequency-based pruning") takes the
top-K features by sketches, since exact counts of a big model do not fit in memory. Here it is the
frequent-items sketch of Apache DataSketches (Anderson et al., *A High-Performance Algorithm for
Identifying Frequent Items in Data Streams*, IMC 2017): counters that are all lowered when they run
out, so that no estimate errs by more than 3.5 / (number of counters) of the total.

The sketch takes Python objects, one call each (0.4 us), so ids reach it late and few:

* ids gather until there are BATCH of them, then their exact counts are taken by a sort;
* of these counts, where there are more than counters, those too small to matter are left out: at
  most SMALL of the sketch's own error. What is left out is added to the bounds, so they stay
  bounds.

Of 1M ids drawn by Zipf's law from 10^9, 470 thousand differ and a few thousand reach the sketch.
"""

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tuskml.errors import DataError, OptionError
from tuskml.partitioner.native import Ids
from tuskml.partitioner.rows import as_ids

BATCH = 1 << 20
SMALL = 1 / 8
SMALLEST_LOG2, LARGEST_LOG2 = 14, 26
ABSENT = -1
HEADER = struct.Struct("<8sI")  # magic, checksum of the rest
# entries, largest left-out count of a feature, log2 of the table size
TOTALS = struct.Struct("<QQB")
MAGIC = b"TUSKFRQ1"


def sketches() -> Any:
    """Imports the package `datasketches`, which only counting features needs."""
    import datasketches

    return datasketches


@dataclass(frozen=True)
class FrequentFeatures:
    """Features by falling estimate, equal ones by rising id; arrays int64 of shape (n,).

    lower <= the number of entries with this id <= upper, always; estimate lies between.
    """

    ids: Ids
    estimate: Ids
    lower: Ids
    upper: Ids

    def __len__(self) -> int:
        return len(self.ids)


class Frequencies:
    """Counts how often each feature occurs: entries, so an id twice in a row counts twice.

    top: how many of the most frequent features will be asked for. There are at least eight
    counters for each, and 12,288 at least. Not for several threads at once: give each worker one
    of its own and merge them. The same ids in the same chunks give the same result.
    """

    def __init__(self, top: int = 1000) -> None:
        if not 0 <= top <= 1 << (LARGEST_LOG2 - 4):
            raise OptionError(f"top must be from 0 to {1 << (LARGEST_LOG2 - 4)}, got {top}")
        self._log2 = max(SMALLEST_LOG2, (top * 11).bit_length())
        self._sketch: Any = sketches().frequent_items_sketch(self._log2)
        self._waiting: list[Ids] = []
        self._n_waiting = 0
        self._left_out = 0
        self._total = 0

    @property
    def total(self) -> int:
        """Number of entries counted."""
        return self._total + self._n_waiting

    @property
    def error(self) -> int:
        """Largest error of any estimate, in entries.

        Every feature that occurs more often is in the result of `top`, if that many are requested.
        """
        self._flush()
        return int(self._sketch.get_upper_bound(ABSENT)) + self._left_out

    def update(self, ids: ArrayLike) -> None:
        """Counts the ids of a chunk of rows; integers of shape (n,)."""
        features = as_ids(ids)
        for begin in range(0, len(features), BATCH):
            part = features[begin : begin + BATCH]
            self._waiting.append(part.copy() if part.base is not None or part is ids else part)
            self._n_waiting += len(part)
            if self._n_waiting >= BATCH:
                self._flush()

    def merge(self, other: "Frequencies") -> None:
        """Adds the counts of another worker."""
        self._flush()
        other._flush()
        self._sketch.merge(other._sketch)
        self._left_out += other._left_out
        self._total += other._total

    def top(self, n: int) -> FrequentFeatures:
        """The n most frequent features by estimate, fewer where fewer are known."""
        self._flush()
        kind = sketches().frequent_items_error_type.NO_FALSE_NEGATIVES
        items = np.array(self._sketch.get_frequent_items(kind, 0), np.int64).reshape(-1, 4)
        ids, estimate, lower, upper = items[np.lexsort((items[:, 0], -items[:, 1]))[:n]].T.copy()
        return FrequentFeatures(ids, estimate, lower, upper + self._left_out)

    def to_bytes(self) -> bytes:
        """Serialises the state for a merge; about ten bytes per counter in use."""
        self._flush()
        totals = TOTALS.pack(self._total, self._left_out, self._log2)
        body: bytes = totals + self._sketch.serialize(sketches().PyLongsSerDe())
        return HEADER.pack(MAGIC, zlib.crc32(body)) + body

    @classmethod
    def from_bytes(cls, data: bytes) -> "Frequencies":
        """Restores a state from `to_bytes`. Raises DataError if the data is damaged."""
        if len(data) < HEADER.size + TOTALS.size or not data.startswith(MAGIC):
            raise DataError("these are no feature frequencies of this version of tuskml")
        body = data[HEADER.size :]
        if zlib.crc32(body) != HEADER.unpack_from(data)[1]:
            raise DataError("the feature frequencies are damaged: their checksum is wrong")
        frequencies = cls(0)
        frequencies._total, frequencies._left_out, frequencies._log2 = TOTALS.unpack_from(body)
        frequencies._sketch = sketches().frequent_items_sketch.deserialize(
            body[TOTALS.size :], sketches().PyLongsSerDe()
        )
        return frequencies

    def _flush(self) -> None:
        """Passes the gathered ids to the sketch."""
        if not self._n_waiting:
            return
        ids, counts = exact_counts(np.concatenate(self._waiting))
        small = counts <= int(self._n_waiting * self._sketch.epsilon * SMALL)
        n_counters = 3 << self._log2 - 2  # the sketch fills three quarters of its table
        if small.any() and self._sketch.num_active_items + len(ids) > n_counters:
            self._left_out += int(counts[small].max())
            ids, counts = ids[~small], counts[~small]
        update = self._sketch.update
        for feature, count in zip(ids.tolist(), counts.tolist(), strict=True):
            update(feature, count)
        self._total += self._n_waiting
        self._waiting, self._n_waiting = [], 0


def exact_counts(ids: Ids) -> tuple[Ids, Ids]:
    """Distinct ids, rising, and the number of occurrences of each."""
    if len(ids) and ids.max() < 4 * len(ids):
        counts = np.bincount(ids)
        features = np.flatnonzero(counts)
        return features, counts[features]
    return np.unique(ids, return_counts=True)


def feature_frequencies(ids: ArrayLike, top: int = 1000) -> FrequentFeatures:
    """The `top` most frequent features of rows that lie in memory.

    ids: integers of shape (n,), the entries of all rows. The SQL aggregate of the same name
    calls this.
    """
    counted = Frequencies(top)
    counted.update(ids)
    return counted.top(top)
