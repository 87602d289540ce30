"""Sparse rows without values, a uniform sample of them, and the frequencies of features."""

import math
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuskml.errors import DataError, OptionError
from tuskml.partitioner.native import Ids

LARGEST_ID = 2**62 - 1
"""The largest feature id: room is left for the keys of partitions before those of blocks."""


@dataclass(frozen=True)
class SparseRows:
    """Row r accesses `ids[starts[r]:starts[r + 1]]`, in any order, repeated or not.

    starts: int64 of shape (n + 1,), from 0, not falling; ids: int64 of shape (starts[n],).
    """

    starts: Ids
    ids: Ids

    def __len__(self) -> int:
        return len(self.starts) - 1

    def row_numbers(self) -> NDArray[np.int32]:
        """Row number of each id, int32 of shape (len(ids),)."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.starts))

    def distinct(self) -> "SparseRows":
        """The same rows with ids rising and distinct in each."""
        if self._rises():
            return self
        width, names, ids = int(self.ids.max()) + 1, None, self.ids
        if width > np.iinfo(np.int64).max // len(self):
            names, ids = np.unique(ids, return_inverse=True)
            width = len(names)
        firsts = np.arange(len(self) + 1, dtype=np.int64) * width
        pairs = np.repeat(firsts[:-1], np.diff(self.starts)) + ids
        pairs.sort()
        pairs = pairs[np.concatenate(([True], pairs[1:] != pairs[:-1]))]
        starts = np.searchsorted(pairs, firsts).astype(np.int64)
        ids = pairs - np.repeat(firsts[:-1], np.diff(starts))
        return SparseRows(starts, ids if names is None else names[ids])

    def _rises(self) -> bool:
        """Returns whether ids rise within each row."""
        rises = np.diff(self.ids) > 0
        heads = self.starts[1:-1]
        rises[heads[(heads > 0) & (heads < len(self.ids))] - 1] = True
        return bool(rises.all())

    def every(self, step: int) -> "SparseRows":
        """Every `step`-th row, from the first on."""
        lengths = np.diff(self.starts)
        keep = np.arange(len(self)) % step == 0
        return SparseRows(starts_of(lengths[keep]), self.ids[np.repeat(keep, lengths)])

    def only(self, keep: NDArray[np.bool_]) -> "SparseRows":
        """The same rows with the ids where `keep`, shape (len(ids),), is true."""
        running = np.concatenate(([0], np.cumsum(keep)))
        return SparseRows(running[self.starts], self.ids[keep])

    def in_batches(self, rows: int) -> "SparseRows":
        """Merges each `rows` consecutive rows into one; the last may have fewer."""
        starts = np.concatenate((self.starts[:-1:rows], self.starts[-1:]))
        return SparseRows(starts, self.ids)


def sparse_rows(indptr: ArrayLike, ids: ArrayLike) -> SparseRows:
    """Rows from the index arrays of a CSR matrix.

    indptr: integers of shape (n + 1,); ids: integers from 0 to LARGEST_ID.
    Raises DataError where they are anything else.
    """
    starts = _integers(indptr, "indptr")
    features = _integers(ids, "ids")
    if not len(starts) or starts[0] != 0 or starts[-1] != len(features):
        raise DataError(f"indptr must run from 0 to the number of ids, {len(features)}")
    if (starts[1:] < starts[:-1]).any():
        raise DataError("indptr must not fall")
    check_ids(features)
    return SparseRows(starts, features)


def check_ids(ids: Ids) -> None:
    """Raises DataError for an invalid feature id."""
    if len(ids) and not (ids.min() >= 0 and ids.max() <= LARGEST_ID):
        wrong = ids.min() if ids.min() < 0 else ids.max()
        raise DataError(f"a feature id must be from 0 to 2^62 - 1, got {wrong}")


def as_ids(ids: ArrayLike) -> Ids:
    """Checked feature ids as contiguous int64 of shape (n,)."""
    integers = _integers(ids, "ids")
    check_ids(integers)
    return integers


def as_features(ids: ArrayLike) -> Ids:
    """Checked feature ids up to 2^63 - 1; those beyond LARGEST_ID are in no block."""
    integers = _integers(ids, "ids")
    check_ids(np.minimum(integers, LARGEST_ID))
    return integers


def starts_of(lengths: NDArray[np.int64]) -> Ids:
    """Returns start offsets of rows of these lengths, and the end of the last."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def _integers(given: ArrayLike, name: str) -> Ids:
    array = np.asarray(given)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise DataError(
            f"{name} must be one-dimensional integers, got {array.ndim}-dimensional {array.dtype}"
        )
    if array.dtype == np.uint64 and array.size and array.max() > LARGEST_ID:
        raise DataError(f"{name} must be at most 2^62 - 1, got {array.max()}")
    return np.ascontiguousarray(array, np.int64)


