"""Cluster-robust standard errors in both databases, against statsmodels and the textbook."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest
import statsmodels.api as sm

sys.path.append(str(Path(__file__).parent))

from databases import FITTED, Client, client, here, there

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(86)
N, CLUSTERS = 200, 17
G = RANDOM.integers(0, CLUSTERS, N)
SHARED = RANDOM.normal(size=CLUSTERS)[G]
X = RANDOM.normal(size=(N, 2)) * [1, 2] + np.c_[SHARED, np.full(N, 2.0)]
WHOLE = sm.add_constant(X)
MARGIN = 0.3 + X @ [0.4, -0.1] + 0.5 * SHARED
LABELS = {
    "linear": MARGIN + RANDOM.normal(size=N),
    "poisson": RANDOM.poisson(np.exp(MARGIN)).astype(float),
    "logistic": (MARGIN + RANDOM.logistic(size=N) > 0).astype(float),
    "gamma": np.exp(MARGIN) * RANDOM.gamma(2.0, 0.5, N),
    "negative_binomial": RANDOM.negative_binomial(2, 2 / (2 + np.exp(MARGIN))).astype(float),
}
FAMILIES = {
    "linear": sm.families.Gaussian(),
    "poisson": sm.families.Poisson(),
    "logistic": sm.families.Binomial(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
    "negative_binomial": sm.families.NegativeBinomial(alpha=0.5),
}
COLUMNS = {"a": "c0", "g": "c2", "b": "c1"}
"""The clusters stand between the features."""
FIELDS = ("coef", "intercept", "std_err", "status", "converged", "loss", "options", "n_rows")


def fit(
    client: Client,
    task: str,
    y: Any,
    columns: dict[str, str] = COLUMNS,
    weight: Any = None,
    x: Any = X,
    g: Any = G,
    **options: Any,
) -> SimpleNamespace:
    """The model of columns by name; model.std_err with the intercept's first."""
    more = {} if weight is None else {"w": weight}
    source, parameters = client.rows(np.column_stack([x, g]), y, **more)
    how = {"epsilon": 1e-10, "cluster": "g"} | options
    given = ", ".join([f"'{json.dumps(how)}'", *more])
    features, source = client.by_name(columns, source)
    call = f"SELECT train_model('{task}', y, {features}, {given}) AS m FROM {source}"
    sql = f"SELECT {FITTED}, (m).features FROM ({call}) AS t"
    (found,) = client.connection.execute(sql, parameters).fetchall()
    model = SimpleNamespace(**dict(zip((*FIELDS, "features"), found, strict=True)))
    model.options = json.loads(model.options)
    return model


def textbook(task: str, x: Any, y: Any, g: Any) -> Any:
    """Liang and Zeger's sandwich with the expected curvature, and the factor for few clusters."""
    mean = sm.GLM(y, x, FAMILIES[task]).fit(tol=1e-14).mu
    curvature = {
        "linear": np.ones(len(y)), "poisson": mean, "logistic": mean * (1 - mean),
        "gamma": np.ones(len(y)), "negative_binomial": mean / (1 + 0.5 * mean),
    }[task]  # fmt: skip
    score = (mean - y) / {"gamma": mean, "negative_binomial": 1 + 0.5 * mean}.get(task, 1.0)
    inverse = np.linalg.inv(x.T * curvature @ x)
    sums = np.array([(score[g == k, None] * x[g == k]).sum(axis=0) for k in np.unique(g)])
    (n, p), c = x.shape, len(sums)
    factor = c / (c - 1) * (n - 1) / (n - p)
    return np.sqrt(factor * np.diag(inverse @ (sums.T @ sums) @ inverse))


@pytest.mark.parametrize("task", list(LABELS))
def test_clustered_errors_are_the_sandwich(client: Client, task: str) -> None:
    options = {"dispersion": 0.5} if task == "negative_binomial" else {}
    model = fit(client, task, LABELS[task], **options)
    assert (model.status, model.features) == ("ok", ["a", "b"])
    assert model.std_err == pytest.approx(textbook(task, WHOLE, LABELS[task], G), rel=1e-5)
    assert (model.options["cluster"], model.options["clusters"]) == ("g", CLUSTERS)


@pytest.mark.parametrize("task", ["linear", "poisson", "logistic"])
def test_they_are_statsmodels(client: Client, task: str) -> None:
    """Where expected and observed curvature are the same."""
    given = {"cov_type": "cluster", "cov_kwds": {"groups": G}}
    truth = sm.GLM(LABELS[task], WHOLE, FAMILIES[task]).fit(tol=1e-14, **given)
    model = fit(client, task, LABELS[task])
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)


