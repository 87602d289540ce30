"""Trees of ONNX's operators TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuskml.errors import DataError, one_of
from tuskml.formats.onnx_reading.values import Forest, Tree
from tuskml.kernels.trees.boosting import BY_LEVEL
from tuskml.learners.trees.forest import NODE
from tuskml.model.scoring import Floats

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
"""Modes of splits, by their numbers in TreeEnsemble; the older operators add `BRANCH_`."""
MOST_LEVEL, MOST_TARGETS = 65_535, 1000
AVERAGE, SUM = 0, 1

Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class Split:
    """A split: the children's numbers of true and false rows, whether missing values are true,
    and of mode `MEMBER` the levels that are true."""

    feature: int
    mode: str
    value: float
    true: int
    false: int
    missing_true: bool
    levels: tuple[int, ...] = ()


Nodes = Mapping[int, "Split | Mapping[int, float]"]
"""A split, or of a leaf the numbers by margin."""


def ensemble(n: int, given: Attributes) -> Forest:
    """The trees of TreeEnsemble. n: the features."""
    refuse(given, post_transform=0, aggregate_function=(AVERAGE, SUM))
    n_splits = len(given["nodes_featureids"])
    nodes: dict[int, Split | Mapping[int, float]] = {}
    sets = sets_of(given.get("membership_values", ()))
    flags = given.get("nodes_missing_value_tracks_true") or [0] * n_splits
    for at in range(n_splits):
        ends = []
        for side in ("true", "false"):
            leaf = given[f"nodes_{side}leafs"][at]
            ends.append(given[f"nodes_{side}nodeids"][at] + n_splits * bool(leaf))
        mode = MODES[int(given["nodes_modes"][at])]
        levels = next(sets) if mode == "MEMBER" else ()
        value, feature = float(given["nodes_splits"][at]), int(given["nodes_featureids"][at])
        nodes[at] = Split(feature, mode, value, ends[0], ends[1], bool(flags[at]), levels)
    for at, target in enumerate(given["leaf_targetids"]):
        nodes[n_splits + at] = {int(target): float(given["leaf_weights"][at])}
    margins, roots = targets_of(given), list(given["tree_roots"])
    average = given.get("aggregate_function", SUM) == AVERAGE
    return forest(n, [(nodes, root) for root in roots], np.zeros(margins), average)


def targets_of(given: Attributes) -> int:
    """The numbers of a row. Raises DataError if they are too many."""
    n = int(given.get("n_targets", 1))
    if not 1 <= n <= MOST_TARGETS:
        raise DataError(f"the trees have {n} targets, expected 1 to {MOST_TARGETS}")
    return n


def sets_of(values: Sequence[float]) -> Iterator[tuple[int, ...]]:
    """The sets of levels, behind each of which is a NaN."""
    found: list[int] = []
    for value in np.asarray(values, np.float64).tolist():
        if math.isnan(value):
            yield tuple(found)
            found = []
        elif value != int(value) or not 0 <= value <= MOST_LEVEL:
            raise DataError(
                f"a split is by the level {value:g}, expected whole numbers from 0 to {MOST_LEVEL}"
            )
        else:
            found.append(int(value))


def older(n: int, given: Attributes, kind: str, margins: int) -> Forest:
    """The trees of TreeEnsembleRegressor (kind `target`) or TreeEnsembleClassifier (`class`)."""
    aggregate = given.get("aggregate_function", "SUM")
    refuse({"aggregate_function": aggregate}, aggregate_function=("SUM", "AVERAGE"))
    trees: dict[int, dict[int, Split | dict[int, float]]] = {}
    count = len(given["nodes_nodeids"])
    flags = given.get("nodes_missing_value_tracks_true") or [0] * count
    values = numbers(given, "nodes_values")
    for at in range(count):
        mode = given["nodes_modes"][at].removeprefix("BRANCH_")
        tree = trees.setdefault(given["nodes_treeids"][at], {})
        tree[given["nodes_nodeids"][at]] = (
            {}
            if mode == "LEAF"
            else Split(
                given["nodes_featureids"][at],
                mode,
                values[at],
                given["nodes_truenodeids"][at],
                given["nodes_falsenodeids"][at],
                bool(flags[at]),
            )
        )
    weights = numbers(given, f"{kind}_weights")
    where = (given[f"{kind}_{name}"] for name in ("treeids", "nodeids", "ids"))
    for tree_at, node, target, weight in zip(*where, weights, strict=True):
        leaf = trees[tree_at][node]
        if not isinstance(leaf, dict):
            raise DataError("a split of a tree has numbers of its own, expected leaves alone")
        leaf[target] = leaf.get(target, 0.0) + weight
    bases = np.array(numbers(given, "base_values") or [0.0] * margins)
    roots = [(nodes, root_of(nodes)) for nodes in trees.values()]
    return forest(n, roots, np.broadcast_to(bases, (margins,)), aggregate == "AVERAGE")


def numbers(given: Attributes, name: str) -> list[float]:
    """An attribute of floats, or the equivalent tensor of doubles."""
    found = given.get(name)
    if found is None or not len(found):
        found = given.get(f"{name}_as_tensor", ())
    return np.asarray(found, np.float64).tolist()  # type: ignore[no-any-return]


def root_of(nodes: Nodes) -> int:
    """The node that is no child."""
    splits = [one for one in nodes.values() if isinstance(one, Split)]
    children = {child for one in splits for child in (one.true, one.false)}
    roots = [node for node in nodes if node not in children]
    if len(roots) != 1:
        raise DataError(f"a tree has {len(roots)} roots, expected one")
    return roots[0]


def forest(n: int, trees: Sequence[tuple[Nodes, int]], bases: Floats, average: bool) -> Forest:
    """The forest of trees with their roots; a tree with numbers for several margins is one for
    each."""
    margins = len(bases)
    by_margin: list[list[Tree]] = [[] for _ in range(margins)]
    seen: dict[int, set[int]] = {}
    for nodes, root in trees:
        order = preorder(nodes, root, seen.setdefault(id(nodes), set()))
        leaves = [one for one in order if not isinstance(one, Split)]
        targets = sorted({target for leaf in leaves for target in leaf})
        if targets and not 0 <= targets[0] <= targets[-1] < margins:
            raise DataError(f"a leaf is of margin {targets[-1]}, expected one of {margins}")
        for target in targets:
            by_margin[target].append(table_of(nodes, root, target))
    apart = {id(nodes): nodes for nodes, _ in trees}  # of one operator all trees may share them
    splits = [one for nodes in apart.values() for one in nodes.values() if isinstance(one, Split)]
    first = min((one.feature for one in splits), default=0)
    least = 1 + max((one.feature for one in splits), default=-1)
    if first < 0 or (n and least > n):
        wrong = first if first < 0 else least - 1
        raise DataError(f"a split is by feature {wrong}, expected one of {n or 'those'} from 0 on")
    found = Forest(n or least, tuple(map(tuple, by_margin)), np.zeros(margins))
    share = 1 / len(trees) if average and trees else 1.0
    return found.times(np.array(share)).plus(np.asarray(bases, np.float64))


def preorder(nodes: Nodes, root: int, seen: set[int]) -> "list[Split | Mapping[int, float]]":
    """The nodes below a root, each before those on its left. Raises DataError if they are no tree.

    seen: the nodes of the trees before, no split of which may be in another one.
    """
    found, waiting = [], [root]
    while waiting:
        at = waiting.pop()
        if at not in nodes or (at in seen and isinstance(nodes[at], Split)):
            raise DataError("the nodes are no tree")
        seen.add(at)
        node = nodes[at]
        found.append(node)
        if isinstance(node, Split):
            left, right, _ = sides(node)
            waiting += [right, left]
    return found


def sides(split: Split) -> tuple[int, int, bool]:
    """The children on the left and on the right, and whether missing values go left."""
    if split.mode in ("GT", "GTE"):
        return split.false, split.true, not split.missing_true
    return split.true, split.false, split.missing_true


def table_of(nodes: Nodes, root: int, target: int) -> Tree:
    """A tree whose leaves have the numbers of one margin; rows and gains are unknown."""
    rows: list[list[float]] = []
    sets: list[tuple[int, ...]] = []
    waiting = [(root, -1)]  # nodes, and the split whose right child they are
    while waiting:
        at, parent = waiting.pop()
        if parent >= 0:
            rows[parent][2] = len(rows)
        node = nodes[at]
        if not isinstance(node, Split):
            rows.append([-1.0, node.get(target, 0.0), 0, 0, 0, 0])
            continue
        left, right, missing_left = sides(node)
        waiting += [(right, len(rows)), (left, -1)]
        if node.mode == "MEMBER":
            if missing_left:
                raise DataError("a split by level sends missing values to its levels")
            rows.append([node.feature, len(sets), 0, 0, 0, BY_LEVEL])
            sets.append(node.levels)
        else:
            rows.append([node.feature, threshold(node), 0, 0, 0, missing_left])
    return Tree(np.array(rows, np.float64).reshape(-1, NODE), tuple(sets))


def threshold(split: Split) -> float:
    """The largest number that goes left."""
    if split.mode in ("LEQ", "GT"):
        return split.value
    if split.mode in ("LT", "GTE"):
        return float(np.nextafter(split.value, -np.inf))
    raise DataError(
        f"a split is of mode {split.mode}, expected {one_of(('LEQ', 'LT', 'GTE', 'GT', 'MEMBER'))}"
    )


def refuse(given: Attributes, **allowed: Any) -> None:
    """Raises DataError for an attribute outside the allowed values, the first of which is the
    default.
    """
    for name, one in allowed.items():
        values = one if isinstance(one, tuple) else (one,)
        found = given.get(name, values[-1])
        if found not in values:
            told = one_of([str(value) for value in values])
            raise DataError(f"{name} of the trees is {found}, expected {told}")
