"""Ordinal regression in both databases, against R's polr, statsmodels, scipy and closed forms."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm
from statsmodels.miscmodels.ordinal_model import OrderedModel

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, few, here, there

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(17)
N = 400
X = RANDOM.normal(size=(N, 3)) * [1.0, 4.0, 0.1] + [10.0, 0.0, 3.0]
LATENT = X @ [0.7, -0.2, 5.0] + RANDOM.logistic(size=N)
Y = np.digitize(LATENT, np.quantile(LATENT, [0.2, 0.5, 0.9])).astype(float)
DISTRIBUTIONS: dict[str, Any] = {
    "logit": expit,
    "probit": norm.cdf,
    "cloglog": lambda t: -np.expm1(-np.exp(np.minimum(t, 700))),
}
# Copenhagen's housing conditions: satisfaction by influence, type of housing and contact, with the
# number of people (Venables and Ripley, Modern Applied Statistics with S, 2002, 7.3).
COUNTS = (
    "21 21 28 34 22 36 10 11 36 61 23 17 43 35 40 26 18 54 13 9 10 8 8 12 6 7 9 18 6 7 15 13 13 7 5 11"
    " 14 19 37 17 23 40 3 5 23 78 46 43 48 45 86 15 25 62 20 23 20 10 22 24 7 10 21 57 23 13 31 21 13 5 6 13"
)
LEVELS, TYPES = ("Low", "Medium", "High"), ("Tower", "Apartment", "Atrium", "Terrace")
HOUSING = [
    (LEVELS[k % 3], LEVELS[k // 3 % 3], TYPES[k // 9 % 4], ("Low", "High")[k // 36], int(count))
    for k, count in enumerate(COUNTS.split())
]
TERMS = (
    *("Low | Medium", "Medium | High", "infl[Medium]", "infl[High]"),
    *("housing[Apartment]", "housing[Atrium]", "housing[Terrace]", "contact[High]"),
)
# MASS 7.3-65, polr(Sat ~ Infl + Type + Cont, weights = Freq, method = ..., control = list(reltol = 1e-15)):
# thresholds and coefficients, their standard errors, and the deviance.
POLR: dict[str, tuple[list[float], list[float], float]] = {
    "logit": (
        [-0.4961351384, 0.6907082601, 0.5663937380, 1.2888191110, -0.5723500019, -0.3661863704, -1.0910146587, 0.3602840043],
        [0.12484724504, 0.12547193947, 0.10465278439, 0.12715614769, 0.11923801191, 0.15517333641, 0.15148602253, 0.09553579775],
        3479.1492990589,
    ),
    "probit": (
        [-0.2998279206, 0.4267208347, 0.3464227603, 0.7829146455, -0.3475367444, -0.2178875328, -0.6641734945, 0.2223858300],
        [0.07615373209, 0.07640433522, 0.06413705980, 0.07642620338, 0.07229092989, 0.09476606800, 0.09180003961, 0.05812266859],
        3479.6888425641,
    ),
    "cloglog": (
        [-0.79620821690, 0.05537581634, 0.38204698147, 0.91537479116, -0.40719703696, -0.28052768601, -0.74245474574, 0.20922528303],
        [0.08964928618, 0.08559650046, 0.07025982558, 0.09256041370, 0.08607108453, 0.11114926678, 0.10133044442, 0.06510557606],
        3484.0531703605,
    ),
}  # fmt: skip


def losses(parameters: Any, x: Any, y: Any, link: str) -> Any:
    """The negative log-likelihood of each row; parameters: thresholds, then coefficients."""
    cuts = len(parameters) - x.shape[1]
    ends = np.concatenate([[-np.inf], parameters[:cuts], [np.inf]])
    margin, level, share = x @ parameters[cuts:], y.astype(int), DISTRIBUTIONS[link]
    return -np.log(share(ends[level + 1] - margin) - share(ends[level] - margin))


def probabilities(coef: Any, x: Any, levels: int, link: str = "logit") -> Any:
    """The probabilities of all levels, (n, K)."""
    rows = [losses(coef, x, np.full(len(x), k), link) for k in range(levels)]
    return np.exp(-np.array(rows)).T


def values(rows: list[tuple[Any, ...]]) -> str:
    """Rows of text and numbers as a table's values."""
    return ", ".join(str(row) for row in rows)


