"""Links of the mean: estimates, errors, fit and predictions of both databases, against statsmodels
and R."""

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import norm
from scipy.stats import t as student

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

import tuskml
from tuskml import DataError, model_to_sql
from tuskml.learners.linear.algorithms import REGISTERED
from tuskml.learners.linear.tasks import LINEAR, LINKS

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(42)
N = 150
X = RANDOM.uniform(-1, 1, size=(N, 2)).astype(np.float32).astype(float)
OFFSET = RANDOM.uniform(-0.3, 0.3, N)
MARGIN = X @ [0.5, -0.3] + OFFSET
SETTLED = {"epsilon": 1e-10, "max_iter": 1000}
OF, FAMILY = sm.families.links, sm.families
SMALL = RANDOM.wald(np.exp(1 + MARGIN), 20.0)
CASES: dict[tuple[str, str], tuple[Any, Any]] = {
    ("logistic", "probit"): (
        RANDOM.random(N) < norm.cdf(0.3 + MARGIN),
        FAMILY.Binomial(OF.Probit()),
    ),
    ("logistic", "cloglog"): (
        RANDOM.random(N) < -np.expm1(-np.exp(MARGIN - 0.3)),
        FAMILY.Binomial(OF.CLogLog()),
    ),
    ("linear", "log"): (
        np.exp(1 + MARGIN) + RANDOM.normal(size=N) / 4,
        FAMILY.Gaussian(OF.Log()),
    ),
    ("linear", "inverse"): (
        1 / (2 + MARGIN) + RANDOM.normal(size=N) / 40,
        FAMILY.Gaussian(OF.InversePower()),
    ),
    ("poisson", "identity"): (RANDOM.poisson(3 + MARGIN), FAMILY.Poisson(OF.Identity())),
    ("poisson", "sqrt"): (RANDOM.poisson((2 + MARGIN) ** 2), FAMILY.Poisson(OF.Sqrt())),
    ("gamma", "identity"): (
        RANDOM.gamma(3.0, (3 + MARGIN) / 3),
        FAMILY.Gamma(OF.Identity()),
    ),
    ("gamma", "inverse"): (
        RANDOM.gamma(3.0, 1 / (2 + MARGIN) / 3),
        FAMILY.Gamma(OF.InversePower()),
    ),
    ("inverse_gaussian", "log"): (SMALL, FAMILY.InverseGaussian(OF.Log())),
    ("inverse_gaussian", "identity"): (SMALL, FAMILY.InverseGaussian(OF.Identity())),
    ("inverse_gaussian", "inverse"): (
        RANDOM.wald(1 / (2 + MARGIN), 20.0),
        FAMILY.InverseGaussian(OF.InversePower()),
    ),
    ("inverse_gaussian", "inverse_squared"): (
        RANDOM.wald((2 + MARGIN) ** -0.5, 20.0),
        FAMILY.InverseGaussian(OF.InverseSquared()),
    ),
}
PAIRS = list(CASES)


def fitted(client: Client, task: str, link: str, storage: str = "dense", **more: Any) -> Any:
    y, _ = CASES[task, link]
    extras = {"w": np.ones(N), "o": OFFSET}
    return client.fit(task, X, y, storage, more=extras, link=link, **(SETTLED | more))


def estimates(model: Any) -> Any:
    return np.r_[model.intercept, model.coef]


def test_each_link_of_each_task_is_a_case() -> None:
    usual = {(task, links[0]) for task, links in LINKS.items()}
    every = {(task, link) for task, links in LINKS.items() for link in links}
    assert every - usual <= set(CASES) <= every


@pytest.mark.sample(6)
@pytest.mark.parametrize("storage", ["dense", "sparse", "float"])
@pytest.mark.parametrize(("task", "link"), PAIRS)
def test_a_link_is_that_of_a_glm(client: Client, task: str, link: str, storage: str) -> None:
    y, family = CASES[task, link]
    model = fitted(client, task, link, storage, fit=True)
    truth = sm.GLM(y.astype(float), sm.add_constant(X), family, offset=OFFSET).fit(
        tol=1e-14, maxiter=300
    )
    assert model.status == "ok"
    assert estimates(model) == pytest.approx(truth.params, rel=1e-6, abs=1e-8)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)
    assert model.options["deviance"] == pytest.approx(truth.deviance, rel=1e-9)
    assert model.options["null_deviance"] == pytest.approx(truth.null_deviance, rel=1e-9)
    assert model.options.get("link", LINKS[task][0]) == link


DETERMINED = [one.name for one in REGISTERED if not (one.stochastic or one.proves_gap)]


