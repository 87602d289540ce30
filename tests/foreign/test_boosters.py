"""Models that LightGBM trains, asked of SQL, and the trees that SQL trains with its settings.

Settings are those of LightGBM's examples/*/train.conf, and of what its tests vary
(tests/python_package_test/test_engine.py, version 4.7.0); the rows are scikit-learn's and
statsmodels'.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from foreign_databases import Database
from sklearn import datasets
from statsmodels.datasets import randhie
from tally import Number, Tally

from tuskml import DataError, Model, registry

lightgbm = pytest.importorskip("lightgbm")

Params = Mapping[str, Any]
LEAVES = {"feature_fraction": 0.8, "bagging_freq": 5, "bagging_fraction": 0.8}
EXAMPLES: Mapping[str, Params] = {
    "examples/regression": {
        "objective": "regression", "learning_rate": 0.05, "num_leaves": 31,
        "min_data_in_leaf": 100, "min_sum_hessian_in_leaf": 5.0, **LEAVES, "feature_fraction": 0.9,
    },
    "examples/binary_classification": {
        "objective": "binary", "num_leaves": 63, "min_data_in_leaf": 50,
        "min_sum_hessian_in_leaf": 5.0, **LEAVES,
    },
    "examples/multiclass_classification": {
        "objective": "multiclass", "num_class": 5, "learning_rate": 0.05, "num_leaves": 31,
    },
    "examples/parallel_learning": {
        "objective": "binary", "num_leaves": 63, "min_data_in_leaf": 50,
        "min_sum_hessian_in_leaf": 5.0, **LEAVES, "tree_learner": "feature",
    },
}  # fmt: skip
VARIED: tuple[Params, ...] = (
    {},
    {"num_leaves": 2},
    {"max_depth": 3},
    {"min_data_in_leaf": 1},
    {"min_gain_to_split": 0.5},
    {"lambda_l1": 0.5},
    {"lambda_l2": 10.0},
    {"max_bin": 15},
    {"boosting": "dart"},
    {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
    {"data_sample_strategy": "goss"},
    {"extra_trees": True},
    {"path_smooth": 1.0},
    {"max_delta_step": 0.5},
    {"use_missing": False},
    {"boost_from_average": False},
    {"interaction_constraints": [[0, 1], [2, 3, 4]]},
    {"monotone_constraints": [1, -1, 0, 0, 0]},
    {"monotone_constraints": [1, -1, 0, 0, 0], "monotone_constraints_method": "advanced"},
    {"categorical_feature": [0]},
)
"""What is varied of each objective's settings."""
OBJECTIVES: Mapping[str, Params] = {
    "regression": {},
    "binary": {},
    "multiclass": {"num_class": 5},
    "poisson": {},
    "gamma": {},
    "tweedie": {"tweedie_variance_power": 1.3},
    "quantile": {"alpha": 0.8},
    "huber": {"alpha": 20.0},
}
REFUSED: Mapping[str, Params] = {
    "linear": {"linear_tree": True},
    "zero_as_missing": {"zero_as_missing": True},
    "objective": {"objective": "fair"},
}
"""Settings whose models are refused, by a word of the refusal."""
OPTIONS = {
    "learning_rate": "learning_rate",
    "num_leaves": "num_leaves",
    "min_data_in_leaf": "min_child_rows",
    "min_sum_hessian_in_leaf": "min_child_hessian",
    "min_gain_to_split": "min_gain",
    "max_depth": "max_depth",
    "max_bin": "max_bins",
    "lambda_l1": "l1",
    "lambda_l2": "l2",
}
"""tuskml's options by LightGBM's parameters."""
TREES = 30
ALLOWED = 1e-12
WORSE = 1.1
"""How much larger the loss of rows held out may be than that of LightGBM's trees."""


@cache
def rows_of(objective: str) -> tuple[np.ndarray, np.ndarray]:
    """Five features, a tenth of the values missing, and the labels of an objective."""
    if objective == "binary":
        x, y = datasets.load_breast_cancer(return_X_y=True)
    elif objective == "multiclass":
        x, y = datasets.load_digits(n_class=5, return_X_y=True)
        x = x[:, [20, 21, 26, 36, 42]]
    elif objective == "poisson":
        data = randhie.load_pandas().data[::20]
        x, y = data.iloc[:, 1:].to_numpy(), data["mdvis"].to_numpy()
    else:
        x, y = datasets.load_diabetes(return_X_y=True)
        x = np.round(x * 1000)
    x = x[:, :5].astype(float)
    x = np.hstack([np.floor(np.abs(x[:, :1])) % 12, x[:, 1:]])
    x[np.arange(x.size).reshape(x.shape) * 7 % 10 == 0] = np.nan
    return x, y.astype(float)


