"""Order of live features by the groups of rows that use them, so that blocks are useful.

Rows are visited in chunks, and in data with a heavy tail most features occur in the rows of one
chunk only. If their ids do not reflect that, a block of neighbours has features of every chunk:
each chunk requests nearly all blocks, and if memory does not hold them all, every chunk reads and
writes them.

So features that occur in one group of rows only are contiguous, and are read and written once an
epoch; those of several groups precede them, in blocks that stay in memory. It is the aim of Qin,
Torres, Rusu (VLDB 2017, section 5), that features used together are stored together, for features
that are too rare for the affinities of a sample of rows. Features of several groups can have their
own order, `within`, such as that by affinity.
"""

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.partitioner import native
from tuskml.partitioner.native import Ids, Slots

MOST_GROUPS = 200
SHARED, UNSEEN = 0, 255
LEAST_BLOCK, MOST_BLOCK = 64, 16_384
BLOCKS_A_GROUP = 4
STRIDE = 4096
Codes = NDArray[np.uint8]


class Order:
    """Numbers for features 0 .. n - 1, by groups of rows, with room between the groups.

    codes: uint8 of shape (n,): 0 where several groups of rows have the feature, g + 1 where only
    group g does, n_groups + 1 where none does. Numbers below n_shared are those of the first kind;
    those of group g begin at a multiple of `block`, as do the last; all below `space`. within:
    int32 of shape (n_shared,), a permutation: the number of each of the first kind, None for that
    by rising feature.
    """

    def __init__(self, codes: Codes, n_groups: int, within: Slots | None = None) -> None:
        if not 0 < n_groups <= MOST_GROUPS or (len(codes) and codes.max() > n_groups + 1):
            raise DataError(f"features cannot be ordered by {n_groups} groups of rows")
        self.codes, self.n_groups, self.n_codes = codes, n_groups, n_groups + 2
        rows = max(1, -(-len(codes) // STRIDE))
        self._counts = np.empty((rows, self.n_codes), np.int64)
        place = codes.ctypes.data, len(codes), self.n_codes
        native.library().tp_order_count(*place, self._counts.ctypes.data)
        self.lengths = self._counts[-1]
        self.n_shared = int(self.lengths[SHARED])
        self.block = self._block()
        self.start = max(1 << max(0, self.n_shared - 1).bit_length(), self.block)
        sizes = -(-self.lengths[1:] // self.block) * self.block
        ends = self.start + np.cumsum(sizes)
        self._first = np.concatenate(([0], ends - sizes)).astype(np.int64)
        self.space = int(ends[-1])
        self.within = within
        if within is not None and len(within) != self.n_shared:
            raise DataError(f"{len(within)} numbers cannot order {self.n_shared} shared features")

    def ordered(self, within: Slots) -> "Order":
        """Copies with the order `within` of features of several groups."""
        return Order(self.codes, self.n_groups, within)

    @classmethod
    def of(cls, n: int, groups: Iterable[Iterable[Ids]]) -> "Order":
        """Builds an order.

        groups: for each group of rows the features that it has, int64, in parts.
        """
        codes, n_groups = np.full(n, UNSEEN, np.uint8), 0
        for parts in groups:
            n_groups += 1
            for part in parts:
                features = np.ascontiguousarray(part, np.int64)
                place = codes.ctypes.data, features.ctypes.data, len(features)
                native.library().tp_order_mark(*place, n_groups)
        codes[codes == UNSEEN] = n_groups + 1
        return cls(codes, n_groups)

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        within = 0 if self.within is None else self.within.nbytes
        return self.codes.nbytes + self._counts.nbytes + within

    @property
    def most_exclusive(self) -> int:
        """Numbers in the blocks of the largest group of rows."""
        return int(-(-self.lengths[1:-1].max() // self.block) * self.block)

    def number(self, features: Ids) -> Ids:
        """Numbers of the features; -1 stays -1."""
        numbers = np.array(features, np.int64)
        table = self.codes.ctypes.data, self.n_codes, self._counts.ctypes.data
        where = self._first.ctypes.data, numbers.ctypes.data, len(numbers)
        native.library().tp_order_number(*table, *where)
        if self.within is not None:
            shared = (numbers >= 0) & (numbers < self.n_shared)
            numbers[shared] = self.within[numbers[shared]]
        return numbers

    def features(self, numbers: Ids) -> Ids:
        """Features of numbers below `space`; -1 for the gaps between groups."""
        features_ = np.array(numbers, np.int64)
        if self.within is not None:
            shared = (features_ >= 0) & (features_ < self.n_shared)
            features_[shared] = self._without[features_[shared]]
        table = self.codes.ctypes.data, len(self.codes), self.n_codes, self._counts.ctypes.data
        where = self._first.ctypes.data, features_.ctypes.data, len(features_)
        native.library().tp_order_feature(*table, *where)
        return features_

    @cached_property
    def _without(self) -> Slots:
        """The inverse of `within`."""
        assert self.within is not None
        shared = np.full(self.n_shared, -1, np.int32)
        if len(shared) and not 0 <= self.within.min() <= self.within.max() < len(shared):
            raise DataError("an order of features names numbers that there are not")
        shared[self.within] = np.arange(self.n_shared, dtype=np.int32)
        return shared

    def _block(self) -> int:
        mean = int(self.lengths[1:-1].sum()) // self.n_groups // BLOCKS_A_GROUP
        return min(max(1 << mean.bit_length() >> 1, LEAST_BLOCK), MOST_BLOCK)
