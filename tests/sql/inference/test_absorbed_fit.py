"""The fit, the covariance and the tests of models that absorbed effects, in both databases: against
regressions with a feature for each level.
"""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import t

import tuskml

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(7)
N = 300
FIRM, YEAR, ROUTE = (RANDOM.integers(0, k, N) for k in (20, 6, 3))
X = RANDOM.normal(size=(N, 2)) + np.c_[0.1 * FIRM, 2.0 * YEAR]
Y = X @ [1.5, -0.7] + np.sin(FIRM) + 0.2 * (ROUTE == 1) + RANDOM.normal(size=N) * (1 + YEAR / 4)
W = RANDOM.integers(1, 4, N)
FIT = ("n", "parameters", "log_likelihood", "deviance", "null_deviance", "aic", "bic", "r2")


def dummies(*levels: Any) -> Any:
    """A constant and a column for each level but the first of each category."""
    columns = [np.ones(N)]
    for one in levels:
        columns += [one == level for level in np.unique(one)[1:]]
    return np.column_stack(columns).astype(float)


WHOLE = np.c_[X, dummies(ROUTE)[:, 1:], dummies(FIRM, YEAR)]


def answers(client: Client, select: str, function: str, weight: str = "", **options: Any) -> Any:
    """The rows of a function of the model of a, b, the categories route, firm and year."""
    columns = {"a": X[:, 0], "b": X[:, 1], "route": ROUTE, "firm": FIRM, "year": YEAR}
    given = {name: f"c{k}" for k, name in enumerate((*columns, "w"))}
    source, parameters = client.rows(np.column_stack([*columns.values(), W]), Y)
    features, source = client.by_name({name: given[name] for name in columns}, source)
    text = json.dumps({"absorb": ["firm", "year"], "categories": ["route"]} | options)
    more = f", {given[weight]}" if weight else ""
    model = f"(SELECT train_model('linear', y, {features}, '{text}'{more}) FROM {source})"
    query = f"SELECT {select} FROM {function.replace('MODEL', model)}"
    return client.connection.execute(query, parameters).fetchall()


@pytest.mark.parametrize("weight", ["", "w"])
def test_the_fit_counts_the_effects(client: Client, weight: str) -> None:
    """As R's lm, whose parameters include the variance."""
    repeats = W if weight else np.ones(N, int)
    expected = sm.OLS(np.repeat(Y, repeats), np.repeat(WHOLE, repeats, axis=0)).fit()
    (found,) = answers(client, ", ".join(FIT), "model_fit(MODEL)", weight, fit=True)
    k, likelihood = expected.df_model + 2, expected.llf
    truth = [
        *(expected.nobs, k, likelihood, expected.ssr, expected.centered_tss),
        *(2 * k - 2 * likelihood, k * np.log(expected.nobs) - 2 * likelihood, expected.rsquared),
    ]
    np.testing.assert_allclose(found, truth, rtol=1e-9)
    more: dict[str, Any] = {"fit": True, "cluster": "firm"}
    assert answers(client, ", ".join(FIT), "model_fit(MODEL)", weight, **more) == [found]
    n, k, r2 = found[0], found[1], found[-1]
    assert 1 - (1 - r2) * (n - 1) / (n - k + 1) == pytest.approx(expected.rsquared_adj, abs=1e-9)


SANDWICHES: dict[str, tuple[dict[str, Any], dict[str, Any], float]] = {
    "classic": ({}, {}, 1.0),
    "HC1": ({"covariance": "HC1"}, {"cov_type": "HC1"}, 1.0),
    "cluster": (
        {"cluster": "firm"},
        {"cov_type": "cluster", "cov_kwds": {"groups": FIRM}},
        (N - WHOLE.shape[1]) / (N - (4 + 6)),
    ),
}
"""Options of each kind, those of statsmodels, and the ratio of fixest's correction for few rows to
that of statsmodels: effects nested in the clusters count as one constant."""


