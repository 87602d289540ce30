"""Sparse rows without values (the features that each row accesses), and a uniform sample."""

import math
from dataclasses import dataclass

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
    def seen(self) -> int:
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
