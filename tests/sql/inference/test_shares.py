"""Shares of trials, and Firth's penalty, in both databases, against R's definitions."""

import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import gammaln

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(19)
N = 40
X = RANDOM.uniform(-1, 1, size=(N, 2)).astype(np.float32).astype(float)
WHOLE = sm.add_constant(X)
TRIALS = RANDOM.integers(3, 30, N)
HITS = RANDOM.binomial(TRIALS, 1 / (1 + np.exp(-(X @ [1.0, -0.5] + 0.3))))
HITS[:2] = 0, TRIALS[1]
SHARE = HITS / TRIALS
SETTLED = {"epsilon": 1e-10, "max_iter": 1000}
APART = (X[:, 0] + 0.1 * RANDOM.normal(size=N) > 0).astype(float)
WEIGHT = RANDOM.integers(1, 4, N)
LINKS = {
    "logit": sm.families.links.Logit(),
    "probit": sm.families.links.Probit(),
    "cloglog": sm.families.links.CLogLog(),
}


def estimates(model: Any) -> Any:
    return np.r_[model.intercept, model.coef]


def shared(client: Client, storage: str = "dense", **more: Any) -> Any:
    how = SETTLED | {"proportions": True} | more
    return client.fit("logistic", X, SHARE, storage, more={"w": TRIALS}, **how)


# --- shares ---


@pytest.mark.parametrize("storage", ["dense", "sparse", "float"])
@pytest.mark.parametrize("link", list(LINKS))
def test_shares_are_binomial_counts(client: Client, link: str, storage: str) -> None:
    model = shared(client, storage, link=link, fit=True)
    family = sm.families.Binomial(LINKS[link])
    truth = sm.GLM(np.c_[HITS, TRIALS - HITS], WHOLE, family).fit(tol=1e-14)
    assert (model.status, model.n_rows) == ("ok", N)
    assert estimates(model) == pytest.approx(truth.params, rel=1e-6)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)
    assert model.options["deviance"] == pytest.approx(truth.deviance, rel=1e-9)
    assert model.options["null_deviance"] == pytest.approx(truth.null_deviance, rel=1e-9)
    ways = gammaln(TRIALS + 1) - gammaln(HITS + 1) - gammaln(TRIALS - HITS + 1)
    p = truth.fittedvalues
    likely = ways + HITS * np.log(p) + (TRIALS - HITS) * np.log1p(-p)
    assert model.options["log_likelihood"] == pytest.approx(likely.sum(), rel=1e-9)
    assert model.options["weight"] == N  # of BIC, as in R


@pytest.mark.parametrize("more", [{}, {"l2": 0.3}, {"algorithm": "lbfgs"}, {"covariance": "HC0"}])
def test_a_share_is_as_many_rows_of_each_class(here: Client, more: dict[str, Any]) -> None:
    x, y = (
        np.repeat(X, TRIALS, axis=0),
        np.concatenate([np.arange(n) < k for n, k in zip(TRIALS, HITS, strict=True)]),
    )
    rows = here.fit("logistic", x, y, **(SETTLED | more))
    model = shared(here, **more)
    assert estimates(model) == pytest.approx(estimates(rows), rel=1e-6, abs=1e-8)
    assert model.std_err == pytest.approx(rows.std_err, rel=1e-6, nan_ok=True)
    assert model.loss == pytest.approx(rows.loss, rel=1e-9)


def test_shares_without_weights_are_of_one_trial_each(here: Client) -> None:
    plain = here.fit("logistic", X, SHARE, proportions=True, **SETTLED)
    one = here.fit("logistic", X, SHARE, more={"w": np.ones(N)}, proportions=True, **SETTLED)
    truth = sm.GLM(SHARE, WHOLE, sm.families.Binomial()).fit(tol=1e-13)
    assert estimates(plain) == pytest.approx(estimates(one), rel=1e-9)
    assert estimates(plain) == pytest.approx(truth.params, rel=1e-6)