@pytest.fixture
def housing(client: Client) -> str:
    """The query of the housing conditions, whose satisfaction is an ENUM that is not sorted."""
    client.connection.execute("DROP TYPE IF EXISTS satisfaction")
    client.connection.execute(f"CREATE TYPE satisfaction AS ENUM {LEVELS}")
    rows = f"(VALUES {values(HOUSING)}) AS t(sat, infl, housing, contact, n)"
    return f"(SELECT CAST(sat AS satisfaction) AS sat, infl, housing, contact, CAST(n AS double precision) AS n FROM {rows}) AS r"


@pytest.mark.parametrize("link", POLR)
def test_housing_is_polr(client: Client, housing: str, link: str) -> None:
    names = {name: name for name in ("infl", "housing", "contact")}
    features, source = client.by_name(names, housing)
    known = {"infl": list(LEVELS), "housing": list(TYPES), "contact": ["Low", "High"]}
    options = json.dumps({"link": link, "levels": known})
    model = (
        f"(SELECT train_model('ordinal', sat, {features}, '{options}', n) AS m FROM {source}) AS t"
    )
    rows = client.connection.execute(
        f"SELECT term, estimate, std_err, statistic, p_value, lower, ratio FROM {model}, LATERAL (SELECT * FROM model_summary(t.m)) AS s"
        if client.mark == "%s"
        else f"SELECT term, estimate, std_err, statistic, p_value, lower, ratio FROM model_summary((SELECT m FROM {model}))"
    ).fetchall()
    coef, errors, deviance = POLR[link]
    assert tuple(row[0] for row in rows) == TERMS
    assert [row[1] for row in rows] == pytest.approx(coef, abs=1e-6)
    assert [row[2] for row in rows] == pytest.approx(errors, rel=2e-5)
    z = np.array(coef) / errors
    assert [row[3] for row in rows] == pytest.approx(z, rel=1e-4)
    assert [row[4] for row in rows] == pytest.approx(2 * norm.sf(abs(z)), rel=1e-3)
    assert [row[5] for row in rows] == pytest.approx(coef - 1.959964 * np.array(errors), abs=1e-4)
    ratios = [None, None, *np.exp(coef[2:])] if link == "logit" else [None] * 8
    assert [row[6] for row in rows] == [
        r if r is None else pytest.approx(r, abs=1e-5) for r in ratios
    ]
    loss, n, status = client.connection.execute(
        f"SELECT (m).loss, (m).n_rows, (m).status FROM {model}"
    ).fetchone()
    assert (2 * loss * sum(row[4] for row in HOUSING), n, status) == (
        pytest.approx(deviance, rel=1e-9),
        72,
        "ok",
    )


@pytest.mark.parametrize("storage", ["dense", "sparse", "float"])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_statsmodels_ordered_model(client: Client, link: str, storage: str) -> None:
    x = X.astype(np.float32).astype(float)
    model = client.fit("ordinal", x, Y, storage, link=link)
    ordered = OrderedModel(Y, x - x.mean(axis=0), distr=link)
    start = ordered.fit(method="bfgs", disp=0)
    truth = ordered.fit(method="newton", start_params=start.params, disp=0, tol=1e-14)
    cuts = ordered.transform_threshold_params(truth.params)[1:-1] + truth.params[:3] @ x.mean(
        axis=0
    )
    assert model.coef == pytest.approx([*cuts, *truth.params[:3]], rel=1e-6)
    assert model.std_err[3:] == pytest.approx(truth.bse[:3], rel=1e-5)
    assert model.loss == pytest.approx(-truth.llf / N, rel=1e-9)


