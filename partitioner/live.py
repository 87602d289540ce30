"""The features that occur in the rows, numbered by rising id: what a model has weights of.

Ids often say nothing but names: hashed ones, or those of a dictionary of which the rows use a
part. A block of neighbouring ids is then mostly slots that no row ever asks for, which are read,
kept in memory and written like weights. Blocks of neighbouring *numbers* are full. The paper (Qin,
Torres, Rusu, VLDB 2017) has no such thing: its rare features have a key each.

No entry a feature: an id takes at most 1.03 bits, a feature at most 33, and 16 where ids are far
between (`native/live.cpp`).

`Order` makes blocks useful. Rows are visited in chunks, and in data with a heavy tail most
features occur in the rows of one chunk only. If their ids do not reflect that, a block of
neighbours has features of every chunk: each chunk requests nearly all blocks, and if memory does
not hold them all, every chunk reads and writes them. So features that occur in one group of rows
only are contiguous, and are read and written once an epoch; those of several groups precede them,
in blocks that stay in memory. It is the paper's aim that features used together are stored
together (section 5), for features that are too rare for the affinities of a sample of rows.
Features of several groups can have their own order, `within`, such as that by affinity.
"""

import struct
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuskml.errors import DataError
from tuskml.partitioner import native
from tuskml.partitioner.native import Ids, Slots
from tuskml.partitioner.rows import as_ids

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

    def with_order(self, within: Slots) -> "Order":
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
        if self.n_shared < len(self.codes):
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


Part = NDArray[np.int32]
MOST_IDS = 1 << 31
"""Exclusive limit of ids; rows have int32 ids."""
WINDOW = 1 << 27
"""Ids that are collected in one pass over the rows, in 16 MiB of bits."""
PAGE_BITS = 16
PART = 1 << 20
"""Features that are looked up at once."""
_BITMAP_FROM, _BITMAP_LENGTH = 2048, 128 + (1 << PAGE_BITS) // 16
_HEAD = struct.Struct("<3Q")


