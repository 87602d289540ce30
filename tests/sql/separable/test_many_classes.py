"""Several classes without an optimum in both databases: there is none where a linear program says so."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

sys.path.append(str(Path(__file__).parents[1] / "inference"))

from databases import Client, client, few, here, there

__all__ = ["client", "here", "there"]


def separable(x: Any, y: Any) -> bool:
    """Whether there are weights of the classes with which no margin of a row's own class against
    another is below 0, and some are above (Albert and Anderson 1984, section 5).
    """
    classes, z = np.unique(y), np.column_stack([x, np.ones(len(x))])
    margins = []
    for row, own in zip(z, y, strict=True):
        for other in classes[classes != own]:
            of = np.zeros((len(classes), z.shape[1]))
            of[classes == own], of[classes == other] = row, -row
            margins.append(of.ravel())
    a = np.array(margins)
    found = linprog(-a.sum(axis=0), A_ub=-a, b_ub=np.zeros(len(a)), bounds=[(-1, 1)] * a.shape[1])
    return bool(-found.fun > 1e-7)


@st.composite
def small_classes(draw: st.DrawFn) -> tuple[Any, Any]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d, most = draw(st.integers(6, 40)), draw(st.integers(1, 3)), draw(st.integers(1, 6))
    k = draw(st.integers(3, 5))
    x = rng.integers(-most, most + 1, size=(n, d)).astype(float)
    noise = draw(st.sampled_from([0.0, 0.5, 2.0])) * rng.gumbel(size=(n, k))
    y = (x @ rng.normal(size=(d, k)) + noise).argmax(axis=1).astype(float)
    y[:3] = 0, 1, 2
    return x * 10.0 ** rng.integers(-3, 4, size=d), y


@settings(few, max_examples=60)
@given(
    drawn=small_classes(),
    algorithm=st.sampled_from(["newton", "lbfgs"]),
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


def quasi(n: int = 600) -> tuple[Any, Any]:
    """Three classes, the last of which has no row of a common category; elsewhere all overlap."""
    i = np.arange(n)
    common = i % 3 > 0
    y = i * 7919 % 13 % 3
    y[common & (y == 2)] = 1
    return np.column_stack([common, np.sin(i)]).astype(float), y.astype(float)


@pytest.mark.parametrize(
    ("algorithm", "epsilon"),
    [("newton", 0.01), ("newton", 1e-6), ("newton", 1e-12), ("lbfgs", 1e-6)],
)
@pytest.mark.parametrize("storage", ["dense", "sparse", "float"])
def test_quasi_separable(client: Client, algorithm: str, epsilon: float, storage: str) -> None:
    x, y = quasi()
    assert separable(x, y)
    model = client.fit("logistic", x, y, storage, epsilon=epsilon, algorithm=algorithm, l2=0)
    assert (model.status, model.converged) == ("separable", False)
    lost = np.isnan(model.std_err.reshape(3, 3))
    assert lost.tolist() == [[True] * 3, [False] * 3, [False, True, False]]


def test_statsmodels_runs_away_where_the_status_says_so(here: Client) -> None:
    """Each further iteration of MNLogit moves a weight on, and its error grows beyond measure."""
    x, y = quasi()
    ends = []
    for most in (12, 16):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ends.append(
                sm.MNLogit(y, sm.add_constant(x)).fit(disp=0, method="newton", maxiter=most)
            )
    moved = np.abs(ends[1].params - ends[0].params).max()
    assert moved > 2
    assert ends[1].bse.max() > 100
    model = here.fit("logistic", x, y)
    assert model.status == "separable"
    errors = model.std_err.reshape(3, 3)[1:]
    known = ~np.isnan(errors)
    assert known.sum() == 5
    assert errors[known] == pytest.approx(ends[1].bse.T[known], rel=1e-4)
    assert model.coef.reshape(3, 3)[1:][known] == pytest.approx(ends[1].params.T[known], abs=1e-5)
    y[0] = y[1] = y[2] = 2.0  # a row of the last class in the common category
    fitted = sm.MNLogit(y, sm.add_constant(x)).fit(disp=0, method="newton", tol=1e-12)
    model = here.fit("logistic", x, y, epsilon=1e-10)
    assert model.status == "ok"
    assert model.coef.reshape(3, 3)[1:] == pytest.approx(fitted.params.T, abs=1e-6)


def test_two_classes_that_overlap_do_not_save_a_third(client: Client) -> None:
    """The third lies beyond the others, which overlap."""
    i = np.arange(300)
    y = np.where(i >= 200, 2, i * 7919 % 13 > 6).astype(float)
    model = client.fit("logistic", i[:, None] / 300, y)
    assert (model.status, model.converged) == ("separable", False)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_each_group_has_its_own_status(client: Client, class_weight: str | None) -> None:
    x, y = quasi()
    other = y.copy()
    other[:30] = np.arange(30) % 3
    options = {"l2": 0} | ({} if class_weight is None else {"class_weight": class_weight})
    columns = np.c_[np.r_[x, x], np.repeat([0, 1], len(x))]
    source, parameters = client.rows(columns, np.r_[y, other])
    call = f"train_model('logistic', y, ARRAY[c0, c1], '{json.dumps(options)}')"
    sql = f"SELECT (m).status, (m).std_err IS NULL FROM (SELECT c2, {call} AS m FROM {source} GROUP BY c2) AS t ORDER BY c2"
    apart, whole = client.connection.execute(sql, parameters).fetchall()
    assert tuple(apart) == ("separable", class_weight is not None)
    assert tuple(whole) == ("ok", class_weight is not None)


def test_rare_classes_are_not_separable(client: Client) -> None:
    """Three rows of each of two classes among 60,000."""
    sql = "SELECT train_model('logistic', CASE WHEN i IN (7, 1000, 20000) THEN 1 WHEN i IN (9, 1300, 50000) THEN 2 ELSE 0 END, ARRAY[sin(i), cos(3.0 * i)]) AS m FROM generate_series(1, 60000) AS s(i)"
    ((status, converged, loss),) = client.connection.execute(
        f"SELECT (m).status, (m).converged, (m).loss FROM ({sql}) AS t"
    ).fetchall()
    assert (status, converged) == ("ok", True)
    assert loss < 3e-3


def test_dependent_features_are_not_separable(client: Client) -> None:
    i = np.arange(400)
    x = np.column_stack([np.sin(i), 2 * np.sin(i)])
    model = client.fit("logistic", x, i * 7919 % 13 % 3)
    assert model.status == "collinear features"