@pytest.mark.parametrize("l2", [0.0, 0.05])
@pytest.mark.parametrize("link", DISTRIBUTIONS)
def test_scipy_finds_no_lower_loss(client: Client, link: str, l2: float) -> None:
    x = X - X.mean(axis=0)
    model = client.fit("ordinal", x, Y, link=link, l2=l2)

    def objective(p: Any) -> float:
        return float(losses(p, x, Y, link).mean() + l2 / 2 * (p[3:] ** 2).sum())

    found = minimize(objective, model.coef * 1.01, method="BFGS", options={"gtol": 1e-9})
    assert objective(model.coef) <= found.fun + 1e-12
    assert model.loss == pytest.approx(objective(model.coef), rel=1e-10)
    assert model.coef == pytest.approx(found.x, abs=3e-5)
    assert np.isnan(model.std_err).all() == (l2 > 0)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_two_levels_are_logistic(client: Client, link: str) -> None:
    y = (Y > 1).astype(float)
    model = client.fit("ordinal", X, y, link=link)
    same = client.fit("logistic", X, y, link=link, epsilon=1e-12)
    assert model.coef == pytest.approx([-same.intercept, *same.coef], rel=1e-6)
    if link == "logit":  # probit's errors of logistic are by the expected information
        assert model.std_err == pytest.approx(same.std_err, rel=1e-6)
    source, given = client.rows(X, y)
    call = "train_model('{}', y, ARRAY[c0, c1, c2], '{}')"
    sql = (
        f"WITH r AS (SELECT * FROM {source}), m AS (SELECT {call.format('ordinal', json.dumps({'link': link}))} AS a, "
        f"{call.format('logistic', json.dumps({'link': link}))} AS b FROM r) SELECT "
        + ", ".join(f"{f}(a, x) - {f}(b, x)" for f in ("predict_proba", "predict", "decision"))
        + " FROM m, (SELECT ARRAY[c0, c1, c2] AS x FROM r) AS q"
    )
    away = np.array(client.connection.execute(sql, given).fetchall())
    assert abs(away[:, :2]).max() < 1e-6
    assert away[:, 2] == pytest.approx(
        np.full(N, model.coef[0]), abs=1e-4
    )  # the latent variable itself


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_levels_in_reverse_negate_the_model(client: Client, link: str) -> None:
    model, back = client.fit("ordinal", X, Y, link=link), client.fit("ordinal", X, -Y, link=link)
    assert back.coef == pytest.approx([*-model.coef[2::-1], *-model.coef[3:]], rel=1e-8)
    assert back.std_err == pytest.approx([*model.std_err[2::-1], *model.std_err[3:]], rel=1e-8)


def test_a_weight_is_that_many_rows(client: Client) -> None:
    weight = 1.0 + np.arange(N) % 3
    model = client.fit("ordinal", X, Y, more={"w": weight})
    rows = np.repeat(np.arange(N), weight.astype(int))
    same = client.fit("ordinal", X[rows], Y[rows])
    assert model.coef == pytest.approx(same.coef, rel=1e-9)
    assert model.std_err == pytest.approx(same.std_err, rel=1e-9)
    assert model.loss == pytest.approx(same.loss, rel=1e-12)


