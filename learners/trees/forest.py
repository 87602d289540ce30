"""A forest as the list of numbers that a model's field `coef` has (`udas/scalars/models/trees.c`).

They are d, the number of features; T, the number of trees; B, the number of initial margins that
follow, one for each of more than two classes, otherwise 0; the number of nodes of each tree; and
for each node, a tree's in preorder: feature (-1: a leaf), threshold or value of the leaf, right
child, gain, rows, and whether rows with a missing feature go left. With B classes, tree t is of
class t % B.

If the last of these is 2, a set of levels of a category goes left, and missing values go right.
Sets follow the nodes: a number of words, and the words, of 32 bits each, the lowest for level 0.
The threshold is the distance of a set's start from the end of the whole list.

The losses that trees lower, the values of option `objective`, are a row each of `OBJECTIVES`.
"""

import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.kernels.trees.boosting import (
    BY_LEVEL,
    GAMMA,
    GINI,
    HUBER,
    LOGISTIC,
    POISSON,
    QUANTILE,
    SQUARED,
    TWEEDIE,
    Forest,
)
from tuskml.learners.classes import LabelRange, counts
from tuskml.udas.tasks import TASK_TABLE


@dataclass(frozen=True)
class Objective:
    """A loss of trees.

    number: the kernels', in `tk_objective`; formula: the loss of a row, of its margin m and its
    label y; shape: the option that is the loss' parameter; allowed: the labels that the loss has,
    None: all; by_gradients: whether leaves are means of gradients, and not quantiles; averaged:
    whether it is of random forests alone.
    """

    number: int
    formula: str
    shape: str | None = None
    allowed: LabelRange | None = None
    by_gradients: bool = True
    averaged: bool = False


OBJECTIVES = {
    "squared": Objective(SQUARED, "1/2 (m - y)^2"),
    "logistic": Objective(LOGISTIC, "log(1 + exp(-y m))"),
    "poisson": Objective(POISSON, "exp(m) - y m", allowed=counts("objective 'poisson'")),
    "gamma": Objective(
        GAMMA,
        "y exp(-m) + m",
        allowed=LabelRange("objective 'gamma' needs a label greater than 0", low=0.0, above=True),
    ),
    "tweedie": Objective(
        TWEEDIE,
        "exp((2 - p) m) / (2 - p) + y exp((1 - p) m) / (p - 1), p = power",
        "power",
        LabelRange("objective 'tweedie' needs a label of at least 0", low=0.0),
    ),
    "quantile": Objective(
        QUANTILE,
        "max(t (y - m), (t - 1) (y - m)), t = quantile",
        "quantile",
        by_gradients=False,
    ),
    "huber": Objective(
        HUBER,
        "1/2 r^2 up to |r| = delta and delta (|r| - delta / 2) beyond, r = m - y",
        "delta",
    ),
    "gini": Objective(GINI, "1/2 (m - [y is the class])^2", averaged=True),
}
"""By name, those of linear tasks by the task's."""
BOOSTED = tuple(name for name, one in OBJECTIVES.items() if not one.averaged)
"""The objectives of boosted trees."""


def response_of(objective: str) -> str:
    """What predicts a number from the margin: `exp`, or `identity`."""
    row = TASK_TABLE.get(objective)
    return row.response if row else "identity"


NODE = 6
"""Numbers of a node."""
FEATURE, VALUE, GAIN, ROWS, MISSING = 0, 1, 3, 4, 5
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


# Trees in the compact form that payloads have (`udas/scalars/trees/compact.h`), as numbers again.


PAYLOAD = struct.Struct("<4sHBBBBHIIIQd3d")
FLAGS, WEIGHTS, FIRST_CLASS = 4, 10, 12
"""Places in the head of a payload."""
SEVERAL, COMPACT = 32, 64
"""`TUSK_HAS_LABELS` and `TUSK_HAS_COMPACT_TREES`."""
COMPACT_HEAD = struct.Struct("<BBBBIIIQQ")
FLOATS: dict[int, np.dtype[Any]] = {4: np.dtype("<f4"), 8: np.dtype("<f8")}
WHOLE: dict[int, np.dtype[Any]] = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4")}
Counts = NDArray[np.int64]


def trees_of_payload(payload: bytes) -> list[float] | None:
    """The numbers of the trees of a model, as `forest.as_numbers` has them.

    None for a payload that has no trees in their compact form, or is damaged.
    """
    if len(payload) < PAYLOAD.size:
        return None
    head = PAYLOAD.unpack_from(payload)
    if not head[FLAGS] & COMPACT:
        return None
    try:
        labels = int(head[FIRST_CLASS]) if head[FLAGS] & SEVERAL else 0
        begin, end = PAYLOAD.size + 8 * labels, PAYLOAD.size + 8 * head[WEIGHTS]
        numbers: list[float] = numbers_in(payload[begin:end]).tolist()
    except (KeyError, ValueError, IndexError, OverflowError, struct.error):
        return None
    return numbers


