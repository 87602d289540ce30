"""Ranks over the rows of all parts, for boosting of a group in parts.

They serve leaves whose values are quantiles, and rows that are drawn by their gradients.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import Floats
from tuskml.kernels.parts.message import Array
from tuskml.kernels.trees.boosting import NODE, ONE_SIDE, SIDE
from tuskml.kernels.trees.parted.messenger import Messenger
from tuskml.kernels.trees.parted.ranks import (
    CHANCES,
    LACKS,
    SIZES,
    Keys,
    find_ranks,
    numbers_of,
    quantiles,
    share_of,
)
from tuskml.kernels.trees.parted.trees import Tree, join_trees


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
