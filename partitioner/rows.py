"""Sparse rows without values: the features that each row accesses."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuskml.errors import DataError
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
