"""A forest as the list of numbers that a model's field `coef` has (`udas/scalars/models/trees.c`).

They are d, the number of features; T, the number of trees; B, the number of margins before the
first tree that follow, one for each of more than two classes, otherwise 0; the number of nodes of
each tree; and for each node, a tree's in preorder: feature (-1: a leaf), threshold or value of the
leaf, right child, gain, rows, and whether rows whose feature is missing go left. With B classes,
tree t is of class t % B.
"""

from collections.abc import Sequence

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.kernels.trees.boosting import Forest

NODE = 6
"""Numbers of a node."""
HEAD = 3
"""Numbers before the margins before the first tree."""


def as_numbers(forest: Forest, n_features: int) -> Floats:
    """The numbers of a forest; none of one margin and no tree."""
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
    return np.concatenate([head, nodes.ravel()])


def trees_in(numbers: Sequence[float]) -> list[Floats]:
    """The nodes of each tree, of shape (nodes, 6): feature, value, right child, gain, rows and
    whether missing values go left.
    """
    table = np.asarray(numbers, np.float64)
    if not len(table):
        return []
    trees, first = int(table[1]), HEAD + int(table[2])
    sizes = table[first : first + trees].astype(int)
    nodes = table[first + trees :].reshape(-1, NODE)
    return np.split(nodes, np.cumsum(sizes)[:-1]) if trees else []
