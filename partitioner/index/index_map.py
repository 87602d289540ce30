"""The index map: where each feature of a model lives, as key of a payload and slot in it.

The paper's index map (section 5, "Model vertical partitioning") assigns correlated indices to one
composite key. Here only the frequent features have entries:

* key 0 .. P - 1: the partitions of frequent features, slots by rising id;
* key P and on: every other feature, in the block that a rule gives it (`blocks.Blocks`): with
  one block size, feature i has key P + i // size and slot i % size.

So the map of a model of 10^9 features has K entries, and features never seen have a place. Unless
it has `live` features: then blocks are of those alone, feature i's number among them standing for
i above, and others have no place.
"""

import struct
import zlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuskml.errors import DataError
from tuskml.partitioner import native
from tuskml.partitioner.index.blocks import Blocks
from tuskml.partitioner.index.live import LiveFeatures
from tuskml.partitioner.native import Ids, Slots
from tuskml.partitioner.rows import as_features, as_ids

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
    def by_rule(cls, blocks: "Blocks | int" = 1) -> "IndexMap":
        """A map without frequent features; blocks of 1 are the paper's KV: a key per feature."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), blocks)

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

    def named(self, numbers: Ids) -> Ids:
        """Features of numbers; -1 if an order has none there."""
        return numbers if self.live is None else self.live.ids(numbers)

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
        features[rare], features[~rare] = self.named(features[rare]), -1
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