def test_a_t_test_has_as_many_degrees_of_freedom_as_clusters_less_one(
    con: duckdb.DuckDBPyConnection,
) -> None:
    con.execute("CREATE TABLE r (y DOUBLE, a DOUBLE, b DOUBLE, g VARCHAR)")
    rows = [
        [float(one) for one in row[:-1]] + [f"county {row[-1]:.0f}"]
        for row in np.c_[LABELS["linear"], X, G]
    ]
    con.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", rows)
    call = "train_model('linear', y, {'g': g, 'a': a, 'b': b}, '{\"cluster\": \"g\"}')"
    found = con.execute(
        f"SELECT std_err, p_value FROM model_summary((SELECT {call} FROM r)) ORDER BY feature"
    ).fetchall()
    given = {"cov_type": "cluster", "cov_kwds": {"groups": G}, "use_t": True}
    truth = sm.OLS(LABELS["linear"], WHOLE).fit(**given)
    assert np.array(found).T[0] == pytest.approx(truth.bse, rel=1e-8)
    assert np.array(found).T[1] == pytest.approx(truth.pvalues, rel=1e-6)
    scored = "predict(m, {'b': b, 'a': a})"
    sql = f"SELECT avg({scored}) FROM r, (SELECT {call} AS m FROM r)"
    assert con.execute(sql).fetchall()[0][0] == pytest.approx(LABELS["linear"].mean())


def test_a_row_of_weight_two_is_two_rows(client: Client) -> None:
    weight, y = RANDOM.integers(0, 3, N), LABELS["poisson"]
    weighted = fit(client, "poisson", y, weight=weight)
    x, g = np.repeat(X, weight, axis=0), np.repeat(G, weight)
    repeated = fit(client, "poisson", np.repeat(y, weight), x=x, g=g)
    assert weighted.std_err == pytest.approx(repeated.std_err, rel=1e-6)


def test_each_row_a_cluster_is_hc1_but_for_its_factor(client: Client) -> None:
    model = fit(client, "linear", LABELS["linear"], g=np.arange(N))
    truth = sm.OLS(LABELS["linear"], WHOLE).fit(cov_type="HC1")
    assert model.std_err == pytest.approx(truth.bse, rel=1e-8)  # n / (n - 1) (n - 1) / (n - p)
    assert model.options["clusters"] == N


def test_clusters_of_sparse_rows_and_of_text(client: Client) -> None:
    """60 levels make rows sparse; a cluster of text is that of a number."""
    level = np.arange(N) % 60
    columns = {"k": "'level ' || CAST(c1 AS integer)", "a": "c0", "g": "'county ' || c2"}
    x = np.c_[X[:, 0], level]
    model = fit(client, "linear", LABELS["linear"], columns, x=x)
    names = sorted({f"level {k}" for k in level})
    dummies = [(level == int(name.split()[1])).astype(float) for name in names[1:]]
    whole = np.column_stack([np.ones(N), *dummies, X[:, 0]])
    truth = textbook("linear", whole, LABELS["linear"], G)
    assert model.std_err == pytest.approx(truth, rel=1e-5)


def test_rows_without_a_cluster_are_skipped_or_an_error(client: Client) -> None:
    columns = COLUMNS | {"g": "CASE WHEN c2 > 0 THEN c2 END"}
    model = fit(client, "linear", LABELS["linear"], columns)
    assert model.n_rows == (G > 0).sum()
    truth = textbook("linear", WHOLE[G > 0], LABELS["linear"][G > 0], G[G > 0])
    assert model.std_err == pytest.approx(truth, rel=1e-6)
    with pytest.raises(Exception, match=f"column 'g' is NULL in {(G == 0).sum()} rows"):
        fit(client, "linear", LABELS["linear"], columns, missing="impute")


def test_one_cluster_has_no_errors(client: Client) -> None:
    model = fit(client, "linear", LABELS["linear"], g=np.zeros(N))
    assert model.std_err is None
    assert model.status == "ok"


def test_rows_that_are_sorted_keep_their_clusters(client: Client) -> None:
    """Pairs of equal rows count as one row each."""
    x, y = np.repeat(X, 2, axis=0), np.repeat(LABELS["linear"], 2)
    pairs = fit(client, "linear", y, x=x, g=np.repeat(np.arange(N), 2), deterministic=True)
    truth = sm.OLS(LABELS["linear"], WHOLE).fit(cov_type="HC0")
    n = 2 * N
    factor = np.sqrt(N / (N - 1) * (n - 1) / (n - 3))
    assert pairs.std_err == pytest.approx(factor * truth.bse, rel=1e-8)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("linear", {"cluster": "h"}, "option 'cluster' names 'h', expected a column of the rows: a, g, b"),
        ("linear", {"cluster": "ray"}, r"names 'ray', expected a column of the rows.*FROM train\(\.\.\., group_by := "),
        ("linear", {"cluster": 3}, "cluster"),
        ("linear", {"covariance": "HC1"}, "options 'cluster' and 'covariance' are both given"),
        ("svm", {}, "option 'cluster' is not available with task 'svm', expected 'linear'"),
        ("huber", {}, "option 'cluster' is not available with task 'huber'"),
    ],
)  # fmt: skip
def test_others_are_refused(
    client: Client, task: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        fit(client, task, LABELS["logistic"], **options)


def test_lists_have_no_clusters(client: Client) -> None:
    with pytest.raises(Exception, match="option 'cluster' is for rows with names"):
        client.fit("linear", X, LABELS["linear"], cluster="g")
    with pytest.raises(
        Exception, match=r"names 'ray', and no column does: .*FROM train\(\.\.\., gro"
    ):
        client.fit("linear", X, LABELS["linear"], cluster="ray")
    with pytest.raises(Exception, match="expected a column beside the features"):
        fit(client, "linear", LABELS["linear"], {"g": "c2"})
