"""Order statistics of the numbers of all parts, bit for bit those of all rows together.

Parts count their numbers by some bits of keys whose order is that of the numbers. The counts of
all parts determine these bits of the wanted key, and the next round counts the bits that follow,
until all 64 are known (radix selection). If leaves have ranks of their own, all leaves go
together.

In boosting they serve leaves whose values are quantiles, and rows that are drawn by their
gradients.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import Floats, library
from tuskml.kernels.parts.message import Array
from tuskml.kernels.structures import KERNELS
from tuskml.kernels.trees.boosting import NODE, ONE_SIDE, SIDE
from tuskml.kernels.trees.parted.messenger import Messenger
from tuskml.kernels.trees.parted.trees import Tree, join_trees

ROUNDS = (12, 13, 13, 13, 13)
"""Bits of keys counted in each round, 64 in all; first a number's sign and exponent."""
MOST_COUNTS = 1 << 20
"""Largest number of counts in a reply: with too many slots for ROUNDS, rounds are more and
shorter.
"""
SIGN = np.uint64(1 << 63)
LACKS, SIZES, CHANCES = KERNELS.constants("TK_", "LACKS SIZES CHANCES")
"""`tk_ranked`."""

Keys = NDArray[np.uint64]
Count = Callable[[Keys, int, int], Array]
"""Counts or weights, (slots, 2^bits), from the known bits, their number, and the number of bits to
count.
"""


@dataclass(frozen=True)
class RankedKeys:
    """For each slot: the key, and the count or weight below it, at it, and in total."""

    key: Keys
    below: Floats
    here: Floats
    total: Floats