@few
@given(
    seed=st.integers(0, 2**32 - 1),
    shift=st.floats(-100, 100),
    unit=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_order_and_units_of_rows(client: Client, seed: int, shift: float, unit: float) -> None:
    order = np.random.default_rng(seed).permutation(N)
    model = client.fit("ordinal", X, Y, deterministic=True)
    same = client.fit("ordinal", X[order], Y[order], deterministic=True)
    assert (same.coef == model.coef).all()
    moved = client.fit("ordinal", X[order] * unit + shift * unit, Y[order])
    assert moved.coef[3:] * unit == pytest.approx(model.coef[3:], rel=1e-7)
    assert moved.coef[:3] - shift * unit * moved.coef[3:].sum() == pytest.approx(
        model.coef[:3], rel=1e-6
    )


def test_offsets_are_part_of_the_margin(client: Client) -> None:
    offset = 0.3 * X[:, 1]
    one = np.ones(N)
    model = client.fit("ordinal", X, Y, more={"w": one, "o": offset})
    plain = client.fit("ordinal", X, Y)
    assert model.coef == pytest.approx(plain.coef - [0, 0, 0, 0, 0.3, 0], rel=1e-6)
    source, given_rows = client.rows(X, Y, w=one, o=offset)
    train = "train_model('ordinal', y, ARRAY[c0, c1, c2], '{}'"
    sql = (
        f"WITH r AS (SELECT * FROM {source}), m AS (SELECT {train}, w, o) AS a, {train}) AS b FROM r) SELECT "
        "predict_with_offset(a, x, o), predict(b, x), predict_class_with_offset(a, x, o), predict_class(b, x) "
        "FROM m, (SELECT ARRAY[c0, c1, c2] AS x, o FROM r) AS q"
    )
    for row in client.connection.execute(sql, given_rows).fetchall():
        assert (row[0], row[2]) == (row[1], row[3])


@pytest.mark.parametrize("link", DISTRIBUTIONS)
def test_probabilities(client: Client, link: str) -> None:
    model = client.fit("ordinal", X, Y, link=link)
    source, given_rows = client.rows(X, Y)
    names = ", ".join(f"predict_proba(m, x, '{k}')" for k in range(4))
    train = f"train_model('ordinal', y, ARRAY[c0, c1, c2], '{json.dumps({'link': link})}')"
    sql = (
        f"WITH r AS (SELECT * FROM {source}), m AS (SELECT {train} AS m FROM r) "
        f"SELECT predict(m, x), decision(m, x), {names} FROM m, (SELECT ARRAY[c0, c1, c2] AS x FROM r) AS q"
    )
    found = np.array(client.connection.execute(sql, given_rows).fetchall())
    assert np.allclose(found[:, 2:], probabilities(model.coef, X, 4, link), rtol=0, atol=1e-13)
    assert found[:, 2:].sum(axis=1) == pytest.approx(np.ones(N), abs=1e-14)
    assert (found[:, 0] == found[:, 2:].argmax(axis=1)).all()
    margin = found[:, 1]
    assert margin == pytest.approx(X @ model.coef[3:], rel=1e-12)
    below = found[np.argsort(margin), 2:].cumsum(axis=1)
    assert (np.diff(below, axis=0) <= 1e-15).all()


def test_levels_far_out_keep_their_digits(client: Client) -> None:
    """A wide gap between margins: shares of a level far from a row are tiny, and not 0."""
    x = np.array([[0.0], [1], [2], [3], [1], [2]] * 10)
    y = np.array([0.0, 1, 1, 2, 0, 2] * 10)
    model = client.fit("ordinal", x, y)
    source, given_rows = client.rows(x, y)
    sql = f"SELECT predict_proba(m, ARRAY[{40 / model.coef[2]}], '0') FROM (SELECT train_model('ordinal', y, ARRAY[c0]) AS m FROM {source}) AS t"
    share = client.connection.execute(sql, given_rows).fetchone()[0]
    assert share == pytest.approx(np.exp(model.coef[0] - 40), rel=1e-9)


SMALL = "(VALUES ('low', 1.0), ('mid', 2.0), ('low', 2.5), ('high', 3.0), ('mid', 3.5), ('high', 5.0), ('low', 0.5), ('mid', 2.2)) AS r(t, x)"


def test_text_needs_an_order(client: Client) -> None:
    told = "train_model: labels are text such as 'high', which has no order: cast them to an ENUM whose values rise, or give option 'classes', a list of them from the lowest on"
    with pytest.raises(Exception, match=told):
        client.connection.execute(
            f"SELECT train_model('ordinal', t, ARRAY[x]) FROM {SMALL}"
        ).fetchall()


def test_orders_of_text(client: Client) -> None:
    """An ENUM and the option `classes` give the same model, with a level that no row has too."""
    client.connection.execute("DROP TYPE IF EXISTS height")
    client.connection.execute("CREATE TYPE height AS ENUM ('none', 'low', 'mid', 'high', 'top')")
    number = "CASE t WHEN 'low' THEN 1 WHEN 'mid' THEN 2 ELSE 5 END"
    calls = [
        "train_model('ordinal', CAST(t AS height), ARRAY[x])",
        f"train_model('ordinal', t, ARRAY[x], '{json.dumps({'classes': ['none', 'low', 'mid', 'high']})}')",
        f"train_model('ordinal', {number}, ARRAY[x])",
    ]
    found = client.connection.execute(
        "SELECT "
        + ", ".join(
            f"({c}).coef, ({c}).class_names, predict_class({c}, ARRAY[2.0])" for c in calls
        )
        + f" FROM {SMALL}"
    ).fetchone()
    assert found[0] == found[3] == found[6]
    assert found[1] == found[4] == ["low", "mid", "high"]
    assert (found[7], found[2], found[5]) == (["1", "2", "5"], "mid", "mid")
    few_levels = json.dumps({"classes": ["low", "lower", "mid"], "invalid": "error"})
    with pytest.raises(
        Exception, match="label is 'high', expected 'low', 'lower' or 'mid' as the options have"
    ):
        client.connection.execute(
            f"SELECT train_model('ordinal', t, ARRAY[x], '{few_levels}') FROM {SMALL}"
        ).fetchall()


def test_booleans_are_two_levels(client: Client) -> None:
    sql = f"SELECT (m).class_names, predict_class(m, ARRAY[9.0]), predict_proba(m, ARRAY[9.0]) FROM (SELECT train_model('ordinal', t <> 'low', ARRAY[x]) AS m FROM {SMALL}) AS q"
    names, likeliest, share = client.connection.execute(sql).fetchone()
    assert (names, likeliest) == (["false", "true"], "true")
    assert share > 0.9


STATUSES: dict[str, tuple[Any, Any, str]] = {
    "complete": (np.arange(12.0)[:, None], np.repeat([0.0, 1, 2], 4), "separable"),
    "quasi": (
        np.array([0.0, 0, 0, 0, 1, 1])[:, None],
        np.array([0.0, 1, 2, 1, 2, 2]),
        "separable",
    ),
    "one level": (np.arange(5.0)[:, None], np.ones(5), "one class"),
    "constant": (np.column_stack([X[:, 0], np.ones(N)]), Y, "constant feature"),
    "collinear": (np.column_stack([X[:, 0], 2 * X[:, 0] + 1]), Y, "collinear features"),
    "ok": (X, Y, "ok"),
}


@pytest.mark.parametrize("case", STATUSES)
def test_statuses(client: Client, case: str) -> None:
    x, y, status = STATUSES[case]
    model = client.fit("ordinal", x, y)
    assert (model.status, model.converged) == (status, status not in ("separable", "one class"))
    if status == "separable":  # a small ridge keeps it finite
        assert model.options["l2_standardized"] == pytest.approx(1 / len(y))
        assert np.isnan(model.std_err).all()
        assert abs(model.coef).max() < 100
    if status == "collinear features":  # the smallest in standard deviations
        assert model.coef[4] == pytest.approx(model.coef[3] / 2, rel=1e-6)
    late = client.fit("ordinal", X, Y, max_iter=1)
    assert (late.status, late.converged) == ("not converged", False)


def test_groups_are_trained_one_by_one(client: Client) -> None:
    """Groups with different levels, in one statement: as each alone."""
    group = np.arange(N) % 7
    y = np.where(group == 3, np.minimum(Y, 1), np.where(group == 5, 2, Y))
    source, given_rows = client.rows(X, y, g=group)
    sql = f"SELECT g, (m).coef, (m).status FROM (SELECT g, train_model('ordinal', y, ARRAY[c0, c1, c2]) AS m FROM {source} GROUP BY g) AS t ORDER BY g"
    found = client.connection.execute(sql, given_rows).fetchall()
    assert [len(coef or ()) for _, coef, _ in found] == [6, 6, 6, 4, 6, 0, 6]
    for g, coef, status in found:
        alone = client.fit("ordinal", X[group == g], y[group == g])
        assert status == alone.status
        if coef:
            assert coef == pytest.approx(list(alone.coef), rel=1e-12)


def test_both_databases_have_the_same_model(here: Client, there: Client) -> None:
    for options in ({}, {"link": "cloglog"}, {"l2": 0.1, "link": "probit"}):
        one, other = (c.fit("ordinal", X, Y, threads=1, **options) for c in (here, there))
        assert (one.coef == other.coef).all()
        assert np.array_equal(one.std_err, other.std_err, equal_nan=True)


def test_a_search_takes_the_better_penalty(client: Client) -> None:
    source, given_rows = client.rows(X, Y)
    options = json.dumps({"l2": [0.0, 100.0], "folds": 3})
    sql = f"SELECT (m).trials, (m).options FROM (SELECT train_model('ordinal', y, ARRAY[c0, c1, c2], '{options}') AS m FROM {source}) AS t"
    trials, kept = map(json.loads, client.connection.execute(sql, given_rows).fetchone())
    assert (trials["metric"], kept["l2"]) == ("log_loss", 0.0)


REFUSED = {
    "marginal_effects(m, x)": "model is 'ordinal', which has neither intervals nor marginal effects",
    "predict_interval(m, x)": "model is 'ordinal', which has neither intervals nor marginal effects",
    "predict_proba(m, x)": "the model has more than two classes, expected predict_proba\\(model, features, class\\)",
    "train_model('ordinal', y, x, '{\"firth\": true}')": "option 'firth' is not available with task 'ordinal'",
    "train_model('ordinal', y, x, '{\"calibration\": \"platt\"}')": "option 'calibration' is about two classes without an order",
    "train_model('ordinal', y, x, '{\"covariance\": \"HC3\"}')": "option 'covariance' is \"HC3\", expected 'classic', 'HC0' or 'HC1'; HC3 corrects a row's residual by its leverage, and rows of ordered levels have no single residual",
    'train_model(\'ordinal\', y, x, \'{"cluster": "g", "covariance": "HC0"}\')': "options 'cluster' and 'covariance' are both given, 'HC0' the latter",
    "train_model('ordinal', y, x, '{\"store\": \"s\"}')": "option 'store' is not available with task 'ordinal'",
    "train_model('ordinal', y, x, '{\"link\": \"log\"}')": "option 'link' is \"log\", expected 'logit', 'probit' or 'cloglog'",
    "train_model('ordinal', y, x, '{\"classes\": [\"a\"]}')": "option 'classes' is \\[\"a\"\\], expected a list of levels as text, the lowest first",
}


@pytest.mark.parametrize("call", REFUSED)
def test_refusals(client: Client, call: str) -> None:
    source, given_rows = client.rows(X[:20], Y[:20])
    sql = f"WITH r AS (SELECT y, ARRAY[c0, c1, c2] AS x FROM {source}), q AS (SELECT train_model('ordinal', y, x) AS m FROM r) SELECT {call} FROM r, q"
    with pytest.raises(Exception, match=REFUSED[call]):
        client.connection.execute(sql, given_rows).fetchall()


def test_contributions_add_up_to_the_margin(client: Client) -> None:
    source, given_rows = client.rows(X, Y)
    sql = (
        f"SELECT decision(m, x), contribution FROM (SELECT train_model('ordinal', y, ARRAY[c0, c1, c2]) AS m, ARRAY[9.0, 1.0, 2.5] AS x FROM {source}) AS t, "
        "LATERAL (SELECT sum(contribution) AS contribution FROM explain_prediction(t.m, t.x)) AS e"
    )
    if client.mark == "%s":
        margin, total = client.connection.execute(sql, given_rows).fetchone()
        assert total == pytest.approx(margin, rel=1e-12)


def scores(model: Any, x: Any, y: Any, link: str = "logit") -> tuple[Any, Any]:
    """The scores of rows (n, q) and the curvature (q, q) by differences of the loss."""
    size, q = 1e-4 * np.maximum(np.abs(model.coef), 1), len(model.coef)
    steps = np.diag(size)

    def slopes(at: Any) -> Any:
        ends = [losses(at + s, x, y, link) - losses(at - s, x, y, link) for s in steps]
        return np.array(ends).T / (2 * size)

    bend = [slopes(model.coef + s).sum(axis=0) - slopes(model.coef - s).sum(axis=0) for s in steps]
    curvature = np.array(bend) / (2 * size)[:, None]
    return slopes(model.coef), (curvature + curvature.T) / 2 + np.zeros((q, q))


@pytest.mark.parametrize("covariance", ["classic", "HC0", "HC1"])
@pytest.mark.parametrize("kind", ["frequency", "analytic", "sampling"])
def test_robust_errors_are_the_sandwich(client: Client, covariance: str, kind: str) -> None:
    x, weight = X - X.mean(axis=0), 1.0 + np.arange(N) % 3
    given_options = {"covariance": covariance, "weight_kind": kind}
    model = client.fit("ordinal", x, Y, more={"w": weight}, **given_options)
    rows = np.repeat(np.arange(N), weight.astype(int))
    each, curvature = scores(model, x[rows], Y[rows])
    inverse = np.linalg.inv(curvature)
    n, by = (len(rows), 1) if kind == "frequency" else (N, weight[rows])
    factor = n / (n - 6) if covariance == "HC1" else 1.0
    if covariance == "classic":
        factor = n / (n - 1)
    truth = factor * inverse @ (each.T * by) @ each @ inverse
    if covariance == "classic" and kind != "sampling":
        truth = inverse
    assert model.std_err == pytest.approx(np.sqrt(np.diag(truth)), rel=1e-5)


def exact_scores(model: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """The scores of rows (n, q) and the curvature (q, q) of the logit link, by formula."""
    cuts, level = len(model.coef) - x.shape[1], y.astype(int)
    theta = np.concatenate([[-np.inf], model.coef[:cuts], [np.inf]])
    margin = x @ model.coef[cuts:]
    unit = np.eye(cuts + 2)[:, 1:-1]
    high, low = (np.hstack([unit[level + k], -x]) for k in (1, 0))
    above, below = expit(theta[level + 1] - margin), expit(theta[level] - margin)
    p = above - below
    f_high, f_low = above * (1 - above) / p, below * (1 - below) / p
    score = f_high[:, None] * high - f_low[:, None] * low
    bend = (high.T * f_high * (1 - 2 * above)) @ high - (low.T * f_low * (1 - 2 * below)) @ low
    return score, score.T @ score - bend


def by_cluster(client: Client, more: dict[str, Any], **options: Any) -> Any:
    """The standard errors, and the options, of a model whose rows have clusters."""
    source, given_rows = client.rows(X, Y, **more)
    names = {"a": "c0", "b": "c1", "c": "c2", "g": "g"}
    features, rows = client.by_name(names, source)
    given = json.dumps({"cluster": "g", **options})
    weight = ", w" if "w" in more else ""
    call = f"train_model('ordinal', y, {features}, '{given}'{weight})"
    sql = f"SELECT (m).coef, (m).std_err, (m).options FROM (SELECT {call} AS m FROM {rows}) AS t"
    return client.connection.execute(sql, given_rows).fetchone()


@pytest.mark.parametrize("kind", [None, "frequency", "sampling"])
def test_errors_by_cluster(client: Client, kind: str | None) -> None:
    """Sums of scores by cluster in the sandwich, and for slopes what statsmodels has."""
    group, weight = np.arange(N) % 37, 1.0 + np.arange(N) % 3
    more = {"g": group} if kind is None else {"g": group, "w": weight}
    options = {} if kind is None else {"weight_kind": kind}
    coef, errors, told = by_cluster(client, more, **options)
    each, _ = exact_scores(SimpleNamespace(coef=np.array(coef)), X, Y)
    rows = np.arange(N) if kind is None else np.repeat(np.arange(N), weight.astype(int))
    _, curvature = exact_scores(SimpleNamespace(coef=np.array(coef)), X[rows], Y[rows])
    if kind is not None:
        each *= weight[:, None]
    sums = np.array([each[group == g].sum(axis=0) for g in range(37)])
    inverse = np.linalg.inv(curvature)
    n = len(rows) if kind == "frequency" else N
    factor = 37 / 36 * (n - 1) / (n - 6)
    truth = np.sqrt(np.diag(factor * inverse @ sums.T @ sums @ inverse))
    assert errors == pytest.approx(truth, rel=1e-6)
    told = json.loads(told)
    assert (told["cluster"], told["clusters"]) == ("g", 37)
    if kind is None:
        x = X - X.mean(axis=0)
        ordered = OrderedModel(Y, x, distr="logit")
        start = ordered.fit(method="bfgs", disp=0).params
        sandwich = {"cov_type": "cluster", "cov_kwds": {"groups": group}}
        fit = ordered.fit(method="newton", start_params=start, disp=0, tol=1e-14, **sandwich)
        assert errors[3:] == pytest.approx(fit.bse[:3], rel=1e-5)


def test_both_databases_have_the_same_errors_by_cluster(here: Client, there: Client) -> None:
    more = {"g": np.arange(N) % 11}
    one, other = (by_cluster(c, more, threads=1) for c in (here, there))
    assert one[:2] == other[:2]
    assert json.loads(one[2]) == json.loads(other[2])
    plain = here.fit("ordinal", X, Y, threads=1)
    assert one[0] == list(plain.coef)  # clusters change errors alone
    assert abs(one[1] / plain.std_err - 1).max() > 0.01


def test_one_cluster_has_no_errors(client: Client) -> None:
    _, errors, told = by_cluster(client, {"g": np.ones(N)})
    assert errors is None or np.isnan(np.array(errors, float)).all()
    assert json.loads(told)["clusters"] == 1


def test_fit_and_terms(client: Client, housing: str) -> None:
    """R's polr: logLik, AIC and Wald's tests by its vcov; without features shares are likeliest."""
    names = {name: name for name in ("infl", "housing", "contact")}
    features, source = client.by_name(names, housing)
    call = f"train_model('ordinal', sat, {features}, '{json.dumps({'fit': True})}', n)"
    client.connection.execute("DROP TABLE IF EXISTS fitted_levels")
    client.connection.execute(f"CREATE TABLE fitted_levels AS SELECT {call} AS m FROM {source}")
    fit = "SELECT n, parameters, log_likelihood, deviance, null_deviance, aic FROM model_fit((SELECT m FROM fitted_levels))"
    (found,) = client.connection.execute(fit).fetchall()
    assert found[:2] == (1681, 8)
    count = np.array([sum(row[4] for row in HOUSING if row[0] == level) for level in LEVELS])
    null = -2 * (count * np.log(count / count.sum())).sum()
    truth = (-1739.57464953, 3479.14929906, null, 3495.14929906)
    assert found[2:] == pytest.approx(truth, rel=1e-9)
    terms = "SELECT term, df, test, statistic FROM model_terms((SELECT m FROM fitted_levels))"
    found = client.connection.execute(terms).fetchall()
    assert [row[:3] for row in found] == [
        ("infl", 2, "chi2"),
        ("housing", 3, "chi2"),
        ("contact", 1, "chi2"),
    ]
    assert [row[3] for row in found] == pytest.approx(
        [103.885678, 54.6242164, 14.2219024], rel=1e-4
    )
    client.connection.execute("DROP TABLE fitted_levels")
