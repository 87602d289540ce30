"""A pytest plugin: trains each linear model that scikit-learn's own tests fit by SQL too.

The objectives are compared: that of train_model's weights may not be larger.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn.linear_model as models
from shadows import DATABASE, SHADOW, Inexpressible, shadow_fit

NAMES = (
    "LinearRegression",
    "Ridge",
    "Lasso",
    "ElasticNet",
    "PoissonRegressor",
    "GammaRegressor",
    "LogisticRegression",
    "QuantileRegressor",
    "HuberRegressor",
)
TASKS = {
    "PoissonRegressor": "poisson",
    "GammaRegressor": "gamma",
    "LogisticRegression": "logistic",
    "QuantileRegressor": "quantile",
    "HuberRegressor": "huber",
}
"""Those of the others are `linear`."""
SHAPES = {"quantile": "quantile", "huber": "delta"}
"""Options that a loss depends on, by task."""
MOST_NUMBERS = 20_000
MOST_A_TEST = 3


@dataclass(frozen=True)
class Objective:
    """A task with its penalties, as train_model has them; shape: its option of SHAPES."""

    task: str
    l1: float
    l2: float
    fit_intercept: bool
    shape: float = 0.0

    def options(self) -> dict[str, Any]:
        """The options of train_model."""
        found = {"l1": self.l1, "l2": self.l2, "fit_intercept": self.fit_intercept}
        return found | ({SHAPES[self.task]: self.shape} if self.task in SHAPES else {})

    def at(self, x: Any, y: Any, weight: Any, coef: Any, intercept: float) -> float:
        """The mean loss and the penalties at some weights."""
        m, t = x @ coef + intercept, self.shape
        size = np.abs(y - m)
        with np.errstate(over="ignore"):
            loss = {
                "linear": lambda: (m - y) ** 2 / 2,
                "poisson": lambda: np.exp(m) - y * m,
                "gamma": lambda: y * np.exp(-m) + m,
                "logistic": lambda: np.logaddexp(0, -y * m),
                "quantile": lambda: np.where(y > m, t * size, (1 - t) * size),
                "huber": lambda: np.where(size < t, size**2 / 2, t * (size - t / 2)),
            }[self.task]()
        penalty = self.l2 / 2 * coef @ coef + self.l1 * np.abs(coef).sum()
        return float(np.average(loss, weights=weight) + penalty)


def objective_of(model: Any, weights: float) -> Objective:
    """That of a model of scikit-learn; weights: the sum of those of the rows."""
    name, l1, l2, shape = type(model).__name__, 0.0, 0.0, 0.0
    if getattr(model, "positive", False) or getattr(model, "class_weight", None) is not None:
        raise Inexpressible
    if getattr(model, "dual", False) or np.ndim(getattr(model, "alpha", 0.0)):
        raise Inexpressible
    if name == "Ridge":
        l2 = float(model.alpha) / weights
    elif name in ("PoissonRegressor", "GammaRegressor"):
        l2 = float(model.alpha)
    elif name == "Lasso":
        l1 = float(model.alpha)
    elif name == "QuantileRegressor":
        l1, shape = float(model.alpha), float(model.quantile)
    elif name == "HuberRegressor":
        scale = float(model.scale_)
        l2, shape = float(model.alpha) * scale / weights, float(model.epsilon) * scale
    elif name == "ElasticNet":
        l1, l2 = float(model.alpha * model.l1_ratio), float(model.alpha * (1 - model.l1_ratio))
    elif name == "LogisticRegression":
        penalty = getattr(model, "penalty", "deprecated")
        ratio = {"l1": 1.0, "l2": 0.0}.get(penalty, getattr(model, "l1_ratio", None) or 0.0)
        strength = 0.0 if penalty is None else 1.0 / (model.C * weights)
        l1, l2 = strength * ratio, strength * (1 - ratio)
    if not np.isfinite(l1 + l2):
        raise Inexpressible
    return Objective(TASKS.get(name, "linear"), l1, l2, bool(model.fit_intercept), shape)


def rows_of(model: Any, x: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Features, labels and weights as columns of numbers; classes are -1 and 1."""
    features, label = np.asarray(x, dtype=float), np.asarray(y)
    if features.ndim != 2 or label.ndim != 1 or features.size > MOST_NUMBERS:
        raise Inexpressible
    given = 1.0 if weight is None else np.asarray(weight, float)
    weights = np.broadcast_to(given, label.shape).copy()
    if not np.isfinite(features).all() or (weights < 0).any() or not weights.sum() > 0:
        raise Inexpressible
    if type(model).__name__ == "LogisticRegression":
        if len(model.classes_) != 2:
            raise Inexpressible
        label = np.where(label == model.classes_[1], 1.0, -1.0)
    return features, label.astype(float), weights


def train(model: Any, x: Any, y: Any, weight: Any) -> None:
    """Trains by SQL what scikit-learn has just fitted, and compares."""
    features, label, weights = rows_of(model, x, y, weight)
    objective = objective_of(model, weights.sum())
    coef = np.ravel(model.coef_).astype(float)
    if len(coef) != features.shape[1] or not np.isfinite(label).all():
        raise Inexpressible
    rows = {"y": label.tolist(), "w": weights.tolist(), "x": features.tolist()}
    DATABASE.create("shadow", rows)
    options = objective.options()
    call = f"train_model('{objective.task}', y, x, '{json.dumps(options)}', w)"
    name = type(model).__name__
    SHADOW.asked[name] += 1
    (found,) = DATABASE.execute(
        f"SELECT (m).coef, (m).intercept, (m).status FROM (SELECT {call} AS m FROM shadow) AS t"
    )
    ours, intercept, status = found
    intercept = intercept if objective.fit_intercept else 0.0
    there = features, label, weights
    mine = objective.at(*there, np.array(ours, float)[-len(coef) :], intercept)
    theirs = objective.at(*there, coef, float(np.ravel(model.intercept_)[0]))
    size = max(1.0, abs(theirs))
    if objective.task == "linear":
        size = max(size, float(np.average(label * label, weights=weights)))
    if not mine <= theirs + 1e-6 * size:
        SHADOW.note(name, theirs, mine, what=f"{options} {features.shape} {status}")


for each in NAMES:
    shadow_fit(getattr(models, each), train, MOST_A_TEST)
