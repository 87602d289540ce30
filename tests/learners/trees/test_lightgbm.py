"""Trees beside LightGBM's, grown on the same bins with the same parameters."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forests import grown, margins
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

from tuskml.kernels.trees.boosting import LOGISTIC, SQUARED

lightgbm = pytest.importorskip("lightgbm")
pytestmark = pytest.mark.native

OBJECTIVES = {SQUARED: "regression", LOGISTIC: "binary"}
Set = tuple[np.ndarray, np.ndarray]


def binned(x: np.ndarray, bins: int = 40, least: int = 20) -> np.ndarray:
    """Whole numbers of at least `least` rows each, which are bins of both."""
    out = np.empty(x.shape)
    for f, column in enumerate(x.T):
        inner = np.quantile(column, np.arange(1, bins) / bins, method="lower")
        code = np.searchsorted(np.unique(inner), column)
        for _ in range(bins):
            _, code, count = np.unique(code, return_inverse=True, return_counts=True)
            if count.min() >= least or len(count) == 1:
                break
            thin = int(count.argmin())
            code[code == thin] = thin - 1 if thin else 1
        out[:, f] = code
    return out


def classes(load: Callable[..., Set], one: int) -> Set:
    x, y = load(return_X_y=True)
    return x, (y == one) * 1.0


def waves(n: int = 4000) -> Set:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 6))
    return x, np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + rng.normal(size=n)


def odds() -> Set:
    x, y = waves()
    return x, (y > 0.3) * 1.0


SETS: dict[str, tuple[Callable[[], Set], int]] = {
    "diabetes": (lambda: load_diabetes(return_X_y=True), SQUARED),
    "digits, the numbers": (lambda: load_digits(return_X_y=True), SQUARED),
    "waves": (waves, SQUARED),
    "breast cancer": (lambda: classes(load_breast_cancer, 1), LOGISTIC),
    "wine": (lambda: classes(load_wine, 1), LOGISTIC),
    "digits, eight or not": (lambda: classes(load_digits, 8), LOGISTIC),
    "odds": (odds, LOGISTIC),
}


# In few rows of two classes, different splits often gain the same; which one is taken depends on
# rounding, and later trees on which one was taken.
TIES = {"breast cancer": 3e-3, "digits, eight or not": 3e-2}


def peer(x: np.ndarray, y: np.ndarray, objective: str, trees: int, **given: Any) -> Any:
    """A booster by LightGBM whose bins are the values of x."""
    exact = {"min_data_in_bin": 1, "feature_pre_filter": False, "deterministic": True}
    given = {"num_leaves": 31, "min_data_in_leaf": 20} | given
    given |= exact | {"objective": objective, "verbose": -1, "num_threads": 1, "seed": 1}
    return lightgbm.train(given, lightgbm.Dataset(x, y, params=exact | {"verbose": -1}), trees)


def loss_of(objective: int, m: np.ndarray, y: np.ndarray) -> float:
    if objective == SQUARED:
        return float(((m - y) ** 2).mean() / 2)
    return float(np.logaddexp(0, np.where(y > 0, -m, m)).mean())


@pytest.mark.parametrize("name", SETS)
def test_the_loss_is_that_of_lightgbm(name: str) -> None:
    """Within 0.1 % after 50 trees, of the rows trained on.

    Of other losses than the squared one, LightGBM estimates a leaf's rows by its sum of second
    derivatives. So a least sum takes the place of the least rows.
    """
    load, objective = SETS[name]
    x, y = load()
    x = binned(x)
    rows, hessian = (20, 1e-3) if objective == SQUARED else (1, 1.0)
    limits = {"min_data_in_leaf": rows if rows > 1 else 0, "min_sum_hessian_in_leaf": hessian}
    booster = peer(x, y, OBJECTIVES[objective], 50, **limits)
    theirs = loss_of(objective, booster.predict(x, raw_score=True), y)
    limits = {"min_child_rows": rows, "min_child_hessian": hessian}
    forest = grown(x, y, objective=objective, trees=50, num_leaves=31, **limits)
    ours = loss_of(objective, margins(forest, x), y)
    assert ours == pytest.approx(theirs, rel=TIES.get(name, 1e-3))


def test_incomes_cost_what_they_cost_lightgbm(data: Path) -> None:
    """Within 0.1 %: the numbers of 32,561 adults (UCI)."""
    with (data / "adult.csv").open(newline="") as file:
        people = list(csv.DictReader(file))
    numbers = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
    x = binned(np.array([[float(one[name]) for name in numbers] for one in people]))
    y = np.array([one["Salary"].strip() == ">50K" for one in people]) * 1.0
    booster = peer(x, y, "binary", 50, min_data_in_leaf=0, min_sum_hessian_in_leaf=5.0)
    theirs = loss_of(LOGISTIC, booster.predict(x, raw_score=True), y)
    limits = {"min_child_rows": 1, "min_child_hessian": 5.0}
    forest = grown(x, y, objective=LOGISTIC, trees=50, num_leaves=31, **limits)
    assert 0.1 < forest.loss[-1] < 0.5
    assert forest.loss[-1] == pytest.approx(theirs, rel=1e-3)
