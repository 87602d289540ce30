"""Assignment of blocks to workers for rotations."""

from collections.abc import Sequence
from itertools import pairwise


def ranges(n: int, blocks: int) -> list[slice]:
    """Disjoint slices of range(n) whose lengths differ by at most 1, in their order; empty ones
    are left out.

    >>> ranges(7, 3)
    [slice(0, 3, None), slice(3, 5, None), slice(5, 7, None)]
    """
    each, more = divmod(n, blocks)
    ends = [0]
    for block in range(blocks):
        ends.append(ends[-1] + each + (block < more))
    return [slice(a, b) for a, b in pairwise(ends) if a < b]


def dealt(weights: Sequence[float], workers: int) -> list[list[int]]:
    """Indices of the blocks with which each worker begins, the heaviest first.

    Each block, from the heaviest on, goes to the worker with the least weight (R. L. Graham,
    Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 1969).
    """
    held: list[list[int]] = [[] for _ in range(workers)]
    loads = [0.0] * workers
    for block in sorted(range(len(weights)), key=lambda one: (-weights[one], one)):
        least = min(range(workers), key=lambda p: (loads[p], len(held[p]), p))
        held[least].append(block)
        loads[least] += weights[block]
    return held
