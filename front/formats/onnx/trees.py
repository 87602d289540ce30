"""Boosted trees, by ONNX's operator TreeEnsemble, and factorization machines in ONNX graphs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tuskml.formats.onnx.graph import Graph
from tuskml.learners.fm.options import machine_in
from tuskml.learners.trees.forest import levels_left, splits_by_level, trees_in
from tuskml.model.scoring import Floats

SUM = 1
"""The sum of the trees' values, of `aggregate_function`."""
AT_MOST, MEMBER = 0, 6
"""Modes of splits of ONNX's operator TreeEnsemble: a number of at most a threshold, a member."""


def ensemble(coef: Sequence[float], outputs: int) -> dict[str, Any]:
    """The attributes of ONNX's operator TreeEnsemble, which keeps splits and leaves apart.

    A tree of a single leaf is a split whose branches both lead to that leaf. The sets of splits by
    level are concatenated, with a NaN after each. coef: the model's.
    """
    from onnx import numpy_helper

    splits: list[tuple[int, float, int, int, int, int, int, int]] = []
    roots: list[int] = []
    leaves: list[float] = []
    targets: list[int] = []
    for number, nodes in enumerate(trees_in(coef)):
        inner = nodes[:, 0] >= 0
        roots.append(len(splits))
        splits += splits_in(nodes, len(splits), len(leaves))
        leaves += nodes[~inner, 1].tolist()
        targets += [number % outputs] * int((~inner).sum())
    parts = map(list, zip(*splits, strict=True))
    feature, value, true, false, true_leaf, false_leaf, gaps_left, modes = parts
    members = members_of(coef, [v for v, mode in zip(value, modes, strict=True) if mode == MEMBER])
    return {
        **(
            {"membership_values": numpy_helper.from_array(members, "members")}
            if len(members)
            else {}
        ),
        "aggregate_function": SUM,
        "post_transform": 0,
        "n_targets": outputs,
        "tree_roots": roots,
        "nodes_featureids": feature,
        "nodes_modes": numpy_helper.from_array(np.array(modes, np.uint8), "modes"),
        "nodes_splits": numpy_helper.from_array(np.array(value, np.float64), "splits"),
        "nodes_truenodeids": true,
        "nodes_falsenodeids": false,
        "nodes_missing_value_tracks_true": gaps_left,
        "nodes_trueleafs": true_leaf,
        "nodes_falseleafs": false_leaf,
        "leaf_targetids": targets,
        "leaf_weights": numpy_helper.from_array(np.array(leaves, np.float64), "leaves"),
    }


def members_of(coef: Sequence[float], begins: Sequence[float]) -> Floats:
    """The levels of some sets, with a NaN behind each."""
    sets = [[*map(float, levels_left(coef, begin)), float("nan")] for begin in begins]
    return np.array([level for one in sets for level in one], np.float64)


def splits_in(
    nodes: Floats, n_splits: int, n_leaves: int
) -> list[tuple[int, float, int, int, int, int, int, int]]:
    """The splits of a tree: feature, value, both children and whether they are leaves, whether
    missing values are true, and the mode. n_splits, n_leaves: of the trees before.
    """
    inner = nodes[:, 0] >= 0
    if not inner.any():
        return [(0, 0.0, n_leaves, n_leaves, 1, 1, 0, AT_MOST)]
    place = np.where(inner, n_splits + np.cumsum(inner) - 1, 0)
    place = np.where(inner, place, n_leaves + np.cumsum(~inner) - 1).astype(int)
    by_level = splits_by_level(nodes)
    found = []
    for at in np.flatnonzero(inner).tolist():
        left, right = at + 1, int(nodes[at, 2])
        children = int(place[left]), int(place[right])
        are_leaves = int(not inner[left]), int(not inner[right])
        mode = MEMBER if by_level[at] else AT_MOST
        gaps = int(nodes[at, 5] == 1)
        found.append((int(nodes[at, 0]), float(nodes[at, 1]), *children, *are_leaves, gaps, mode))
    return found


def machine(graph: Graph, numbers: Sequence[float]) -> None:
    """Adds the margins of a machine; `first` is the intercept for each row, or no number where a
    feature is missing, and `second` the axis of features."""
    if not numbers:
        graph.add("Identity", ["first"], "margins")
        return
    weights, vectors = machine_in(numbers)
    graph.constant("coef", weights[:, None])
    graph.constant("vectors", vectors)
    graph.constant("squared_vectors", vectors**2)
    graph.constant("one_half", np.array(0.5))
    graph.add("MatMul", ["features", "coef"], "of_weights")
    graph.add("MatMul", ["features", "vectors"], "sums")
    graph.add("Mul", ["sums", "sums"], "squares_of_sums")
    graph.add("Mul", ["features", "features"], "squared_features")
    graph.add("MatMul", ["squared_features", "squared_vectors"], "sums_of_squares")
    graph.add("Sub", ["squares_of_sums", "sums_of_squares"], "twice_the_pairs")
    graph.add("ReduceSum", ["twice_the_pairs", "second"], "twice_of_pairs", keepdims=1)
    graph.add("Mul", ["twice_of_pairs", "one_half"], "of_pairs")
    graph.add("Add", ["of_weights", "of_pairs"], "of_features")
    graph.add("Add", ["of_features", "first"], "margins")
