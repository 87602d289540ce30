"""A forest as the list of numbers that a model's field `coef` has (`udas/scalars/models/trees.c`).

They are d, the number of features; T, the number of trees; the number of nodes of each tree; and
for each node, a tree's in preorder: feature (-1: a leaf), threshold or value of the leaf, right
child, gain and rows.
"""

from collections.abc import Sequence

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.kernels.trees.boosting import Forest

NODE = 5
"""Numbers of a node."""
HEAD = 2
"""Numbers before the sizes of the trees."""


def as_numbers(forest: Forest, n_features: int) -> Floats:
    """The numbers of a forest; none where it has no tree."""
    if not forest.trees:
        return np.empty(0)
    head = [float(n_features), float(forest.trees), *np.diff(forest.start).tolist()]
    nodes = np.empty((len(forest.nodes), NODE))
    for column, values in enumerate(
        (
            forest.nodes["feature"],
            forest.nodes["value"],
            forest.nodes["right"],
            forest.gain,
            forest.rows,
        )
    ):
        nodes[:, column] = values
    return np.concatenate([head, nodes.ravel()])


def trees_in(numbers: Sequence[float]) -> list[Floats]:
    """The nodes of each tree, of shape (nodes, 5): feature, value, right child, gain and rows."""
    table = np.asarray(numbers, np.float64)
    if not len(table):
        return []
    trees = int(table[1])
    sizes = table[HEAD : HEAD + trees].astype(int)
    nodes = table[HEAD + trees :].reshape(-1, NODE)
    return np.split(nodes, np.cumsum(sizes)[:-1])
