"""The index map: where each feature of a model lives, as key of a payload and slot in it.

The paper's index map (section 5, "Model vertical partitioning") assigns correlated indices to one
composite key. Here only the frequent features have entries:

* key 0 .. P - 1: the partitions of frequent features, slots by rising id;
* key P and on: every other feature, in the block that a rule gives it (`Blocks`): with
  one block size, feature i has key P + i // size and slot i % size.

So the map of a model of 10^9 features has K entries, and features never seen have a place. Unless
it has `live` features: then blocks are of those alone, feature i's number among them standing for
i above, and others have no place.

Blocks are what the paper has not: it leaves each feature outside the top K a partition of its own,
a request per feature. Here features whose ids are neighbours share a key. Of how many depends on
the id's number of bits, since dictionaries often number features by falling frequency: the first
thousand rare ones occur in most rows, the last million hardly ever.
"""

import struct
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuskml.errors import DataError, OptionError
from tuskml.partitioner import native
from tuskml.partitioner.live import LiveFeatures
from tuskml.partitioner.native import Ids, Slots
from tuskml.partitioner.rows import as_features, as_ids

LARGEST = 65_536
"""Largest number of features in a block: 256 KiB as float32."""
ID_BITS = 62


@dataclass(frozen=True)
class Blocks:
    """Blocks by ranges of ids: range r has the ids with widths[r] bits to widths[r + 1] - 1 bits.

    widths: rising, the first 0, which is id 0's number of bits; sizes: features per block, of each
    range. A range's first block begins with its first id; ranges have the keys one after the
    other.
    """

    widths: tuple[int, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        for size in self.sizes:
            if not 1 <= size <= LARGEST:
                raise OptionError(f"block must be from 1 to {LARGEST} features, got {size}")
        rising = all(a < b for a, b in zip(self.widths, self.widths[1:], strict=False))
        whole = len(self.widths) == len(self.sizes) > 0 == self.widths[0]
        if not (rising and whole and self.widths[-1] <= ID_BITS):
            raise DataError(f"blocks cannot have ranges that begin with ids of {self.widths} bits")

    @classmethod
    def of(cls, size: int) -> "Blocks":
        """Blocks of one size for all ids."""
        return cls((0,), (size,))

    def ending(self, start: int, size: int) -> "Blocks":
        """Keeps these blocks below `start`, a power of two, and adds blocks of `size` from there
        on.
        """
        width = start.bit_length()
        before = [(w, s) for w, s in zip(self.widths, self.sizes, strict=True) if w < width]
        widths, sizes = zip(*before, strict=True)
        return Blocks((*widths, width), (*sizes, size))

    def of_live(self, live: LiveFeatures | None) -> "Blocks":
        """The blocks of live features' numbers, where these are for those that groups share."""
        if live is None or live.order is None or live.order.n_shared == len(live):
            return self
        return self.ending(live.order.start, live.order.block)

    @cached_property
    def starts(self) -> list[int]:
        """First id of each range."""
        return [1 << width >> 1 for width in self.widths]

    @cached_property
    def first(self) -> list[int]:
        """First block of each range, and the number of blocks of all ranges."""
        ends = [*self.starts[1:], 1 << ID_BITS]
        starts = [0]
        for start, end, size in zip(self.starts, ends, self.sizes, strict=True):
            starts.append(starts[-1] + -(-(end - start) // size))
        return starts

    @property
    def count(self) -> int:
        """Number of blocks."""
        return self.first[-1]

    def count_of(self, n: int) -> int:
        """Number of blocks with ids below n."""
        if not n:
            return 0
        start, first, size = self.range_of_width((n - 1).bit_length())
        return first + (n - 1 - start) // size + 1

    def range_of_width(self, width: int) -> tuple[int, int, int]:
        """Start, first block and block size of the range of ids with `width` bits."""
        r = bisect_right(self.widths, width) - 1
        return self.starts[r], self.first[r], self.sizes[r]

    def sizes_of(self, blocks: Ids) -> Ids:
        """Number of slots of each block, int64 of the shape of `blocks`."""
        ranges = np.searchsorted(self.first[:-1], blocks, side="right") - 1
        return np.array(self.sizes, np.int64)[ranges]

    def spans_of(self, blocks: Ids) -> tuple[Ids, Ids, Ids]:
        """Returns the first feature of each block, and start and end of its range; all (n,)."""
        ranges = np.searchsorted(self.first[:-1], blocks, side="right") - 1
        begin, size = np.array(self.starts, np.int64)[ranges], np.array(self.sizes)[ranges]
        end = np.array([*self.starts[1:], 1 << ID_BITS], np.int64)[ranges]
        return begin + (blocks - np.array(self.first, np.int64)[ranges]) * size, begin, end

    def features_of(self, block: int) -> Ids:
        """Id of each slot of a block, int64 of shape (size,); -1 in slots beyond the range."""
        one = np.array([block], np.int64)
        start, _, end = self.spans_of(one)
        features = start + np.arange(self.sizes_of(one)[0], dtype=np.int64)
        return np.where(features < end, features, -1)

    def __str__(self) -> str:
        if self.sizes == (1,):
            return "a key each"
        named = [
            f"{size:,}" + (f" from {start:,}" if start else "")
            for start, size in zip(self.starts, self.sizes, strict=True)
        ]
        return "blocks of " + ", ".join(named)


MAGIC, LIVE_MAGIC, WITHIN_MAGIC = b"TUSKIDX\x01", b"TUSKIDX\x02", b"TUSKIDX\x03"
HEADER = struct.Struct("<8sI")
LENGTHS = struct.Struct("<QBBB")
RANGE = struct.Struct("<BI")


def encode(
    features: Ids, partition: Ids, blocks: Blocks, live: LiveFeatures | None = None
) -> bytes:
    """features: rising, shape (K,); partition: shape (K,)."""
    gaps = np.diff(features, prepend=0).astype(np.uint64)
    gap, key = _width(gaps), _width(partition.astype(np.uint64))
    body = b"".join(
        (
            LENGTHS.pack(len(features), gap, key, len(blocks.sizes)),
            *map(RANGE.pack, blocks.widths, blocks.sizes),
            gaps.astype(f"<u{gap}").tobytes(),
            partition.astype(f"<u{key}").tobytes(),
            b"" if live is None else live.to_bytes(),
        )
    )
    return HEADER.pack(_magic_of(live), zlib.crc32(body)) + body


def _magic_of(live: LiveFeatures | None) -> bytes:
    """Version for the live features; an order of no features takes no bytes."""
    if live is None:
        return MAGIC
    within = None if live.order is None else live.order.within
    return LIVE_MAGIC if within is None or len(within) == 0 else WITHIN_MAGIC


def decode(data: bytes) -> tuple[Ids, Ids, Blocks, LiveFeatures | None]:
    """Decodes the result of `encode`. Raises DataError for anything else."""
    magic = data[: len(MAGIC)]
    if not magic.startswith(MAGIC[:-1]):
        raise DataError("these bytes are no index map")
    if magic not in (MAGIC, LIVE_MAGIC, WITHIN_MAGIC):
        version = data[7:8].hex() or "none"
        raise DataError(f"the index map has version {version}, expected 01, 02 or 03")
    body = data[HEADER.size :]
    if len(body) < LENGTHS.size or zlib.crc32(body) != HEADER.unpack_from(data)[1]:
        raise DataError("the index map is damaged: its checksum is wrong")
    n, gap, key, n_ranges = LENGTHS.unpack_from(body)
    if gap not in WIDTHS or key not in WIDTHS:
        raise DataError(f"an index map has no numbers of {gap} and {key} bytes")
    ranges = LENGTHS.size + n_ranges * RANGE.size
    end = ranges + n * (gap + key)
    if len(body) < end or (len(body) > end and magic == MAGIC):
        raise DataError(f"the index map is damaged: {n} features do not fit {len(data)} bytes")
    widths, sizes = zip(*RANGE.iter_unpack(body[LENGTHS.size : ranges]), strict=True)
    gaps = np.frombuffer(body, f"<u{gap}", n, ranges)
    keys = np.frombuffer(body, f"<u{key}", n, ranges + n * gap)
    live = LiveFeatures.from_bytes(body[end:]) if magic != MAGIC else None
    if magic != _magic_of(live):  # the checksum covers all bytes after it
        raise DataError("the index map is damaged: its version does not fit its content")
    return np.cumsum(gaps, dtype=np.int64), keys.astype(np.int64), Blocks(widths, sizes), live


WIDTHS = (1, 2, 4, 8)


def _width(numbers: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> int:
    """Number of bytes that hold the largest number."""
    most = int(numbers.max()) if len(numbers) else 0
    return next(width for width in WIDTHS if most < 1 << 8 * width)


class IndexMap:
    """Feature to (key, slot) and back. It never changes.

    features: int64 of shape (K,), the frequent features, rising; any up to 2^63 - 1;
    partition: int64 of shape (K,), the key of each, 0 .. P - 1, none of them unused;
    blocks: the rule for all others; a number is one block size;
    live: the features that there are, the frequent ones among them; None: all.
    numbers: int64 of shape (K,), what stands for the frequent ones in the rule.
    """

    def __init__(
        self,
        features: ArrayLike,
        partition: ArrayLike,
        blocks: "Blocks | int" = 1,
        live: LiveFeatures | None = None,
    ) -> None:
        self.live = live
        self.features: Ids = as_features(features).copy()
        self.partition: Ids = as_ids(partition).copy()
        self.blocks = Blocks.of(blocks) if isinstance(blocks, int) else blocks
        if len(self.features) != len(self.partition):
            raise DataError(
                f"{len(self.features)} features cannot have {len(self.partition)} keys"
            )
        if (self.features[1:] <= self.features[:-1]).any():
            raise DataError("the features of an index map must rise")
        self.n_partitions = int(self.partition.max()) + 1 if len(self.partition) else 0
        if self.n_partitions > len(self.features) or not self._counts.all():
            raise DataError(f"of the keys 0 to {self.n_partitions - 1} some have no feature")
        self.numbers = self.number(self.features)
        self._order = np.argsort(self.partition, kind="stable")
        self._slots = self._slots_of()
        for array in (self.features, self.numbers, self.partition, self._order, self._slots):
            array.setflags(write=False)

    @classmethod
    def by_rule(cls, blocks: "Blocks | int" = 1, live: LiveFeatures | None = None) -> "IndexMap":
        """A map without frequent features; blocks of 1 are the paper's KV: a key per feature."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), blocks, live)

    def locate(self, ids: ArrayLike) -> tuple[Ids, Slots]:
        """Keys, int64, and slots, int32, of features; all of shape (n,). About 10 ns per feature.

        Raises DataError for a feature that is not live.
        """
        wanted = self.number(as_ids(ids))
        keys, slots = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.int32)
        table, bits = self._table
        native.library().tp_locate(
            table.ctypes.data,
            bits,
            self._ranges.ctypes.data,
            wanted.ctypes.data,
            len(wanted),
            keys.ctypes.data,
            slots.ctypes.data,
        )
        return keys, slots

    def sizes(self, keys: ArrayLike) -> Ids:
        """Number of slots of the payload of each key, int64 of shape (n,)."""
        wanted = np.asarray(keys, np.int64)
        frequent = wanted < self.n_partitions
        blocks = np.where(frequent, 0, wanted - self.n_partitions)
        sizes = self.blocks.sizes_of(blocks)
        if self.live is not None:  # the last block ends with the live features
            sizes = np.minimum(sizes, self.live.space - self.blocks.spans_of(blocks)[0])
        sizes[frequent] = self._counts[wanted[frequent]]
        return sizes

    def number(self, ids: Ids) -> Ids:
        """Numbers of features in the rule: indices among the live features, or the ids
        themselves.
        """
        if self.live is None:
            return ids
        numbers = self.live.number(ids)
        if len(numbers) and numbers.min() < 0:
            raise DataError(
                f"feature {ids[np.argmin(numbers)]} is not among the {len(self.live)} of the rows "
                "that the index map was made for: give these rows again, or make a new one"
            )
        return numbers

    def features_at(self, numbers: Ids) -> Ids:
        """Features of numbers; -1 if an order has none there."""
        return numbers if self.live is None else self.live.ids(numbers)

    def with_others(self, live: LiveFeatures) -> "IndexMap":
        """A map of these live features and others, which lie behind them in blocks."""
        assert self.live is not None
        both = self.live.with_others(live)
        return IndexMap(self.features, self.partition, self.blocks, both)

    @property
    def n_keys(self) -> int:
        """Number of possible keys: 0 .. n_keys - 1."""
        if self.live is None:
            return self.n_partitions + self.blocks.count
        return self.n_partitions + self.blocks.count_of(self.live.space)

    def widths(self) -> tuple[Ids, Ids]:
        """Distinct sizes of keys and the number of keys of each; for maps of live features."""
        sizes, counts = np.unique(self._counts, return_counts=True)
        widths = dict(zip(sizes.tolist(), counts.tolist(), strict=True))
        n = 0 if self.live is None else self.live.space
        ends = [*self.blocks.starts[1:], n]
        for start, end, size in zip(self.blocks.starts, ends, self.blocks.sizes, strict=True):
            blocks = -(-(min(end, n) - start) // size) if start < n else 0
            widths[size] = widths.get(size, 0) + blocks
        return np.array(list(widths), np.int64), np.array(list(widths.values()), np.int64)

    def without_live(self) -> "IndexMap":
        """The same map with blocks of all ids."""
        return IndexMap(self.features, self.partition, self.blocks)

    def features_of(self, key: int) -> Ids:
        """Feature of each slot of a key, int64 of shape (size,).

        -1 in slots of a block whose feature is frequent and so has another key.
        """
        if not 0 <= key < self.n_keys:
            raise DataError(f"a key must be from 0 to {self.n_keys - 1}, got {key}")
        if key < self.n_partitions:
            begin = int(self._counts[:key].sum())
            return self.features[self._order[begin : begin + self._counts[key]]]
        features = self.blocks.features_of(key - self.n_partitions)[: int(self.sizes([key])[0])]
        rare = (features >= 0) & ~np.isin(features, self.numbers)
        features[rare], features[~rare] = self.features_at(features[rare]), -1
        return features

    def to_bytes(self) -> bytes:
        """Serialises the map with version and checksum.

        It takes three to eight bytes per frequent feature, and those of the live features.
        """
        return encode(self.features, self.partition, self.blocks, self.live)

    @classmethod
    def from_bytes(cls, data: bytes) -> "IndexMap":
        """Restores the map from `to_bytes`. Raises DataError if a byte or the version differs."""
        return cls(*decode(data))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexMap) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __repr__(self) -> str:
        return (
            f"IndexMap({len(self.features)} features in {self.n_partitions} partitions, "
            f"others in {self.blocks}" + (f" of {len(self.live)} live ones)" if self.live else ")")
        )

    @cached_property
    def _counts(self) -> Ids:
        """Number of features of each partition, shape (P,)."""
        return np.bincount(self.partition, minlength=self.n_partitions).astype(np.int64)

    def _slots_of(self) -> Slots:
        """Slot of each frequent feature: its rank by id within its partition."""
        first = np.cumsum(self._counts) - self._counts
        slots = np.empty(len(self.features), np.int32)
        slots[self._order] = np.arange(len(self.features)) - np.repeat(first, self._counts)
        return slots

    @cached_property
    def _table(self) -> tuple[NDArray[Any], int]:
        """Hash table of tp_locate, at most a quarter full so that searches are short."""
        bits = max(1, (4 * len(self.features)).bit_length())
        table = np.empty(1 << bits, native.PLACE)
        arrays: Sequence[NDArray[Any]] = (self.numbers, self.partition, self._slots)
        addresses = [array.ctypes.data for array in arrays]
        native.library().tp_table(*addresses, len(self.numbers), bits, table.ctypes.data)
        return table, bits

    @cached_property
    def _ranges(self) -> NDArray[Any]:
        """Range of features with 0 .. 63 bits, for tp_locate."""
        rule, ranges = self.blocks, np.zeros(64, native.RANGE)
        at = np.searchsorted(rule.widths, np.arange(64), side="right") - 1
        ranges["start"], ranges["size"] = np.array(rule.starts)[at], np.array(rule.sizes)[at]
        ranges["first_key"] = np.array(rule.first[:-1])[at] + self.n_partitions
        return ranges
