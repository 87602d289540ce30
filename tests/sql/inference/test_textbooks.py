"""Tables of textbooks and of statsmodels and scikit-learn, in both databases.

The ships, and values of their model: McCullagh and Nelder, Generalized linear models, 1989, 6.3.2,
with more digits in Venables and Ripley's MASS. Spector: Greene, Econometric Analysis, table 21.1.
Engel: Koenker and Bassett, Robust tests for heteroscedasticity, 1982, with more digits in R's
quantreg. star98, anes96 and randhie: as statsmodels' manual shows them.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.optimize import linprog
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

PRECISE = {"epsilon": 1e-10}
SERVICE = {
    "A": [127, 63, 1095, 1095, 1512, 3353, 0, 2244],
    "B": [44882, 17176, 28609, 20370, 7064, 13099, 0, 7117],
    "C": [1179, 552, 781, 676, 783, 1948, 0, 274],
    "D": [251, 105, 288, 192, 349, 1208, 0, 2051],
    "E": [45, 0, 789, 437, 1157, 2161, 0, 542],
}
"""Months of service, by year of construction (1960, 65, 70, 75) and period (1960, 75)."""
INCIDENTS = {
    "A": [0, 0, 3, 4, 6, 18, 0, 11],
    "B": [39, 29, 58, 53, 12, 44, 0, 18],
    "C": [1, 1, 0, 1, 6, 2, 0, 1],
    "D": [0, 0, 0, 0, 2, 11, 0, 4],
    "E": [0, 0, 7, 7, 5, 12, 0, 1],
}
SHIPS = {
    "intercept": (-6.40590, 0.21744),
    "type[B]": (-0.54334, 0.17759),
    "type[C]": (-0.68740, 0.32904),
    "type[D]": (-0.07596, 0.29058),
    "type[E]": (0.32558, 0.23588),
    "year[1965]": (0.69714, 0.14964),
    "year[1970]": (0.81843, 0.16977),
    "year[1975]": (0.45343, 0.23317),
    "period[1975]": (0.38447, 0.11827),
}


def test_ships_have_the_textbook_s_coefficients(client: Client) -> None:
    rows = [
        (ord(kind) - ord("A"), 1960 + 5 * (k // 2), 1960 + 15 * (k % 2), service)
        for kind, months in SERVICE.items()
        for k, service in enumerate(months)
    ]
    source, parameters = client.rows(rows, np.concatenate(list(INCIDENTS.values())))
    columns = {
        "type": "substr('ABCDE', 1 + CAST(c0 AS integer), 1)",
        "year": "CAST(CAST(c1 AS integer) AS text)",
        "period": "CAST(CAST(c2 AS integer) AS text)",
    }
    features, source = client.by_name(columns, source)
    options = '{"fit": true, "epsilon": 1e-10}'
    call = f"train_model('poisson', y, {features}, '{options}', 1, ln(c3))"
    model = f"(SELECT {call} FROM {source} WHERE c3 > 0)"
    sql = f"SELECT term, estimate, std_err FROM model_summary({model})"
    found = {t: (b, s) for t, b, s in client.connection.execute(sql, parameters).fetchall()}
    assert list(found) == list(SHIPS)
    for term, values in SHIPS.items():
        assert found[term] == pytest.approx(values, abs=1.1e-5)
    sql = f"SELECT n, parameters, deviance FROM model_fit({model})"
    ((n, used, deviance),) = client.connection.execute(sql, parameters).fetchall()
    assert (n, used) == (34, 9)
    assert deviance == pytest.approx(38.695, abs=5e-4)


def test_spector_is_greene_s_logit(client: Client) -> None:
    data = sm.datasets.spector.load_pandas()
    x = data.exog[["GPA", "TUCE", "PSI"]].to_numpy()
    model = client.fit("logistic", x, data.endog.to_numpy(), **PRECISE)
    assert np.r_[model.intercept, model.coef] == pytest.approx(
        [-13.0213, 2.8261, 0.0952, 2.3787], abs=6e-5
    )
    assert model.std_err == pytest.approx([4.931, 1.263, 0.142, 1.065], abs=6e-4)


def star98() -> tuple[Any, Any]:
    data = sm.datasets.star98.load_pandas()
    return data.exog.to_numpy(), data.endog.to_numpy()


def test_star98_counts_are_weights_of_two_rows_each(client: Client) -> None:
    """Successes and failures of a binomial are rows with these weights."""
    x, counts = star98()
    y, weight = np.repeat([1.0, 0.0], len(x)), np.r_[counts[:, 0], counts[:, 1]]
    model = client.fit("logistic", np.r_[x, x], y, more={"w": weight}, **PRECISE)
    truth = sm.GLM(counts, sm.add_constant(x), sm.families.Binomial()).fit(tol=1e-12)
    assert np.r_[model.intercept, model.coef] == pytest.approx(truth.params, rel=1e-5)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-5)
    assert model.coef[0] == pytest.approx(-0.0168, abs=5e-5)  # LOWINC, in the manual


def numbers(data: Any) -> tuple[Any, Any]:
    return data.exog.to_numpy(float), data.endog.to_numpy(float)


def test_randhie_is_the_manual_s_poisson(client: Client) -> None:
    x, y = numbers(sm.datasets.randhie.load_pandas())
    model = client.fit("poisson", x, y, **PRECISE)
    shown = [0.7004, -0.0525, -0.2471, 0.0353, -0.0346, 0.2717, 0.0339, -0.0126, 0.0541, 0.2061]
    assert np.r_[model.intercept, model.coef] == pytest.approx(shown, abs=6e-5)
    truth = sm.Poisson(y, sm.add_constant(x)).fit(disp=False, tol=1e-12)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)


def test_anes96_is_the_manual_s_multinomial(client: Client) -> None:
    data = sm.datasets.anes96.load_pandas()
    x, y = numbers(data)
    model = client.fit("logistic", x, y, fit=True, **PRECISE)
    assert model.options["log_likelihood"] == pytest.approx(-1461.9, abs=0.05)
    assert model.options["null_deviance"] == pytest.approx(2 * 1750.3, abs=0.1)
    truth = sm.MNLogit(y, sm.add_constant(x)).fit(disp=False, method="newton", tol=1e-12)
    k, p = 7, x.shape[1] + 1
    assert model.coef.reshape(k, p)[1:] == pytest.approx(truth.params.T, abs=1e-6)
    assert model.std_err.reshape(k, p)[1:] == pytest.approx(truth.bse.T, rel=1e-6)


def test_fair_is_statsmodels(client: Client) -> None:
    """Whether there was an affair, and how many a year there were, as counts by cluster of age."""
    data = sm.datasets.fair.load_pandas().data
    x = data.drop(columns="affairs").to_numpy(float)
    y = (data["affairs"] > 0).to_numpy(float)
    model = client.fit("logistic", x, y, covariance="HC0", **PRECISE)
    truth = sm.Logit(y, sm.add_constant(x)).fit(disp=False, tol=1e-12, cov_type="HC0")
    assert np.r_[model.intercept, model.coef] == pytest.approx(truth.params, rel=1e-6)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)


@pytest.mark.parametrize(
    ("quantile", "shown"),
    [(0.5, (81.48225, 0.56018)), (0.25, (95.48354, 0.47410)), (0.75, (62.39659, 0.64401))],
)
def test_engel_s_food_is_koenker_s(client: Client, quantile: float, shown: Any) -> None:
    data = sm.datasets.engel.load_pandas().data
    x, y = data[["income"]].to_numpy(float), data["foodexp"].to_numpy(float)
    model = client.fit("quantile", x, y, quantile=quantile, epsilon=1e-9, max_iter=200)
    assert (model.intercept, *model.coef) == pytest.approx(shown, rel=2e-4)
    assert model.loss == pytest.approx(least_pinball(sm.add_constant(x), y, quantile), rel=1e-8)


QUANTILES = (0.5, 0.9, 0.05, 0.25)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("algorithm", "quantiles"),
    [
        ("auto", (0.5, 0.9, 0.25)),
        pytest.param("auto", QUANTILES, marks=pytest.mark.nightly),  # 0.05 takes long
        pytest.param("lbfgs", QUANTILES, marks=pytest.mark.nightly),
    ],
)
def test_quantiles_of_nearly_collinear_features_are_optima(
    client: Client, algorithm: str, quantiles: tuple[float, ...]
) -> None:
    """A gradient along the difference of two features is small far from the optimum."""
    optima = 0
    for quantile in quantiles:
        seed = QUANTILES.index(quantile)
        random = np.random.default_rng(seed)
        mean, width = random.normal(20, 8, (120, 1)), 10.0 ** random.uniform(-4, -3)
        apart = width * random.normal(size=(120, 2)) * (1, -1)
        x = np.hstack([mean, mean + apart, random.integers(0, 3, (120, 2))])
        y = np.round(mean[:, 0] * random.normal() + 3 * random.standard_t(2, 120), 1)
        model = client.fit("quantile", x, y, quantile=quantile, algorithm=algorithm)
        best = least_pinball(sm.add_constant(x), y, quantile)
        assert model.loss == pytest.approx(best, rel=1e-6) or model.status == "not converged"
        optima += model.status == "ok"
    assert optima >= 2 or algorithm != "auto"


def least_pinball(x: Any, y: Any, quantile: float) -> float:
    """The optimum as a linear program, whose last variables are residuals above and below."""
    n, p = x.shape
    costs = np.repeat([0, quantile / n, (1 - quantile) / n], [p, n, n])
    equal = np.hstack([x, np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * p + [(0, None)] * (2 * n)
    return float(linprog(costs, A_eq=equal, b_eq=y, bounds=bounds).fun)


@pytest.mark.nightly
@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
def test_classes_of_scikit_learn_have_its_optimum(here: Client, load: Any) -> None:
    x, y = load(return_X_y=True)
    x, l2 = x[:300] / x.max(), 1e-3
    y = y[:300].astype(float)
    model = here.fit("logistic", x, y, l2=l2, epsilon=1e-8, max_iter=3000)
    peer = LogisticRegression(C=1 / (len(y) * l2), tol=1e-10, max_iter=20000).fit(x, y)
    k = len(peer.classes_)
    p = peer.predict_proba(x)[np.arange(len(y)), y.astype(int)]
    best = -np.log(p).mean() + l2 / 2 * (peer.coef_**2).sum()
    assert model.loss == pytest.approx(best, rel=1e-7)
    found = model.coef.reshape(k, -1)
    assert found[:, 1:] == pytest.approx(peer.coef_, abs=1e-3)
    assert found[:, 0] - found[:, 0].mean() == pytest.approx(
        peer.intercept_ - peer.intercept_.mean(), abs=2e-3
    )


def test_the_ships_are_as_many_as_in_the_book() -> None:
    """40 combinations, of which 34 have been at sea, with 356 incidents."""
    table = pd.DataFrame({"service": SERVICE, "incidents": INCIDENTS})
    assert sum(months > 0 for row in table["service"] for months in row) == 34
    assert sum(sum(row) for row in table["incidents"]) == 356
