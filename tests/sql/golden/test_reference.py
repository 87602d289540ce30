"""The numbers in the golden files against statsmodels, scipy and scikit-learn, and against R's manual."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import linprog, minimize
from scipy.special import expit

CASES = Path(__file__).with_name("cases")
DATA = Path(__file__).with_name("data")


def load(con, *names):
    """A table's rows as arrays; the golden cases read the same file."""
    for name in names:
        con.execute((DATA / f"{name}.sql").read_text())
    return con.execute(f"FROM {names[-1]}").fetchnumpy()


@pytest.fixture
def cars(con):
    return load(con, "cars")


@pytest.fixture
def patients(con):
    return load(con, "patients")


def golden(case, statement=0):
    """The rows of one answer in a golden file, as lists of texts."""
    blocks = (CASES / f"{case}.out").read_text().split(";\n")[1:]
    lines = blocks[statement].split("\n\n")[0].strip("\n").split("\n")
    return [line.split(" | ") for line in lines[1:]]


def close(texts, values):
    """Whether the golden texts are the values, rounded as far as the texts go."""
    values = np.atleast_1d(values)
    assert len(texts) == len(values)
    for text, value in zip(texts, values, strict=True):
        digit = float(Decimal(1).scaleb(Decimal(text).as_tuple().exponent))
        assert abs(float(text) - value) <= 0.75 * digit, (text, value)


def ols(y, *x):
    return sm.OLS(y, sm.add_constant(np.column_stack(x), has_constant="add")).fit()


def logit(patients):
    x = sm.add_constant(np.column_stack([patients["treatment"], patients["anxiety"]]))
    return sm.Logit(patients["second_attack"], x).fit(disp=0, tol=1e-12)


def signs(y):
    return np.where(y == y.max(), 1.0, -1.0)


def minimum(y, x, l1=0.0, l2=0.0, intercept=True, weights=(1.0, 1.0), loss="logistic"):
    """w, b and the objective of design.md section 3, by a general optimiser on a smooth form."""
    s, x = signs(np.asarray(y, float)), np.asarray(x, float)
    mean, scale = (x.mean(0), x.std(0)) if intercept else (np.zeros(x.shape[1]), np.abs(x).max(0))
    z, d = (x - mean) / scale, x.shape[1]
    c = np.where(s > 0, weights[1], weights[0]) / len(s)

    def objective(v):  # w = u - t with u, t >= 0 makes ||w||_1 smooth
        u, t, b = v[:d], v[d : 2 * d], v[-1] * intercept
        w = (u - t) / scale
        m = s * (z @ (u - t) + b)
        slope = -c * s * expit(-m)
        g = z.T @ slope + l2 * w / scale
        value = c @ np.logaddexp(0, -m) + l2 / 2 * w @ w + l1 * ((u + t) / scale).sum()
        return value, np.r_[g + l1 / scale, -g + l1 / scale, slope.sum() * intercept]

    bounds = [(0, None)] * (2 * d) + [(None, None)]
    found = minimize(
        objective, np.zeros(2 * d + 1), jac=True, bounds=bounds, method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 20000, "maxcor": 50},
    )  # fmt: skip
    w = (found.x[:d] - found.x[d : 2 * d]) / scale
    return w, (found.x[-1] * intercept) - w @ mean, found.fun


def hinge(y, x, l2=0.0):
    """The optimum of the hinge loss: a linear program, or its dual's box when penalised."""
    s, x = signs(np.asarray(y, float)), np.asarray(x, float)
    n, d = x.shape
    if l2 == 0:
        a = np.c_[-s[:, None] * x, -s, -np.eye(n)]
        c = np.r_[np.zeros(d + 1), np.full(n, 1 / n)]
        free = [(None, None)] * (d + 1) + [(0, None)] * n
        return linprog(c, a, -np.ones(n), bounds=free).fun
    k = (s[:, None] * x) @ (s[:, None] * x).T / l2
    found = minimize(
        lambda a: (a @ k @ a / 2 - a.sum(), k @ a - 1), np.full(n, 0.5 / n), jac=True,
        bounds=[(0, 1 / n)] * n, constraints={"type": "eq", "fun": lambda a: a @ s, "jac": lambda a: s},
        method="SLSQP", options={"ftol": 1e-15, "maxiter": 2000},
    )  # fmt: skip
    return -found.fun


def test_linear_is_what_r_prints(cars) -> None:
    """R 4: summary(lm(mpg ~ wt + hp, mtcars))."""
    found = [row[2:4] for row in golden("model_summary")]
    printed = [["37.22727", "1.59879"], ["-3.87783", "0.63273"], ["-0.03177", "0.00903"]]
    assert [[f"{float(x):.5f}" for x in row] for row in found] == printed