@pytest.mark.sample(5)
@pytest.mark.parametrize("algorithm", DETERMINED)
@pytest.mark.parametrize(("task", "link"), PAIRS)
def test_algorithms_reach_the_same_optimum(
    here: Client, task: str, link: str, algorithm: str
) -> None:
    if ALGORITHM[algorithm].refusal(LINEAR[task]):
        return
    one = fitted(here, task, link, algorithm=algorithm, epsilon=1e-8)
    assert one.status == "ok"
    assert estimates(one) == pytest.approx(estimates(fitted(here, task, link)), abs=1e-6)


ALGORITHM = {one.name: one for one in REGISTERED}
R = {
    "ig": ("inverse_gaussian", "log", -8.06746494678),
    "g": ("gamma", "identity", -8.10444210803),
    "l": ("linear", "log", -8.53808817655),
}


def test_log_likelihoods_are_those_of_r(here: Client) -> None:
    """logLik(glm(y ~ x, family)) of 8 rows, by R 4.2."""
    x = np.array([[0.0], [1], [2], [3], [4], [5], [6], [7]])
    y = np.array([1.3, 2.1, 1.7, 3.9, 3.1, 5.2, 4.4, 7.5])
    for task, link, expected in R.values():
        model = here.fit(task, x, y, link=link, fit=True, **SETTLED)
        assert model.options["log_likelihood"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("task", "link"), PAIRS)
def test_robust_errors_are_the_sandwich_of_r(here: Client, task: str, link: str) -> None:
    """vcovHC(type = "HC0") of sandwich: the scores, about the expected curvature."""
    y, family = CASES[task, link]
    model = fitted(here, task, link, covariance="HC0")
    whole = sm.add_constant(X)
    margin = whole @ estimates(model) + OFFSET
    mean = family.link.inverse(margin)
    slope, spread = family.link.inverse_deriv(margin), family.variance(mean)
    score = ((y - mean) * slope / spread)[:, None] * whole
    bread = np.linalg.inv(whole.T @ ((slope**2 / spread)[:, None] * whole))
    truth = np.sqrt(np.diag(bread @ (score.T @ score) @ bread))
    assert model.std_err == pytest.approx(truth, rel=1e-6)


def test_searches_compare_links(here: Client) -> None:
    y, _ = CASES["logistic", "cloglog"]
    model = here.fit("logistic", X, y, link=["probit", "cloglog", "logit"], folds=3, seed=1)
    assert model.status == "ok"
    assert model.options.get("link", "logit") in LINKS["logistic"]


@pytest.mark.parametrize("link", LINKS["logistic"])
def test_separable_rows_have_the_status_of_logits(client: Client, link: str) -> None:
    """What the other rows determine is that of a fit without those that run away."""
    i = np.arange(60)
    apart = i % 3 == 0
    y = np.where(apart, 1, i * 7 % 4 < 2)
    model = client.fit("logistic", np.c_[i % 5, apart], y, link=link, epsilon=1e-9)
    rest = client.fit("logistic", np.c_[i % 5][~apart], y[~apart], link=link, epsilon=1e-9)
    assert (model.status, rest.status) == ("separable", "ok")
    assert estimates(model)[:2] == pytest.approx(estimates(rest), abs=1e-6)
    assert model.std_err[:2] == pytest.approx(rest.std_err, rel=1e-6)
    assert np.isnan(model.std_err[2])


def answers(client: Client, task: str, link: str, function: str) -> Any:
    y, _ = CASES[task, link]
    source, parameters = client.rows(X, y, o=OFFSET)
    features, rows = client.by_name({"a": "c0", "b": "c1"}, source)
    options = f'{{"link": "{link}"}}'
    sql = (
        f"WITH r AS (SELECT y, o, {features} AS x FROM {rows}), t AS (SELECT "
        f"train_model('{task}', y, x, '{options}', 1, o) AS m FROM r) "
        f"SELECT decision(m, x) + o, {function} FROM r, t"
    )
    return np.array(client.connection.execute(sql, parameters).fetchall(), float).T


@pytest.mark.parametrize(("task", "link"), PAIRS)
def test_predictions_are_means_of_margins(client: Client, task: str, link: str) -> None:
    _, family = CASES[task, link]
    of = "predict_proba_with_offset" if task == "logistic" else "predict_with_offset"
    margin, found = answers(client, task, link, f"{of}(m, x, o)")
    assert found == pytest.approx(family.link.inverse(margin), rel=1e-9)


