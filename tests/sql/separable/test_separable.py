"""Separable classes in both databases: there are some where a linear program says so, without standard errors, and with the
least penalty where none was named.
"""

# ruff: noqa: E501, SQL is read better on one line

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import expit
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

sys.path.append(str(Path(__file__).parents[1] / "inference"))

from databases import Client, client, few, here, there

__all__ = ["client", "here", "there"]

# --- separable classes ---


def separable(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether a direction parts the classes, by a linear program (Konis 2007)."""
    z = np.column_stack([x, np.ones(len(x))]) * np.where(y > 0, 1, -1)[:, None]
    found = linprog(-z.sum(axis=0), A_ub=-z, b_ub=np.zeros(len(z)), bounds=[(-1, 1)] * z.shape[1])
    return bool(-found.fun > 1e-7)


@st.composite
def small_classes(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d, most = draw(st.integers(3, 24)), draw(st.integers(1, 4)), draw(st.integers(1, 6))
    x = rng.integers(-most, most + 1, size=(n, d)).astype(float)
    y = (
        x @ rng.normal(size=d) + draw(st.sampled_from([0.0, 0.5, 2.0])) * rng.logistic(size=n) > 0
    ).astype(float)
    y[:2] = 0, 1
    return x * 10.0 ** rng.integers(-3, 4, size=d), y


@settings(few, max_examples=80)
@given(
    drawn=small_classes(),
    algorithm=st.sampled_from(["newton", "lbfgs", "bgd"]),
    epsilon=st.sampled_from([1e-6, 1e-2, 1e-9]),
    storage=st.sampled_from(["dense", "sparse"]),
)
def test_separable_as_a_linear_program_has_it(
    here: Client, drawn: Any, algorithm: str, epsilon: float, storage: str
) -> None:
    x, y = drawn
    apart = separable(x / np.abs(x).max(axis=0, initial=1e-9), y)
    options = {"algorithm": algorithm, "epsilon": epsilon, "max_iter": 2000}
    model = here.fit("logistic", x, y, storage, **options)
    if model.status == "not converged":  # nothing is claimed
        return
    assert (model.status == "separable") == apart
    assert model.converged != apart


def quasi(n: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a rare category are of one class."""
    i = np.arange(n)
    rare = i % 20 == 0
    return np.column_stack([rare, np.sin(i)]), rare | (i * 7919 % 13 > 6)


@pytest.mark.parametrize(
    ("algorithm", "epsilon"),
    [("newton", 0.01), ("newton", 1e-6), ("newton", 1e-12), ("lbfgs", 1e-6), ("bgd", 0.01)],
)
@pytest.mark.parametrize("storage", ["dense", "sparse", "float"])
def test_quasi_separable(client: Client, algorithm: str, epsilon: float, storage: str) -> None:
    """Terms that other rows determine have the estimates and errors of a fit to these."""
    x, y = quasi()
    model = client.fit("logistic", x, y, storage, epsilon=epsilon, algorithm=algorithm, l2=0)
    assert (model.status, model.converged) == ("separable", False)
    rest = x[:, 0] == 0
    fitted = sm.Logit(y[rest], sm.add_constant(x[rest, 1])).fit(disp=0, tol=1e-12)
    assert np.isnan(model.std_err).tolist() == [False, True, False]
    assert model.std_err[[0, 2]] == pytest.approx(fitted.bse, rel=1e-6)
    assert [model.intercept, model.coef[1]] == pytest.approx(fitted.params, rel=1e-6)


def test_nearly_dependent_is_not_separable(client: Client) -> None:
    i = np.arange(1000)
    x = np.column_stack([np.sin(i), np.sin(i) + 1e-5 * np.cos(7 * i)])
    model = client.fit("logistic", x, i * 7919 % 13 > 6)
    assert model.status in ("ok", "collinear features")
    assert model.converged


def test_rare_events_are_not_separable(client: Client) -> None:
    """Three events in 400,000 rows: a mean loss below 1e-4."""
    n = 400_000
    sql = f"SELECT train_model('logistic', i IN (7, 1000, 200000), ARRAY[sin(i), cos(3.0 * i)]) AS m FROM generate_series(1, {n}) AS s(i)"
    status, converged, loss, errors = client.connection.execute(
        f"SELECT (m).status, (m).converged, (m).loss, (m).std_err FROM ({sql}) AS t"
    ).fetchone()
    assert (status, converged) == ("ok", True)
    assert loss < 1e-4
    assert None not in errors


@pytest.mark.parametrize("flipped", [0, 39_999, None])
@pytest.mark.parametrize("rows", ["ARRAY[x]", "sparse(ARRAY[7], ARRAY[x])"])
def test_one_row_on_the_wrong_side(client: Client, rows: str, flipped: int | None) -> None:
    """Of 40,000 rows: no sample of them says that classes are separable, if one row is not."""
    wrong = "" if flipped is None else f"<> (i = {flipped})"
    x = "(i % 2 - 0.5) * (1 + i / 40000.0)"  # equal rows would be one
    status = client.connection.execute(
        f"""SELECT (train_model('logistic', (i % 2 = 1) {wrong}, {rows}, '{{"max_iter": 3}}')).status
        FROM (SELECT i, {x} AS x FROM generate_series(0, 39999) AS s(i)) AS t"""
    ).fetchone()[0]
    assert (status == "separable") == (flipped is None)


def test_no_standard_errors_of_separable_classes(client: Client) -> None:
    i = np.arange(40.0)
    for x in (i[:, None], np.column_stack([i, 2 * i]), np.column_stack([i, np.sin(i)])):
        model = client.fit("logistic", x, i > 20)
        assert model.status == "separable"
        assert np.isnan(model.std_err).all()


# --- separable classes without a word of a penalty ---


def on_scaled(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """scikit-learn's defaults on scaled features, in the units of x."""
    scaler = StandardScaler().fit(x)
    found = LogisticRegression(C=1, tol=1e-12, max_iter=20_000).fit(scaler.transform(x), y)
    coef = found.coef_[0] / scaler.scale_
    return coef, found.intercept_[0] - coef @ scaler.mean_


def apart(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    i = np.arange(n)
    x = np.column_stack([1e4 * np.sin(i) + 1e5, 1e-3 * np.cos(3 * i), i % 7])
    return x, np.sin(i) + 0.3 * np.cos(3 * i) > 0.1


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("algorithm", ["auto", "lbfgs", "sgd"])
def test_separable_classes_get_a_ridge(client: Client, storage: str, algorithm: str) -> None:
    """scikit-learn's C = 1 on scaled features, whatever the algorithm and the storage."""
    x, y = apart()
    if storage == "sparse":
        x = np.column_stack([x[:, 0] - 1e5, x[:, 1:]])
    options = {} if algorithm == "auto" else {"algorithm": algorithm, "max_iter": 2000}
    model = client.fit("logistic", x, y, storage, **options)
    coef, constant = on_scaled(x, y)
    assert model.coef == pytest.approx(coef, rel=1e-5)
    assert model.intercept == pytest.approx(constant, rel=1e-5, abs=1e-5)
    assert (model.status, model.converged) == ("separable", False)
    assert model.options["l2_standardized"] == pytest.approx(1 / len(x))
    assert np.isnan(model.std_err).all()


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("storage", ["dense", "sparse", "float"])
def test_separable_classes_of_many_features_get_a_ridge(
    client: Client, storage: str, intercept: bool
) -> None:
    """More features than rows part any classes; beyond 512 there are no matrices of features."""
    rng = np.random.default_rng(4)
    x = np.round(rng.normal(size=(60, 560)) * (rng.random((60, 560)) < 0.3) * 64) / 64
    x[:, 7], x[:, 11] = 0.0, 1.5
    y = x[:, 0] - x[:, 1] + x[:, 2] + rng.normal(size=60) > 0
    model = client.fit("logistic", x, y, storage, fit_intercept=intercept)
    assert (model.status, model.converged) == ("separable", False)
    assert model.options["l2_standardized"] == pytest.approx(1 / 60)
    scale = x.std(axis=0) if intercept else np.sqrt((x * x).mean(axis=0))
    scale[scale == 0] = 1.0
    best = LogisticRegression(C=1, tol=1e-12, max_iter=20_000, fit_intercept=intercept).fit(
        x / scale, y
    )
    coef = np.where(np.arange(560) == (11 if intercept else -1), 0.0, best.coef_[0] / scale)
    assert model.coef == pytest.approx(coef, abs=1e-5)
    assert model.intercept == pytest.approx(best.intercept_[0], abs=1e-4)


def test_a_ridge_of_dependent_features(client: Client) -> None:
    x, y = apart()
    x = np.column_stack([x, 2 * x[:, 0] + 1, np.full(len(x), 3.0)])
    with_copy = client.fit("logistic", x, y)
    coef, _ = on_scaled(x[:, :4], y)
    assert with_copy.coef == pytest.approx([*coef, 0], rel=1e-5)


def test_a_named_penalty_is_kept(client: Client) -> None:
    x, y = apart()
    runaway = client.fit("logistic", x, y, l2=0)
    assert runaway.status == "separable"
    assert "l2_standardized" not in runaway.options
    assert runaway.loss < 1e-5
    penalised = client.fit("logistic", x[:, 2:], y, l2=0.1)
    assert penalised.status == "ok"
    assert "l2_standardized" not in penalised.options
    overlapping = client.fit("logistic", x[:, 2:], y)
    assert overlapping.status == "ok"
    assert "l2_standardized" not in overlapping.options


def test_held_out_loss_of_breast_cancer(client: Client) -> None:
    """1.8 without a penalty, 0.0894 by scikit-learn's defaults on scaled features."""
    x, y = load_breast_cancer(return_X_y=True)
    for_fit, held, y_fit, y_held = train_test_split(x, y, random_state=0, test_size=0.3)
    model = client.fit("logistic", for_fit, y_fit)
    coef, constant = on_scaled(for_fit, y_fit)
    ours, theirs = (
        log_loss(y_held, expit(held @ w + b))
        for w, b in ((model.coef, model.intercept), (coef, constant))
    )
    assert ours == pytest.approx(theirs, abs=1e-4)
    assert ours < 0.1
