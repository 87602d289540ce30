"""Boosted trees in LightGBM's text format (version 4), which `lightgbm.Booster` reads.

The margin before the first tree is added to the leaves of the first tree, as LightGBM itself does.
Missing values are NaN, on the side that training chose, or on that of the number that replaces
them. Splits of categories are by the numbers of their levels, whose names are in the last line
(`lightgbm_names.py`). The format has no labels: classes are 0, 1, ... in it.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.formats import lightgbm_names as names_of
from tuskml.formats.lightgbm_names import Column
from tuskml.learners.trees.forest import (
    HEAD,
    MISSING,
    VALUE,
    levels_left,
    set_of,
    splits_by_level,
    trees_in,
)
from tuskml.learners.trees.learner import OF_TREES
from tuskml.model.any_model import Estimator, model_in
from tuskml.model.file import save
from tuskml.model.model import Model
from tuskml.model.scoring import Floats, answers

NAN_IS_MISSING, DEFAULT_LEFT, BY_CATEGORY = 8, 2, 1
"""Bits of a split's `decision_type`."""


def write(model: Model, unseen_as_missing: bool = False) -> str:
    """The text of a model. Raises DataError for another kind of model, and for features that the
    format lacks.

    unseen_as_missing: LightGBM may treat levels that training did not see as missing.
    """
    refuse(model)
    classes = len(model.classes or ())
    margins = classes if model.many_classes else 1
    columns = names_of.columns_of(model.preparation)
    trees = [
        send_missing_as_filled(model, tree, columns) for tree in trees_with_base(model, margins)
    ]
    sections = [
        section(number, tree, levels_of(model, tree, columns, unseen_as_missing))
        for number, tree in enumerate(trees)
    ]
    names = [re.sub(r"\s+", "_", name) for name in feature_names(model)]
    head = {
        "version": "v4",
        "num_class": str(margins),
        "num_tree_per_iteration": str(margins),
        "label_index": "0",
        "max_feature_idx": str(len(names) - 1),
        "objective": objective_of(model),
        "feature_names": " ".join(names),
        "feature_infos": " ".join(names_of.infos_of(columns, len(names))),
        "tree_sizes": " ".join(str(len(one.encode())) for one in sections),
    }
    lines = ["tree", *(f"{name}={value}" for name, value in head.items()), "", ""]
    return "\n".join(lines) + "".join(sections) + f"end of trees\n\n{names_of.line_of(columns)}\n"


def refuse(model: Model) -> None:
    """Raises DataError for a model that the format cannot hold."""
    if model.task not in OF_TREES:
        raise DataError(f"the model is '{model.task}', expected boosted trees")
    if model.options.get("objective") == "gini":
        raise DataError(
            "the model is a random forest of classes, whose margins are shares, which LightGBM's "
            "format cannot say: expected boosted trees, or a forest of numbers"
        )
    answers(model).refuse_calibrated("LightGBM's format")


def send_missing_as_filled(model: Model, tree: Floats, columns: Sequence[Column]) -> Floats:
    """A tree whose missing numbers go where the numbers go that the model takes for them."""
    fills = np.array([*names_of.fills_of(model.preparation, columns), math.nan])
    fill = fills[tree[:, 0].astype(int)] if columns else np.full(len(tree), math.nan)
    known = ~np.isnan(fill) & ~splits_by_level(tree) & (tree[:, 0] >= 0)
    tree[known, MISSING] = fill[known] <= tree[known, VALUE]
    return tree


@dataclass(frozen=True)
class Levels:
    """The sides of levels at splits, by LightGBM's rule: missing and new levels go right.

    left: of each such split of a tree the levels that go left; turned: whether its sides are
    exchanged, (splits,), of all splits.
    """

    left: list[list[int]]
    turned: NDArray[np.bool_]


