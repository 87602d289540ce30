"""Huber's threshold by the residuals' scale, quantiles at the optimum, and rows far from zero."""

import functools
import json

import duckdb
import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import tuskml


@functools.cache
def connection():
    """The file's own: to open one takes longer than most trainings here."""
    return tuskml.connect(threads=2)


def fitted(task, x, y, options="{}", features="x"):
    """Coefficients behind the intercept, status, standard errors and options of a model."""
    con = connection()
    con.execute(
        "CREATE OR REPLACE TABLE t AS "
        "SELECT unnest($1::DOUBLE[]) AS y, unnest($2::DOUBLE[][]) AS x",
        [np.asarray(y, float).tolist(), np.asarray(x, float).tolist()],
    )
    asked = f"SELECT train_model('{task}', y, {features}, '{options}') AS m FROM t"
    found = con.sql(f"SELECT m.intercept, m.coef, m.status, m.std_err, m.options FROM ({asked})")
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


LABELS = {
    "linear": "n", "huber": "n", "quantile": "n", "logistic": "b", "multinomial": "m", "svm": "b",
    "squared_hinge": "b", "poisson": "c", "negative_binomial": "c", "gamma": "p", "tweedie": "c",
    "inverse_gaussian": "p",
}  # fmt: skip
FILLED = "sparse([0, 1, 2 + i % 3], [{far} + a, b, (i % 11 < 10)::INTEGER])"
NAMED = "{{'a': {far} + a, 'b': b, 'k': i % 3, 'z': 1000 + i // 2}}"
MANY = '{"categories": ["k", "z"], "max_categories": 700, "l2": 0.01}'


@settings(max_examples=6)
@given(st.sampled_from(sorted(LABELS)), st.sampled_from([20, 1e3, 1e6, 1e9]), st.booleans())
def test_sparse_features_may_lie_far_from_zero(task: str, far: float, validated: bool) -> None:
    """What is added to a feature that all rows have changes the intercept alone."""
    options = '{"validation": 0.2, "seed": 3}' if validated and task != "quantile" else "{}"
    decision = "predict" if LABELS[task] in "ncp" else "predict_proba"
    if task in ("svm", "squared_hinge", "multinomial"):
        decision = "predict_class" if task == "multinomial" else "decision"
    found = [
        predicted(task, LABELS[task], FILLED.format(far=by), options, decision) for by in (0, far)
    ]
    (near, _), (moved, status) = found
    assert status in ("ok", "early stop")
    if validated:  # rows are held out by a hash of them, so others are
        return
    if decision == "predict_class":
        assert moved == near
    else:
        assert np.array(moved, float) == pytest.approx(np.array(near, float), rel=1e-4, abs=1e-4)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "task",
    ["linear", "huber", pytest.param("quantile", marks=pytest.mark.nightly), "logistic", "gamma"],
)
def test_numbers_beside_many_levels_may_lie_far_from_zero(task: str) -> None:
    """Rows with names are sparse where categories have many levels."""
    (near, _), (moved, status) = (
        predicted(task, LABELS[task], NAMED.format(far=far), MANY, "decision", 1400)
        for far in (0, 1.7e12)
    )
    assert status == "ok"
    assert np.array(moved, float) == pytest.approx(np.array(near, float), rel=1e-3, abs=2e-3)


PENALIZED = '{{"lambda": 0.03, "fit_intercept": {0}, "standardize": {1}}}'


@settings(max_examples=5)
@given(
    st.sampled_from(["lasso", "elastic_net", "sparse_logistic"]),
    st.sampled_from([1e3, 1e6, 1e9]),
    st.booleans(),
)
def test_sparse_paths_may_lie_far_from_zero(task: str, far: float, scaled: bool) -> None:
    """They are those of dense rows, which hold columns less their first value."""
    label = "b" if task == "sparse_logistic" else "n"
    options = PENALIZED.format("true", str(scaled).lower())
    sparse, dense = (
        predicted(task, label, features.format(far=far), options, "decision")
        for features in ("sparse([1, 0], [b, {far} + a])", "[{far} + a, b]")
    )
    assert sparse[1] == dense[1] == "ok"
    assert np.array(sparse[0]) == pytest.approx(np.array(dense[0]), rel=1e-6, abs=1e-6)


def predicted(
    task: str, label: str, features: str, options: str, decision: str, n: int = 200
) -> tuple[list[object], str]:
    """What the model says of its rows, and its status."""
    con = connection()
    con.execute(f"""
        CREATE OR REPLACE TABLE drawn AS
        SELECT i, round(4 * sin(i) + i % 7) / 4 AS a, cos(i * i) AS b,
               a - 2 * b + 3 * sin(7 * i) AS n, i * 7919 % 100 < 50 + 9 * a AS b2,
               i * 7919 % 97 % 5 AS c, exp(a / 9 + sin(5 * i)) AS p, i * 7919 % 101 % 3 AS m
        FROM range({n}) t(i)
    """)
    label = {"b": "b2"}.get(label, label)
    found = con.execute(f"""
        WITH made AS MATERIALIZED (
            SELECT train_model('{task}', {label}, {features}, '{options}') AS model FROM drawn
        )
        SELECT {decision}(model, {features}), model.status FROM drawn, made ORDER BY i
    """).fetchall()
    return [one for one, _ in found], found[0][1]


@pytest.mark.parametrize("task", ["poisson", "tweedie"])
@pytest.mark.parametrize("unit", [1e-15, 1e-30, 1e30])
def test_amounts_may_have_any_unit(task: str, unit: float) -> None:
    """Only the intercept knows it."""
    x, y = heavy(60, 2)
    amounts = np.exp(np.clip(y / 9, -5, 5))
    near, *_ = fitted(task, x, amounts)
    found, status, *_ = fitted(task, x, unit * amounts)
    assert status == "ok"
    assert found - [np.log(unit), 0, 0] == pytest.approx(near, rel=1e-6)
