"""One group's ratings on a device, in the chunks in which they are trained.

Two schedules. Ordered: ratings lie in grid x grid blocks, and the blocks of a stratum share
neither users nor items (Gemulla, Nijkamp, Haas, Sismanis, *Large-scale matrix factorization with
distributed stochastic gradient descent*, KDD 2011); a launch a stratum. Lock-free: chunks of
ratings in random order, which workers take side by side and whose updates they do not guard
(batch-Hogwild!: Xie, Tan, Fong, Liang, *CuMF_SGD: Parallelized Stochastic Gradient Descent for
Matrix Factorization on GPUs*, HPDC 2017).

Everything is counted and sorted on the device, by `xp` alone. A seeded hash of each rating orders
them, so their order in the table does not matter.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tuskml.udas.gpu.device import Device

LOCK_FREE_ROWS = 256
"""Ratings that a lock-free worker takes at a time, as in the paper."""
LEAST_ROWS = 32
SHARE = 20
"""Lock-free workers are at most this fraction of the users and of the items: updates are lost
where many train one vector at once, so the paper keeps them few beside both."""
MOST_WORKERS = 1 << 13
"""Many more than an H200 runs warps at once gain nothing."""
BLOCK_RATINGS = 256
"""Of an ordered schedule, about: with fewer a launch does too little."""
MOST_GRID = 1024
ROW_BYTES = 100
"""Of device memory that a rating takes while all are sorted."""

MASK = 2**64 - 1


@dataclass(frozen=True)
class Side:
    """Users, or items: those with ratings have a place each, in the order of their ids.

    On the device: place (n_ids,) int32, -1 where there is no rating; ids and count (seen,) int64.
    """

    place: Any
    ids: Any
    count: Any

    @property
    def seen(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Schedule:
    """In which chunks ratings are trained: chunk c is ratings start[c] to start[c + 1] - 1.

    grid: strata of an epoch and chunks of each; 0: lock-free. workers: that train side by side.
    """

    start: Any
    n_chunks: int
    grid: int
    workers: int

    def order(self, seed: int, epoch: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The chunks of an epoch; when ordered, a stratum behind the other."""
        key = (seed + 0x5851F42D4C957F2D * (epoch + 1)) & MASK
        if not self.grid:
            return permutation(self.n_chunks, key)
        users, items, shift = (permutation(self.grid, key + part) for part in range(3))
        across = (np.arange(self.grid) + shift[:, None]) % self.grid
        blocks: np.ndarray[Any, np.dtype[np.int32]] = users * np.int32(self.grid) + items[across]
        return blocks.ravel()


@dataclass(frozen=True)
class Ratings:
    """n ratings on the device: table (n, 3) int32, places of user and item and the bits of a
    float, the rating's distance from the mean in units of the deviation."""

    table: Any
    users: Side
    items: Side
    schedule: Schedule
    mean: float
    deviation: float

    @property
    def n(self) -> int:
        return len(self.table)


def scrambled(x: Any) -> Any:
    """splitmix64 of each of an array of uint64, as the CPU's kernels number random draws."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def permutation(n: int, seed: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """0 .. n - 1 in a seeded order, the same with every version of NumPy."""
    first = scrambled(np.array([seed & MASK], np.uint64))
    keys = scrambled(first + np.arange(n, dtype=np.uint64))
    return np.argsort(keys, kind="stable").astype(np.int32)


def side_of(xp: Any, ids: Any, n_ids: int) -> Side:
    """The users, or the items, of ratings' ids (n,) int64."""
    count = xp.bincount(ids, minlength=n_ids).astype(np.int64)
    seen = xp.flatnonzero(count)
    place = xp.full(n_ids, -1, np.int32)
    place[seen] = xp.arange(len(seen), dtype=np.int32)
    return Side(place, seen.astype(np.int64), count[seen])


def hashes(xp: Any, user: Any, item: Any, value: Any, seed: int) -> Any:
    """A number of 64 bits of each rating, places and float32 value."""
    pair = (user.astype(np.uint64) << np.uint64(32)) | item.astype(np.uint64)
    bits = xp.ascontiguousarray(value).view(np.uint32).astype(np.uint64)
    return scrambled(scrambled(pair ^ np.uint64(seed & MASK)) + bits)


def grid_for(n: int, users: Side, items: Side) -> int:
    """Ranges that users, and items, are cut into."""
    wanted = min(int((n / BLOCK_RATINGS) ** 0.5), MOST_GRID, users.seen, items.seen)
    return max(1, wanted)


def ranges(xp: Any, side: Side, n: int, grid: int) -> Any:
    """The range of each place: ranges have about as many ratings each."""
    middle = xp.cumsum(side.count) - side.count / 2
    return xp.minimum(grid - 1, (middle * (grid / n)).astype(np.int64))


def lock_free_schedule(device: Device, n: int, users: Side, items: Side) -> Schedule:
    """Chunks of ratings that lie in random order."""
    workers = max(1, min(MOST_WORKERS, users.seen // SHARE, items.seen // SHARE))
    rows = max(LEAST_ROWS, min(LOCK_FREE_ROWS, n // (8 * workers)))
    start = np.append(np.arange(0, n, rows), n).astype(np.int64)
    return Schedule(device.to_device(start), len(start) - 1, 0, min(workers, len(start) - 1))


def ratings_of(
    device: Device, user: Any, item: Any, rating: Any, n_ids: tuple[int, int], *, biases: bool,
    seed: int, lock_free: bool,
) -> Ratings:  # fmt: skip
    """Ratings from ids (n,) int64 below n_ids and ratings (n,), all on the device."""
    xp, n = device.xp, len(rating)
    users, items = side_of(xp, user, n_ids[0]), side_of(xp, item, n_ids[1])
    user, item = users.place[user], items.place[item]
    value = rating.astype(np.float32)
    keys = hashes(xp, user, item, value, seed)
    if lock_free:
        schedule = lock_free_schedule(device, n, users, items)
    else:
        grid = grid_for(n, users, items)
        block = ranges(xp, users, n, grid)[user] * grid + ranges(xp, items, n, grid)[item]
        sizes = xp.bincount(block, minlength=grid * grid)
        start = xp.zeros(grid * grid + 1, np.int64)
        start[1:] = xp.cumsum(sizes)
        schedule = Schedule(start, grid * grid, grid, grid)
        keys = (block.astype(np.uint64) << np.uint64(44)) | (keys >> np.uint64(20))
    order = xp.argsort(keys)
    value = value[order].astype(np.float64)
    mean = float(value.sum()) / n if biases else 0.0
    square = float(xp.square(value - mean).sum())
    deviation = (square / n) ** 0.5 if square > 0 else 1.0
    table = as_table(xp, user[order], item[order], (value - mean) / deviation)
    return Ratings(table, users, items, schedule, mean, deviation)


def as_table(xp: Any, user: Any, item: Any, value: Any) -> Any:
    """The kernels' records of places and values."""
    table = xp.empty((len(value), 3), np.int32)
    table[:, 0], table[:, 1] = user, item
    table[:, 2] = value.astype(np.float32).view(np.int32)
    return table
