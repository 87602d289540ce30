"""One group's ratings on a device, in the chunks in which they are trained.

There are two schedules. Ordered: ratings form grid x grid blocks, the blocks of a stratum share
neither users nor items (Gemulla, Nijkamp, Haas, Sismanis, *Large-scale matrix factorization with
distributed stochastic gradient descent*, KDD 2011), and each launch trains one stratum. Lock-free:
workers take chunks of ratings in random order and update vectors without locks (batch-Hogwild!:
Xie, Tan, Fong, Liang, *CuMF_SGD: Parallelized Stochastic Gradient Descent for Matrix Factorization
on GPUs*, HPDC 2017).

All counting and sorting is done on the device, with `xp`. Ratings are ordered by a seeded hash, so
their order in the table does not matter.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuskml.kernels.gpu.device import Device
from tuskml.kernels.gpu.factorization.records import OnDevice, Records, Schedule, as_table
from tuskml.kernels.gpu.nets.orders import MASK, permutation, scramble

LOCK_FREE_ROWS = 256
"""Ratings that a lock-free worker takes at a time, as in the paper."""
LEAST_ROWS = 32
SHARE = 20
"""Divisor of the users and of the items that limits lock-free workers. Updates are lost if several
workers train one vector at once, so the paper uses few workers relative to both.
"""
MOST_WORKERS = 1 << 13
"""An H200 cannot run many more warps than this at once."""
BLOCK_RATINGS = 256
"""Approximate ratings per block of an ordered schedule. With fewer a launch has too little
work.
"""
MOST_GRID = 1024
ROW_BYTES = 100
"""Bytes of device memory per rating while all ratings are sorted."""
MOST_EXPONENT = 1023
"""Largest exponent of a power of two that is a double."""
ROUNDING = 1e-14
HASH_BITS = 44
"""Bits of a rating's hash, below the number of its block."""
BUCKET_BITS = 12
"""Least number of leading bits of a key by which sorting in pieces separates buckets."""


