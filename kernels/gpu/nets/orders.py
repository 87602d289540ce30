"""The random numbers of `kernels/native/nets`: the same first weights and orders of rows.

Seeded random orders by splitmix64: equal on every device and in every version of NumPy.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.gpu.device import Device
from tuskml.kernels.gpu.source import Source

MASK = 2**64 - 1


def scramble(x: Any) -> Any:
    """splitmix64 of each item of a uint64 array, as in the CPU's kernels."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def epoch_key(seed: int, epoch: int) -> int:
    """The seed of an epoch's random order."""
    return (seed + 0x5851F42D4C957F2D * (epoch + 1)) & MASK


def permutation(n: int, seed: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The numbers 0 to n - 1 in a seeded random order."""
    order: np.ndarray[Any, np.dtype[np.int32]] = permutation_there(np, n, seed)
    return order


def permutation_there(xp: Any, n: int, seed: int) -> Any:
    """The same as `permutation`, as an array of xp. Keys are distinct: both functions are
    bijections.
    """
    first = np.uint64(int(scramble(np.array([seed & MASK], np.uint64))[0]))
    keys = scramble(xp.arange(n, dtype=np.uint64) + first)
    return xp.argsort(keys).astype(np.int32)


STATIC = 8 << 10
"""Bytes of shared memory that kernels here use in addition to their request."""
THREADS = 128
GOLDEN = 0x9E3779B97F4A7C15
APART = 0x632BE59BD9B4E019


def splitmix(x: int) -> int:
    """splitmix64 of one number."""
    return int(scramble(np.array([x & MASK], np.uint64))[0])


def within(seed: int, number: int) -> int:
    """Derives the seed of item `number` from a seed."""
    return splitmix(splitmix(seed) ^ ((number + APART) & MASK))


def draw_numbers(seed: int, n: int) -> NDArray[np.uint64]:
    """First n random numbers of a seed, 64 bits each."""
    count = np.arange(1, n + 1, dtype=np.uint64)
    return np.asarray(scramble(np.uint64(seed & MASK) + count * np.uint64(GOLDEN)))


def first_weights(seed: int, sizes: Sequence[int]) -> NDArray[np.float32]:
    """Draws the first weights (weights,): by layer and unit the bias, then the inputs' weights."""
    counts = [out * (inputs + 1) for inputs, out in pairwise(sizes)]
    bits = draw_numbers(within(seed, 1), sum(counts)) >> np.uint64(11)
    reach = np.concatenate(
        [
            np.full(count, 1 / np.sqrt(float(inputs)))
            for count, inputs in zip(counts, sizes, strict=False)
        ]
    )
    return (reach * (bits.astype(np.float64) * 2.0**-52 - 1)).astype(np.float32)


def epoch_order(seed: int, epoch: int, n: int) -> NDArray[np.int64]:
    """Order of n rows in an epoch (Fisher and Yates)."""
    bits = draw_numbers(within(within(seed, 2), epoch), max(n - 1, 0)) >> np.uint64(32)
    reach = np.arange(n, 1, -1, dtype=np.uint64)
    places = ((bits * reach) >> np.uint64(32)).tolist()
    order = list(range(n))
    for last, place in zip(range(n - 1, 0, -1), places, strict=True):
        order[last], order[place] = order[place], order[last]
    return np.array(order, np.int64)


def source_of(longest: int) -> Source:
    """Kernel that draws orders of at most `longest` rows."""
    macros = (("THREADS", THREADS),)
    return Source("draw_orders", ("orders.cu",), macros, THREADS, 4 * longest)


class Orders:
    """Orders of the rows of groups, one per number of rows."""

    def __init__(
        self, device: Device, counts: NDArray[np.int64], seed: int, shuffled: bool
    ) -> None:
        self.device, self.seed, self.shuffled = device, seed, shuffled
        self.counts, which = np.unique(counts, return_inverse=True)
        self.longest = int(counts.max())
        self.which = device.to_device(which.reshape(-1).astype(np.int32))
        """Index of the order of each group, (G,)."""

    def draw(self, epoch: int) -> Any:
        """Orders of an epoch, int32 (counts, longest); indices beyond the end come last."""
        source = source_of(self.longest)
        if source.shared > self.device.shared_bytes - STATIC:
            return self._by_host(epoch)
        orders = self.device.xp.empty((len(self.counts), self.longest), np.int32)
        seed = np.uint64(within(within(self.seed, 2), epoch))
        self.device.launch(
            source,
            (len(self.counts), 1),
            [
                self.device.to_device(self.counts),
                np.int64(self.longest),
                seed,
                np.int32(self.shuffled),
                orders,
            ],
        )
        return orders

    def _by_host(self, epoch: int) -> Any:
        """Draws the orders on the host, for groups whose order exceeds a block's memory."""
        orders = np.tile(np.arange(self.longest, dtype=np.int32), (len(self.counts), 1))
        for row, count in zip(orders, self.counts.tolist(), strict=True):
            if self.shuffled:
                row[:count] = epoch_order(self.seed, epoch, count)
        return self.device.to_device(orders)