def test_linear(cars) -> None:
    fit = ols(cars["mpg"], cars["wt"], cars["hp"])
    _, wt, hp, intercept, loss, *_ = golden("first_linear")[0]
    close([intercept, wt, hp], fit.params)
    close([loss], fit.ssr / 2 / 32)
    rows = golden("model_summary")
    for column, values in ((2, fit.params), (3, fit.bse), (5, fit.tvalues), (6, fit.pvalues)):
        close([row[column] for row in rows], values)


def test_logistic(patients) -> None:
    fit = logit(patients)
    _, treatment, anxiety, intercept, likelihood, *_ = golden("first_logistic")[0]
    close([intercept, treatment, anxiety], fit.params)
    close([likelihood], -fit.llf)
    rows = golden("model_summary", 1)
    for column, values in ((2, fit.params), (3, fit.bse), (5, fit.tvalues), (6, fit.pvalues)):
        close([row[column] for row in rows], values)


def test_logistic_is_what_madlib_prints() -> None:
    """Apache MADlib 2.1, logregr_train on the patients; shared/data/README.md has more digits."""
    exact = [-6.363469941846, -1.024106052408, 0.119044916670]
    close([row[2] for row in golden("model_summary", 1)], exact)
    close(
        [row[3] for row in golden("model_summary", 1)],
        [3.213904524734, 1.171080146495, 0.054979175575],
    )


def test_svm(cars) -> None:
    x = np.column_stack([cars["wt"], cars["mpg"]])
    best = hinge(cars["manual"], x, l2=0.1)
    _, wt, mpg, intercept, loss, *_ = golden("first_svm")[0]
    assert float(loss) == pytest.approx(best, abs=2e-6)
    w = np.array([float(wt), float(mpg)])
    margin = signs(cars["manual"].astype(float)) * (x @ w + float(intercept))
    assert np.maximum(0, 1 - margin).mean() + 0.05 * w @ w == pytest.approx(best, abs=1e-3)


def test_groups(cars) -> None:
    for cyl, n, wt, intercept, _ in golden("group_by"):
        own = cars["cyl"] == int(cyl)
        assert int(n) == own.sum()
        close([intercept, wt], ols(cars["mpg"][own], cars["wt"][own]).params)
    for cyl, _, wt, penalised in golden("group_by", 2):
        own = cars["cyl"] == int(cyl)
        close([wt], ols(cars["mpg"][own], cars["wt"][own]).params[1])
        close([penalised], minimum(cars["manual"][own], cars["wt"][own, None], l2=0.01)[0])


def test_filter_and_distinct(cars) -> None:
    n_light, light, n_heavy, heavy, _ = golden("filter")[0]
    for n, hp, own in ((n_light, light, cars["wt"] < 3), (n_heavy, heavy, cars["wt"] >= 3)):
        assert int(n) == own.sum()
        close([hp], ols(cars["mpg"][own], cars["hp"][own]).params[1])
    close(
        golden("distinct", 1)[0][2:],
        np.full(2, ols(cars["mpg"], cars["wt"], cars["hp"]).params[1]),
    )
    heaviest = {}
    for key in zip(cars["cyl"], cars["manual"], cars["wt"], cars["mpg"], strict=True):
        heaviest[key[:2]] = max(heaviest.get(key[:2], key), key, key=lambda k: k[2])
    wt, mpg = np.array([(k[2], k[3]) for k in heaviest.values()]).T
    close(golden("distinct")[0][:0:-1], ols(mpg, wt).params)


def test_grouping_sets(cars) -> None:
    for cyl, manual, n, wt, _ in golden("grouping_sets"):
        own = np.full(32, True)
        own &= (cyl == "NULL") | (cars["cyl"] == (0 if cyl == "NULL" else int(cyl)))
        own &= (manual == "NULL") | (cars["manual"] == (manual == "true"))
        assert int(n) == own.sum()
        close([wt], ols(cars["mpg"][own], cars["wt"][own]).params[1])


def test_ridge(cars) -> None:
    """mean 1/2 (m - y)^2 + l2/2 w^2 has w = cov / (var + l2)."""
    wt, mpg = cars["wt"], cars["mpg"]
    cov = np.cov(wt, mpg, bias=True)
    close([golden("prepared", 1)[0][1]], cov[0, 1] / (cov[0, 0] + 1))
    x = np.column_stack([wt, cars["hp"]])
    s = np.cov(x.T, bias=True) + 0.1 * np.eye(2)
    w = np.linalg.solve(s, (x - x.mean(0)).T @ (mpg - mpg.mean()) / 32)
    close([row[2] for row in golden("model_summary", 2)], [mpg.mean() - x.mean(0) @ w, *w])


