"""A pytest plugin: trains the boosted trees that scikit-learn's own tests fit by SQL too.

Training losses are compared: that of tuskml's trees may not be larger by more than SLACK of what
scikit-learn's lower it by. Both have the same bins, if their bounds are not too long for options.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from shadows import DATABASE, SHADOW, Inexpressible, shadow_fit
from sklearn import ensemble, metrics
from sklearn.utils.validation import _check_monotonic_cst

MOST_NUMBERS = 50_000
MOST_A_TEST = 6
MOST_OPTIONS = 60_000
SLACK = 0.1
MOST_BOUNDS = 254
OBJECTIVES = {
    "squared_error": ("squared", "rmse(y, predict(m, x), w)"),
    "absolute_error": ("quantile", "pinball(y, predict(m, x), 0.5::double precision, w)"),
    "poisson": ("poisson", "poisson_deviance(y, predict(m, x), w)"),
    "log_loss": ("logistic", "log_loss(y, predict_probas(m, x), w)"),
}
"""Objective and metric in SQL by scikit-learn's loss."""
HISTOGRAMS = (ensemble.HistGradientBoostingRegressor, ensemble.HistGradientBoostingClassifier)
EXACT = (ensemble.GradientBoostingRegressor, ensemble.GradientBoostingClassifier)


@dataclass(frozen=True)
class Rows:
    """Features of shape (n, d) as trees see them; labels or classes and weights, of shape (n,)."""

    x: Any
    y: Any
    weight: Any


def of_histograms(model: Any, given: Any) -> tuple[Any, dict[str, Any]]:
    """Returns the features and options of trees on histograms, with the bounds of their bins."""
    if model.do_early_stopping_ or model.interaction_cst is not None or model.max_features != 1.0:
        raise Inexpressible
    x = np.asarray(model._preprocess_X(given, reset=False), dtype=float)
    known = model._is_categorical_remapped
    levels = [False] * x.shape[1] if known is None else [bool(one) for one in known]
    thresholds = model._bin_mapper.bin_thresholds_
    bounds = [
        None if level else np.asarray(one, float).tolist()
        for level, one in zip(levels, thresholds, strict=True)
    ]
    options = {
        "trees": model.n_iter_,
        "num_leaves": model.max_leaf_nodes or 65536,
        "max_depth": model.max_depth or 0,
        "min_child_rows": model.min_samples_leaf,
        "min_child_hessian": 1e-3,
        "l2": model.l2_regularization,
        "bounds": bounds,
    }
    if any(levels):
        options["categorical"] = [k for k, level in enumerate(levels, 1) if level]
        options |= {"cat_l2": 0, "min_category_rows": 1, "max_cat_threshold": 255}
        options |= {"max_cat_to_onehot": 0}
    if model.monotonic_cst is not None:
        signs, first = _check_monotonic_cst(model, model.monotonic_cst), model.is_categorical_
        if first is not None:  # categories come first
            signs = np.concatenate([signs[first], signs[~first]])
        options["monotone"] = signs.tolist()
    return x, options


def of_exact_splits(model: Any, given: Any) -> tuple[Any, dict[str, Any]]:
    """Returns the features and options of trees that split between any two values."""
    plain = model.subsample == 1.0 and model.init is None and model.max_features is None
    few = model.min_weight_fraction_leaf == 0 and model.min_samples_split == 2
    if not (plain and few and model.min_impurity_decrease == 0 and model.n_iter_no_change is None):
        raise Inexpressible
    x = np.asarray(given, dtype=np.float32).astype(float)
    bounds = []
    for values in map(np.unique, x.T):
        if len(values) > MOST_BOUNDS + 1:
            raise Inexpressible
        bounds.append(((values[1:] + values[:-1]) / 2).tolist())
    options = {
        "trees": model.n_estimators_,
        "num_leaves": model.max_leaf_nodes or 65536,
        "max_depth": model.max_depth or 0,
        "min_child_rows": int(model.min_samples_leaf),
        "min_child_hessian": 0,
        "bounds": bounds,
    }
    return x, options