class RowSample:
    """Each row of the stream is in the sample with the same probability.

    Algorithm L (Li, *Reservoir-Sampling Algorithms of Time Complexity O(n(1 + log(N/n)))*, ACM
    TOMS 1994), which draws how many rows to skip, a descendant of Vitter's algorithms (ACM TOMS
    1985), which the paper cites. The rows drawn depend on the seed and the rows' order, not on
    the borders of chunks.

    size: rows to keep, at least 1; seed: any integer of at least 0.
    """

    def __init__(self, size: int = 10_000, seed: int = 0) -> None:
        if size < 1:
            raise OptionError(f"sample must be at least 1 row, got {size}")
        self.size = size
        self._random = np.random.default_rng([seed, 0x5A3])
        self._seen = 0
        self._rows: list[Ids] = []
        self._numbers: list[int] = []
        self._highest = 1.0  # of the sampled rows' keys, if each row had a key from (0, 1)
        self._next = size  # the next row to take, once the reservoir is full

    @property
    def rows_seen(self) -> int:
        """Number of rows seen."""
        return self._seen

    def update(self, rows: SparseRows) -> None:
        """Passes the rows of a chunk through the reservoir; copies those taken."""
        taken: dict[int, int] = {}
        end = self._seen + len(rows)
        filled = len(self._rows)
        for number in range(self._seen, min(end, self._seen + self.size - filled)):
            taken[filled + number - self._seen] = number
        full = filled + len(taken) == self.size
        if full and filled < self.size:
            self._skip(self.size - 1)
        while full and self._next < end:
            taken[int(self._random.integers(self.size))] = self._next
            self._skip(self._next)
        for place, number in taken.items():
            row = number - self._seen
            self._put(place, number, rows.ids[rows.starts[row] : rows.starts[row + 1]])
        self._seen = end

    def merge(self, other: "RowSample") -> None:
        """Makes this the sample of both streams, as if the other's rows came later.

        The number of rows from each stream is hypergeometric.
        """
        if other.size != self.size:
            raise OptionError(f"samples of {self.size} and {other.size} rows cannot be merged")
        total = self._seen + other._seen
        keep = min(self.size, total)
        own = int(self._random.hypergeometric(self._seen, other._seen, keep)) if keep else 0
        chosen = [
            (sample._numbers[k] + before, sample._rows[k])
            for sample, count, before in ((self, own, 0), (other, keep - own, self._seen))
            for k in self._random.permutation(len(sample._rows))[:count].tolist()
        ]
        self._numbers = [number for number, _ in chosen]
        self._rows = [row for _, row in chosen]
        self._seen = total
        if keep == self.size:  # the highest of the `size` lowest of `total` keys
            self._highest = float(self._random.beta(self.size, total - self.size + 1))
            self._advance(total - 1)

    def rows(self) -> SparseRows:
        """The sampled rows, in the order of arrival."""
        order = np.argsort(np.array(self._numbers, np.int64), kind="stable").tolist()
        if not order:
            return SparseRows(np.zeros(1, np.int64), np.zeros(0, np.int64))
        parts = [self._rows[k] for k in order]
        lengths = np.array([len(part) for part in parts], np.int64)
        return SparseRows(starts_of(lengths), np.concatenate(parts))

    def _put(self, place: int, number: int, ids: Ids) -> None:
        if place == len(self._rows):
            self._rows.append(ids.copy())
            self._numbers.append(number)
        else:
            self._rows[place] = ids.copy()
            self._numbers[place] = number

    def _skip(self, last: int) -> None:
        """Lowers the highest key by the row just taken, and draws the next to take."""
        self._highest *= math.exp(math.log(1 - self._random.random()) / self.size)
        self._advance(last)

    def _advance(self, last: int) -> None:
        """Draws how many rows after `last` have keys above the highest of the sample."""
        chance = -math.log1p(-self._highest) if self._highest < 1 else math.inf
        skipped = -math.log(1 - self._random.random()) / chance if chance else math.inf
        self._next = last + 1 + (int(skipped) if skipped < 2**62 else 2**62)