class LiveFeatures:
    """A set of feature ids below 2^31.

    It is immutable; `number` and `ids` convert in both directions. counts: int32 of shape
    (pages,), features of each 65,536 ids; data: as in `native/api.h`; order: replaces numbers by
    rising id, if given.
    """

    def __init__(
        self,
        counts: NDArray[np.int32],
        data: NDArray[np.uint16],
        order: Order | None = None,
    ) -> None:
        self._pages, self._data, self.order = pages_of(counts), data, order
        self._data.setflags(write=False)
        if len(data) != int(_lengths(self._pages).sum()):
            raise DataError(f"{len(data)} numbers are not the features of {len(counts)} pages")
        if order is not None and len(order.codes) != len(self):
            raise DataError(f"{len(order.codes)} codes cannot order {len(self)} features")

    @classmethod
    def of(
        cls, parts: Callable[[], Iterable[Part]], dimension: int, window: int = WINDOW
    ) -> "LiveFeatures":
        """Collects the features that occur in any of the parts, int32 arrays of ids below
        `dimension`.

        parts: called once for each `window` ids, a multiple of 65,536, for the same arrays.
        """
        lib, counts, data = native.library(), [], []
        for first in range(0, dimension, window):
            n_pages = -(-min(window, dimension - first) >> PAGE_BITS)
            bits = np.zeros(n_pages << PAGE_BITS >> 6, np.uint64)
            for part in parts():
                ids = np.ascontiguousarray(part, np.int32)
                place = bits.ctypes.data, first, n_pages << PAGE_BITS
                lib.tp_live_mark(*place, ids.ctypes.data, len(ids))
            counts.append(np.empty(n_pages, np.int32))
            lib.tp_live_count(bits.ctypes.data, n_pages, counts[-1].ctypes.data)
            pages = pages_of(counts[-1])
            data.append(np.empty(int(_lengths(pages).sum()), np.uint16))
            lib.tp_live_pack(bits.ctypes.data, pages.ctypes.data, n_pages, data[-1].ctypes.data)
        if not counts:
            return cls(np.zeros(0, np.int32), np.zeros(0, np.uint16))
        return cls(np.concatenate(counts), np.concatenate(data))

    def __len__(self) -> int:
        last = self._pages[-1] if len(self._pages) else None
        return 0 if last is None else int(last["first"]) + int(last["count"])

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        order = 0 if self.order is None else self.order.nbytes
        return self._pages.nbytes + self._data.nbytes + order

    @property
    def space(self) -> int:
        """Exclusive upper bound of all numbers."""
        return len(self) if self.order is None else self.order.space

    def by_groups(self, groups: Iterable[Iterable[Part]]) -> "LiveFeatures":
        """The same features in another order (`Order`); groups: of rows, each the ids that it has
        in parts, all of which are among these.
        """
        ranks = ((self._ranks(np.asarray(part, np.int64)) for part in parts) for parts in groups)
        counts = self._pages["count"].copy()
        return LiveFeatures(counts, self._data, Order.of(len(self), ranks))

    def together(self) -> "LiveFeatures":
        """The same, all of them as shared by groups of rows, for an order `within`."""
        codes = np.full(len(self), SHARED, np.uint8)
        return LiveFeatures(self._pages["count"].copy(), self._data, Order(codes, 1))

    def with_others(self, others: "LiveFeatures") -> "LiveFeatures":
        """The features of both; those that only the others have come last in the order."""

        def parts() -> Iterable[Part]:
            for one in (self, others):
                for first in range(0, len(one), PART):
                    ranks = np.arange(first, min(len(one), first + PART))
                    yield one.by_rank(ranks).astype(np.int32)

        both = LiveFeatures.of(parts, max(self.dimension, others.dimension))
        if self.order is None:
            return both
        codes = np.full(len(both), self.order.n_groups + 1, np.uint8)
        for first in range(0, len(self), PART):
            ranks = np.arange(first, min(len(self), first + PART))
            codes[both._ranks(self.by_rank(ranks))] = self.order.codes[ranks]
        order = Order(codes, self.order.n_groups, self.order.within)
        return LiveFeatures(both._pages["count"].copy(), both._data, order)

    @property
    def dimension(self) -> int:
        """An exclusive upper bound of the ids."""
        return len(self._pages) << PAGE_BITS

    def with_order(self, within: Slots) -> "LiveFeatures":
        """The same, those that several groups of rows have in the order `within` (`Order`)."""
        if self.order is None:
            raise DataError("features without groups of rows have no order within them")
        counts = self._pages["count"].copy()
        return LiveFeatures(counts, self._data, self.order.with_order(within))

    def number(self, ids: ArrayLike) -> Ids:
        """Number of each id, int64 of shape (n,); -1 for ids that are not live.

        It is the number of live features below the id, or as the order says.
        """
        ranks = self._ranks(as_ids(ids))
        return ranks if self.order is None else self.order.number(ranks)

    def ids(self, numbers: ArrayLike) -> Ids:
        """Ids of numbers, int64 of shape (n,); -1 for a number without a feature."""
        wanted = as_ids(numbers)
        if len(wanted) and wanted.max() >= self.space:
            raise DataError(f"there are {len(self)} features, no number {wanted.max()}")
        if self.order is None:
            return self.by_rank(wanted)
        ranks = self.order.features(wanted)
        present = ranks >= 0  # the set may be empty
        ranks[present] = self.by_rank(ranks[present])
        return ranks

    def by_rank(self, ranks: Ids) -> Ids:
        """Ids by rank among the live features."""
        return self._look_up("tp_live_ids", ranks)

    def _ranks(self, ids: Ids) -> Ids:
        return self._look_up("tp_live_number", ids)

    def _look_up(self, function: str, wanted: Ids) -> Ids:
        ranks = np.empty(len(wanted), np.int64)
        set_ = self._pages.ctypes.data, len(self._pages), self._data.ctypes.data
        call = getattr(native.library(), function)
        call(*set_, wanted.ctypes.data, len(wanted), ranks.ctypes.data)
        return ranks

    def to_bytes(self) -> bytes:
        """Little-endian: uint64, pages; uint64, length of the data; uint64, groups of rows, 0 for
        no order; counts, uint32; the data, uint16; codes, a byte per feature, of an order; int32
        per shared feature, where these have an order within.
        """
        order = self.order
        groups, codes = (0, b"") if order is None else (order.n_groups, order.codes.tobytes())
        if order is not None and order.within is not None:
            codes += order.within.astype("<i4").tobytes()
        counts = self._pages["count"].astype("<u4").tobytes()
        head = _HEAD.pack(len(self._pages), len(self._data), groups)
        return head + counts + self._data.astype("<u2").tobytes() + codes

    @classmethod
    def from_bytes(cls, data: bytes) -> "LiveFeatures":
        """Restores the result of `to_bytes`, whose checksum the caller has verified."""
        if len(data) < _HEAD.size:
            raise DataError("an index map has too few bytes for its features")
        n_pages, length, n_groups = _HEAD.unpack_from(data)
        end = _HEAD.size + 4 * n_pages + 2 * length
        if (
            len(data) < end
            or (len(data) > end and not n_groups)
            or n_pages > MOST_IDS >> PAGE_BITS
        ):
            raise DataError(f"{n_pages} pages of features do not fit {len(data)} bytes")
        counts = np.frombuffer(data, "<u4", n_pages, _HEAD.size).astype(np.int32)
        if n_pages and not 0 <= counts.min() <= counts.max() <= 1 << PAGE_BITS:
            raise DataError("a page of an index map has more features than ids")
        packed = np.frombuffer(data, "<u2", length, _HEAD.size + 4 * n_pages)
        order = _order_from(data[end:], int(counts.sum()), n_groups) if n_groups else None
        return cls(counts, packed.astype(np.uint16), order)


def _order_from(data: bytes, n: int, n_groups: int) -> Order:
    codes = np.frombuffer(data, np.uint8, min(n, len(data))).copy()
    if len(data) <= n:
        return Order(codes, n_groups)
    if (len(data) - n) % 4:
        raise DataError(f"{len(data)} bytes are not an order of {n} features")
    return Order(codes, n_groups, np.frombuffer(data, "<i4", -1, n).astype(np.int32))


def pages_of(counts: NDArray[np.int32]) -> NDArray[Any]:
    """native.PAGE of each page, shape (pages,)."""
    pages = np.zeros(len(counts), native.PAGE)
    pages["count"], pages["is_bitmap"] = counts, counts >= _BITMAP_FROM
    pages["first"] = np.cumsum(counts, dtype=np.int64) - counts
    lengths = _lengths(pages)
    pages["offset"] = np.cumsum(lengths) - lengths
    return pages


def _lengths(pages: NDArray[Any]) -> Ids:
    """Returns the length of each page's data, in uint16."""
    counts = pages["count"].astype(np.int64)
    return np.where(pages["is_bitmap"] != 0, _BITMAP_LENGTH, counts)
