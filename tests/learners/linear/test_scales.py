"""Huber's threshold by the residuals' scale, quantiles at the optimum, and rows far from zero."""

import json

import duckdb
import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import linprog

import tuskml


def fitted(task, x, y, options="{}", features="x"):
    """Coefficients behind the intercept, status, standard errors and options of a model."""
    with tuskml.connect() as con:
        con.execute("CREATE TABLE t (y DOUBLE, x DOUBLE[])")
        rows = [(b, a.tolist()) for a, b in zip(x, y, strict=True)]
        con.executemany("INSERT INTO t VALUES (?, ?)", rows)
        asked = f"SELECT train_model('{task}', y, {features}, '{options}') AS m FROM t"
        found = con.sql(
            f"SELECT m.intercept, m.coef, m.status, m.std_err, m.options FROM ({asked})"
        )
        intercept, coef, status, std_err, given = found.fetchall()[0]
        return np.array([intercept, *coef]), status, np.array(std_err or []), given


def heavy(n, d, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * np.arange(1, d + 1)
    return x, x @ np.arange(1, d + 1) + 5 + 3 * rng.standard_t(2, size=n)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize(("n", "d"), [(30, 1), (80, 3)])
def test_huber_is_that_of_statsmodels(n: int, d: int, unit: float) -> None:
    x, y = heavy(n, d)
    model = sm.RLM(y, sm.add_constant(x), sm.robust.norms.HuberT(1.345))
    theirs = model.fit(tol=1e-12, maxiter=1000)
    found, status, std_err, options = fitted("huber", x, unit * y)
    assert status == "ok"
    assert found / unit == pytest.approx(theirs.params, rel=1e-6)
    assert std_err / unit == pytest.approx(theirs.bse, rel=1e-6)
    assert json.loads(options)["delta"] == pytest.approx(1.345 * theirs.scale * unit, rel=1e-5)


def test_a_narrow_threshold_that_is_given_is_median_regression() -> None:
    x, y = heavy(81, 2)
    found, status, *_ = fitted("huber", x, 1e4 * y, '{"delta": 1e-3}')
    median, *_ = fitted("quantile", x, 1e4 * y)
    assert status == "ok"
    assert found == pytest.approx(median, rel=1e-5)


def test_residuals_that_are_mostly_0_leave_no_scale() -> None:
    """The model goes through the rows that lie on a plane."""
    x, y = heavy(50, 2)
    y = np.where(np.arange(50) % 5 == 0, y + 100 * np.sin(np.arange(50)), 2 + x @ [1.0, -1.0])
    found, status, *_ = fitted("huber", x, y)
    assert status == "ok"
    assert found == pytest.approx([2, 1, -1], abs=1e-6)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.75])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-9])
def test_quantiles_are_those_of_the_linear_program(quantile: float, epsilon: float) -> None:
    x, y = heavy(120, 4)
    design, n = np.c_[np.ones(len(y)), x], len(y)
    costs = np.concatenate([np.zeros(5), np.full(n, quantile), np.full(n, 1 - quantile)])
    sides = np.c_[design, np.eye(n), -np.eye(n)]
    bounds = [(None, None)] * 5 + [(0, None)] * (2 * n)
    best = linprog(costs, A_eq=sides, b_eq=y, bounds=bounds, method="highs-ds")
    given = f'{{"quantile": {quantile}, "epsilon": {epsilon}}}'
    found, status, *_ = fitted("quantile", x, y, given)
    assert status == "ok"
    assert found == pytest.approx(best.x[:5], rel=1e-7)


def test_predictions_that_lose_their_digits_have_a_status(con: duckdb.DuckDBPyConnection) -> None:
    x, y = heavy(50, 1)
    x = np.round(4 * x) / 4
    near, *_ = fitted("linear", x, y)
    found, status, *_ = fitted("linear", x + 1.7e15, y)
    assert status == "rounded feature"
    assert found[1] == pytest.approx(near[1], rel=1e-9)
