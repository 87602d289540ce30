"""Counts, positive numbers, quantiles and robust losses in both databases, against statsmodels."""

# ruff: noqa: E501, SQL is read better on one line

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import linprog, minimize
from sklearn import metrics

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(7)
N = 400
X = RANDOM.normal(size=(N, 3)) * [1, 2, 0.5] + [0, 1, 3]
MARGIN = 0.2 + X @ [0.4, -0.2, 0.3]
MEAN = np.exp(MARGIN)
WHOLE = sm.add_constant(X)
COUNTS = RANDOM.poisson(MEAN)
AMOUNTS = RANDOM.gamma(2.0, MEAN / 2)
SPREAD = RANDOM.negative_binomial(2.0, 2 / (2 + MEAN))
PAID = AMOUNTS * (np.random.default_rng(8).random(N) < 0.6)
HEAVY = MARGIN + RANDOM.standard_t(2, size=N)
SIDES = (MARGIN + RANDOM.logistic(size=N) > 1).astype(float)


def weights(model: SimpleNamespace) -> Any:
    return np.r_[model.intercept, model.coef]


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_poisson_is_statsmodels_glm(client: Client, storage: str) -> None:
    model = client.fit("poisson", X, COUNTS, storage)
    truth = sm.GLM(COUNTS, WHOLE, sm.families.Poisson()).fit(tol=1e-13)
    assert (model.status, model.converged) == ("ok", True)
    assert weights(model) == pytest.approx(truth.params, abs=1e-7)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)
    assert model.loss == pytest.approx(np.mean(truth.mu - COUNTS * np.log(truth.mu)), rel=1e-9)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_gamma_is_statsmodels_glm(client: Client, storage: str) -> None:
    """Standard errors are by the expected information and Pearson's estimate of the dispersion."""
    model = client.fit("gamma", X, AMOUNTS, storage)
    family = sm.families.Gamma(sm.families.links.Log())
    truth = sm.GLM(AMOUNTS, WHOLE, family).fit(tol=1e-13)
    assert weights(model) == pytest.approx(truth.params, abs=1e-6)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)
    assert model.options["dispersion"] == pytest.approx(truth.scale, rel=1e-6)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize("power", [1.001, 1.3, 1.5, 1.9])
def test_tweedie_is_statsmodels_glm(client: Client, storage: str, power: float) -> None:
    model = client.fit("tweedie", X, PAID, storage, power=power)
    family = sm.families.Tweedie(sm.families.links.Log(), var_power=power)
    truth = sm.GLM(PAID, WHOLE, family).fit(tol=1e-13)
    assert (model.status, model.converged) == ("ok", True)
    assert weights(model) == pytest.approx(truth.params, abs=1e-6)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)
    assert model.options["dispersion"] == pytest.approx(truth.scale, rel=1e-6)


def test_tweedie_deviance_is_scikit_learn_s(client: Client) -> None:
    source, parameters = client.rows(X, PAID)
    sql = f"SELECT tweedie_deviance(y, exp(c0), 1.4) FROM {source}"
    ((found,),) = client.connection.execute(sql, parameters).fetchall()
    truth = metrics.mean_tweedie_deviance(PAID, np.exp(X[:, 0]), power=1.4)
    assert found == pytest.approx(truth, rel=1e-12)


def test_negative_binomial_is_the_maximum_of_the_joint_likelihood(client: Client) -> None:
    model = client.fit("negative_binomial", X, SPREAD)
    truth = sm.NegativeBinomial(SPREAD, WHOLE).fit(disp=0, method="bfgs", gtol=1e-9, maxiter=999)
    found = np.r_[weights(model), model.options["dispersion"]]
    assert found == pytest.approx(truth.params, abs=1e-5)
    assert model.std_err == pytest.approx(
        truth.bse[:-1], rel=0.05
    )  # those are by the observed information


def test_the_dispersion_of_counts_may_be_given(client: Client) -> None:
    """statsmodels' GLM takes it as given; its standard errors are by the expected information."""
    model = client.fit("negative_binomial", X, SPREAD, dispersion=0.7)
    family = sm.families.NegativeBinomial(alpha=0.7)
    truth = sm.GLM(SPREAD, WHOLE, family).fit(tol=1e-13)
    assert weights(model) == pytest.approx(truth.params, abs=1e-6)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)
    assert model.options["dispersion"] == 0.7


def test_huber_is_statsmodels_rlm(client: Client) -> None:
    """With a scale of 1, so that delta is in units of the label."""
    model = client.fit("huber", X, HEAVY, delta=1.2)

    class Unit:
        """A scale that is not estimated."""

        def __call__(self, *_: Any) -> float:
            return 1.0

    norm = sm.robust.norms.HuberT(1.2)
    truth = sm.RLM(HEAVY, WHOLE, norm)
    truth._estimate_scale = Unit()
    found = truth.fit(tol=1e-13, maxiter=500)
    assert weights(model) == pytest.approx(found.params, abs=1e-6)
    assert model.std_err == pytest.approx(found.bse, rel=1e-4)


@pytest.mark.parametrize("quantile", [0.5, 0.9])
@pytest.mark.parametrize("algorithm", ["auto", "lbfgs"])
def test_quantile_is_the_optimum_of_its_linear_program(
    client: Client, quantile: float, algorithm: str
) -> None:
    """Koenker and Bassett, Regression quantiles, 1978, (3.1)."""
    cost = np.r_[np.zeros(4), np.full(N, quantile), np.full(N, 1 - quantile)]
    rows = np.c_[WHOLE, np.eye(N), -np.eye(N)]
    limits = [(None, None)] * 4 + [(0, None)] * (2 * N)
    truth = linprog(cost, A_eq=rows, b_eq=HEAVY, bounds=limits)
    model = client.fit("quantile", X, HEAVY, quantile=quantile, algorithm=algorithm)
    assert model.loss == pytest.approx(truth.fun / N, abs=1e-6)
    assert weights(model) == pytest.approx(truth.x[:4], abs=1e-4)
    assert np.mean(weights(model) @ WHOLE.T > HEAVY) == pytest.approx(quantile, abs=5 / N)
    assert np.isnan(model.std_err).all()


