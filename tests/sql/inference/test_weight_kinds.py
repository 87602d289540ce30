"""Weights that are precisions or sampling weights, in both databases, against statsmodels and
closed forms."""

import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import statsmodels.api as sm
from scipy.linalg import fractional_matrix_power

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(17)
N = 80
X = RANDOM.uniform(-1, 1, size=(N, 2)).astype(np.float32).astype(float)
WEIGHT = RANDOM.uniform(0.3, 4, N)
MARGIN = X @ [0.5, -0.3]
WHOLE = sm.add_constant(X)
LABELS = {
    "linear": 1 + MARGIN + RANDOM.normal(size=N) / 3,
    "poisson": RANDOM.poisson(np.exp(1 + MARGIN)).astype(float),
    "gamma": RANDOM.gamma(3.0, np.exp(MARGIN) / 3),
    "logistic": (RANDOM.random(N) < 0.5).astype(float),
}
FAMILIES = {
    "linear": sm.families.Gaussian(),
    "poisson": sm.families.Poisson(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
    "logistic": sm.families.Binomial(),
}
SETTLED = {"epsilon": 1e-10, "max_iter": 1000}


def fitted(client: Client, task: str, kind: str, storage: str = "dense", **more: Any) -> Any:
    how = SETTLED | more
    return client.fit(task, X, LABELS[task], storage, more={"w": WEIGHT}, weight_kind=kind, **how)


def estimates(model: Any) -> Any:
    return np.r_[model.intercept, model.coef]


def scores(task: str, params: Any) -> tuple[Any, Any, Any]:
    """The weighted scores of the rows (N, 3), the inverse of the expected curvature, and the rows'
    leverages (N,).
    """
    mean = FAMILIES[task].link.inverse(WHOLE @ params)
    spread = {"linear": np.ones(N), "poisson": mean, "gamma": np.ones(N)}
    bend = spread.get(task, mean * (1 - mean))
    slope = (LABELS[task] - mean) / (mean if task == "gamma" else 1)
    own = (WEIGHT * slope)[:, None] * WHOLE
    bread = np.linalg.inv(WHOLE.T @ ((WEIGHT * bend)[:, None] * WHOLE))
    return own, bread, WEIGHT * bend * np.einsum("ij,jk,ik->i", WHOLE, bread, WHOLE)


@pytest.mark.parametrize("storage", ["dense", "sparse", "float"])
@pytest.mark.parametrize("task", list(LABELS))
def test_precisions_are_the_weights_of_lm_and_glm(client: Client, task: str, storage: str) -> None:
    """The scale is by the rows, not by the sum of the weights."""
    model = fitted(client, task, "analytic", storage)
    truth = sm.GLM(LABELS[task], WHOLE, FAMILIES[task], var_weights=WEIGHT).fit(tol=1e-13)
    assert estimates(model) == pytest.approx(truth.params, rel=1e-6)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)


def test_the_fit_of_precisions_is_that_of_wls(here: Client) -> None:
    model = fitted(here, "linear", "analytic", fit=True)
    truth = sm.WLS(LABELS["linear"], WHOLE, weights=WEIGHT).fit()
    assert model.options["log_likelihood"] == pytest.approx(truth.llf, rel=1e-10)
    assert model.options["deviance"] == pytest.approx(truth.ssr, rel=1e-10)
    assert (model.options["weight"], model.options["parameters"]) == (N, 4)


@pytest.mark.parametrize("times", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("kind", ["analytic", "sampling"])
def test_the_size_of_weights_does_not_matter(here: Client, kind: str, times: float) -> None:
    own = here.fit(
        "linear",
        X,
        LABELS["linear"],
        more={"w": WEIGHT * times},
        weight_kind=kind,
        **SETTLED,
    )
    assert own.std_err == pytest.approx(fitted(here, "linear", kind).std_err, rel=1e-9)


def test_equal_weights_of_any_size_are_no_weights(here: Client) -> None:
    plain = here.fit("linear", X, LABELS["linear"], **SETTLED)
    model = here.fit(
        "linear",
        X,
        LABELS["linear"],
        more={"w": np.full(N, 7.0)},
        weight_kind="analytic",
        **SETTLED,
    )
    assert model.std_err == pytest.approx(plain.std_err, rel=1e-9)


@pytest.mark.parametrize("task", list(LABELS))
def test_sampling_weights_have_the_errors_of_a_survey(client: Client, task: str) -> None:
    """n / (n - 1) times the sandwich of weighted scores, as svyglm of R's survey has it."""
    model = fitted(client, task, "sampling")
    own, bread, _ = scores(task, estimates(model))
    spread = bread @ (own.T @ own) @ bread * N / (N - 1)
    assert model.std_err == pytest.approx(np.sqrt(np.diag(spread)), rel=1e-6)


@pytest.mark.parametrize("task", list(LABELS))
@pytest.mark.parametrize("covariance", ["HC0", "HC1", "HC2", "HC3"])
def test_robust_errors_square_the_weights(here: Client, task: str, covariance: str) -> None:
    """As vcovHC of R's sandwich has them: a row is one, whose leverage has its weight."""
    model = fitted(here, task, "analytic", covariance=covariance)
    own, bread, leverage = scores(task, estimates(model))
    own = own / ((1 - leverage) ** {"HC2": 0.5, "HC3": 1}.get(covariance, 0))[:, None]
    spread = bread @ (own.T @ own) @ bread * (N / (N - 3) if covariance == "HC1" else 1)
    assert model.std_err == pytest.approx(np.sqrt(np.diag(spread)), rel=1e-6)


@pytest.mark.parametrize("covariance", ["HC2", "HC3"])
def test_leverages_are_those_of_statsmodels(client: Client, covariance: str) -> None:
    model = fitted(client, "linear", "analytic", covariance=covariance)
    truth = sm.WLS(LABELS["linear"], WHOLE, weights=WEIGHT).fit(cov_type=covariance)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)


