"""Robust standard errors in both databases, against statsmodels and the textbook's formulas."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

from tuskml.learners.linear.request import COVARIANCES

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(80)
N = 120
X = RANDOM.normal(size=(N, 2)) * [1, 3] + [0, 2]
WHOLE = sm.add_constant(X)
MARGIN = 0.3 + X @ [0.4, -0.1]
LABELS = {
    "linear": MARGIN + RANDOM.normal(size=N) * (0.2 + X[:, 0] ** 2),
    "poisson": RANDOM.negative_binomial(1.5, 1.5 / (1.5 + np.exp(MARGIN))),
    "logistic": (MARGIN + RANDOM.logistic(size=N) > 0).astype(float),
    "gamma": np.exp(MARGIN) * RANDOM.gamma(2.0, 0.5, N),
    "tweedie": np.exp(MARGIN) * np.random.default_rng(8).poisson(1.0, N),
}
FAMILIES = {
    "linear": sm.families.Gaussian(),
    "poisson": sm.families.Poisson(),
    "logistic": sm.families.Binomial(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
    "tweedie": sm.families.Tweedie(sm.families.links.Log(), var_power=1.5),
}
ROBUST = [name for name in COVARIANCES if name != "classic"]
POWERS = {"HC0": 0, "HC1": 0, "HC2": 1, "HC3": 2}


def sandwich(task: str, x: Any, y: Any, covariance: str) -> Any:
    """By MacKinnon and White, with the leverages of the weighted least squares."""
    mean = sm.GLM(y, x, FAMILIES[task]).fit(tol=1e-14).mu
    curvature = {"linear": 1.0 + 0 * mean, "poisson": mean, "logistic": mean * (1 - mean)}
    curvature["tweedie"] = np.sqrt(mean)
    curved = curvature.get(task, np.ones(len(y)))
    score = (mean - y) / {"gamma": mean, "tweedie": np.sqrt(mean)}.get(task, 1.0)
    inverse = np.linalg.inv(x.T * curved @ x)
    leverage = curved * np.einsum("ij,jk,ik->i", x, inverse, x)
    middle = x.T * (score**2 / (1 - leverage) ** POWERS[covariance]) @ x
    n, p = x.shape
    scale = n / (n - p) if covariance == "HC1" else 1.0
    return np.sqrt(scale * np.diag(inverse @ middle @ inverse))


@pytest.mark.parametrize("covariance", ROBUST)
@pytest.mark.parametrize("task", list(LABELS))
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_robust_errors_are_the_sandwich(
    client: Client, task: str, covariance: str, storage: str
) -> None:
    y = LABELS[task]
    model = client.fit(task, X, y, storage, covariance=covariance, epsilon=1e-10)
    assert model.std_err == pytest.approx(sandwich(task, WHOLE, y, covariance), rel=1e-6)
    assert model.options["covariance"] == covariance


@pytest.mark.parametrize("covariance", ROBUST)
def test_those_of_least_squares_are_statsmodels(client: Client, covariance: str) -> None:
    truth = sm.OLS(LABELS["linear"], WHOLE).fit(cov_type=covariance)
    model = client.fit("linear", X, LABELS["linear"], covariance=covariance)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-9)


@pytest.mark.parametrize("task", ["poisson", "logistic"])
def test_those_of_likelihoods_are_statsmodels(client: Client, task: str) -> None:
    """HC0 alone: statsmodels' GLM leaves the factor of HC1 out, which R's sandwich has.

    Of `gamma` statsmodels has the observed curvature in the place of the expected one.
    """
    truth = sm.GLM(LABELS[task], WHOLE, FAMILIES[task]).fit(cov_type="HC0", tol=1e-14)
    model = client.fit(task, X, LABELS[task], covariance="HC0", epsilon=1e-10)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)


@pytest.mark.parametrize("covariance", ROBUST)
def test_a_row_of_weight_two_is_two_rows(client: Client, covariance: str) -> None:
    weight = RANDOM.integers(0, 3, N)
    y = LABELS["poisson"]
    weighted = client.fit("poisson", X, y, more={"w": weight}, covariance=covariance)
    x, labels = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    repeated = client.fit("poisson", x, labels, covariance=covariance)
    assert weighted.std_err == pytest.approx(repeated.std_err, rel=1e-5)


def test_features_that_depend_on_each_other_have_no_robust_errors(client: Client) -> None:
    x = np.c_[X, X[:, 0] + X[:, 1]]
    model = client.fit("linear", x, LABELS["linear"], covariance="HC3")
    assert model.status == "collinear features"
    assert np.isnan(model.std_err).all()


def test_a_constant_feature_has_none(client: Client) -> None:
    model = client.fit("linear", np.c_[X, np.ones(N)], LABELS["linear"], covariance="HC2")
    truth = sm.OLS(LABELS["linear"], WHOLE).fit(cov_type="HC2")
    assert model.std_err[1:3] == pytest.approx(truth.bse[1:], rel=1e-9)
    assert np.isnan(model.std_err[3])


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("linear", {"covariance": "HC4"}, "covariance"),
        ("svm", {"covariance": "HC0"}, "option 'covariance' is not available with task 'svm'"),
        ("quantile", {"covariance": "HC0"}, "not available with task 'quantile', expected 'linea"),
    ],
)
def test_others_are_refused(
    client: Client, task: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        client.fit(task, X, LABELS["logistic"], **options)
