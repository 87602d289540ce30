"""Boosted trees from CatBoost's JSON, as `save_model(file, format='json')` writes it.

A row goes right where its feature, as a float, is above the border, and a missing one where
`nan_value_treatment` is `AsTrue`. In a tree of `oblivious_trees` all nodes of a level have the
same split; bit i of a leaf's number says whether the row goes right at split i. Other trees,
those of `trees`, are objects in each other. A leaf has a number for each margin.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, one_of
from tuskml.formats.onnx_reading.values import Forest, Tree
from tuskml.learners.trees.forest import FEATURE, ROWS, VALUE
from tuskml.model.scoring import Floats
from tuskml.own.converted import ModelFields, of_margins
from tuskml.own.nodes import Nodes, least_upper

OBJECTIVES = {
    "RMSE": ("identity", "squared"),
    "MAE": ("identity", "quantile"),
    "Quantile": ("identity", "quantile"),
    "Huber": ("identity", "huber"),
    "Poisson": ("exp", "poisson"),
    "Tweedie": ("exp", "tweedie"),
    "Logloss": ("logistic", "logistic"),
    "CrossEntropy": ("logistic", "logistic"),
    "MultiClass": ("softmax", "logistic"),
}
"""The response and tuskml's objective by CatBoost's loss function."""
OTHER_FEATURES = ("categorical_features", "text_features", "embedding_features")
MOST_DEPTH = 16
"""Levels of an oblivious tree in CatBoost."""

Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Columns:
    """The features of rows: names, and of each float feature of the splits its place in a row and
    whether missing values go left.
    """

    names: tuple[str, ...]
    place: Whole
    missing_left: Whole


def of_catboost(found: Mapping[str, Any]) -> ModelFields:
    """The trees of the JSON. Raises DataError for trees of another kind."""
    about = found["model_info"]
    name = about["params"]["loss_function"]["type"]
    if name not in OBJECTIVES:
        raise DataError(f"the loss function is {name}, expected {one_of(OBJECTIVES)}")
    response, objective = OBJECTIVES[name]
    columns = columns_of(found["features_info"])
    scale, bias = found["scale_and_bias"]
    bases = np.array(bias, np.float64).reshape(-1)
    if (len(bases) > 1) != (response == "softmax"):
        raise ValueError(f"{len(bases)} margins of loss function {name}")
    read, given = (grown, "trees") if "trees" in found else (oblivious, "oblivious_trees")
    trees = [read(one, columns, len(bases)) for one in found[given]]
    by_margin = tuple(zip(*trees, strict=True)) if trees else ((),) * len(bases)
    forest = Forest(len(columns.names), by_margin, np.zeros(len(bases)))
    whole = forest.times(np.array(float(scale))).plus(bases)
    made = of_margins(whole, response, "gbdt", objective, single=True, iterations=len(trees))
    classes = about.get("class_params", {}).get("class_names", [])
    named = columns.names if all(columns.names) else ()
    return replace(
        made,
        features=named,
        classes=tuple(classes),
        n_rows=int(trees[0][0].table[0, ROWS]) if trees else 0,
        origin="CatBoost's JSON",
    )


def columns_of(info: Mapping[str, Any]) -> Columns:
    """The columns. Raises DataError unless all are numbers."""
    for kind in OTHER_FEATURES:
        if info.get(kind):
            raise DataError(
                f"the model has {kind.replace('_', ' ')}, expected features that are numbers"
            )
    given = info["float_features"]
    if [one["feature_index"] for one in given] != list(range(len(given))):
        raise ValueError("float_features are not in their order")
    place = np.array([one["flat_feature_index"] for one in given], np.int64)
    if sorted(place) != list(range(len(given))):
        raise ValueError("features have no places")
    names = [""] * len(given)
    for one in given:
        names[one["flat_feature_index"]] = str(one.get("feature_id", ""))
    right = [one.get("nan_value_treatment") == "AsTrue" for one in given]
    return Columns(tuple(names), place, 1 - np.array(right, np.int64))


def oblivious(given: Mapping[str, Any], columns: Columns, margins: int) -> list[Tree]:
    """An oblivious tree, for each margin. Its root has the last split, so that leaves are in the
    order of their numbers.
    """
    splits = given.get("splits") or []
    depth = len(splits)
    if depth > MOST_DEPTH:
        raise ValueError(f"a tree has {depth} splits")
    inner = (1 << depth) - 1
    node = np.arange(2 * inner + 1)
    level = np.log2(node[:inner] + 1).astype(np.int64)
    feature, border = splits_of(splits, columns)
    weights = np.array(given.get("leaf_weights") or np.zeros(inner + 1), np.float64)
    rows = [weights.reshape(inner + 1)]
    while len(rows[0]) > 1:
        rows.insert(0, rows[0].reshape(-1, 2).sum(axis=1))
    left = np.where(node < inner, 2 * node + 1, -1)
    values = np.array(given["leaf_values"], np.float64).reshape(inner + 1, margins)
    of = depth - 1 - level
    return trees_of(left, left + 1, feature[of], border[of], np.concatenate(rows), values, columns)


def grown(given: Mapping[str, Any], columns: Columns, margins: int) -> list[Tree]:
    """A tree of another shape, for each margin."""
    splits: list[Mapping[str, Any]] = []
    children: list[list[int]] = []
    rows: list[float] = []
    values: list[Any] = []
    waiting = [(given, -1)]
    while waiting:
        one, parent = waiting.pop()
        if parent >= 0:
            children[parent].append(len(children))
        children.append([])
        if "split" in one:
            splits.append(one["split"])
            waiting += [(one[side], len(children) - 1) for side in ("right", "left")]
        else:
            values.append(one["value"])
        rows.append(float(one.get("weight", 0.0)))
    for place, both in reversed(list(enumerate(children))):
        rows[place] += sum(rows[child] for child in both)
    left, right = np.array([both or [-1, -1] for both in children], np.int64).T
    feature, border = splits_of(splits, columns)
    numbers = np.array(values, np.float64).reshape(len(values), margins)
    return trees_of(left, right, feature, border, np.array(rows), numbers, columns)


def splits_of(splits: Sequence[Mapping[str, Any]], columns: Columns) -> tuple[Whole, Floats]:
    """The float feature and the border of each split."""
    for one in splits:
        if one["split_type"] != "FloatFeature":
            raise DataError(f"a split is a {one['split_type']}, expected a FloatFeature")
    feature = np.array([one["float_feature_index"] for one in splits], np.int64)
    if not ((feature >= 0) & (feature < len(columns.place))).all():
        raise ValueError("a split has no feature")
    return feature, np.array([one["border"] for one in splits], np.float64)


def trees_of(
    left: Whole,
    right: Whole,
    feature: Whole,
    border: Floats,
    rows: Floats,
    values: Floats,
    columns: Columns,
) -> list[Tree]:
    """The tree of each margin.

    left, right, rows: by node; feature, border: by split; values: (leaves, margins), both in the
    order of the nodes.
    """
    n = len(left)
    split = left >= 0
    by_node = [np.zeros(n) for _ in range(3)]
    threshold = least_upper(border.astype(np.float32))
    given = (columns.place[feature], threshold, columns.missing_left[feature])
    for into, of_splits in zip(by_node, given, strict=True):
        into[split] = of_splits
    zeros = np.zeros(n)
    table = Nodes(
        left, right, by_node[0], by_node[1], zeros, zeros, np.rint(rows), by_node[2]
    ).table()
    trees = []
    for column in values.T:
        one = table.copy()
        one[one[:, FEATURE] < 0, VALUE] = column
        trees.append(Tree(one))
    return trees