# Approximate frequencies of features, in memory that does not grow with the model.
#
# The paper (Qin, Torres, Rusu, VLDB 2017, section 5, "Sampling & frequency-based pruning") takes
# the top-K features by sketches, since exact counts of a big model do not fit in memory. Here it
# is the frequent-items sketch of Apache DataSketches (Anderson et al., *A High-Performance
# Algorithm for Identifying Frequent Items in Data Streams*, IMC 2017): counters that are all
# lowered when they run out, so that no estimate errs by more than 3.5 / (number of counters) of
# the total.
#
# The sketch takes Python objects, one call each (0.4 us), so ids reach it late and few:
#
# * ids gather until there are BATCH of them, then their exact counts are taken by a sort;
# * of these counts, where there are more than counters, those too small to matter are left out: at
#   most SMALL of the sketch's own error. What is left out is added to the bounds, so they stay
#   bounds.
#
# Where no feature is more frequent than the sketch's error, its counters run out without a result.
# So the features with the largest exact counts so far are remembered, as many as are asked for.
#
# Of 1M ids drawn by Zipf's law from 10^9, 470 thousand differ and a few thousand reach the sketch.

BATCH = 1 << 20
SMALL = 1 / 8
SMALLEST_LOG2, LARGEST_LOG2 = 14, 26
ABSENT = -1
HEADER = struct.Struct("<8sI")  # magic, checksum of the rest
# entries, largest left-out count of a feature, log2 of the table size, features to return, and
# those that are remembered
TOTALS = struct.Struct("<QQBQQ")
MAGIC = b"TUSKFRQ2"


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
        self._top, self._log2 = top, max(SMALLEST_LOG2, (top * 11).bit_length())
        self._sketch: Any = sketches().frequent_items_sketch(self._log2)
        self._waiting: list[Ids] = []
        self._n_waiting = 0
        self._left_out = 0
        self._total = 0
        self._large = np.zeros((2, 0), np.int64)  # features, and their largest exact counts

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
        self._remember(*other._large)

    def top(self, n: int) -> FrequentFeatures:
        """The n most frequent features by estimate; fewer if there are fewer, or if n is above
        `top`.
        """
        self._flush()
        kind = sketches().frequent_items_error_type.NO_FALSE_NEGATIVES
        items = np.array(self._sketch.get_frequent_items(kind, 0), np.int64).reshape(-1, 4)
        if len(items) < n:
            ids, counts = self._large[:, ~np.isin(self._large[0], items[:, 0])]
            upper = np.full(len(ids), self.error - self._left_out)
            items = np.concatenate([items, np.column_stack((ids, counts, counts, upper))])
        ids, estimate, lower, upper = items[np.lexsort((items[:, 0], -items[:, 1]))[:n]].T.copy()
        return FrequentFeatures(ids, estimate, lower, upper + self._left_out)

    def to_bytes(self) -> bytes:
        """Serialises the state for a merge; about ten bytes per counter in use."""
        self._flush()
        large = self._large.shape[1]
        totals = TOTALS.pack(self._total, self._left_out, self._log2, self._top, large)
        body: bytes = totals + self._large.astype("<i8").tobytes()
        body += self._sketch.serialize(sketches().PyLongsSerDe())
        return HEADER.pack(MAGIC, zlib.crc32(body)) + body

    @classmethod
    def from_bytes(cls, data: bytes) -> "Frequencies":
        """Restores a state from `to_bytes`. Raises DataError if the data is damaged."""
        if len(data) < HEADER.size + TOTALS.size or not data.startswith(MAGIC):
            raise DataError("these are no feature frequencies of this version of tuskml")
        body = data[HEADER.size :]
        if zlib.crc32(body) != HEADER.unpack_from(data)[1]:
            raise DataError("the feature frequencies are damaged: their checksum is wrong")
        total, left_out, log2, top, large = TOTALS.unpack_from(body)
        frequencies = cls(0)
        frequencies._total, frequencies._left_out = total, left_out
        frequencies._log2, frequencies._top = log2, top
        known = np.frombuffer(body, "<i8", 2 * large, TOTALS.size).reshape(2, large)
        frequencies._large = known.astype(np.int64)
        frequencies._sketch = sketches().frequent_items_sketch.deserialize(
            body[TOTALS.size + known.nbytes :], sketches().PyLongsSerDe()
        )
        return frequencies

    def _flush(self) -> None:
        """Passes the gathered ids to the sketch."""
        if not self._n_waiting:
            return
        ids, counts = exact_counts(np.concatenate(self._waiting))
        self._remember(ids, counts)
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

    def _remember(self, ids: Ids, counts: Ids) -> None:
        """Keeps the features with the largest exact counts; of equal ones the lowest ids."""
        most = np.argsort(-counts, kind="stable")[: self._top]
        both = np.concatenate([self._large, np.stack((ids[most], counts[most]))], axis=1)
        order = np.lexsort((both[0], -both[1]))
        _, first = np.unique(both[0, order], return_index=True)
        self._large = both[:, order[np.sort(first)[: self._top]]]


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