def booster_of(params: Params) -> Any:
    """Trains LightGBM on three of four rows."""
    x, y = rows_of(params["objective"])
    given = {"verbose": -1, "num_threads": 1, "seed": 3, "deterministic": True, **params}
    categorical = given.pop("categorical_feature", "auto")
    kept = np.arange(len(y)) % 4 > 0
    data = lightgbm.Dataset(x[kept], y[kept], categorical_feature=categorical)
    return lightgbm.train(given, data, TREES)


def cases() -> Iterator[tuple[str, Params]]:
    """Each setting of each objective."""
    yield from EXAMPLES.items()
    for objective, own in OBJECTIVES.items():
        for varied in VARIED:
            if not ("monotone_constraints" in varied and objective == "quantile"):
                yield f"{objective} {varied}", {"objective": objective, **own, **varied}


def predictions(database: Database, classes: int) -> list[Any]:
    """What the model in the table `fitted` predicts of each row of `suite`."""
    call = {0: "predict", 2: "predict_proba"}.get(classes, "predict_probas")
    found = database.execute(
        f"SELECT {call}(fitted.model, x) FROM fitted, suite ORDER BY suite.place"
    )
    return [list(p.values()) if isinstance(p, dict) else p for (p,) in found]


def numbers_of(database: Database, params: Params) -> Iterator[Number]:
    """Compares predictions of LightGBM's model by SQL, and of trees that SQL trains."""
    x, y = rows_of(params["objective"])
    classes = {"binary": 2, "multiclass": 5}.get(params["objective"], 0)
    booster = booster_of(params)
    registry.register(database.connection, "suite", Model.from_lightgbm(booster.model_to_string()))
    read = "SELECT model FROM tuskml.models WHERE name = 'suite' ORDER BY version DESC LIMIT 1"
    database.execute("DROP TABLE IF EXISTS fitted")
    database.execute(f"CREATE TABLE fitted AS {read}")
    theirs = booster.predict(x)
    ours = np.array(predictions(database, classes))
    away = np.max(np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-2))
    yield Number("predictions", 0.0, float(away), ALLOWED, 1.0)
    varied = set(params) - {"objective", "num_class", "alpha"}
    if not varied <= set(OPTIONS):
        return
    objective = {"regression": "squared", "binary": "logistic", "multiclass": "logistic"}
    options = {OPTIONS[name]: params[name] for name in varied} | {"trees": TREES}
    options["objective"] = objective.get(params["objective"], params["objective"])
    shape = {"quantile": "quantile", "huber": "delta"}.get(params["objective"])
    if shape:
        options[shape] = params["alpha"]
    call = f"train_model('gbdt', y, x, '{json.dumps(options)}')"
    database.execute("DROP TABLE IF EXISTS fitted")
    database.execute(f"CREATE TABLE fitted AS SELECT {call} AS model FROM suite WHERE kept > 0")
    held = np.arange(len(y)) % 4 == 0
    losses = [
        loss_of(params, np.asarray(p)[held], y[held])
        for p in (theirs, predictions(database, classes))
    ]
    yield Number("held-out loss", 0.0, max(losses[1] / losses[0] - 1, 0), WORSE - 1, 1.0)


def loss_of(params: Params, predicted: np.ndarray, y: np.ndarray) -> float:
    """The mean loss of predictions, by the objective."""
    objective = params["objective"]
    if objective == "multiclass":
        return float(-np.log(predicted[np.arange(len(y)), y.astype(int)]).mean())
    if objective == "binary":
        return float(-np.log(np.where(y > 0, predicted, 1 - predicted)).mean())
    if objective == "poisson":
        return float((predicted - y * np.log(predicted)).mean() + (y * np.log(y + 1e-9)).mean())
    lack = y - predicted
    if objective == "quantile":
        return float(np.maximum(0.8 * lack, -0.2 * lack).mean())
    if objective == "huber":
        size, delta = np.abs(lack), params["alpha"]
        return float(np.where(size < delta, size**2 / 2, delta * (size - delta / 2)).mean())
    return float((lack**2).mean())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_lightgbm_predicts_the_same(both: Database, tally: Tally, objective: str) -> None:
    x, y = rows_of(objective)
    gaps = [[None if np.isnan(value) else value for value in row] for row in x.tolist()]
    kept = [float(k % 4 > 0) for k in range(len(y))]
    both.create("suite", {"y": y.tolist(), "kept": kept, "x": gaps})
    registry.create(both.connection)
    unexplained = []
    for name, params in cases():
        if params["objective"] == objective:
            numbers = list(numbers_of(both, params))
            found = tally.compare("LightGBM", objective, both.name, numbers)
            unexplained += [f"{name}: {one}" for one in found]
    assert not unexplained, "\n".join(unexplained)


def test_what_no_trees_of_tuskml_are_is_refused(both: Database, tally: Tally) -> None:
    for name, params in REFUSED.items():
        booster = booster_of({"objective": "regression", "min_data_in_leaf": 5, **params})
        with pytest.raises(DataError, match=name):
            Model.from_lightgbm(booster.model_to_string())
        refused = tally.line("LightGBM", "regression", both.name).left_out
        refused[f"the model is refused by a sentence with {name}"] += 1