@pytest.mark.parametrize("kind", SANDWICHES)
def test_covariances_and_tests_of_the_other_features(client: Client, kind: str) -> None:
    options, how, ratio = SANDWICHES[kind]
    expected = sm.OLS(Y, WHOLE).fit(use_t=True, **how)
    names, given = ["a", "b", "route[1]", "route[2]"], {"intervals": "covariance", "fit": True}
    rows = answers(client, "*", "model_covariance(MODEL)", **options, **given)
    covariance = {(one, other): value for one, other, value in rows}
    assert len(covariance) == 16
    found = [[covariance[one, other] for other in names] for one in names]
    truth = np.asarray(expected.cov_params())[:4, :4] * ratio
    np.testing.assert_allclose(found, truth, rtol=1e-7, atol=1e-12)

    freedom = 19 if kind == "cluster" else expected.df_resid
    terms = answers(
        client, "term, df, test, statistic, p_value", "model_terms(MODEL)", **options, **given
    )
    pick = np.eye(4, WHOLE.shape[1])
    for (name, df, test, statistic, p), which in zip(terms, ([0], [1], [2, 3]), strict=False):
        own = expected.f_test(pick[which], cov_p=np.asarray(expected.cov_params()) * ratio)
        assert (name, df, test) == (("a", "b", "route")[which[0] % 3], len(which), "F")
        assert statistic == pytest.approx(float(own.fvalue), rel=1e-7)
        if kind != "cluster":
            assert p == pytest.approx(float(own.pvalue), rel=1e-6, abs=1e-300)
    assert [one[:2] + one[3:] for one in terms[3:]] == [
        ("firm", 19, None, None),
        ("year", 5, None, None),
    ]

    weights = '\'{"a": 1, "route[2]": -2}\''
    cast = "" if client.mark == "?" else "::jsonb"
    (contrast,) = answers(
        client,
        "estimate, std_err, p_value",
        f"model_contrast(MODEL, {weights}{cast})",
        **options,
        **given,
    )
    one = np.array([1.0, 0, 0, -2.0])
    assert contrast[0] == pytest.approx(one @ expected.params[:4], rel=1e-9)
    assert contrast[1] == pytest.approx(np.sqrt(one @ truth @ one), rel=1e-7)
    assert contrast[2] == pytest.approx(
        2 * t.sf(abs(contrast[0] / contrast[1]), freedom), rel=1e-6
    )


def test_python_has_the_same_covariance(here: Client) -> None:
    frame = {"a": X[:, 0], "firm": FIRM, "b": X[:, 1], "y": Y}
    with tuskml.connect() as con:
        model = tuskml.train(
            con, "linear", source=pd.DataFrame(frame), label="y", features=["a", "firm", "b"],
            absorb="firm", intervals="covariance",
        )  # fmt: skip
    expected = sm.OLS(Y, np.c_[X, dummies(FIRM)]).fit()
    assert model.covariance().terms == ("a", "b")
    np.testing.assert_allclose(model.covariance().matrix, expected.cov_params()[:2, :2], rtol=1e-8)
    with pytest.raises(tuskml.DataError, match="the levels that the model absorbed"):
        model.predict_interval(pd.DataFrame(frame)[["a", "firm", "b"]])


def test_too_few_rows_leave_no_covariance(here: Client) -> None:
    """Each row has a level of its own."""
    call = (
        "(SELECT train_model('linear', sin(i), {'x': i % 3, 'k': i}, "
        '\'{"absorb": "k", "fit": true, "intervals": "covariance"}\') FROM range(9) AS r(i))'
    )
    run = here.connection.execute
    assert run(f"SELECT (m).status FROM (SELECT {call} AS m)").fetchall() == [("too few rows",)]
    assert run(f"FROM model_covariance({call})").fetchall() == []
    assert run(f"SELECT count(statistic) FROM model_terms({call})").fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("options", "function", "sentence"),
    [
        ({"fit": True, "likelihood_ratio": True}, "model_terms(MODEL)", "'likelihood_ratio' is not available with option 'absorb'"),
        ({}, "model_fit(MODEL)", "train it with the option .fit.: true"),
        ({}, "model_covariance(MODEL)", "train it with the option .intervals.: .covariance."),
    ],
)  # fmt: skip
def test_refusals(client: Client, options: dict[str, Any], function: str, sentence: str) -> None:
    with pytest.raises(Exception, match=sentence):
        answers(client, "*", function, **options)