def test_squared_hinge_is_the_optimum_of_its_objective(client: Client) -> None:
    model = client.fit("squared_hinge", X, SIDES, l2=0.01)

    def objective(w: Any) -> float:
        short = np.maximum(0, 1 - (2 * SIDES - 1) * (WHOLE @ w))
        return float(np.mean(short**2) + 0.005 * w[1:] @ w[1:])

    truth = minimize(objective, np.zeros(4), tol=1e-12)
    assert model.loss == pytest.approx(truth.fun, rel=1e-9)
    assert weights(model) == pytest.approx(truth.x, abs=1e-4)


TASKS: dict[str, Any] = {
    "poisson": COUNTS,
    "negative_binomial": SPREAD,
    "gamma": AMOUNTS,
    "tweedie": PAID,
    "inverse_gaussian": AMOUNTS,
    "huber": HEAVY,
    "quantile": HEAVY,
    "squared_hinge": SIDES,
}


@pytest.mark.parametrize("task", TASKS)
def test_groups_are_models_of_their_own(client: Client, task: str) -> None:
    """Each group has the weights that its rows have alone."""
    y = TASKS[task]
    columns = np.c_[X, np.arange(N) % 3]
    source, parameters = client.rows(columns, y)
    sql = (
        f"SELECT (m).coef, (m).options FROM (SELECT c3, train_model('{task}', y, ARRAY[c0, c1, c2], "
        f"""'{{"l2": 0.001}}') AS m FROM {source} GROUP BY c3) AS t ORDER BY c3"""
    )
    found = client.connection.execute(sql, parameters).fetchall()
    for g, (coef, _) in enumerate(found):
        some = np.arange(N) % 3 == g
        alone = client.fit(task, X[some], y[some], l2=0.001)
        assert coef == pytest.approx(alone.coef, abs=2e-5)


@pytest.mark.parametrize("task", ["poisson", "gamma", "tweedie", "huber", "squared_hinge"])
@pytest.mark.parametrize("algorithm", ["lbfgs", "bgd", "newton_cg"])
def test_algorithms_agree(client: Client, task: str, algorithm: str) -> None:
    exact = client.fit(task, X, TASKS[task], l2=0.01)
    other = client.fit(task, X, TASKS[task], l2=0.01, algorithm=algorithm, epsilon=1e-8)
    assert weights(other) == pytest.approx(weights(exact), abs=1e-5)


def predicted(client: Client, task: str, options: str) -> Any:
    source, parameters = client.rows(X, TASKS[task])
    features = "ARRAY[c0, c1, c2]"
    sql = (
        f"SELECT predict(m, {features}), decision(m, {features}) FROM {source}, "
        f"(SELECT train_model('{task}', y, {features}, '{options}') AS m FROM {source}) AS t"
    )
    given = parameters if client.mark == "?" else [*parameters]
    return np.array(client.connection.execute(sql, given * 2).fetchall(), float)


@pytest.mark.parametrize("task", ["poisson", "gamma", "tweedie", "quantile"])
def test_predictions_are_by_the_link(client: Client, task: str) -> None:
    """Those of counts by the canonical link have the mean of the labels."""
    found = predicted(client, task, "{}")
    expected = found[:, 1] if task == "quantile" else np.exp(found[:, 1])
    assert found[:, 0] == pytest.approx(expected, rel=1e-12)
    if task == "poisson":
        assert found[:, 0].mean() == pytest.approx(COUNTS.mean(), rel=1e-6)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("train_model('poisson', i - 3, ARRAY[i], '{\"invalid\": \"error\"}')", "label is -2 in row 1 of the group, 'poisson' needs a label of at least 0"),
        ("train_model('gamma', i - 2, ARRAY[i], '{\"invalid\": \"error\"}')", "label is -1 in row 1 of the group, 'gamma' needs a label greater than 0"),
        ("train_model('negative_binomial', 2 - i, ARRAY[i], '{\"invalid\": \"error\"}')", "label is -1 in row 3 of the group, 'negative_binomial' needs a label of at least 0"),
        ("train_model('poisson', i, ARRAY[i], '{\"quantile\": 0.9}')", "option 'quantile' is not available with task 'poisson', expected task 'quantile'"),
        ("train_model('quantile', i, ARRAY[i], '{\"quantile\": 1}')", "expected a number greater than 0 and less than 1"),
        ("train_model('huber', i, ARRAY[i], '{\"delta\": 0}')", "expected a number greater than 0"),
        ("train_model('poisson', i, ARRAY[i], '{\"algorithm\": \"sgd\"}')", "its steps are compiled for other losses"),
        ("train_model('counts', i, ARRAY[i])", "regression of counts is 'poisson'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(client: Client, call: str, sentence: str) -> None:
    with pytest.raises(Exception, match="train_model") as raised:
        client.connection.execute(f"SELECT {call} FROM generate_series(1, 9) AS s(i)").fetchall()
    assert sentence in " ".join(str(raised.value).split())


@pytest.mark.parametrize("task", TASKS)
def test_explanations_name_the_loss(client: Client, task: str) -> None:
    source, parameters = client.rows(X, TASKS[task])
    sql = f"SELECT explain_training('{task}', y, ARRAY[c0, c1, c2]) FROM {source}"
    (text,) = client.connection.execute(sql, parameters).fetchone()
    assert task in text
    assert "newton" in text
