"""Boosted trees of LightGBM and XGBoost, by their texts: LightGBM's own, XGBoost's JSON."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tuskml.errors import DataError, one_of
from tuskml.formats import lightgbm_read
from tuskml.formats.onnx_reading.values import Dense, Forest, Tree
from tuskml.model.scoring import Floats
from tuskml.own.converted import Converted, of_margins
from tuskml.own.nodes import Nodes, below

XGBOOST = {
    "reg:squarederror": ("identity", "squared"),
    "reg:pseudohubererror": ("identity", "huber"),
    "reg:absoluteerror": ("identity", "quantile"),
    "reg:quantileerror": ("identity", "quantile"),
    "count:poisson": ("exp", "poisson"),
    "reg:gamma": ("exp", "gamma"),
    "reg:tweedie": ("exp", "tweedie"),
    "binary:logistic": ("logistic", "logistic"),
    "multi:softprob": ("softmax", "logistic"),
    "multi:softmax": ("softmax", "logistic"),
}
"""The response and tuskml's objective by that of XGBoost."""


def of_lightgbm(text: str) -> Converted:
    """The trees of LightGBM's text. Raises DataError for trees of another kind."""
    found = lightgbm_read.read(text)
    return Converted(
        "gbdt",
        np.array(found.coef, np.float64),
        math.nan if found.margins > 1 else 0.0,
        len(found.features),
        {"objective": found.objective},
        len(found.trees) // found.margins,
    )


def of_xgboost(text: str | bytes | bytearray) -> Converted:
    """The trees, or the linear model, of XGBoost's JSON. Raises DataError for another kind."""
    learner = json.loads(text)["learner"]
    name, booster = learner["objective"]["name"], learner["gradient_booster"]
    if name not in XGBOOST:
        raise DataError(f"the objective is {name}, expected {one_of(XGBOOST)}")
    response, objective = XGBOOST[name]
    about = learner["learner_model_param"]
    n, margins = int(about["num_feature"]), max(int(about["num_class"]), 1)
    if int(about.get("num_target", 1)) > 1:
        raise DataError("the model predicts several numbers of a row, expected one")
    base = np.broadcast_to(base_margins(about["base_score"], response), (margins,)).copy()
    if booster["name"] == "gblinear":
        weights = np.array(booster["model"]["weights"], np.float64).reshape(n + 1, margins)
        layer = weights[:-1].T.copy(), weights[-1] + base
        return of_margins(Dense(n, (layer,)), response, single=True)
    drops: list[float] | None = booster.get("weight_drop")
    model = booster["gbtree"]["model"] if "gbtree" in booster else booster["model"]
    trees: list[list[Tree]] = [[] for _ in range(margins)]
    for place, (of, tree) in enumerate(zip(model["tree_info"], model["trees"], strict=True)):
        found = Tree(tree_of(tree))
        trees[of].append(found.times(drops[place]) if drops else found)
    forest = Forest(n, tuple(map(tuple, trees)), base)
    return of_margins(forest, response, None, objective, single=True)


def base_margins(score: str, response: str) -> Floats:
    """The margins before the first tree: the JSON has predictions, of several classes margins."""
    found = np.array([float(one) for one in score.strip("[]").split(",")])
    if response == "logistic":
        return np.asarray(np.log(found) - np.log1p(-found))
    return np.asarray(np.log(found) if response == "exp" else found)


def tree_of(tree: Mapping[str, Any]) -> Floats:
    """The nodes of a tree, whose rows are the sums of second derivatives."""
    if any(tree["split_type"]):
        raise DataError("a split is of a category, expected features that are numbers")
    left, right = (np.array(tree[f"{side}_children"], np.int64) for side in ("left", "right"))
    condition = np.array(tree["split_conditions"], np.float32)
    if len(condition) != len(left):
        raise DataError("a leaf has several numbers, expected one")
    return Nodes(
        left,
        right,
        np.array(tree["split_indices"], np.int64),
        below(condition),
        condition.astype(np.float64),
        np.array(tree["loss_changes"], np.float64),
        np.rint(np.array(tree["sum_hessian"], np.float64)),
        np.array(tree["default_left"], np.int64),
    ).table()