def test_shares_with_offsets_by_name_and_by_group(client: Client) -> None:
    offset = X[:, 1] * 2
    source, parameters = client.rows(X, SHARE, w=TRIALS, o=offset, g=np.arange(N) % 2)
    features, rows = client.by_name({"a": "c0"}, source)
    sql = (
        f"SELECT (m).coef, (m).n_rows FROM (SELECT g, train_model('logistic', y, {features}, "
        f'\'{{"proportions": true, "epsilon": 1e-10}}\', w, o) AS m FROM {rows} GROUP BY g) AS t '
        "ORDER BY g"
    )
    for g, (coef, n_rows) in enumerate(client.connection.execute(sql, parameters).fetchall()):
        own = np.arange(N) % 2 == g
        counts = np.c_[HITS, TRIALS - HITS][own]
        design = sm.add_constant(X[own, :1])
        truth = sm.GLM(counts, design, sm.families.Binomial(), offset=offset[own]).fit(tol=1e-13)
        assert coef == pytest.approx(truth.params[1:], rel=1e-6)
        assert n_rows == own.sum()


def test_shares_may_be_decimal_numbers(client: Client) -> None:
    """As k / n of numeric columns is, which no double equals."""
    sql = (
        "SELECT (m).status, (m).n_rows, (m).coef FROM (SELECT train_model('logistic', "
        "{label}, ARRAY[x], '{{\"proportions\": true}}', n) AS m "
        "FROM (VALUES (1, 3, 1), (2, 3, 3), (4, 7, 2), (0, 5, 0)) AS r(k, n, x)) AS t"
    )
    exact, rounded = (
        client.connection.execute(sql.format(label=label)).fetchall()
        for label in ("CAST(k AS double precision) / n", "CAST(k AS numeric(18, 9)) / n")
    )
    assert exact[0][:2] == rounded[0][:2] == ("ok", 4)
    assert exact[0][2] == pytest.approx(rounded[0][2], rel=1e-5)


def test_shares_without_the_option_name_it(client: Client) -> None:
    model = client.fit("logistic", X, SHARE, more={"w": TRIALS}, invalid="group")
    assert model.status == "invalid rows"
    source, parameters = client.rows(X, SHARE, w=TRIALS)
    sql = f"SELECT (train_model('logistic', y, ARRAY[c0, c1], '{{}}', w)).plan FROM {source}"
    ((plan,),) = client.connection.execute(sql, parameters).fetchall()
    assert "for proportions give 'logistic' the option 'proportions' and the trials as" in plan


# --- Firth's penalty ---


@pytest.mark.parametrize(("a", "b", "c", "d"), [(0, 7, 9, 4), (3, 5, 2, 8), (6, 0, 0, 5)])
def test_firth_adds_half_a_row_to_each_cell_of_a_table(
    client: Client, a: int, b: int, c: int, d: int
) -> None:
    """Of one feature that is 0 or 1: the closed form."""
    x = np.repeat([1.0, 1, 0, 0], [a, b, c, d])[:, None]
    y = np.repeat([1.0, 0, 1, 0], [a, b, c, d])
    model = client.fit("logistic", x, y, firth=True)
    p, q = (a + 0.5) / (a + b + 1), (c + 0.5) / (c + d + 1)
    assert (model.status, model.n_rows) == ("ok", len(x))
    zero, slope = np.log(q / (1 - q)), np.log(p / (1 - p)) - np.log(q / (1 - q))
    assert estimates(model) == pytest.approx([zero, slope], rel=1e-6, abs=1e-8)
    own = 1 / ((c + d) * q * (1 - q))
    errors = [own**0.5, (own + 1 / ((a + b) * p * (1 - p))) ** 0.5]
    assert model.std_err == pytest.approx(errors, rel=1e-6)


def penalised_score(y: Any, params: Any, weight: Any, design: Any) -> tuple[Any, Any]:
    """Firth's score (p,), and the covariance (p, p)."""
    mean = 1 / (1 + np.exp(-design @ params))
    bend = weight * mean * (1 - mean)
    spread = np.linalg.inv(design.T @ (bend[:, None] * design))
    leverage = bend * np.einsum("ni,ij,nj->n", design, spread, design)
    return design.T @ (weight * (y - mean) + leverage * (0.5 - mean)), spread


@pytest.mark.parametrize("storage", ["dense", "sparse", "float"])
@pytest.mark.parametrize("weighted", [False, True])
def test_firth_solves_the_penalised_equations(
    client: Client, storage: str, weighted: bool
) -> None:
    weight = WEIGHT if weighted else np.ones(N)
    more = {"w": WEIGHT} if weighted else None
    assert client.fit("logistic", X, X[:, 0] > 0, storage, more=more).status == "separable"
    for y in (X[:, 0] > 0, APART):
        model = client.fit("logistic", X, y, storage, more=more, firth=True)
        score, spread = penalised_score(y, estimates(model), weight, WHOLE)
        assert (model.status, model.converged) == ("ok", True)
        assert abs(score).max() < 1e-6
        assert model.std_err == pytest.approx(np.sqrt(np.diag(spread)), rel=1e-6)