def leverages_of_classes(y: Any, weights: Any, power: float) -> Any:
    """Errors (2, 3) of three classes: scores by (1 - W M)^-power, W with the row's weight."""
    k, p = 2, 3
    margins = np.c_[np.zeros(N), WHOLE @ weights.T]
    shares = (np.exp(margins).T / np.exp(margins).sum(axis=1)).T[:, 1:]
    rows = [np.kron(np.eye(k), x) for x in WHOLE]
    bends = [w * (np.diag(s) - np.outer(s, s)) for w, s in zip(WEIGHT, shares, strict=True)]
    bread = np.linalg.inv(sum(z.T @ b @ z for z, b in zip(rows, bends, strict=True)))
    middle = np.zeros((k * p, k * p))
    for z, bend, share, w, own in zip(rows, bends, shares, WEIGHT, y.astype(int), strict=True):
        left = np.eye(k) - bend @ z @ bread @ z.T
        slope = w * (share - (np.arange(1, k + 1) == own))
        score = z.T @ fractional_matrix_power(left, -power) @ slope
        middle += np.outer(score, score)
    return np.sqrt(np.diag(bread @ middle @ bread)).reshape(k, p)


@pytest.mark.parametrize(("covariance", "power"), [("HC2", 0.5), ("HC3", 1.0)])
def test_leverages_of_many_classes_have_the_weights(
    here: Client, covariance: str, power: float
) -> None:
    y = np.digitize(LABELS["linear"], [0.7, 1.2]).astype(float)
    how = SETTLED | {"weight_kind": "analytic", "covariance": covariance}
    model = here.fit("logistic", X, y, more={"w": WEIGHT}, **how)
    found, weights = (np.array(one).reshape(3, 3)[1:] for one in (model.std_err, model.coef))
    assert found == pytest.approx(leverages_of_classes(y, weights, power), rel=1e-6)


def test_many_classes_of_a_survey(here: Client) -> None:
    """Rows repeated with a weight less have other errors than rows that weigh as much."""
    y = np.digitize(LABELS["linear"], [0.7, 1.2]).astype(float)
    more = {"w": WEIGHT}
    kinds = [
        here.fit("logistic", X, y, more=more, weight_kind=kind, **SETTLED)
        for kind in ("frequency", "analytic", "sampling")
    ]
    robust = here.fit(
        "logistic", X, y, more=more, weight_kind="analytic", covariance="HC0", **SETTLED
    )
    known = ~np.isnan(kinds[0].std_err)
    assert known.sum() == 6
    assert kinds[1].std_err[known] == pytest.approx(kinds[0].std_err[known], rel=1e-9)
    found = kinds[2].std_err[known] / robust.std_err[known]
    assert found == pytest.approx(np.full(6, (N / (N - 1)) ** 0.5), rel=1e-9)


def test_the_freedom_of_tests_is_by_rows(client: Client) -> None:
    from scipy.stats import t

    source, parameters = client.rows(X, LABELS["linear"], w=WEIGHT)
    sql = (
        "SELECT statistic, p_value FROM model_summary((SELECT train_model('linear', y, "
        f'ARRAY[c0, c1], \'{{"weight_kind": "analytic"}}\', w) FROM {source}))'
    )
    for statistic, p in client.connection.execute(sql, parameters).fetchall():
        assert p == pytest.approx(2 * t.sf(abs(statistic), N - 3), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"weight_kind": "sampling", "covariance": "HC3"},
            "covariance 'HC3' is not available with weight_kind 'sampling', expected 'HC0' or 'HC",
        ),
        (
            {"weight_kind": "sampling", "fit": True, "likelihood_ratio": True},
            "option 'likelihood_ratio' is not available with weight_kind 'sampling'",
        ),
        (
            {"weight_kind": "sampling", "store": "s"},
            "option 'weight_kind' is not available with option 'store'",
        ),
    ],
)
def test_what_kinds_of_weights_are_not_for(
    here: Client, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(duckdb.Error, match=message):
        here.fit("linear", X, LABELS["linear"], **options)
