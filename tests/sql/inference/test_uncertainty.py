"""`model_covariance` and `predict_interval` in both databases, against statsmodels and R."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
import statsmodels.api as sm
from scipy.stats import norm, t

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

from tuskml.learners.linear.request import COVARIANCES

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(41)
N = 150
X = RANDOM.normal(size=(N, 3)) * [1, 2, 30] + [0, 1, 2000]
WHOLE = sm.add_constant(X)
NEW = X[:5] * 1.5
MARGIN = 0.4 + X @ [0.3, -0.2, 0.01] - 20
LABELS = {
    "linear": MARGIN + RANDOM.normal(size=N) * (0.5 + X[:, 0] ** 2),
    "logistic": (MARGIN + RANDOM.logistic(size=N) > 0).astype(float),
    "poisson": RANDOM.poisson(np.exp(MARGIN)).astype(float),
    "negative_binomial": RANDOM.negative_binomial(2, 2 / (2 + np.exp(MARGIN))).astype(float),
    "gamma": np.exp(MARGIN) * RANDOM.gamma(2.0, 0.5, N),
    "tweedie": np.exp(MARGIN) * np.random.default_rng(8).poisson(1.0, N),
}
log = sm.families.links.Log()
FAMILIES: dict[str, tuple[Any, dict[str, float]]] = {
    "linear": (sm.families.Gaussian(), {}),
    "logistic": (sm.families.Binomial(), {}),
    "poisson": (sm.families.Poisson(), {}),
    "negative_binomial": (sm.families.NegativeBinomial(alpha=0.5), {"dispersion": 0.5}),
    "gamma": (sm.families.Gamma(log), {}),
    "tweedie": (sm.families.Tweedie(log, var_power=1.5), {}),
}
STORAGES = {
    "dense": "ARRAY[c0, c1, c2]",
    "float": "CAST(ARRAY[c0, c1, c2] AS real[])",
    "sparse": "sparse(ARRAY[0, 1, 2], ARRAY[c0, c1, c2])",
}
ENDS = ("fit", "std_err", "lower", "upper", "prediction_lower", "prediction_upper")
KEPT = {"intervals": "covariance", "epsilon": 1e-12}


def trained(
    client: Client, task: str, y: Any, x: Any = X, storage: str = "dense", **options: Any
) -> str:
    """The name of a table with the model in its column m."""
    source, parameters = client.rows(x, y)
    call = f"train_model('{task}', y, {STORAGES[storage]}, '{json.dumps(KEPT | options)}')"
    client.connection.execute("DROP TABLE IF EXISTS kept")
    client.connection.execute(f"CREATE TABLE kept AS SELECT {call} AS m FROM {source}", parameters)
    return "kept"


def intervals(client: Client, x: Any, storage: str = "dense", level: float | None = None) -> Any:
    """The intervals of rows by the model in `kept`, (n, 6)."""
    source, parameters = client.rows(x, np.arange(len(x)))
    more = "" if level is None else f", {level}"
    call = f"predict_interval(m, {STORAGES[storage]}{more})"
    ends = ", ".join(f"(i).{name}" for name in ENDS)
    sql = f"SELECT {ends} FROM (SELECT y, {call} AS i FROM {source}, kept) AS t ORDER BY y"
    return np.array(client.connection.execute(sql, parameters).fetchall(), float)


def covariance(client: Client, terms: int = 4) -> Any:
    """The matrix of the model in `kept`."""
    rows = client.connection.execute(
        "SELECT term, with_term, covariance FROM kept, model_covariance(m)"
    ).fetchall()
    order = [
        name
        for (name,) in client.connection.execute(
            "SELECT term FROM model_summary((SELECT m FROM kept)) ORDER BY feature"
        ).fetchall()
    ]
    found = np.full((terms, terms), np.nan)
    for one, other, value in rows:
        found[order.index(one), order.index(other)] = value
    return found


def fitted(task: str, x: Any = WHOLE, y: Any = None) -> Any:
    family, _ = FAMILIES[task]
    return sm.GLM(LABELS[task] if y is None else y, x, family).fit(tol=1e-14, maxiter=200)


@pytest.mark.parametrize("name", [name for name in COVARIANCES if name != "classic"])
def test_robust_covariances_are_those_of_statsmodels(client: Client, name: str) -> None:
    peer = sm.OLS(LABELS["linear"], WHOLE).fit(cov_type=name, use_t=True)
    trained(client, "linear", LABELS["linear"], covariance=name)
    np.testing.assert_allclose(covariance(client), peer.cov_params(), rtol=1e-6)
    expected = peer.get_prediction(sm.add_constant(NEW)).summary_frame(alpha=0.05)
    np.testing.assert_allclose(intervals(client, NEW), expected, rtol=1e-6)


@pytest.mark.parametrize(("storage", "level"), [("dense", None), ("sparse", 0.5)])
@pytest.mark.parametrize("task", list(LABELS))
def test_intervals_are_those_of_statsmodels(
    client: Client, task: str, storage: str, level: float | None
) -> None:
    trained(client, task, LABELS[task], storage=storage, **FAMILIES[task][1])
    found = intervals(client, NEW, storage, level)
    new, peer = sm.add_constant(NEW), fitted(task)
    outside = 1 - (level or 0.95)
    means = peer.get_prediction(new).summary_frame(alpha=outside)
    np.testing.assert_allclose(found[:, :2], means[["mean", "mean_se"]], rtol=1e-6)
    reach = norm.isf(outside / 2)
    if task in ("linear", "gamma", "tweedie"):
        reach = t.isf(outside / 2, N - 4)
    np.testing.assert_allclose(covariance(client), peer.cov_params(), rtol=1e-6)
    margin = new @ peer.params
    error = np.sqrt(np.einsum("ij,jk,ik->i", new, peer.cov_params(), new))
    ends = np.stack([margin - reach * error, margin + reach * error], axis=1)
    np.testing.assert_allclose(found[:, 2:4], peer.family.link.inverse(ends), rtol=1e-6)
    if task == "linear":
        peer = sm.OLS(LABELS[task], WHOLE).fit().get_prediction(new).summary_frame(alpha=outside)
        np.testing.assert_allclose(found, peer, rtol=1e-6)
    else:
        assert np.isnan(found[:, 4:]).all()


WEIGHTS = {"intercept": 0.5, "x1": 2, "x3": -1}
ROW = np.array([0.5, 2, 0, -1])


def contrast(client: Client, weights: Any) -> Any:
    """The row of `model_contrast` for the model in `kept`."""
    given = "NULL" if weights is None else f"'{json.dumps(weights)}'"
    sql = f"SELECT c.* FROM kept, model_contrast(m, {given}) AS c"
    return client.connection.execute(sql).fetchone()


@pytest.mark.parametrize("task", list(LABELS))
def test_contrasts_are_those_of_statsmodels(client: Client, task: str) -> None:
    trained(client, task, LABELS[task], **FAMILIES[task][1])
    peer = fitted(task).t_test(ROW)
    estimate, error, test, statistic, p, *_ = contrast(client, WEIGHTS)
    expected = np.concatenate([peer.effect, peer.sd.ravel(), peer.tvalue.ravel()])
    np.testing.assert_allclose([estimate, error, statistic], expected, rtol=1e-6)
    if test == "z":
        assert p == pytest.approx(float(peer.pvalue), rel=1e-5)


@pytest.mark.parametrize("name", COVARIANCES)
def test_contrasts_of_robust_errors(client: Client, name: str) -> None:
    kind = "nonrobust" if name == "classic" else name
    peer = sm.OLS(LABELS["linear"], WHOLE).fit(cov_type=kind, use_t=True).t_test(ROW)
    trained(client, "linear", LABELS["linear"], covariance=name)
    estimate, error, test, statistic, p, lower, upper, ratio = contrast(client, WEIGHTS)
    assert (test, ratio) == ("t", None)
    ends = peer.conf_int()[0]
    expected = [peer.effect[0], peer.sd.item(), peer.tvalue.item(), peer.pvalue.item(), *ends]
    np.testing.assert_allclose([estimate, error, statistic, p, lower, upper], expected, rtol=1e-6)


def test_a_contrast_of_one_term_is_its_row_of_the_summary(client: Client) -> None:
    x = np.column_stack([X, X[:, 0]])  # the first and the last are not determined
    for labels in (LABELS["logistic"], RANDOM.integers(0, 3, N)):
        trained(client, "logistic", labels, x)
        rows = client.connection.execute(
            "SELECT s.term, s.estimate, s.std_err, s.test, s.statistic, s.p_value, s.lower, s.upper, s.ratio FROM kept, model_summary(m) AS s WHERE s.std_err IS NOT NULL"
        ).fetchall()
        assert len(rows) >= 3
        for term, estimate, *others in rows:
            found = contrast(client, {term: 1})
            np.testing.assert_allclose(
                [v for v in found if not isinstance(v, str)],
                [v for v in (estimate, *others) if not isinstance(v, str)],
                rtol=1e-9,
            )


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"x9": 1}, "weights has 'x9', expected numbers by terms that have a standard error"),
        ({"x1": "1"}, "weights has 'x1', expected numbers by terms that have a standard error"),
        ({"x1": True}, "weights has 'x1', expected numbers"),
        ([1, 2], "weights is [1, 2], expected numbers by the terms of model_summary"),
        (None, "weights is NULL, expected numbers by the terms of model_summary"),
    ],
)
def test_weights_of_contrasts_that_are_refused(client: Client, weights: Any, said: str) -> None:
    trained(client, "linear", LABELS["linear"])
    with pytest.raises((duckdb.Error, psycopg.Error)) as raised:
        contrast(client, weights)
    assert f"model_contrast: {said}" in str(raised.value)


def test_numbers_of_r(client: Client) -> None:
    """predict(lm(dist ~ speed, cars), ..., level = 0.9) and vcov."""
    speed = [
        4,
        4,
        7,
        7,
        8,
        9,
        10,
        10,
        10,
        11,
        11,
        12,
        12,
        12,
        12,
        13,
        13,
        13,
        13,
        14,
        14,
        14,
        14,
        15,
        15,
        15,
        16,
        16,
        17,
        17,
        17,
        18,
        18,
        18,
        18,
        19,
        19,
        19,
        20,
        20,
        20,
        20,
        20,
        22,
        23,
        24,
        24,
        24,
        24,
        25,
    ]
    dist = [
        2,
        10,
        4,
        22,
        16,
        10,
        18,
        26,
        34,
        17,
        28,
        14,
        20,
        24,
        28,
        26,
        34,
        34,
        46,
        26,
        36,
        60,
        80,
        20,
        26,
        54,
        32,
        40,
        32,
        40,
        50,
        42,
        56,
        76,
        84,
        36,
        46,
        68,
        32,
        48,
        52,
        56,
        64,
        66,
        54,
        70,
        92,
        93,
        120,
        85,
    ]
    x = np.stack([speed, 0 * np.array(speed), 0 * np.array(speed)], axis=1)
    trained(client, "linear", dist, x)
    found = intervals(client, [[4.5, 0, 0], [15, 0, 0], [40, 0, 0]], level=0.9)
    expected = [
        [
            0.116744525547443,
            5.02426943412912,
            -8.31008173722187,
            8.54357078831675,
            -27.0198396519616,
            27.2533287030564,
        ],
        [
            41.407036496350365,
            2.18134314359295,
            37.74843499586633,
            45.06563799683440,
            15.3538569418415,
            67.4602160508592,
        ],
        [
            139.717255474452543,
            10.45045610426232,
            122.18949763584848,
            157.24501331305660,
            108.5306382355008,
            170.9038727134042,
        ],
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    known = [[45.6765135230788, -2.658823360505798], [-2.6588233605058, 0.172650867565312]]
    np.testing.assert_allclose(covariance(client)[:2, :2], known, rtol=1e-6)


@pytest.mark.parametrize("task", ["linear", "logistic", "poisson", "gamma"])
def test_an_interval_at_zero_is_that_of_the_intercept(client: Client, task: str) -> None:
    x = X - X.mean(axis=0)
    trained(client, task, LABELS[task], x)
    sql = (
        "SELECT estimate, lower, upper FROM model_summary((SELECT m FROM kept)) WHERE feature = 0"
    )
    own = np.array(client.connection.execute(sql).fetchone(), float)
    response = FAMILIES[task][0].link.inverse
    np.testing.assert_allclose(
        intervals(client, [[0, 0, 0]])[0, [0, 2, 3]], response(own), rtol=1e-9
    )


@pytest.mark.parametrize("far", [0.0, 1e6, 1e9])
def test_features_far_from_zero_keep_their_digits(client: Client, far: float) -> None:
    x = RANDOM.integers(-50, 50, size=(N, 3)).astype(float)
    y = np.random.default_rng(3).normal(size=N)
    trained(client, "linear", y, x)
    expected = intervals(client, x[:4])
    trained(client, "linear", y, x + far)
    found = intervals(client, x[:4] + far)
    np.testing.assert_allclose(found[:, 1], expected[:, 1], rtol=1e-6)
    np.testing.assert_allclose(
        found[:, 3] - found[:, 2], expected[:, 3] - expected[:, 2], rtol=1e-6
    )


def test_dependent_features_have_the_intervals_of_those_that_are_not(client: Client) -> None:
    y = LABELS["linear"]
    both = np.stack([X[:, 0], 2 * X[:, 0] + 1, np.ones(N)], axis=1)
    alone = np.stack([X[:, 0], np.zeros(N), np.zeros(N)], axis=1)
    trained(client, "linear", y, both)
    found = intervals(client, both[:5])
    shown = covariance(client)
    assert np.isnan(shown).all(), "the rows determine no coefficient"
    trained(client, "linear", y, alone)
    np.testing.assert_allclose(found, intervals(client, alone[:5]), rtol=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_diagonal_is_the_squared_standard_errors(client: Client, intercept: bool) -> None:
    for task, y in LABELS.items():
        trained(client, task, y, X / [1, 1, 2000], fit_intercept=intercept)
        errors = client.connection.execute("SELECT (m).std_err FROM kept").fetchone()[0]
        own = np.array([np.nan if one is None else one for one in errors], float)
        np.testing.assert_allclose(np.diag(covariance(client)), own**2, rtol=1e-8)


def test_classes_have_a_covariance_without_the_reference(client: Client) -> None:
    draws = np.random.default_rng(5)
    margins = (X - X.mean(axis=0)) / X.std(axis=0) @ draws.normal(size=(3, 3))
    y = np.argmax(margins + draws.gumbel(size=(N, 3)), axis=1)
    trained(client, "logistic", y.astype(float))
    rows = client.connection.execute(
        "SELECT * FROM model_covariance((SELECT m FROM kept))"
    ).fetchall()
    names = [f"{k}: {name}" for k in (1, 2) for name in ("intercept", "x1", "x2", "x3")]
    found = np.full((8, 8), np.nan)
    for one, other, value in rows:
        found[names.index(one), names.index(other)] = value
    peer = sm.MNLogit(y, WHOLE).fit(disp=0, method="newton", maxiter=100)
    np.testing.assert_allclose(found, peer.cov_params(), rtol=1e-5)
    with pytest.raises(
        Exception, match="more than two classes, whose probabilities have no interval"
    ):
        intervals(client, NEW)


def test_a_row_without_a_number_has_no_interval(client: Client) -> None:
    trained(client, "linear", LABELS["linear"])
    for features, level in (
        ("ARRAY[1, NULL, 2]", "0.9"),
        ("ARRAY[1, 2, 2]", "NULL"),
        ("ARRAY[1, 2, NULL]", "NULL"),
    ):
        sql = f"SELECT predict_interval(m, CAST({features} AS double precision[]), {level}) IS NULL FROM kept"
        assert client.connection.execute(sql).fetchone() == (True,)
    sql = "SELECT predict_interval(NULL::tuskml_model, ARRAY[1.0, 2, 2], 0.9) IS NULL"
    if client.mark == "%s":
        assert client.connection.execute(sql).fetchone() == (True,)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("predict_interval(m, ARRAY[1.0, 2, 3], 1.5)", "level is 1.5, expected a number between 0 and 1"),
        ("predict_interval(m, ARRAY[1.0, 2, 3], 0)", "level is 0, expected a number between 0 and 1"),
        ("predict_interval(m, ARRAY[1.0, 2])", "the model has 3 features, row has 2"),
        ("predict_interval(train_model('linear', 1.0, ARRAY[1.0]), ARRAY[1.0])", 'option "intervals": "covariance"'),
        ("predict_interval(train_model('svm', true, ARRAY[1.0]), ARRAY[1.0])", "intervals"),
        ("(SELECT count(*) FROM model_covariance(train_model('poisson', 1, ARRAY[1.0])))", 'option "intervals": "covariance"'),
    ],
)  # fmt: skip
def test_refusals_say_what_to_do(client: Client, call: str, sentence: str) -> None:
    trained(client, "linear", LABELS["linear"])
    if "train_model" in call:
        begin = call.index("train_model")
        end = call.index("])", begin) + 2
        call = call.replace(call[begin:end], "(SELECT m FROM other)")
        rows = "generate_series(1, 9) AS r(i)"
        made = "SELECT " + "train_model('{}', {}, ARRAY[i]) AS m FROM " + rows
        task = "svm" if "true" in call or "svm" in sentence else "linear"
        client.connection.execute("DROP TABLE IF EXISTS other")
        client.connection.execute("CREATE TABLE other AS " + made.format(task, "i % 3"))
    with pytest.raises((duckdb.Error, psycopg.Error), match=sentence.replace("(", r"\(")):
        client.connection.execute(f"SELECT {call} FROM kept").fetchall()


def test_groups_without_errors_have_predictions_alone(client: Client) -> None:
    """One class, too few rows, and separated rows beside a group that is as it should be."""
    sql = f"""SELECT g, (predict_interval(m, ARRAY[0.5])).* FROM (
        SELECT g, train_model('logistic', y, ARRAY[x], '{json.dumps(KEPT)}') AS m FROM (
            SELECT g, i * 0.37 %% 1 AS x, CASE g WHEN 0 THEN 1 WHEN 1 THEN CASE WHEN i * 0.37 %% 1 > 0.5 THEN 1 ELSE 0 END
                                        ELSE i %% 3 / 2 END AS y
            FROM generate_series(1, 40) AS a(i), generate_series(0, 2) AS b(g)) AS r GROUP BY g) AS t ORDER BY g"""
    sql = (
        sql
        if client.mark == "%s"
        else sql.replace("%%", "%")
        .replace("i % 3 / 2", "i % 3 // 2")
        .replace("(predict_interval(m, ARRAY[0.5])).*", "unnest(predict_interval(m, ARRAY[0.5]))")
    )
    rows = (
        client.connection.execute(sql, [] if client.mark == "?" else ()).fetchall()
        if client.mark == "?"
        else client.connection.execute(sql.replace("%%", "%")).fetchall()
    )
    assert [row[0] for row in rows] == [0, 1, 2]
    assert all(row[3] is None and row[4] is None for row in rows[:2])
    assert None not in rows[2][1:5]
    assert 0 < rows[2][3] < rows[2][1] < rows[2][4] < 1


def test_a_payload_is_made_anew_with_its_intervals(client: Client) -> None:
    trained(client, "poisson", LABELS["poisson"])
    sql = "SELECT (with_payload(m)).payload = (m).payload FROM kept"
    assert client.connection.execute(sql).fetchone() == (True,)


def test_options_that_leave_no_errors_are_refused(client: Client) -> None:
    for more in ({"l2": 0.1}, {"l1": 0.1}, {"class_weight": "balanced"}):
        with pytest.raises((duckdb.Error, psycopg.Error), match="intervals"):
            trained(client, "logistic", LABELS["logistic"], **more)