def as_bytes(payload: bytes | str) -> bytes:
    """A payload, which in a model as JSON is text."""
    return bytes_of(payload) if isinstance(payload, str) else bytes(payload)


def bytes_of(text: str) -> bytes:
    """A payload in a model as JSON, as DuckDB or PostgreSQL write bytes.

    Raises ValueError for other text.
    """
    if text.startswith("\\x") and "\\" not in text[1:]:
        return bytes.fromhex(text[2:])
    return re.sub(r"\\x([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text).encode(
        "latin-1"
    )


class Reader:
    """Reads one part after another."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def take(self, kind: np.dtype[Any], n: int) -> NDArray[Any]:
        """n items. ValueError behind the end."""
        found = np.frombuffer(self.data, kind, n, self.at) if n else np.empty(0, kind)
        self.at += n * kind.itemsize
        return found


def numbers_in(data: bytes) -> Floats:
    """The numbers of trees in their compact form."""
    threshold, index, gain, rows, bases, trees, words, features, splits = COMPACT_HEAD.unpack_from(
        data
    )
    read, leaves = Reader(data, COMPACT_HEAD.size), splits + trees
    base = read.take(FLOATS[8], bases)
    sizes = read.take(WHOLE[4], trees).astype(np.int64)
    if sizes.sum() != splits:
        raise ValueError
    record = [("threshold", FLOATS[threshold]), ("feature", WHOLE[index]), ("left", WHOLE[index])]
    split = read.take(np.dtype(record), splits)
    value = read.take(FLOATS[8], leaves)
    gains = read.take(FLOATS[gain], splits)
    counts = read.take(WHOLE[rows], leaves)
    sets = read.take(WHOLE[4], words)
    left = split["left"].astype(np.int64)
    at, first_leaf, ends = places(left, sizes)
    shift = 8 * index - 2
    nodes = np.zeros((splits + leaves, NODE))
    node_of_tree = np.repeat(2 * np.cumsum(sizes) - 2 * sizes + np.arange(trees), sizes)
    before = np.concatenate([[0.0], np.cumsum(counts, dtype=np.float64)])
    nodes[at] = np.stack(
        [
            split["feature"] & ((1 << shift) - 1),
            split["threshold"],
            at - node_of_tree + 2 * left + 2,
            gains,
            before[first_leaf + ends - np.arange(splits) + 1] - before[first_leaf],
            split["feature"] >> shift,
        ],
        axis=1,
    )
    is_leaf = np.ones(len(nodes), np.bool_)
    is_leaf[at] = False
    nodes[is_leaf] = leaf_nodes(value, counts)
    return np.concatenate([[features, trees, bases], base, 2.0 * sizes + 1, nodes.ravel(), sets])


def leaf_nodes(value: Floats, counts: NDArray[Any]) -> Floats:
    """The nodes of leaves with these values and rows."""
    out = np.zeros((len(value), NODE))
    out[:, (0, 2)], out[:, 1], out[:, 4] = -1, value, counts
    return out


def places(left: Counts, sizes: Counts) -> tuple[Counts, Counts, Counts]:
    """The node of each split, the first leaf below it, and the end of the splits below it.

    left: splits in the left subtree of each; sizes: splits of each tree. A leaf before a split is
    in a left subtree that ended, so there are as many leaves as splits, less those that have the
    split in their left subtree.
    """
    number = np.arange(len(left))
    tree = np.repeat(np.arange(len(sizes)), sizes)
    steps = np.zeros(len(left) + 1, np.int64)
    np.add.at(steps, number + 1, 1)
    np.add.at(steps, number + 1 + left, -1)
    left_of = np.cumsum(steps)[:-1]
    return 2 * number + tree - left_of, number + tree - left_of, ends_of(left, sizes)


def ends_of(left: Counts, sizes: Counts) -> Counts:
    """The end of the splits below each one: that of the innermost left subtree that contains
    it.
    """
    out, number = np.empty(len(left), np.int64), 0
    below = left.tolist()
    for end in np.cumsum(sizes).tolist():
        open_ends = [end]
        while number < end:
            while number >= open_ends[-1]:
                open_ends.pop()
            out[number] = open_ends[-1]
            if below[number]:
                open_ends.append(number + 1 + below[number])
            number += 1
    return out
