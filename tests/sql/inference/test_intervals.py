"""Confidence intervals and ratios of `model_summary`, in both databases and in Python."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import t as student

import tuskml

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(17)
N = 120
X = RANDOM.normal(size=(N, 2)) * [1, 2]
WHOLE = sm.add_constant(X)
MARGIN = 0.5 + X @ [0.6, -0.2]
LABELS = {
    "linear": MARGIN + RANDOM.normal(size=N),
    "poisson": RANDOM.poisson(np.exp(MARGIN)).astype(float),
    "negative_binomial": RANDOM.negative_binomial(2, 2 / (2 + np.exp(MARGIN))).astype(float),
    "logistic": (MARGIN + RANDOM.logistic(size=N) > 0).astype(float),
    "gamma": np.exp(MARGIN) * RANDOM.gamma(2.0, 0.5, N),
    "tweedie": np.exp(MARGIN) * np.random.default_rng(8).poisson(1.0, N),
}
FAMILIES = {
    "linear": (sm.families.Gaussian(), ""),
    "poisson": (sm.families.Poisson(), ""),
    "negative_binomial": (sm.families.NegativeBinomial(alpha=0.5), ', "dispersion": 0.5'),
    "logistic": (sm.families.Binomial(), ""),
    "gamma": (sm.families.Gamma(sm.families.links.Log()), ""),
    "tweedie": (sm.families.Tweedie(sm.families.links.Log(), var_power=1.7), ', "power": 1.7'),
}


def intervals(client: Client, task: str, x: Any, y: Any, options: str) -> Any:
    """lower, upper and ratio of each coefficient, the intercept first."""
    source, parameters = client.rows(x, y)
    features = f"ARRAY[{', '.join(f'c{j}' for j in range(np.shape(x)[1]))}]"
    call = f"SELECT train_model('{task}', y, {features}, '{{{options}}}') FROM {source}"
    sql = f"SELECT lower, upper, ratio FROM model_summary(({call})) ORDER BY feature"
    return client.connection.execute(sql, parameters).fetchall()


def uses_t(task: str) -> bool:
    return task in ("linear", "gamma", "tweedie")


@pytest.mark.parametrize("task", list(LABELS))
def test_intervals_are_statsmodels_s(client: Client, task: str) -> None:
    family, more = FAMILIES[task]
    found = intervals(client, task, X, LABELS[task], f'"epsilon": 1e-10{more}')
    peer = sm.GLM(LABELS[task], WHOLE, family).fit(tol=1e-14, use_t=uses_t(task))
    np.testing.assert_allclose([row[:2] for row in found], peer.conf_int(), rtol=1e-5)
    ratios = [row[2] for row in found]
    if task == "linear":
        assert ratios == [None] * 3
    else:
        np.testing.assert_allclose(ratios, np.exp(peer.params), rtol=1e-6)


def test_published_odds_ratios(client: Client) -> None:
    """Spector and Mazzeo's grades: Greene, Econometric analysis, 1997, table 19.1."""
    data = sm.datasets.spector.load()
    names = ["GPA", "TUCE", "PSI"]
    found = intervals(client, "logistic", data.exog[names], data.endog, '"epsilon": 1e-10')
    estimates, errors = np.array([2.826, 0.095, 2.379]), np.array([1.263, 0.142, 1.065])
    np.testing.assert_allclose([np.log(row[2]) for row in found[1:]], estimates, atol=6e-4)
    reach = [(row[1] - row[0]) / 2 / 1.959964 for row in found[1:]]
    np.testing.assert_allclose(reach, errors, atol=6e-4)


def test_without_standard_errors_there_are_none(client: Client) -> None:
    for task, options in (("logistic", '"l2": 0.1'), ("svm", '"l2": 0.1')):
        found = intervals(client, task, X, LABELS["logistic"], options)
        assert found == [(None, None, None)] * 3
    doubled = np.column_stack([X[:, 0], X[:, 0], X[:, 1]])
    found = intervals(client, "poisson", doubled, LABELS["poisson"], "")
    assert [row[0] is None for row in found] == [False, True, True, False]
    assert [row[2] is None for row in found] == [False, True, True, False]


def test_a_ratio_may_be_larger_than_a_double(client: Client) -> None:
    x = 1e-5 * X[:, :1]
    (_, (lower, upper, ratio)) = intervals(client, "poisson", x, LABELS["poisson"], "")
    assert np.isfinite([lower, upper]).all()
    assert ratio == np.inf


FREEDOM = [*range(1, 41), 67, 150, 4999, 5000, 10**6]


def test_quantiles_in_duckdb(here: Client) -> None:
    here.connection.execute(
        "CREATE TEMP TABLE q AS SELECT train_model('linear', sin(i) + i, [i::DOUBLE]) AS m "
        "FROM range(50) r(i)"
    )
    rows = ", ".join(f"({n + 2})" for n in FREEDOM)
    terms = "unnest(model_summary(struct_update(m, n_rows := n)), recursive := true)"
    found = here.connection.execute(
        "SELECT (upper - lower) / std_err / 2 "
        f"FROM (SELECT n, {terms} FROM q, (VALUES {rows}) v(n)) WHERE feature = 1 ORDER BY n"
    ).fetchall()
    truth = student.ppf(0.975, FREEDOM)
    np.testing.assert_allclose([value for (value,) in found], truth, rtol=1e-10)


def test_quantiles_in_postgres(there: Client) -> None:
    freedom = [0.3, 0.5, 1.5, 2.5, 33.3, *map(float, FREEDOM), np.inf]
    found = there.connection.execute(
        "SELECT tuskml._tuskml_interval(f) FROM unnest(%s::float8[]) WITH ORDINALITY AS u (f, at) "
        "ORDER BY at", [freedom]
    ).fetchall()  # fmt: skip
    np.testing.assert_allclose([t for (t,) in found], student.ppf(0.975, freedom), rtol=1e-10)


@pytest.mark.parametrize("task", list(LABELS))
def test_python_s_summary_has_the_same(here: Client, task: str) -> None:
    source, parameters = here.rows(X, LABELS[task])
    here.connection.execute(
        f"CREATE OR REPLACE TEMP TABLE s AS SELECT * FROM {source}", parameters
    )
    model = tuskml.train(here.connection, task, source="s", label="y", features=["c0", "c1"])
    here.connection.execute(
        "CREATE OR REPLACE TEMP TABLE k AS SELECT train_model(?, y, [c0, c1]) AS m FROM s", [task]
    )
    rows = here.connection.execute(
        "SELECT lower, upper, ratio FROM model_summary((SELECT m FROM k))"
    ).fetchall()
    for term, (lower, upper, ratio) in zip(model.summary().terms, rows, strict=True):
        assert (term.lower, term.upper) == pytest.approx((lower, upper), rel=1e-6)
        assert (term.ratio is None) == (ratio is None) == (task == "linear")
        assert ratio is None or term.ratio == pytest.approx(ratio, rel=1e-6)
    assert ("ratio" in model.summary().head()) == (task != "linear")