def asked_of(model: Any, given: Any, y: Any, weight: Any) -> tuple[Rows, dict[str, Any], str]:
    """Returns the rows, the options and the metric of a fitted model."""
    histograms, loss = isinstance(model, HISTOGRAMS), model.loss
    x, options = of_histograms(model, given) if histograms else of_exact_splits(model, given)
    if loss == "quantile":
        level = options["quantile"] = model.quantile if histograms else model.alpha
        objective, metric = OBJECTIVES["absolute_error"]
        metric = metric.replace("0.5", repr(float(level)))
    elif not isinstance(loss, str) or loss not in OBJECTIVES:
        raise Inexpressible
    else:
        objective, metric = OBJECTIVES[loss]
    label = np.asarray(y)
    weights = np.ones(len(x)) if weight is None else np.asarray(weight, float)
    if x.size > MOST_NUMBERS or label.shape != (len(x),) or np.isinf(x).any():
        raise Inexpressible
    if getattr(model, "class_weight", None) is not None or not weights.sum() > 0:
        raise Inexpressible
    options |= {"objective": objective, "learning_rate": model.learning_rate}
    if len(json.dumps(options)) > MOST_OPTIONS:
        del options["bounds"]
    return Rows(x, label, weights), options, metric


def loss_of(metric: str, model: Any, given: Any, rows: Rows) -> tuple[float, float]:
    """Returns the training loss of scikit-learn's trees, and that of the best constant."""
    kind, w, y = metric.partition("(")[0], rows.weight, rows.y
    if kind == "log_loss":
        classes = list(model.classes_)
        shares = [np.average(y == one, weights=w) for one in classes]
        constant = np.tile(shares, (len(y), 1))
        return tuple(
            float(metrics.log_loss(y, p, sample_weight=w, labels=classes))
            for p in (model.predict_proba(given), constant)
        )
    y = y.astype(float)
    level = float(metric.split(", ")[-2].partition("::")[0]) if kind == "pinball" else 0.5
    measure, constant = {
        "rmse": (metrics.root_mean_squared_error, np.average(y, weights=w)),
        "poisson_deviance": (metrics.mean_poisson_deviance, np.average(y, weights=w)),
        "pinball": (
            lambda *a, **b: metrics.mean_pinball_loss(*a, **b, alpha=level),
            np.quantile(y, level, weights=w, method="inverted_cdf"),
        ),
    }[kind]
    return tuple(
        float(measure(y, p, sample_weight=w))
        for p in (model.predict(given), np.full(len(y), constant))
    )


def train(model: Any, given: Any, y: Any, weight: Any) -> None:
    """Trains by SQL what scikit-learn has just fitted, and compares."""
    rows, options, metric = asked_of(model, given, y, weight)
    theirs, constant = loss_of(metric, model, given, rows)
    classes = metric.startswith("log_loss")
    labels = [f"{one}" for one in rows.y] if classes else rows.y.astype(float).tolist()
    if classes and len(set(labels)) < 2:
        raise Inexpressible
    x = [[None if np.isnan(value) else value for value in row] for row in rows.x.tolist()]
    DATABASE.create("shadow", {"y": labels, "w": rows.weight.tolist(), "x": x})
    name = type(model).__name__
    SHADOW.asked[name] += 1
    call = f"train_model('gbdt', y, x, '{json.dumps(options)}', w)"
    ((ours, status),) = DATABASE.execute(
        f"SELECT {metric}, min((m).status) FROM shadow, (SELECT {call} AS m FROM shadow) AS t"
    )
    if not ours <= theirs + SLACK * (constant - theirs) + 1e-6 * constant:
        options.pop("bounds", None)
        what = f"{json.dumps(options)} {rows.x.shape} {status}, constant {constant}"
        SHADOW.note(f"{name}, {model.loss}", theirs, ours, what=what)


for each in (*HISTOGRAMS, *EXACT):
    shadow_fit(each, train, MOST_A_TEST)
