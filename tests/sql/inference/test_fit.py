"""How well models fit, in both databases, against statsmodels."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(90)
N = 200
X = RANDOM.normal(size=(N, 2)) * [1, 3] + [0, 1]
WHOLE = sm.add_constant(X)
MARGIN = 0.3 + X @ [0.4, -0.1]
EXPOSURE = RANDOM.uniform(1, 9, N)
WEIGHT = RANDOM.integers(0, 4, N)
LABELS = {
    "linear": MARGIN + RANDOM.normal(size=N),
    "poisson": RANDOM.poisson(np.exp(MARGIN) * EXPOSURE).astype(float),
    "logistic": (MARGIN + RANDOM.logistic(size=N) > 0).astype(float),
    "gamma": np.exp(MARGIN) * EXPOSURE * RANDOM.gamma(2.0, 0.5, N),
}
FAMILIES = {
    "linear": sm.families.Gaussian(),
    "poisson": sm.families.Poisson(),
    "logistic": sm.families.Binomial(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
}
FIELDS = "n, parameters, log_likelihood, deviance, null_deviance, aic, bic, r2, dispersion"


def fit(client: Client, task: str, y: Any, more: dict[str, Any], **options: Any) -> dict[str, Any]:
    source, parameters = client.rows(X, y, **more)
    given = json.dumps({"fit": True, "epsilon": 1e-10} | options)
    arguments = ", ".join([f"'{task}', y, ARRAY[c0, c1], '{given}'", *more])
    call = f"train_model({arguments})"
    sql = f"SELECT {FIELDS} FROM model_fit((SELECT {call} FROM {source}))"
    (row,) = client.connection.execute(sql, parameters).fetchall()
    return dict(zip(FIELDS.split(", "), row, strict=True))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("task", list(LABELS))
def test_what_is_shown_is_what_statsmodels_has(client: Client, task: str, weighted: bool) -> None:
    y, offset = LABELS[task], np.log(EXPOSURE) if task in ("poisson", "gamma") else None
    weight = WEIGHT if weighted else np.ones(N)
    more = {"w": weight} | ({} if offset is None else {"o": offset})
    found = fit(client, task, y, more)
    truth = sm.GLM(y, WHOLE, FAMILIES[task], offset=offset, freq_weights=weight).fit(tol=1e-14)
    n = weight.sum()
    assert (found["n"], found["parameters"]) == (n, 3)
    assert found["deviance"] == pytest.approx(truth.deviance, rel=1e-9)
    assert found["null_deviance"] == pytest.approx(truth.null_deviance, rel=1e-8)
    assert found["dispersion"] == pytest.approx(truth.scale, rel=1e-6)
    assert found["r2"] == pytest.approx(1 - truth.deviance / truth.null_deviance, rel=1e-8)
    if task == "linear":  # whose variance is the residuals' mean square, as in OLS
        times = weight.astype(int)
        truth = sm.OLS(np.repeat(y, times), np.repeat(WHOLE, times, 0)).fit()
    if task != "gamma" or not weighted:
        assert found["log_likelihood"] == pytest.approx(truth.llf, rel=1e-7)
        assert found["aic"] == pytest.approx(truth.aic, rel=1e-7)
    assert found["bic"] == pytest.approx(3 * np.log(n) - 2 * found["log_likelihood"])


def test_counts_with_a_dispersion(client: Client) -> None:
    y = RANDOM.negative_binomial(1.5, 1.5 / (1.5 + np.exp(MARGIN))).astype(float)
    found = fit(client, "negative_binomial", y, {}, dispersion=0.7)
    truth = sm.GLM(y, WHOLE, sm.families.NegativeBinomial(alpha=0.7)).fit(tol=1e-14)
    assert found["log_likelihood"] == pytest.approx(truth.llf, rel=1e-9)
    assert found["deviance"] == pytest.approx(truth.deviance, rel=1e-9)
    assert found["null_deviance"] == pytest.approx(truth.null_deviance, rel=1e-9)


def test_an_estimated_dispersion_is_a_parameter(client: Client) -> None:
    y = RANDOM.negative_binomial(1.5, 1.5 / (1.5 + np.exp(MARGIN))).astype(float)
    found = fit(client, "negative_binomial", y, {})
    truth = sm.NegativeBinomial(y, WHOLE).fit(disp=False, maxiter=500, gtol=1e-8)
    assert found["parameters"] == 4
    assert found["log_likelihood"] == pytest.approx(truth.llf, rel=1e-7)
    assert found["aic"] == pytest.approx(truth.aic, rel=1e-7)


def test_without_the_option_it_says_so(client: Client) -> None:
    with pytest.raises(Exception, match='train it with the option "fit": true'):
        fit(client, "linear", LABELS["linear"], {}, fit=False)


def test_tasks_without_a_likelihood_refuse_it(client: Client) -> None:
    with pytest.raises(Exception, match="option 'fit' is not available with task 'svm'"):
        fit(client, "svm", LABELS["logistic"], {})
