"""Trees in the form that parts read: by the codes of rows, concatenated."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import Floats, address_of
from tuskml.kernels.parts.message import Array
from tuskml.kernels.trees.boosting import BY_LEVEL, NODE, SIDE, Forest


@dataclass(frozen=True)
class Tree:
    """A grown tree.

    nodes: (n,) NODE in preorder, with gain and rows of each; sides: (n,) SIDE; codes: (.., 4)
    uint64, sets of codes that go left; sets: the same as levels.
    """

    nodes: NDArray[np.void]
    gain: NDArray[np.float32]
    rows: NDArray[np.int64]
    sides: NDArray[np.void]
    codes: NDArray[np.uint64]
    sets: Floats

    @property
    def splits(self) -> bool:
        return len(self.nodes) > 1


def join_trees(trees: Sequence[Tree]) -> list[Array]:
    """Arrays of some trees for a message."""
    return [
        np.array([(len(one.nodes), len(one.codes)) for one in trees], np.int64).reshape(-1, 2),
        as_bytes(np.concatenate([np.zeros(0, NODE), *(one.nodes for one in trees)])),
        as_bytes(np.concatenate([np.zeros(0, SIDE), *(one.sides for one in trees)])),
        np.concatenate([np.zeros((0, 4), np.uint64), *(one.codes for one in trees)]),
    ]


BEFORE = 3
"""Number of arrays with earlier trees."""


def of_forest(forest: Forest | None) -> list[Array | None]:
    """Arrays of earlier trees for a part, besides the margins before the first of them."""
    if forest is None:
        return [None] * BEFORE
    return [forest.start, as_bytes(forest.nodes), forest.sets]


def forest_in(base: Floats, arrays: Sequence[Any]) -> Forest | None:
    """Earlier trees from arrays; None if there are none."""
    if not arrays or arrays[0] is None:
        return None
    start, nodes, sets = arrays
    none = np.empty(0)
    own = np.frombuffer(nodes.tobytes(), NODE).copy()
    gain, rows = np.empty(0, np.float32), np.empty(0, np.int64)
    return Forest(np.ascontiguousarray(base), 0.0, start, own, gain, rows, none, none, sets)


def as_bytes(array: NDArray[np.void]) -> NDArray[np.uint8]:
    """Views items with fields as bytes, since messages have no fields."""
    return np.frombuffer(array.tobytes(), np.uint8)


def of_trees(
    trees: Sequence[Tree],
    base: Floats,
    base_loss: float,
    losses: Sequence[float],
    held: Sequence[float] = (),
) -> Forest:
    """A forest of grown trees, with their sets concatenated."""
    nodes, n_sets = [np.zeros(0, NODE)], 0
    for tree in trees:
        own = tree.nodes.copy()
        own["value"][own["missing"] == BY_LEVEL] += n_sets
        n_sets += len(tree.sets)
        nodes.append(own)
    start = np.cumsum([0, *(len(one.nodes) for one in trees)])
    return Forest(
        base,
        base_loss,
        start.astype(np.int64),
        np.concatenate(nodes),
        np.concatenate([np.zeros(0, np.float32), *(one.gain for one in trees)]),
        np.concatenate([np.zeros(0, np.int64), *(one.rows for one in trees)]),
        np.array(losses, np.float64),
        np.array(held, np.float64),
        np.concatenate([np.zeros(0), *(one.sets for one in trees)]),
    )


@dataclass(frozen=True)
class TreeList:
    """The trees of a message."""

    sizes: NDArray[np.int64]
    nodes: NDArray[np.uint8]
    sides: NDArray[np.uint8]
    codes: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.sizes)

    def at(self, place: int) -> tuple[int, int, int]:
        """Returns the offsets of nodes, sides and sets of a tree."""
        nodes, codes = (int(one) for one in self.sizes[:place].sum(axis=0))
        return (
            address_of(self.nodes) + nodes * NODE.itemsize,
            address_of(self.sides) + nodes * SIDE.itemsize,
            address_of(self.codes) + codes * 32,
        )
