"""Seeded random orders by splitmix64: equal on every device and in every version of NumPy."""

from typing import Any

import numpy as np

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
