"""A forest as the list of numbers that a model's field `coef` has (`udas/scalars/models/trees.c`).

They are d, the number of features; T, the number of trees; B, the number of initial margins that
follow, one for each of more than two classes, otherwise 0; the number of nodes of each tree; and
for each node, a tree's in preorder: feature (-1: a leaf), threshold or value of the leaf, right
child, gain, rows, and whether rows with a missing feature go left. With B classes, tree t is of
class t % B.

If the last of these is 2, a set of levels of a category goes left, and missing values go right.
Sets follow the nodes: a number of words, and the words, of 32 bits each, the lowest for level 0.
The threshold is the distance of a set's start from the end of the whole list.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.kernels.trees.boosting import BY_LEVEL, Forest

NODE = 6
"""Numbers of a node."""
FEATURE, VALUE, GAIN, MISSING = 0, 1, 3, 5
"""Places in a node."""
HEAD = 3
"""Numbers before the margins before the first tree."""


def as_numbers(forest: Forest, n_features: int) -> Floats:
    """The numbers of a forest; none of one margin and no tree."""
    if forest.numbers is not None:
        return forest.numbers
    bases = forest.base.tolist() if len(forest.base) > 1 else []
    if not forest.trees and not bases:
        return np.empty(0)
    head = [float(n_features), float(forest.trees), float(len(bases)), *bases]
    head += np.diff(forest.start).tolist()
    nodes = np.empty((len(forest.nodes), NODE))
    for column, values in enumerate(
        (
            forest.nodes["feature"],
            forest.nodes["value"],
            forest.nodes["right"],
            forest.gain,
            forest.rows,
            forest.nodes["missing"],
        )
    ):
        nodes[:, column] = values
    by_level = nodes[:, MISSING] == BY_LEVEL
    nodes[by_level, VALUE] = len(forest.sets) - nodes[by_level, VALUE]
    return np.concatenate([head, nodes.ravel(), forest.sets])


def trees_in(numbers: Sequence[float]) -> list[Floats]:
    """The nodes of each tree, of shape (nodes, 6): feature, value, right child, gain, rows and
    whether missing values go left.
    """
    table = np.asarray(numbers, np.float64)
    if not len(table):
        return []
    trees, first = int(table[1]), HEAD + int(table[2])
    sizes = table[first : first + trees].astype(int)
    begin = first + trees
    nodes = table[begin : begin + NODE * sizes.sum()].reshape(-1, NODE)
    return np.split(nodes, np.cumsum(sizes)[:-1]) if trees else []


def gains_of(numbers: Sequence[float], n_features: int) -> Floats:
    """The total gain of the splits by each feature, (n_features,)."""
    gains = np.zeros(n_features)
    for tree in trees_in(numbers):
        splits = tree[tree[:, FEATURE] >= 0]
        np.add.at(gains, splits[:, FEATURE].astype(int), splits[:, GAIN])
    return gains


def splits_by_level(tree: Floats) -> NDArray[np.bool_]:
    """Tests which nodes of a tree send a set of levels left."""
    found: NDArray[np.bool_] = tree[:, MISSING] == BY_LEVEL
    return found


def levels_left(numbers: Sequence[float], threshold: float) -> list[int]:
    """The levels that a split by level sends left, rising; numbers: the whole `coef`."""
    begin = len(numbers) - int(threshold)
    words = numbers[begin + 1 : begin + 1 + int(numbers[begin])]
    return [
        32 * k + bit for k, word in enumerate(words) for bit in range(32) if int(word) >> bit & 1
    ]


def set_of(levels: Iterable[int]) -> list[float]:
    """The numbers of a set of levels: how many words, and the words."""
    chosen = sorted(set(levels))
    words = [0] * (chosen[-1] // 32 + 1 if chosen else 0)
    for level in chosen:
        words[level // 32] |= 1 << level % 32
    return [float(len(words)), *map(float, words)]