def test_predictions(cars, patients) -> None:
    for name, _, predicted in golden("predict"):
        own = cars["cyl"] == cars["cyl"][list(cars["name"]).index(name)]
        fit = ols(cars["mpg"][own], cars["wt"][own])
        close([predicted], fit.params @ [1, cars["wt"][list(cars["name"]).index(name)]])
    fit = logit(patients)
    rows = golden("predict", 1)
    close([row[2] for row in rows], fit.predict())
    close([row[3] for row in rows], fit.fittedvalues)
    assert [float(row[1]) for row in rows] == list((fit.predict() >= 0.5).astype(float))


def test_metrics(cars, patients) -> None:
    from sklearn import metrics

    y, p = patients["second_attack"], logit(patients).predict()
    expected = [
        metrics.log_loss(y, p),
        metrics.roc_auc_score(y, p),
        metrics.accuracy_score(y, p > 0.5),
    ]
    close(golden("metrics")[0], expected)
    fit = ols(cars["mpg"], cars["wt"])
    for cyl, *found in golden("metrics", 1):
        own = cars["cyl"] == int(cyl)
        y, m = cars["mpg"][own], fit.fittedvalues[own]
        rmse = np.sqrt(metrics.mean_squared_error(y, m))
        close(found, [rmse, metrics.mean_absolute_error(y, m), metrics.r2_score(y, m)])


def test_sparse() -> None:
    x = np.zeros((8, 6))
    entries = re.findall(
        r"\((\d), ARRAY\[(.*?)\], ARRAY\[(.*?)\]\)", (CASES / "sparse.sql").read_text()
    )
    for row, (_, ids, amounts) in enumerate(entries):
        np.add.at(x[row], list(map(int, ids.split(","))), list(map(float, amounts.split(","))))
    y = np.array([float(entry[0]) for entry in entries])
    centred = x - x.mean(0)
    w = np.linalg.solve(centred.T @ centred / 8 + 0.1 * np.eye(6), centred.T @ (y - y.mean()) / 8)
    b = y.mean() - x.mean(0) @ w
    n, d, *found = golden("sparse")[0]
    assert (n, d) == ("8", "6")
    close(found, [*w, b])
    order = np.argsort(y)
    close([row[1] for row in golden("sparse", 1)], (x @ w + b)[order])
    close([row[2] for row in golden("sparse", 1)], (x @ w + b)[order])


def test_rows_with_nulls_are_left_out() -> None:
    x, y = np.array([[1, 0], [2, 1], [3, 3], [0, 1], [3, 1.0]]), np.array([1, 3, 6, 2, 5.0])
    row = golden("nulls")[0]
    close([row[7], *row[5:7]], ols(y, x).params)


SETTINGS = {
    row[0]: json.loads(row[1])
    for row in re.findall(r"\('(\d\d [^']*)', '(.*?)'\)", (CASES / "options.sql").read_text())
}


@pytest.mark.parametrize("name", sorted(set(SETTINGS) - {"12 one iteration"}))
def test_options(name: str, patients) -> None:
    chosen, weight = SETTINGS[name], SETTINGS[name].get("class_weight", [1, 1])
    y = patients["second_attack"]
    w, b, _ = minimum(
        y, np.column_stack([patients["treatment"], patients["anxiety"]]),
        chosen.get("l1", 0), chosen.get("l2", 0), chosen.get("fit_intercept", True),
        [1, 1] if weight == "balanced" else weight,
    )  # fmt: skip
    assert (y == 1).sum() == 10, "balanced weights are 1 and 1"
    _, treatment, anxiety, intercept, _ = next(row for row in golden("options") if row[0] == name)
    close([treatment, anxiety, intercept], [*w, b])


@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("which", ["ok", "collinear features", "constant feature", "separable"])
def test_hinge_loss_is_least_on_small_groups(
    con: duckdb.DuckDBPyConnection, which: str, l2: float
) -> None:
    create, insert, *_ = (CASES / "statuses.sql").read_text().split(";\n")
    con.execute(create)
    con.execute(insert)
    y, x, loss = con.execute(
        "SELECT list(y), list(x), train_model('svm', y, x, ?).loss FROM trials WHERE status = ?",
        [json.dumps({"l2": l2}), which],
    ).fetchone()
    assert loss == pytest.approx(hinge(y, x, l2), abs=2e-6)