def test_firth_follows_the_units_of_features(here: Client) -> None:
    times = np.array([1e-3, 1e4])
    plain = here.fit("logistic", X, APART, firth=True)
    scaled = here.fit("logistic", X * times, APART, firth=True)
    assert scaled.coef * times == pytest.approx(plain.coef, rel=1e-6)
    assert scaled.std_err[1:] * times == pytest.approx(plain.std_err[1:], rel=1e-6)
    moved = here.fit("logistic", X + np.array([0, 1000]), APART, firth=True)
    assert moved.coef == pytest.approx(plain.coef, rel=1e-5)


def test_firth_without_an_intercept(here: Client) -> None:
    model = here.fit("logistic", X, X[:, 0] > 0, firth=True, fit_intercept=False)
    score, spread = penalised_score(X[:, 0] > 0, model.coef, np.ones(N), X)
    assert model.intercept == 0
    assert abs(score).max() < 1e-6
    assert model.std_err[1:] == pytest.approx(np.sqrt(np.diag(spread)), rel=1e-6)


def test_firth_of_dependent_and_constant_features(here: Client) -> None:
    plain = here.fit("logistic", X, APART, firth=True)
    x = np.c_[X, np.full(N, 3.0)]
    constant = here.fit("logistic", x, APART, firth=True)
    assert constant.status == "constant feature"
    assert constant.coef == pytest.approx([*plain.coef, 0], abs=1e-6)
    assert constant.std_err[1:3] == pytest.approx(plain.std_err[1:], rel=1e-6)
    twice = here.fit("logistic", np.c_[X, X[:, 0]], APART, firth=True)
    assert twice.status == "collinear features"
    assert twice.coef[0] + twice.coef[2] == pytest.approx(plain.coef[0], rel=1e-5)


def test_firth_of_shares_and_of_one_class(here: Client) -> None:
    shares = shared(here, firth=True)
    x, y = (
        np.repeat(X, TRIALS, axis=0),
        np.concatenate([np.arange(n) < k for n, k in zip(TRIALS, HITS, strict=True)]),
    )
    rows = here.fit("logistic", x, y, firth=True)
    assert estimates(shares) == pytest.approx(estimates(rows), rel=1e-6)
    assert here.fit("logistic", X, np.ones(N), firth=True).status == "one class"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"firth": True, "l2": 0.1}, "options 'firth' and 'l2' are both given, expected one of"),
        ({"firth": True, "fit": True}, "options 'firth' and 'fit' are both given"),
        ({"firth": True, "link": "probit"}, "options 'firth' and 'link' are both given"),
        ({"firth": True, "store": "s"}, "option 'firth' is not available with option 'store'"),
        (
            {"proportions": True, "weight_kind": "analytic"},
            "options 'proportions' and 'weight_kind' are both given",
        ),
        (
            {"proportions": True, "l2": [0.1, 1], "folds": 2},
            "option 'proportions' is not available in a search, whose metrics compare classes",
        ),
    ],
)
def test_what_goes_with_neither(here: Client, options: dict[str, Any], message: str) -> None:
    with pytest.raises(duckdb.Error, match=message):
        here.fit("logistic", X, APART, **options)


def test_bad_shares_and_more_classes_say_so(here: Client) -> None:
    bad = {"proportions": True, "invalid": "error"}
    with pytest.raises(duckdb.Error, match=r"label is 1\.5 in row 1 .* needs a label between"):
        here.fit("logistic", X, np.full(N, 1.5), **bad)
    with pytest.raises(duckdb.Error, match="'firth' is not available with more than two classes"):
        here.fit("logistic", X, np.arange(N) % 3, firth=True)
    with pytest.raises(duckdb.Error, match="'firth' is not available with offset"):
        here.fit("logistic", X, APART, more={"w": WEIGHT, "o": X[:, 0]}, firth=True)
    with pytest.raises(duckdb.Error, match="option 'firth' is not available with task 'linear'"):
        here.fit("linear", X, APART, firth=True)
