"""What a model says of its own certainty, in both databases: one answer where features depend on each other, and standard
errors of what rows determine and of nothing else.
"""

# ruff: noqa: E501, SQL is read better on one line

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, few, here, there

__all__ = ["client", "here", "there"]

# --- dependent features ---


def standardised(x: np.ndarray, intercept: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, their centres and their scales; a constant beside an intercept is 0."""
    centre = x.mean(axis=0) if intercept else np.zeros(x.shape[1])
    scale = np.sqrt(((x - centre) ** 2).mean(axis=0))
    scale[scale < 1e-12 * np.abs(centre)] = 0
    unit = np.divide(1, scale, where=scale > 0, out=np.zeros_like(scale))
    return (x - centre) * unit, centre, unit


def least_norm(x: np.ndarray, y: np.ndarray, intercept: bool) -> tuple[np.ndarray, float]:
    z, centre, unit = standardised(x, intercept)
    level = y.mean() if intercept else 0.0
    coef = unit * np.linalg.lstsq(z, y - level, rcond=1e-10)[0]
    return coef, level - coef @ centre


def dependent(kind: str, n: int = 60) -> np.ndarray:
    i = np.arange(n)
    a, b = (i * 7919 % 101) / 16, (i * 31 % 17) / 4 - 1
    dummies = np.eye(3)[i % 3]
    return {
        "copy": np.column_stack([a, b, 3 * a]),
        "sum": np.column_stack([a, b, a + b + 3]),
        "one-hot": np.column_stack([dummies, a]),
        "two one-hots": np.column_stack([dummies, np.eye(2)[i % 2]]),
        "constant": np.column_stack([a, np.full(n, 7.0)]),
        "constant and copy": np.column_stack([np.full(n, 7.0), a, b, a]),
        "zeros": np.column_stack([a, np.zeros(n), b]),
    }[kind]


KINDS = ["copy", "sum", "one-hot", "two one-hots", "constant", "constant and copy", "zeros"]
ALGORITHMS = ["newton", "newton_cg", "lbfgs", "bgd", "svrg"]


def labels(x: np.ndarray, task: str) -> np.ndarray:
    i = np.arange(len(x))
    noise = (i * 10473 % 97) / 24 - 2
    margins = x @ np.arange(1, x.shape[1] + 1) / 4 + noise
    return (
        margins
        if task == "linear"
        else (margins - np.median(margins) + 2 * noise > 0).astype(float)
    )


@pytest.mark.sample(9)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_least_norm_of_linear(client: Client, kind: str, intercept: bool, storage: str) -> None:
    """`numpy.linalg.lstsq` of standardised columns."""
    x = dependent(kind)
    y = labels(x, "linear")
    coef, constant = least_norm(x, y, intercept)
    for algorithm in ALGORITHMS:
        options = {"algorithm": algorithm, "fit_intercept": intercept, "max_iter": 3000}
        options["epsilon"] = 1e-8
        model = client.fit("linear", x, y, storage, **options)
        assert model.converged
        assert model.status == status_of(x, intercept)
        size = 1e-5 if model.status == "ok" else 1e-9  # the tolerance, where all is determined
        np.testing.assert_allclose(model.coef, coef, rtol=size, atol=size, err_msg=algorithm)
        assert model.intercept == pytest.approx(constant, rel=size, abs=size)


def status_of(x: np.ndarray, intercept: bool) -> str:
    z, _, unit = standardised(x, intercept)
    if np.linalg.matrix_rank(z) < (unit > 0).sum():
        return "collinear features"
    return "constant feature" if (unit == 0).any() else "ok"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_least_norm_of_logistic(client: Client, kind: str, storage: str) -> None:
    """statsmodels' weights of an orthonormal basis of the standardised columns."""
    x = dependent(kind)
    y = labels(x, "logistic")
    z, centre, unit = standardised(x, True)
    _, size, basis = np.linalg.svd(z, full_matrices=False)
    basis = basis[size > 1e-9]
    truth = sm.Logit(y, sm.add_constant(z @ basis.T)).fit(disp=0, method="newton", tol=1e-14)
    coef = unit * (basis.T @ truth.params[1:])
    for algorithm in ALGORITHMS:
        model = client.fit("logistic", x, y, storage, algorithm=algorithm, max_iter=3000)
        assert model.converged
        size = 1e-4 if model.status == "ok" else 1e-8  # the tolerance, where all is determined
        np.testing.assert_allclose(model.coef, coef, rtol=size, atol=size, err_msg=algorithm)
        assert model.intercept == pytest.approx(
            truth.params[0] - coef @ centre, rel=size, abs=size
        )


@pytest.mark.parametrize("task", ["linear", "logistic"])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_standard_errors_of_what_is_determined(client: Client, task: str, storage: str) -> None:
    """Those of the same model without the last category, where its coefficients are the same."""
    x = dependent("one-hot")
    y = labels(x, task)
    model = client.fit(task, x, y, storage, epsilon=1e-10)
    kept = sm.add_constant(x[:, 1:])
    truth = sm.OLS(y, kept).fit() if task == "linear" else sm.Logit(y, kept).fit(disp=0, tol=1e-14)
    assert model.status == "collinear features"
    assert np.isnan(model.std_err[:4]).all()  # the intercept and a category each
    assert model.std_err[4] == pytest.approx(truth.bse[3], rel=1e-7)
    assert model.coef[3] == pytest.approx(truth.params[3], rel=1e-7)


@pytest.mark.parametrize("kind", ["one-hot", "copy", "two one-hots"])
def test_p_values_of_what_is_determined(client: Client, kind: str) -> None:
    """Degrees of freedom count independent weights, not standard errors."""
    x = np.column_stack([dependent(kind), np.sin(np.arange(60.0))])
    y = labels(x, "linear")
    *_, (_, error, p) = client.summary(x, y)
    truth = sm.OLS(y, sm.add_constant(x, has_constant="add")).fit()
    assert (error, p) == pytest.approx((truth.bse[-1], truth.pvalues[-1]), rel=1e-7)


@pytest.mark.parametrize("algorithm", ["auto", "lbfgs", "newton_cg", "bgd"])
@pytest.mark.parametrize("constant", [7.0, 0.1, 1e6])
def test_a_constant_among_hashed_features(client: Client, algorithm: str, constant: float) -> None:
    """The intercept has it all, also where there are too many features for Newton's method."""
    i = np.arange(100)
    y = 3.0 * i + i * 7919 % 13
    slope, level = np.polyfit(i % 7, y, 1)
    sql = f"""SELECT train_model('linear', 3 * i + i * 7919 % 13, sparse(ARRAY[90000, 7], ARRAY[{constant}, i % 7]), '{{"algorithm": "{algorithm}"}}') AS m
        FROM generate_series(0, 99) AS s(i)"""
    coef, intercept, status = client.connection.execute(
        f"SELECT (m).coef, (m).intercept, (m).status FROM ({sql}) AS t"
    ).fetchone()
    assert (coef[90000], status) == (0, "constant feature")
    assert (coef[7], intercept) == pytest.approx((slope, level), rel=1e-9)


def test_more_weights_than_rows(client: Client) -> None:
    x = dependent("sum")[:3, [0, 1]] ** 2
    x = np.column_stack([x, x[:, 0] * x[:, 1], np.sqrt(x[:, 0])])
    y = np.array([1.0, -2, 3])
    coef, constant = least_norm(x, y, True)
    model = client.fit("linear", x, y)
    assert model.status == "too few rows"
    np.testing.assert_allclose([*model.coef, model.intercept], [*coef, constant], rtol=1e-9)
    assert np.isnan(model.std_err).all()


@st.composite
def dependent_rows(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    d, rank = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    n = draw(st.integers(2, 40))
    x = rng.integers(-3, 4, size=(n, rank)) @ rng.integers(-2, 3, size=(rank, d))
    size = 10.0 ** rng.integers(-3, 4, d)
    return (x + rng.integers(0, 2) * 5) * size, rng.normal(size=n)


@few
@given(
    drawn=dependent_rows(), storage=st.sampled_from(["dense", "sparse"]), intercept=st.booleans()
)
def test_least_norm_of_any_rows(here: Client, drawn: Any, storage: str, intercept: bool) -> None:
    x, y = drawn
    z, *_ = standardised(x, intercept)
    coef, constant = least_norm(x, y, intercept)
    model = here.fit("linear", x, y, storage, fit_intercept=intercept)
    size = np.abs(coef).max(initial=1e-9)
    np.testing.assert_allclose(model.coef, coef, rtol=1e-8, atol=1e-8 * size)
    assert model.intercept == pytest.approx(constant, rel=1e-7, abs=1e-7)
    rank = np.linalg.matrix_rank(z, rtol=1e-10)  # of the numbers before they were rounded
    free = np.linalg.svd(z)[2][rank:]
    determined = np.abs(free).max(axis=0, initial=0) < 1e-6
    if len(x) > rank + int(intercept):
        assert (np.isfinite(model.std_err[1:]) == determined).all()
    else:
        assert np.isnan(model.std_err).all()


# --- degrees of freedom, precision ---


def test_held_out_rows_count_nowhere(client: Client) -> None:
    x = np.sin(np.arange(30.0))[:, None]
    y = 1 + x[:, 0] + np.cos(np.arange(30.0) ** 2)
    (estimate, error, p) = client.summary(x, y, validation=0.5)[1]
    assert p == pytest.approx(2 * student.sf(abs(estimate / error), 15 - 2), rel=1e-9)


@pytest.mark.parametrize("ratio", [1e2, 1e3, 1e4])
@pytest.mark.parametrize("algorithm", ["newton", "lbfgs"])
def test_errors_of_floats_far_from_zero(client: Client, ratio: float, algorithm: str) -> None:
    """Rows of 32 bits have the standard errors of the same numbers in 64."""
    i = np.arange(400)
    x = np.float32(
        np.column_stack([np.ones(400), ratio + np.sin(i), np.cos(i) + np.sin(i) * 0.01 + 1])
    )
    y = x @ [1.0, 2.0, 3.0] + np.sin(i**2)
    model = client.fit("linear", x, y, "float", fit_intercept=False, algorithm=algorithm)
    truth = sm.OLS(y, np.float64(x)).fit()
    assert model.std_err[1:] == pytest.approx(truth.bse, rel=1e-4)


@pytest.mark.parametrize("task", ["linear", "logistic"])
@pytest.mark.parametrize("gap", [0.1, 0.01, 0.001])
def test_errors_of_correlated_floats(client: Client, task: str, gap: float) -> None:
    i = np.arange(600)
    x = np.float32(np.column_stack([np.sin(i), np.sin(i) + gap * np.cos(7 * i)]))
    noise = np.sin(i**2) * 2
    y = x.sum(axis=1) + noise if task == "linear" else (x.sum(axis=1) + noise > 0).astype(float)
    model = client.fit(task, x, y, "float", epsilon=1e-9)
    design = sm.add_constant(np.float64(x))
    truth = (
        sm.OLS(y, design).fit() if task == "linear" else sm.Logit(y, design).fit(disp=0, tol=1e-12)
    )
    assert model.std_err == pytest.approx(truth.bse, rel=1e-4)


WAMPLER_X = np.arange(21.0)[:, None] ** np.arange(1, 6)
WAMPLER_E = np.array([
    759, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 1838, -2048, 2048,
    -2048, 1838, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 759.0,
])  # fmt: skip
"""NIST, Statistical Reference Datasets, linear regression: Wampler 1 to 5."""


@pytest.mark.parametrize(
    ("coef", "residual", "digits"),
    [(1.0, 0, 9), (0.1, 0, 11), (1.0, 1, 9), (1.0, 100, 7.5), (1.0, 10_000, 5.5)],
)
def test_wampler(client: Client, coef: float, residual: float, digits: float) -> None:
    truth = coef ** np.arange(6)
    y = truth[0] + WAMPLER_X @ truth[1:] + residual * WAMPLER_E
    model = client.fit("linear", WAMPLER_X, y)
    found = np.array([model.intercept, *model.coef])
    assert -np.log10(np.abs(found / truth - 1).max() + 1e-16) >= digits