def rounds(slots: int) -> tuple[int, ...]:
    """Bits of keys by round, 64 in all."""
    most = max((MOST_COUNTS // max(slots, 1)).bit_length() - 1, 1)
    if most >= max(ROUNDS):
        return ROUNDS
    whole, rest = divmod(64, most)
    return (most,) * whole + (rest,) * (rest > 0)


def find_ranks(slots: int, wanted: Callable[[Floats], Floats], count: Count) -> RankedKeys:
    """Least key of each slot up to which there is as much as wanted, or else the last one.

    wanted: maps totals to wanted amounts.
    """
    first, below = np.zeros(slots, np.uint64), np.zeros(slots)
    rows, known = np.arange(slots), 0
    for bits in rounds(slots):
        counts = count(first, known, bits)
        upto = below[:, None] + np.cumsum(counts, axis=1)
        if not known:
            total = upto[:, -1].copy()
            target = wanted(total)
        reached = upto >= target[:, None]
        last = counts.shape[1] - 1 - np.argmax(counts[:, ::-1] > 0, axis=1)
        place = np.where(reached.any(axis=1), np.argmax(reached, axis=1), last)
        here = counts[rows, place].astype(np.float64)
        below = np.where(place > 0, upto[rows, place - 1], below)
        first = first << np.uint64(bits) | place.astype(np.uint64)
        known += bits
    return RankedKeys(first, below, here, total)


def numbers_of(keys: Keys) -> Floats:
    """The numbers that have these keys."""
    bits = np.where(keys >= SIGN, keys ^ SIGN, ~keys)
    return bits.view(np.float64)


def quantiles(
    slots: int, share: float, count: Count, after: Callable[[Keys], Keys], weighted: bool
) -> Floats:
    """Quantile of each slot, like `quantile_of` and `weighted_quantile_of` of numbers in one
    array.

    after: finds the next greater keys.
    """
    if weighted:
        return numbers_of(find_ranks(slots, lambda total: share * total, count).key)
    ranks = find_ranks(slots, lambda total: rank_below(total, share) + 1, count)
    below, last = rank_below(ranks.total, share), ranks.total - 1
    low = numbers_of(ranks.key)
    alone = ranks.below + ranks.here < np.minimum(below + 1, last) + 1
    high = np.where(alone, numbers_of(after(ranks.key)), low) if alone.any() else low
    three = zip(low.tolist(), high.tolist(), ranks.total.tolist(), strict=True)
    each = [library().tk_between(a, b, int(n), share) for a, b, n in three]
    return np.where(below < last, each, low)


def rank_below(total: Floats, share: float) -> Floats:
    """Rank, from 0, of the number at a quantile or just below it."""
    rank: Floats = np.minimum(np.floor(share * (total - 1)), total - 1)
    return rank


def share_of(n: int, share: float) -> int:
    """Returns a share of n rows, at least one."""
    return max(int(n * share), 1)


def constant() -> Tree:
    """A tree of one leaf with all rows."""
    nodes, sides = np.zeros(1, NODE), np.zeros(1, SIDE)
    nodes["feature"] = -1
    none = np.zeros((0, 4), np.uint64)
    return Tree(nodes, np.zeros(1, np.float32), np.zeros(1, np.int64), sides, none, np.zeros(0))


def leaf_quantiles(parted: Messenger, tree: Tree, every: bool, weighted: bool) -> Floats:
    """Quantiles of label - margin for the leaves of a tree, in the order of its nodes.

    every: over all rows, not only those on which the tree grew.
    """
    leaves = tree.nodes["feature"] < 0
    slot = np.where(leaves, np.cumsum(leaves) - 1, -1).astype(np.int32)
    about: list[Array] = [*join_trees([tree])[1:], slot]

    def count(first: Keys, known: int, bits: int) -> Array:
        fields: dict[str, Any] = {"of": LACKS, "known": known, "bits": bits, "every": every}
        if weighted:
            replies = parted.answers("ranks", first, *about, weighs=True, **fields)
            return sum_of([one[0] for one in replies])
        return parted.sum_replies("ranks", first, *about, weighs=False, **fields)

    def after(keys: Keys) -> Keys:
        fields: dict[str, Any] = {"of": LACKS, "known": 64, "bits": 0, "every": every}
        replies = parted.answers("next", keys, *about, weighs=False, **fields)
        least: Keys = np.minimum.reduce([one[0] for one in replies])
        return least

    return quantiles(int(leaves.sum()), parted.rules.shape, count, after, weighted)


def sum_of(terms: list[Array]) -> Array:
    """Adds terms from the first to the last."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def one_side(
    parted: Messenger, iteration: int, n_rows: int, extent: NDArray[np.void]
) -> NDArray[np.void]:
    """Determines the rows that an iteration draws by their gradients (1,), like `draw_one_side`.

    n_rows: of all parts; extent: range of derivatives and curvatures, EXTENT (1,).
    """
    rules = parted.rules
    out = np.zeros(1, ONE_SIDE)
    sizes = extent.view(np.float64)

    def counting(of: int) -> Any:
        def count(first: Keys, known: int, bits: int) -> Array:
            fields: dict[str, Any] = {"of": of, "known": known, "bits": bits, "every": False}
            fields |= {"iteration": iteration, "weighs": False}
            return parted.sum_replies("ranks", first, sizes, out.view(np.uint64), **fields)

        return count

    rank = n_rows - share_of(n_rows, rules.top_rate) + 1
    out["least"] = numbers_of(find_ranks(1, lambda _: np.array([rank]), counting(SIZES)).key)
    most = share_of(n_rows, rules.other_rate)
    found = find_ranks(1, lambda total: np.minimum(total, most), counting(CHANCES))
    others = float(found.total[0])
    taken = float(found.below[0] + found.here[0]) if others else 0.0
    out["last"] = found.key if others else 0
    out["factor"] = others / taken if taken else 1.0
    return out


def with_quantile_leaves(parted: Messenger, tree: Tree, weighted: bool) -> Tree:
    """Replaces the values of a tree's leaves by their quantiles."""
    leaves = tree.nodes["feature"] < 0
    wants = leaf_quantiles(parted, tree, False, weighted)
    tree.nodes["value"][leaves] = parted.rules.learning_rate * wants
    return tree