def levels_of(model: Model, tree: Floats, columns: Sequence[Column], unseen: bool) -> Levels:
    """The levels of a tree. Raises DataError if a split sends missing levels left, new ones
    right, and it is not said that new ones count as missing: unseen.
    """
    splits = tree[tree[:, 0] >= 0]
    found = Levels([], np.zeros(len(splits), bool))
    for place in np.flatnonzero(splits_by_level(splits)).tolist():
        left = levels_left(model.coef or [], splits[place, VALUE])
        if columns:
            column = columns[int(splits[place, 0])]
            known = range(len(column["levels"]))
            found.turned[place] = names_of.missing_left(model.preparation or "", column, left)
            if found.turned[place] and not unseen:
                names_of.refuse_missing(column)
            left = [one for one in known if (one in left) != found.turned[place]]
        found.left.append(left)
    return found


def feature_names(model: Model) -> tuple[str, ...]:
    """The names of the features, at least one."""
    return model.feature_names or ("x1",)


def objective_of(model: Model) -> str:
    """LightGBM's objective and its parameters."""
    if model.many_classes:
        return f"multiclass num_class:{len(model.classes or ())}"
    if answers(model).classifies:
        return "binary sigmoid:1"
    objective = str(model.options.get("objective", "squared"))
    return "regression" if objective == "squared" else objective


def trees_with_base(model: Model, margins: int) -> list[Floats]:
    """The nodes of the trees, the first of which has the margin before it in its leaves."""
    coef = model.coef or []
    trees = [tree.copy() for tree in trees_in(coef)]
    base: Sequence[float] = [model.intercept or 0.0]
    if margins > 1:
        base = coef[HEAD : HEAD + margins]
    if not trees:
        return [np.array([[-1.0, one, 0, 0, model.n_rows, 0]]) for one in base]
    for tree, one in zip(trees, base, strict=False):
        tree[tree[:, 0] < 0, 1] += one
    return trees


def categories(sets: Sequence[Sequence[int]]) -> dict[str, list[int]]:
    """The lines about sets of levels, which splits name by their order."""
    boundaries, words = [0], []
    for levels in sets:
        words += [int(word) for word in set_of(levels)[1:]] or [0]
        boundaries.append(len(words))
    return {"cat_boundaries": boundaries, "cat_threshold": words} if words else {}


def section(number: int, tree: Floats, levels: Levels) -> str:
    """The lines of a tree. Its splits and leaves are numbered in preorder."""
    is_leaf = tree[:, 0] < 0
    name = np.where(is_leaf, -1 * np.cumsum(is_leaf), np.cumsum(np.logical_not(is_leaf)) - 1)
    splits, leaves = tree[~is_leaf], tree[is_leaf]
    left, right = name[np.flatnonzero(~is_leaf) + 1], name[splits[:, 2].astype(int)]
    left, right = np.where(levels.turned, (right, left), (left, right))
    by_level = splits_by_level(splits)
    kinds = NAN_IS_MISSING + DEFAULT_LEFT * (splits[:, 5] == 1)
    thresholds = np.where(by_level, np.cumsum(by_level) - 1, splits[:, 1])
    lines = {
        "num_leaves": [len(leaves)],
        "num_cat": [int(by_level.sum())],
        "split_feature": splits[:, 0].astype(int),
        "split_gain": splits[:, 3],
        "threshold": thresholds,
        "decision_type": np.where(by_level, BY_CATEGORY, kinds),
        "left_child": left,
        "right_child": right,
        "leaf_value": leaves[:, 1],
        "leaf_weight": leaves[:, 4],
        "leaf_count": leaves[:, 4].astype(int),
        "internal_value": np.zeros(len(splits), int),
        "internal_weight": splits[:, 4],
        "internal_count": splits[:, 4].astype(int),
        **categories(levels.left),
        "is_linear": [0],
        "shrinkage": [1],
    }
    written = [
        f"{name}={' '.join(repr(one) for one in np.asarray(values).tolist())}"
        for name, values in lines.items()
    ]
    return "\n".join([f"Tree={number}", *written, "", "", ""])


def export_lightgbm(
    model: Model | Estimator,
    path: str | PathLike[str],
    unseen_as_missing: bool = False,
) -> None:
    """Writes boosted trees to a file in LightGBM's text format, as `Model.to_lightgbm` makes it.

    model: also a fitted estimator of one model. unseen_as_missing: as there. The file appears when
    it is complete.
    """
    save(write(model_in(model), unseen_as_missing), Path(path))
