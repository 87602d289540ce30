"""How well models fit, in both databases, against statsmodels."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

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
LABELS["tweedie"] = LABELS["gamma"] * (np.random.default_rng(8).random(N) < 0.6)
FAMILIES = {
    "linear": sm.families.Gaussian(),
    "poisson": sm.families.Poisson(),
    "logistic": sm.families.Binomial(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
    "tweedie": sm.families.Tweedie(sm.families.links.Log(), var_power=1.5),
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
    y, offset = LABELS[task], np.log(EXPOSURE) if task in ("poisson", "gamma", "tweedie") else None
    weight = WEIGHT if weighted else np.ones(N)
    more = {"w": weight} | ({} if offset is None else {"o": offset})
    found = fit(client, task, y, more)
    truth = sm.GLM(y, WHOLE, FAMILIES[task], offset=offset, freq_weights=weight).fit(tol=1e-14)
    n = weight.sum()
    scaled = task in ("linear", "gamma", "tweedie")  # R counts the variance and the scale
    parameters = 3 + scaled
    assert (found["n"], found["parameters"]) == (n, parameters)
    assert found["deviance"] == pytest.approx(truth.deviance, rel=1e-9)
    assert found["null_deviance"] == pytest.approx(truth.null_deviance, rel=1e-8)
    assert found["dispersion"] == pytest.approx(truth.scale, rel=1e-6)
    assert found["r2"] == pytest.approx(1 - truth.deviance / truth.null_deviance, rel=1e-8)
    if task == "tweedie":  # whose likelihood is an infinite series, which R leaves out too
        assert (found["log_likelihood"], found["aic"], found["bic"]) == (None, None, None)
        return
    if task == "linear":  # whose variance is the residuals' mean square, as in OLS
        times = weight.astype(int)
        truth = sm.OLS(np.repeat(y, times), np.repeat(WHOLE, times, 0)).fit()
    likelihood = truth.llf
    if task == "gamma":  # R's: at the deviance by row
        scale = truth.deviance / n
        density = stats.gamma.logpdf(y, 1 / scale, scale=truth.fittedvalues * scale)
        likelihood = density @ weight
    assert found["log_likelihood"] == pytest.approx(likelihood, rel=1e-7)
    assert found["aic"] == pytest.approx(2 * parameters - 2 * likelihood, rel=1e-7)
    assert found["bic"] == pytest.approx(parameters * np.log(n) - 2 * found["log_likelihood"])


TREES = np.array([
    [8.3, 8.6, 8.8, 10.5, 10.7, 10.8, 11, 11, 11.1, 11.2, 11.3, 11.4, 11.4, 11.7, 12, 12.9,
     12.9, 13.3, 13.7, 13.8, 14, 14.2, 14.5, 16, 16.3, 17.3, 17.5, 17.9, 18, 18, 20.6],
    [70, 65, 63, 72, 81, 83, 66, 75, 80, 75, 79, 76, 76, 69, 75, 74, 85, 86, 71, 64, 78, 80,
     74, 72, 77, 81, 82, 80, 80, 80, 87],
    [10.3, 10.3, 10.2, 16.4, 18.8, 19.7, 15.6, 18.2, 22.6, 19.9, 24.2, 21, 21.4, 21.3, 19.1,
     22.2, 33.8, 27.4, 25.7, 24.9, 34.5, 31.7, 36.3, 38.3, 42.6, 55.4, 55.7, 58.3, 51.5,
     51, 77],
])  # fmt: skip


@pytest.mark.parametrize(("task", "aic"), [("linear", 176.91), ("gamma", 151.01)])
def test_aic_of_the_trees_is_r_s(client: Client, task: str, aic: float) -> None:
    """R 4.2: AIC(lm(Volume ~ Girth + Height, trees)), and of glm with Gamma("log")."""
    girth, height, volume = TREES
    source, parameters = client.rows(np.column_stack([girth, height]), volume)
    call = f"train_model('{task}', y, ARRAY[c0, c1], '{json.dumps({'fit': True})}')"
    sql = f"SELECT aic FROM model_fit((SELECT {call} FROM {source}))"
    ((found,),) = client.connection.execute(sql, parameters).fetchall()
    assert found == pytest.approx(aic, abs=0.01)


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


def test_counts_that_are_not_overdispersed_have_a_dispersion_of_0(client: Client) -> None:
    """The model is that of poisson, with its standard errors."""
    y = np.round(np.exp(MARGIN) * 4)
    counted, poisson = (
        client.fit(task, X, y, fit=True) for task in ("negative_binomial", "poisson")
    )
    assert (counted.status, counted.options["dispersion"]) == ("ok", 0)
    assert counted.std_err == pytest.approx(poisson.std_err, rel=1e-6)
    assert counted.coef == pytest.approx(poisson.coef, rel=1e-6)
    assert counted.options["log_likelihood"] == pytest.approx(
        poisson.options["log_likelihood"], rel=1e-7
    )


def test_without_the_option_it_says_so(client: Client) -> None:
    with pytest.raises(Exception, match='train it with the option "fit": true'):
        fit(client, "linear", LABELS["linear"], {}, fit=False)


def test_tasks_without_a_likelihood_refuse_it(client: Client) -> None:
    with pytest.raises(Exception, match="option 'fit' is not available with task 'svm'"):
        fit(client, "svm", LABELS["logistic"], {})
