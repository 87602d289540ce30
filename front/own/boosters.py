"""Boosted trees by their texts: LightGBM's own, and JSON of XGBoost and CatBoost."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tuskml.errors import DataError, one_of
from tuskml.formats import lightgbm_read
from tuskml.formats.onnx_reading.values import Dense, Forest, Tree
from tuskml.model.scoring import Floats
from tuskml.own.catboost_json import of_catboost
from tuskml.own.converted import ModelFields, of_margins
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
EXPECTED = (
    "expected LightGBM's text of save_model('m.txt'), XGBoost's JSON of save_model('m.json') or "
    "CatBoost's JSON of save_model('m.json', format='json')"
)
DAMAGED = (
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)
"""Errors of a text that lacks parts, or has others in their place."""
MOST_CLASSES = lightgbm_read.MOST_CLASSES
XGBOOSTS = "XGBoost's JSON"


def of_text(text: str) -> ModelFields:
    """The model that LightGBM, XGBoost or CatBoost wrote. Raises DataError for other text."""
    if text.lstrip().startswith("tree"):
        return of_lightgbm(text.lstrip())
    return of_json(text)


def of_json(text: str | bytes | bytearray) -> ModelFields:
    """The model in JSON of XGBoost or CatBoost. Raises DataError for other text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the text is no model that can be read, {EXPECTED}") from error
    known = [read for part, read in BY_PART.items() if isinstance(found, dict) and part in found]
    if not known:
        raise DataError(f"the text is no model that can be read, {EXPECTED}")
    try:
        with np.errstate(all="ignore"):
            made = known[0](found)
        if not np.isfinite(made.coef).all() or math.isinf(made.intercept):
            raise ValueError("a number is not finite")
    except DataError:  # it names the unsupported part
        raise
    except DAMAGED as error:
        raise DataError(f"the text is damaged ({error!r}), {EXPECTED}") from error
    return made


def of_lightgbm(text: str) -> ModelFields:
    """The trees of LightGBM's text. Raises DataError for trees of another kind."""
    found = lightgbm_read.read(text)
    return ModelFields(
        "gbdt",
        np.array(found.coef, np.float64),
        math.nan if found.margins > 1 else 0.0,
        len(found.features),
        {"objective": found.objective},
        len(found.trees) // found.margins,
        features=found.features,
        preparation=found.preparation,
        n_rows=int(found.trees[0][0, 4]) if found.trees else 0,
        origin="LightGBM's text",
    )


def of_xgboost(found: Mapping[str, Any]) -> ModelFields:
    """The trees up to the best iteration, or the linear model, of XGBoost's JSON. Raises DataError
    for another kind.
    """
    learner = found["learner"]
    name, booster = learner["objective"]["name"], learner["gradient_booster"]
    if name not in XGBOOST:
        raise DataError(f"the objective is {name}, expected {one_of(XGBOOST)}")
    response, objective = XGBOOST[name]
    about = learner["learner_model_param"]
    n, margins = int(about["num_feature"]), max(int(about["num_class"]), 1)
    if int(about.get("num_target", 1)) > 1:
        raise DataError("the model predicts several numbers of a row, expected one")
    if margins > MOST_CLASSES:
        raise DataError(f"the model has {margins} classes, expected at most {MOST_CLASSES}")
    base = np.broadcast_to(base_margins(about["base_score"], response), (margins,)).copy()
    names = tuple(map(str, learner.get("feature_names", ())))
    if booster["name"] == "gblinear":
        weights = np.array(booster["model"]["weights"], np.float64).reshape(n + 1, margins)
        layer = weights[:-1].T.copy(), weights[-1] + base
        made = of_margins(Dense(n, (layer,)), response, single=True)
        return replace(made, features=names, origin=XGBOOSTS)
    drops: list[float] | None = booster.get("weight_drop")
    model = booster["gbtree"]["model"] if "gbtree" in booster else booster["model"]
    kept = trees_kept(learner, model, margins)
    trees: list[list[Tree]] = [[] for _ in range(margins)]
    pairs = list(zip(model["tree_info"], model["trees"], strict=True))[:kept]
    for place, (of, tree) in enumerate(pairs):
        made_tree = Tree(tree_of(tree, n))
        trees[of].append(made_tree.times(drops[place]) if drops else made_tree)
    forest = Forest(n, tuple(map(tuple, trees)), base)
    made = of_margins(forest, response, None, objective, single=True)
    return replace(made, features=names, origin=XGBOOSTS)


def trees_kept(learner: Mapping[str, Any], model: Mapping[str, Any], margins: int) -> int:
    """The number of XGBoost's trees up to the best iteration; all where it is not known."""
    best = learner.get("attributes", {}).get("best_iteration")
    if best is None:
        return len(model["trees"])
    ends = model.get("iteration_indptr")  # texts before XGBoost 2.0 have none
    if ends is not None:
        return int(ends[int(best) + 1])
    together = int(model["gbtree_model_param"]["num_parallel_tree"])
    return (int(best) + 1) * margins * max(together, 1)


BY_PART = {"learner": of_xgboost, "features_info": of_catboost}
"""The reader of an object of JSON by a part that it has."""


def base_margins(score: str, response: str) -> Floats:
    """The margins before the first tree: the JSON has predictions, of several classes margins."""
    found = np.array([float(one) for one in score.strip("[]").split(",")])
    if response == "logistic":
        return np.asarray(np.log(found) - np.log1p(-found))
    return np.asarray(np.log(found) if response == "exp" else found)


def tree_of(tree: Mapping[str, Any], n_features: int) -> Floats:
    """The nodes of a tree, whose rows are the sums of second derivatives."""
    if any(tree["split_type"]):
        raise DataError("a split is of a category, expected features that are numbers")
    left, right = (np.array(tree[f"{side}_children"], np.int64) for side in ("left", "right"))
    condition = np.array(tree["split_conditions"], np.float32)
    if len(condition) != len(left):
        raise DataError("a leaf has several numbers, expected one")
    feature = np.array(tree["split_indices"], np.int64)
    if not ((feature[left >= 0] >= 0) & (feature[left >= 0] < n_features)).all():
        raise ValueError("a split has no feature")
    return Nodes(
        left,
        right,
        feature,
        below(condition),
        condition.astype(np.float64),
        np.array(tree["loss_changes"], np.float64),
        np.rint(np.array(tree["sum_hessian"], np.float64)),
        np.array(tree["default_left"], np.int64),
    ).table()