@pytest.mark.parametrize(("task", "link"), PAIRS)
def test_intervals_of_means_are_those_of_a_glm(client: Client, task: str, link: str) -> None:
    """By the delta method and by the margin's interval, whose order some links turn round."""
    y, family = CASES[task, link]
    source, parameters = client.rows(X, y.astype(float))
    options = json.dumps(SETTLED | {"link": link, "intervals": "covariance"})
    call = f"train_model('{task}', y, ARRAY[c0, c1], '{options}')"
    ends = ", ".join(f"(i).{name}" for name in ("fit", "std_err", "lower", "upper"))
    found = client.connection.execute(
        f"WITH r AS (SELECT * FROM {source}), m AS (SELECT {call} AS m FROM r) "
        f"SELECT {ends} FROM (SELECT predict_interval(m, ARRAY[0.5, -0.25]) AS i FROM m) AS t",
        parameters,
    ).fetchone()
    truth = sm.GLM(y.astype(float), sm.add_constant(X), family).fit(tol=1e-14, maxiter=300)
    new = np.array([[1.0, 0.5, -0.25]])
    mean = truth.get_prediction(new).summary_frame()
    reach = float(norm.isf(0.025))
    if LINEAR[task].test == "t":
        reach = float(student.isf(0.025, N - 3))
    centre, error = (new @ truth.params)[0], np.sqrt(new @ truth.cov_params() @ new.T)[0, 0]
    inverse = truth.family.link.inverse
    sides = sorted(float(inverse(np.array([centre + k * reach * error]))[0]) for k in (-1, 1))
    assert found == pytest.approx((mean["mean"][0], mean["mean_se"][0], *sides), rel=1e-6)


@pytest.mark.parametrize("link", ["probit", "cloglog"])
def test_classes_are_the_likelier_ones(client: Client, link: str) -> None:
    _, p = answers(client, "logistic", link, "predict_proba_with_offset(m, x, o)")
    _, said = answers(client, "logistic", link, "predict_with_offset(m, x, o)")
    assert (said == (p >= 0.5)).all()
    assert len(set(said)) == 2
    _, both = answers(
        client, "logistic", link, "predict_proba(m, x, '0') + predict_proba(m, x, '1')"
    )
    assert both == pytest.approx(np.ones(N))
    _, other = answers(client, "logistic", link, "predict_proba(m, x) - predict_proba(m, x, '1')")
    assert other == pytest.approx(np.zeros(N), abs=1e-12)


def test_coefficients_of_other_links_are_no_ratios(client: Client) -> None:
    source, parameters = client.rows(X, CASES["logistic", "probit"][0])
    for link, ratios in (("probit", 0), ("logit", 3)):
        options = f'{{"link": "{link}"}}'
        sql = (
            "SELECT count(ratio), count(std_err) FROM model_summary((SELECT "
            f"train_model('logistic', y, ARRAY[c0, c1], '{options}') FROM {source}))"
        )
        found = client.connection.execute(sql, parameters).fetchall()
        assert found == [(ratios, 3)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "'gamma', y, [c0], '{\"link\": \"sqrt\"}'",
            "link 'sqrt' is not available with task 'gamma', expected 'log', 'identity' or 'inv",
        ),
        (
            "'huber', y, [c0], '{\"link\": \"log\"}'",
            "option 'link' is not available with task 'huber'",
        ),
        (
            '\'poisson\', y, [c0], \'{"link": "identity", "fit_intercept": false}\'',
            "link 'identity' is not available without an intercept",
        ),
        (
            '\'poisson\', y, [c0], \'{"link": "sqrt", "algorithm": "mgd"}\'',
            "link 'sqrt' is not available with algorithm 'mgd', expected 'auto', 'newton'",
        ),
        (
            "'logistic', y, [c0], '{\"link\": \"probit\"}'",
            "link 'probit' is not available with more than two classes",
        ),
        (
            '\'poisson\', y, [c0], \'{"link": "sqrt", "store": "s"}\'',
            "option 'link' is not available with option 'store'",
        ),
    ],
)
def test_what_a_link_is_not_for(con: duckdb.DuckDBPyConnection, call: str, message: str) -> None:
    rows = "(SELECT i AS y, i * i AS c0 FROM range(1, 9) AS t(i))"
    with pytest.raises(duckdb.Error, match=message):
        con.execute(f"SELECT train_model({call}) FROM {rows}").fetchall()


@pytest.mark.parametrize(("task", "link"), PAIRS)
def test_plain_sql_says_the_mean(con: duckdb.DuckDBPyConnection, task: str, link: str) -> None:
    y, _ = CASES[task, link]
    client = Client(con, "?")
    source, parameters = client.rows(X, y)
    con.execute(f"CREATE TABLE linked AS SELECT * FROM {source}", parameters)
    model = tuskml.train(
        con, task, source="linked", label="y", features=["c0", "c1"], link=link, **SETTLED
    )
    kinds = ["predict_class", "predict_proba"] if task == "logistic" else ["predict"]
    for kind in kinds:
        expected = getattr(model, kind)(X)
        if link == "probit" and kind == "predict_proba":
            with pytest.raises(DataError, match="link 'probit', whose probabilities plain SQL"):
                model_to_sql(model, kind)
            continue
        found = con.execute(f"SELECT {model_to_sql(model, kind)} FROM linked").fetchall()
        values = [row[0] for row in found]
        exact = kind == "predict_class"
        assert values == (list(expected) if exact else pytest.approx(expected, rel=1e-11))