@dataclass(frozen=True)
class Side:
    """The users or the items with ratings, indexed in the order of ids.

    On the device: place (n_ids,) int32, the index of an id, -1 without ratings; ids and count
    (seen,) int64.
    """

    place: Any
    ids: Any
    count: Any

    @property
    def observations(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Layout:
    """Order of n ratings by their keys.

    Ordered (grid > 0): by block, with the grid blocks of a stratum adjacent, and in a block by a
    hash of the rating; each stratum has a block of each of the grid ranges of users, and of items.
    user and item: the range of each index. Lock-free: by the hash alone.
    """

    users: Side
    items: Side
    n: int
    seed: int
    grid: int = 0
    user: Any = None
    item: Any = None

    @classmethod
    def of(
        cls, device: Device, users: Side, items: Side, n: int, seed: int, *, lock_free: bool
    ) -> "Layout":
        """Builds ranges with about equal numbers of ratings. Strata pair them at random."""
        if lock_free:
            return cls(users, items, n, seed)
        grid, xp = grid_for(n, users, items), device.xp
        ranged = []
        for part, side in enumerate((users, items)):
            mixed = device.to_device(permutation(grid, seed + part).astype(np.int64))
            ranged.append(mixed[ranges(xp, side, n, grid)])
        return cls(users, items, n, seed, grid, *ranged)

    def keys(self, xp: Any, user: Any, item: Any, value: Any) -> Any:
        """Keys, uint64, of the indices of users and items and float32 values."""
        keys = hashes(xp, user, item, value, self.seed)
        if not self.grid:
            return keys
        mine = self.user[user]
        stratum = (self.item[item] - mine) % self.grid
        block = (stratum * self.grid + mine).astype(np.uint64)
        return (block << np.uint64(HASH_BITS)) | (keys >> np.uint64(64 - HASH_BITS))

    @property
    def in_block(self) -> int:
        """Number of buckets of a block, or of all ratings when lock-free; a power of two."""
        blocks = (max(1, self.grid) ** 2 - 1).bit_length()
        return 1 << max(2, BUCKET_BITS - blocks)

    @property
    def n_buckets(self) -> int:
        """Number of buckets for keys in their order, at least some thousands."""
        return max(1, self.grid) ** 2 * self.in_block

    def buckets(self, keys: Any) -> Any:
        """Bucket of each key, int64."""
        behind = (HASH_BITS if self.grid else 64) - (self.in_block.bit_length() - 1)
        return (keys >> np.uint64(behind)).astype(np.int64)

    def schedule(self, device: Device, sizes: Any) -> Schedule:
        """Schedule of the training.

        sizes: number of ratings in each bucket, on the device.
        """
        if not self.grid:
            return lock_free_schedule(device, self.n, self.users, self.items)
        xp, blocks = device.xp, self.grid**2
        start = xp.zeros(blocks + 1, np.int64)
        start[1:] = xp.cumsum(sizes.reshape(blocks, self.in_block).sum(axis=1))
        return Schedule(start, blocks, self.grid, self.grid)


@dataclass(frozen=True)
class Ratings:
    """n ratings and their schedule; records: their storage (`records.py`).

    Values are distances from the mean in units of the deviation.
    """

    records: Records
    users: Side
    items: Side
    schedule: Schedule
    mean: float
    deviation: float

    @property
    def n(self) -> int:
        return self.records.n

    @property
    def variance(self) -> float:
        """The square of the deviation, which may be infinite."""
        return self.deviation * self.deviation


def side_of(xp: Any, ids: Any, n_ids: int) -> Side:
    """Indexes the users, or the items, by ratings' ids (n,) int64."""
    return side_of_counts(xp, xp.bincount(ids, minlength=n_ids).astype(np.int64))


def side_of_counts(xp: Any, count: Any) -> Side:
    """Indexes the users, or the items, by the number of ratings of each id."""
    seen = xp.flatnonzero(count)
    place = xp.full(len(count), -1, np.int32)
    place[seen] = xp.arange(len(seen), dtype=np.int32)
    return Side(place, seen.astype(np.int64), count[seen])


def hashes(xp: Any, user: Any, item: Any, value: Any, seed: int) -> Any:
    """64-bit hash of each rating's indices and float32 value.

    With the value, ratings of one pair are in an order that depends neither on size nor on the
    unit.
    """
    pair = (user.astype(np.uint64) << np.uint64(32)) | item.astype(np.uint64)
    bits = xp.ascontiguousarray(value).view(np.uint32).astype(np.uint64)
    half = np.uint64(32)
    of_pair = scramble(scramble(pair ^ np.uint64(seed & MASK)))
    return (of_pair >> half << half) | (scramble(bits) >> half)


def grid_for(n: int, users: Side, items: Side) -> int:
    """Number of ranges of users, and of items."""
    wanted = min(
        int((n / BLOCK_RATINGS) ** 0.5), MOST_GRID, users.observations, items.observations
    )
    return max(1, wanted)


def ranges(xp: Any, side: Side, n: int, grid: int) -> Any:
    """Range of each index: ranges have about equal numbers of ratings."""
    middle = xp.cumsum(side.count) - side.count / 2
    return xp.minimum(grid - 1, (middle * (grid / n)).astype(np.int64))


def lock_free_schedule(device: Device, n: int, users: Side, items: Side) -> Schedule:
    """Chunks of ratings in random order."""
    workers = max(1, min(MOST_WORKERS, users.observations // SHARE, items.observations // SHARE))
    rows = max(LEAST_ROWS, min(LOCK_FREE_ROWS, n // (8 * workers)))
    start = np.append(np.arange(0, n, rows), n).astype(np.int64)
    return Schedule(device.to_device(start), len(start) - 1, 0, min(workers, len(start) - 1))


def deviation_of(variance: float, mean: float) -> float:
    """The standard deviation, or 1 if all ratings are equal up to the rounding of their mean."""
    return variance**0.5 if variance > (ROUNDING * mean) ** 2 else 1.0


Columns = tuple[Any, Any, Any]
"""Ids of users and of items, (n,) int64, and ratings (n,), all on the device."""


@dataclass(frozen=True)
class Scale:
    """Offset and unit of the ratings' floats (`native/factorization/ratings.cpp`)."""

    origin: float
    unit: float

    @classmethod
    def of_range(cls, low: float, high: float, centred: bool) -> "Scale":
        """Scale for ratings in [low, high]; centred: whether the model absorbs their mean."""
        origin = low / 2 + high / 2 if centred else 0.0
        far = max(high - origin, origin - low)
        exponent = math.frexp(far)[1] if 0 < far < math.inf else 0
        beyond = exponent > MOST_EXPONENT
        return cls(origin, math.inf if beyond else math.ldexp(1.0, exponent))

    def floats(self, rating: Any) -> Any:
        """Converts ratings to float32."""
        return ((rating - self.origin) / self.unit).astype(np.float32)

    def in_callers_units(self, ratings: "Ratings") -> "Ratings":
        """The same ratings, with mean and deviation in the caller's units."""
        mean, deviation = self.origin + self.unit * ratings.mean, self.unit * ratings.deviation
        return replace(ratings, mean=mean, deviation=deviation)


def ratings_of(
    device: Device,
    columns: Columns,
    n_ids: tuple[int, int],
    *,
    biases: bool,
    seed: int,
    lock_free: bool,
) -> Ratings:
    """Ratings from columns whose ids are below n_ids."""
    user, item, rating = columns
    xp, n = device.xp, len(rating)
    users, items = side_of(xp, user, n_ids[0]), side_of(xp, item, n_ids[1])
    layout = Layout.of(device, users, items, n, seed, lock_free=lock_free)
    user, item = users.place[user], items.place[item]
    scale = Scale.of_range(float(rating.min()), float(rating.max()), biases)
    value = scale.floats(rating)
    keys = layout.keys(xp, user, item, value)
    sizes = xp.bincount(layout.buckets(keys), minlength=layout.n_buckets)
    order = xp.argsort(keys)
    value = value[order].astype(np.float64)
    mean = float(value.sum()) / n if biases else 0.0
    square = float(xp.square(value - mean).sum())
    deviation = deviation_of(square / n, mean)
    table = as_table(xp, user[order], item[order], (value - mean) / deviation)
    schedule = layout.schedule(device, sizes)
    records = OnDevice(device, table)
    return scale.in_callers_units(Ratings(records, users, items, schedule, mean, deviation))
