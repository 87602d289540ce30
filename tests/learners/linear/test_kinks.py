"""Losses with corners and an l1 penalty: the optimum of an exact solver, with its zeros, soon."""

import time
from typing import Any

import numpy as np
import pytest
from fitting import fit, put
from scipy.optimize import linprog
from sklearn.linear_model import QuantileRegressor

from tuskml.learners.linear.tasks import LINEAR

SECONDS = 2.0
"""A training takes a tenth of a second where nothing else runs; it took 5 to 18 seconds."""
ROWS = {"few": (300, 3), "many": (1000, 10), "wide": (120, 40)}
KINDS = ("plain", "correlated", "heavy", "whole", "scaled")


def features(rows: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Features, and what labels are made of."""
    random = np.random.default_rng(KINDS.index(kind))
    n, d = ROWS[rows]
    x = random.standard_normal((n, d))
    if kind == "correlated":
        x = x @ random.standard_normal((d, d))
    elif kind == "heavy":
        x = random.standard_t(3, (n, d))
    elif kind == "whole":
        x = random.integers(0, 5, (n, d)) * 1.0
    elif kind == "scaled":
        x = x * np.logspace(-3, 3, d) + 5
    weights = random.standard_normal(d) * (np.arange(d) < d / 2)
    margin = x / x.std(axis=0) @ weights
    return x, margin - np.median(margin) + random.standard_normal(n)


def exact(
    x: np.ndarray, corner: np.ndarray, sign: np.ndarray, above: float, below: float, l1: float
) -> tuple[np.ndarray, float]:
    """Weights and objective of mean(max(above r, -below r)) + l1 |w|, r = corner - sign m."""
    n, d = x.shape
    given = np.hstack([x, np.ones((n, 1))]) * sign[:, None]
    cost = np.concatenate([np.full(d, l1), [0], np.full(d, l1), [0], np.full(n, above) / n])
    cost = np.concatenate([cost, np.full(n, below) / n])
    equal = np.hstack([given, -given, np.eye(n), -np.eye(n)])
    found = linprog(cost, A_eq=equal, b_eq=corner, method="highs")
    return found.x[:d] - found.x[d + 1 : 2 * d + 1], found.fun


@pytest.mark.sample(4)
@pytest.mark.parametrize("l1", [0.3, 0.03, 0.003])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", ROWS)
def test_svm_with_l1_is_the_linear_program_s(con: Any, rows: str, kind: str, l1: float) -> None:
    x, margin = features(rows, kind)
    y = (margin > 0) * 1.0
    sign = np.where(y == 1, 1.0, -1.0)
    put(con, x, y)
    began = time.monotonic()
    model = fit(con, "svm", l1=l1)
    assert time.monotonic() - began < SECONDS
    assert model.status == "ok"
    weights, least = exact(x, np.ones(len(y)), sign, 1.0, 0.0, l1)
    hinge = np.maximum(0, 1 - sign * (x @ model.coef + model.intercept)).mean()
    found = hinge + l1 * np.abs(model.coef).sum()
    assert model.loss == pytest.approx(found, rel=1e-9)
    assert least - 1e-12 <= found <= least + 5e-7
    size = x.std(axis=0)
    assert ((model.coef == 0) == (np.abs(weights * size) < 1e-7)).all()


@pytest.mark.sample(4)
@pytest.mark.parametrize("quantile", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("l1", [0.3, 0.03, 0.003])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_quantile_with_l1_is_the_linear_program_s(
    con: Any, rows: str, kind: str, l1: float, quantile: float, unit: float
) -> None:
    x, y = features(rows, kind)
    y = unit * (y + 3)
    put(con, x, y)
    began = time.monotonic()
    model = fit(con, "quantile", l1=l1, quantile=quantile)
    assert time.monotonic() - began < SECONDS
    assert model.status == "ok"
    _, least = exact(x, y, np.ones(len(y)), quantile, 1 - quantile, l1)
    left = y - x @ model.coef - model.intercept
    pinball = np.maximum(quantile * left, (quantile - 1) * left).mean()
    found = pinball + l1 * np.abs(model.coef).sum()
    assert model.loss == pytest.approx(found, rel=1e-9)
    assert least * (1 - 1e-12) <= found <= least + 1e-6 * y.std()


def test_quantile_with_l1_is_scikit_learn_s(con: Any) -> None:
    x, y = features("few", "plain")
    put(con, x, y)
    for quantile, l1 in ((0.05, 0.01), (0.5, 0.1), (0.9, 0.03)):
        model = fit(con, "quantile", l1=l1, quantile=quantile)
        truth = QuantileRegressor(quantile=quantile, alpha=l1, solver="highs").fit(x, y)
        np.testing.assert_allclose(model.coef, truth.coef_, atol=1e-4)


@pytest.mark.parametrize("task", ["svm", "quantile"])
@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_both_penalties_weights_and_no_intercept(
    con: Any, task: str, l2: float, weighted: bool, intercept: bool
) -> None:
    """The optimum of many iterations of L-BFGS, or better than where these end."""
    x, y = features("few", "correlated")
    y = (y > 0) * 1.0 if LINEAR[task].classifies else y
    put(con, x, y, w=1.0 + np.arange(len(y)) % 3)
    given = {"l1": 0.01, "l2": l2, "fit_intercept": intercept}
    loss = {}
    for algorithm in ("newton", "lbfgs", "auto"):
        options = str(given | {"algorithm": algorithm}).replace("'", '"')
        options = options.replace("True", "true").replace("False", "false")
        weight = ", w" if weighted else ""
        query = f"SELECT train_model('{task}', y, x, '{options}'{weight}) FROM t"
        model = con.execute(query).fetchone()[0]
        loss[algorithm] = model["loss"]
        assert algorithm == "lbfgs" or model["status"] == "ok"
        assert algorithm == "lbfgs" or model["iterations"] < 60
    assert loss["newton"] <= loss["lbfgs"] + 1e-6
    assert loss["auto"] == pytest.approx(loss["newton"], abs=1e-6)
    assert loss["lbfgs"] <= loss["newton"] + 1e-4


@pytest.mark.parametrize("task", ["svm", "quantile"])
def test_groups_are_those_alone(con: Any, task: str) -> None:
    parts = [features("few", kind) for kind in KINDS]
    x = np.concatenate([x for x, _ in parts])
    y = np.concatenate([margin for _, margin in parts])
    y = (y > 0) * 1.0 if task == "svm" else y
    put(con, x, y, g=np.repeat(np.arange(len(KINDS)), 300))
    given = '{"l1": 0.01, "deterministic": true}'
    asked = f"SELECT g, train_model('{task}', y, x, '{given}') AS m FROM t"
    fields = "g, m.coef, m.intercept, m.loss, m.iterations, m.status"
    together = con.execute(f"SELECT {fields} FROM ({asked} GROUP BY g) ORDER BY g").fetchall()
    for group in together:
        alone = con.execute(f"SELECT {fields} FROM ({asked} WHERE g = {group[0]} GROUP BY g)")
        assert group == alone.fetchone()
        assert group[-1] == "ok"
