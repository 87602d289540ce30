"""`marginal_effects` in both databases, against statsmodels and derivatives by differences."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from scipy.stats import t as student

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, few, here, there

from tuskml.text.type_errors import explain_message

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(43)
N = 160
A, B = RANDOM.uniform(-1, 1, N), RANDOM.normal(size=N)
D = (RANDOM.random(N) < 0.4).astype(float)
K = RANDOM.integers(0, 3, N).astype(float)
X = np.column_stack([A, B, D]).astype(np.float32).astype(float)
MARGIN = 0.2 + X @ [0.5, -0.3, 0.4]
MEAN = np.exp(MARGIN)
OF, FAMILY = sm.families.links, sm.families
CASES: dict[str, tuple[str, Any, Any, dict[str, Any]]] = {
    "linear": ("linear", MARGIN + RANDOM.normal(size=N), FAMILY.Gaussian(), {}),
    "linear log": (
        "linear",
        MEAN + RANDOM.normal(size=N) / 5,
        FAMILY.Gaussian(OF.Log()),
        {"link": "log"},
    ),
    "logistic": ("logistic", MARGIN + RANDOM.logistic(size=N) > 0, FAMILY.Binomial(), {}),
    "probit": (
        "logistic",
        MARGIN + RANDOM.normal(size=N) > 0,
        FAMILY.Binomial(OF.Probit()),
        {"link": "probit"},
    ),
    "cloglog": (
        "logistic",
        RANDOM.random(N) < -np.expm1(-MEAN),
        FAMILY.Binomial(OF.CLogLog()),
        {"link": "cloglog"},
    ),
    "poisson": ("poisson", RANDOM.poisson(MEAN), FAMILY.Poisson(), {}),
    "poisson identity": (
        "poisson",
        RANDOM.poisson(3 + MARGIN),
        FAMILY.Poisson(OF.Identity()),
        {"link": "identity"},
    ),
    "poisson sqrt": (
        "poisson",
        RANDOM.poisson((3 + MARGIN) ** 2),
        FAMILY.Poisson(OF.Sqrt()),
        {"link": "sqrt"},
    ),
    "negative_binomial": (
        "negative_binomial",
        RANDOM.negative_binomial(2, 2 / (2 + MEAN)),
        FAMILY.NegativeBinomial(alpha=0.5),
        {"dispersion": 0.5},
    ),
    "gamma": ("gamma", RANDOM.gamma(2.0, MEAN / 2), FAMILY.Gamma(OF.Log()), {}),
    "gamma inverse": (
        "gamma",
        RANDOM.gamma(3.0, 1 / (3 + MARGIN) / 3),
        FAMILY.Gamma(OF.InversePower()),
        {"link": "inverse"},
    ),
    "tweedie": (
        "tweedie",
        MEAN * RANDOM.poisson(1.0, N),
        FAMILY.Tweedie(OF.Log(), var_power=1.5),
        {},
    ),
    "inverse_gaussian": (
        "inverse_gaussian",
        RANDOM.wald(MEAN, 20.0),
        FAMILY.InverseGaussian(OF.Log()),
        {},
    ),
    "inverse_squared": (
        "inverse_gaussian",
        RANDOM.wald((3 + MARGIN) ** -0.5, 20.0),
        FAMILY.InverseGaussian(OF.InverseSquared()),
        {"link": "inverse_squared"},
    ),
}
BY_T = ("linear", "gamma", "tweedie", "inverse_gaussian")
FEATURES = {
    "dense": "ARRAY[c0, c1, c2]",
    "float": "CAST(ARRAY[c0, c1, c2] AS real[])",
    "sparse": "sparse(ARRAY[0, 1, 2], ARRAY[c0, c1, c2])",
}
NAMED = {"a": "c0", "b": "c1", "k": "(ARRAY['p', 'q', 'r'])[1 + CAST(c3 AS integer)]"}
NUMBERS = "effect, std_err, statistic, p_value, lower, upper"
KEPT = {"intervals": "covariance", "epsilon": 1e-12, "max_iter": 1000}
LEVELS = np.column_stack([A, B, D, K])


def keep(
    client: Client, task: str, y: Any, x: Any, features: str, named: Any = None, **options: Any
) -> None:
    """Trains the model m of the table `kept`; named: columns by name, instead of the features."""
    source, parameters = client.rows(x, y)
    if named:
        features, source = client.by_name(named, source)
    call = f"train_model('{task}', y, {features}, '{json.dumps(KEPT | options)}')"
    client.connection.execute("DROP TABLE IF EXISTS kept")
    client.connection.execute(f"CREATE TABLE kept AS SELECT {call} AS m FROM {source}", parameters)


def effects(
    client: Client, x: Any, features: str, named: Any = None, more: str = "", **columns: Any
) -> dict[str, Any]:
    """The numbers by term, of the model in `kept`; more: arguments after the features."""
    source, parameters = client.rows(x, np.zeros(len(x)), **columns)
    if named:
        features, source = client.by_name(named, source)
    shown = ", ".join(f"(e).{name}" for name in ("term", *NUMBERS.split(", ")))
    sql = f"SELECT {shown} FROM (SELECT unnest(marginal_effects(m, {features}{more})) AS e FROM {source}, kept) AS t"
    rows = client.connection.execute(sql, parameters).fetchall()
    return {term: np.array(numbers, float) for term, *numbers in rows}


def fitted(case: str) -> Any:
    _, y, family, _ = CASES[case]
    glm = sm.GLM(np.asarray(y, float), sm.add_constant(X), family=family)
    return glm.fit(tol=1e-14, maxiter=500, tol_criterion="params")


@pytest.mark.parametrize("case", CASES)
def test_they_are_those_of_statsmodels(client: Client, case: str) -> None:
    task, y, _, options = CASES[case]
    keep(client, task, np.asarray(y, float), X, FEATURES["dense"], **options)
    found = effects(client, X, FEATURES["dense"])
    known = fitted(case).get_margeff(at="overall", dummy=True)
    assert list(found) == ["x1", "x2", "x3"]
    numbers = np.array(list(found.values())).T
    np.testing.assert_allclose(numbers[0], known.margeff, rtol=1e-6)
    np.testing.assert_allclose(numbers[1], known.margeff_se, rtol=1e-6)
    law = student(N - 4) if task in BY_T else norm
    statistic = numbers[0] / numbers[1]
    np.testing.assert_allclose(numbers[2], statistic, rtol=1e-12)
    np.testing.assert_allclose(numbers[3], 2 * law.sf(abs(statistic)), rtol=1e-6)
    np.testing.assert_allclose(numbers[4], numbers[0] - law.ppf(0.975) * numbers[1], rtol=1e-6)
    np.testing.assert_allclose(numbers[5], numbers[0] + law.ppf(0.975) * numbers[1], rtol=1e-6)


@pytest.mark.parametrize("storage", ["float", "sparse"])
def test_the_storage_does_not_matter(client: Client, storage: str) -> None:
    task, y, _, options = CASES["logistic"]
    keep(client, task, np.asarray(y, float), X, FEATURES["dense"], **options)
    plain = effects(client, X, FEATURES["dense"])
    found = effects(client, X, FEATURES[storage])
    for term in plain:
        np.testing.assert_allclose(found[term], plain[term], rtol=1e-9)


def design(a: Any, b: Any, k: Any, crossed: bool) -> Any:
    """The features of columns by name, as R's model.matrix has them."""
    q, r = k == 1, k == 2
    columns = [np.ones(N), a, b, q, r]
    return np.column_stack([*columns, *([a * b, a * q, a * r] if crossed else [])])


def by_differences(mean: Any, x: dict[str, Any]) -> Any:
    """The mean effects of a, b and two levels of k: derivatives by differences, and changes."""
    h = 1e-4
    slopes = [
        (mean(**{**x, name: x[name] + h}) - mean(**{**x, name: x[name] - h})) / (2 * h)
        for name in ("a", "b")
    ]
    base = mean(**{**x, "k": np.zeros(N)})
    changes = [mean(**{**x, "k": np.full(N, level)}) - base for level in (1.0, 2.0)]
    return np.array([*slopes, *changes])


@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize("case", ["logistic", "poisson", "linear"])
def test_levels_are_compared_with_the_reference(client: Client, case: str, crossed: bool) -> None:
    """Errors by the delta method, whose derivatives by each coefficient are differences."""
    task, y, family, options = CASES[case]
    y = np.asarray(y, float)
    if crossed:
        options = options | {"interactions": [["a", "b"], ["a", "k"]]}
    keep(client, task, y, LEVELS, "", NAMED, **options)
    weight, shift = RANDOM.integers(0, 4, N).astype(float), RANDOM.normal(size=N) / 3
    found = effects(client, LEVELS, "", NAMED, ", w, o", w=weight, o=shift)
    peer = sm.GLM(y, design(A, B, K, crossed), family=family).fit(tol=1e-14, maxiter=500)

    def of(beta: Any) -> Any:
        def mean(a: Any, b: Any, k: Any) -> float:
            m = family.link.inverse(design(a, b, k, crossed) @ beta + shift)
            return float(np.average(m, weights=weight))

        return by_differences(mean, {"a": A, "b": B, "k": K})

    beta = peer.params
    steps = np.eye(len(beta)) * 1e-4
    gradient = np.array([(of(beta + step) - of(beta - step)) / 2e-4 for step in steps]).T
    errors = np.sqrt(np.einsum("ij,jk,ik->i", gradient, peer.cov_params(), gradient))
    assert list(found) == ["a", "b", "k[q]", "k[r]"]
    numbers = np.array(list(found.values())).T
    np.testing.assert_allclose(numbers[0], of(beta), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(numbers[1], errors, rtol=1e-6)


def test_another_reference_turns_changes_round(client: Client) -> None:
    task, y, _, _ = CASES["logistic"]
    y = np.asarray(y, float)
    keep(client, task, y, LEVELS, "", NAMED)
    plain = effects(client, LEVELS, "", NAMED)
    keep(client, task, y, LEVELS, "", NAMED, reference={"k": "q"})
    found = effects(client, LEVELS, "", NAMED)
    assert found["k[p]"][:2] == pytest.approx([-plain["k[q]"][0], plain["k[q]"][1]], rel=1e-6)
    assert found["a"] == pytest.approx(plain["a"], rel=1e-6)


def test_a_model_without_a_covariance_has_effects_without_errors(client: Client) -> None:
    y = CASES["linear"][1]
    source, parameters = client.rows(X, y)
    call = f"train_model('lasso', y, {FEATURES['dense']}, '{{\"lambda\": 0.01}}')"
    client.connection.execute("DROP TABLE IF EXISTS kept")
    client.connection.execute(f"CREATE TABLE kept AS SELECT {call} AS m FROM {source}", parameters)
    ((coef,),) = client.connection.execute("SELECT (m).coef FROM kept").fetchall()
    found = effects(client, X, FEATURES["dense"])
    assert [one[0] for one in found.values()] == pytest.approx(coef, rel=1e-9)
    assert all(np.isnan(one[1:]).all() for one in found.values())


def test_a_penalty_leaves_no_reference_and_the_first_level_is_compared(client: Client) -> None:
    source, parameters = client.rows(LEVELS, CASES["linear"][1])
    features, source = client.by_name(NAMED, source)
    call = f"train_model('linear', y, {features}, '{{\"l2\": 0.1, \"epsilon\": 1e-10}}')"
    client.connection.execute("DROP TABLE IF EXISTS kept")
    client.connection.execute(f"CREATE TABLE kept AS SELECT {call} AS m FROM {source}", parameters)
    ((coef, names),) = client.connection.execute(
        "SELECT (m).coef, (m).features FROM kept"
    ).fetchall()
    assert names == ["a", "b", "k[p]", "k[q]", "k[r]"]
    found = effects(client, LEVELS, "", NAMED)
    assert list(found) == ["a", "b", "k[q]", "k[r]"]
    known = [coef[0], coef[1], coef[3] - coef[2], coef[4] - coef[2]]
    assert [one[0] for one in found.values()] == pytest.approx(known, rel=1e-9)


numbers = st.floats(-100, 100).map(lambda x: round(x, 3))


@few
@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=9))
def test_the_effects_of_a_linear_model_are_its_coefficients(
    here: Client, rows: list[tuple[float, ...]]
) -> None:
    keep(here, "linear", CASES["linear"][1], X, FEATURES["dense"])
    ((coef, errors),) = here.connection.execute(
        "SELECT (m).coef, (m).std_err FROM kept"
    ).fetchall()
    found = effects(here, rows, FEATURES["dense"])
    assert [one[0] for one in found.values()] == pytest.approx(coef, rel=1e-9)
    assert [one[1] for one in found.values()] == pytest.approx(errors[1:], rel=1e-6)


@few
@given(st.lists(st.tuples(numbers, numbers, st.sampled_from([0.0, 1.0])), min_size=2, max_size=9))
def test_the_derivative_of_the_mean_prediction(
    here: Client, rows: list[tuple[float, ...]]
) -> None:
    """By differences of predict_proba, of rows with 2 in the third column."""
    task, y, _, options = CASES["probit"]
    keep(here, task, np.asarray(y, float), X, FEATURES["dense"], **options)
    x = np.array([*rows, (0.0, 0.0, 2.0)]) * [0.05, 0.05, 1]
    found = effects(here, x, FEATURES["dense"])
    source, parameters = here.rows(x, np.zeros(len(x)))
    for place, term in enumerate(found):
        up, down = (
            f"predict_proba(m, ARRAY[{', '.join(f'c{j}' + (h if j == place else '') for j in range(3))}])"
            for h in (" + 1e-4", " - 1e-4")
        )
        sql = f"SELECT avg(({up} - {down}) / 2e-4) FROM {source}, kept"
        ((slope,),) = here.connection.execute(sql, parameters).fetchall()
        assert found[term][0] == pytest.approx(slope, rel=1e-6, abs=1e-9)


def test_neither_the_order_nor_the_parts_of_rows_matter(here: Client) -> None:
    """Sums of threads are added."""
    task, y, _, _ = CASES["poisson"]
    keep(here, task, np.asarray(y, float), LEVELS, "", NAMED)
    source, parameters = here.rows(LEVELS, y)
    features, source = here.by_name(NAMED, source)
    here.connection.execute("SET threads = 4")
    shown = ", ".join(f"(e).{name}" for name in NUMBERS.split(", "))
    for order in ("i, c0", "c0, i"):
        here.connection.execute(
            f"CREATE OR REPLACE TABLE many AS SELECT * FROM {source}, range(1500) AS n(i) ORDER BY {order}",
            parameters,
        )
        sql = f"SELECT {shown} FROM (SELECT unnest(marginal_effects(m, {features})) AS e FROM many, kept)"
        found = np.array(here.connection.execute(sql).fetchall())
        once = np.array(list(effects(here, LEVELS, "", NAMED).values()))
        np.testing.assert_allclose(found, once, rtol=1e-9)


def test_parallel_workers_answer_the_same(there: Client) -> None:
    task, y, _, _ = CASES["poisson"]
    keep(there, task, np.asarray(y, float), LEVELS, "", NAMED)
    once = np.array(list(effects(there, LEVELS, "", NAMED).values()))
    source, parameters = there.rows(LEVELS, y)
    run = there.connection.execute
    run("DROP TABLE IF EXISTS many")
    run(f"CREATE TABLE many AS SELECT * FROM {source}, generate_series(1, 100)", parameters)
    for name in ("parallel_setup_cost", "parallel_tuple_cost", "min_parallel_table_scan_size"):
        run(f"SET {name} = 0")
    features, source = there.by_name(NAMED, "many")
    call = (
        f"SELECT marginal_effects((SELECT m FROM kept), {features}) AS all_of_them FROM {source}"
    )
    plan = "\n".join(line for (line,) in run(f"EXPLAIN {call}").fetchall())
    shown = ", ".join(f"(e).{name}" for name in NUMBERS.split(", "))
    found = run(f"SELECT {shown} FROM unnest(({call})) AS e").fetchall()
    assert "Partial Aggregate" in plan
    np.testing.assert_allclose(np.array(found), once, rtol=1e-9)


def test_each_group_has_its_own(client: Client) -> None:
    task, y, _, _ = CASES["logistic"]
    keep(client, task, np.asarray(y, float), X, FEATURES["dense"])
    source, parameters = client.rows(X, K)
    shown = ", ".join(f"(e).{name}" for name in NUMBERS.split(", "))
    sql = f"SELECT y, (e).term, {shown} FROM (SELECT y, unnest(marginal_effects(m, {FEATURES['dense']})) AS e FROM {source}, kept GROUP BY y) AS t ORDER BY y"
    rows = client.connection.execute(sql, parameters).fetchall()
    for k in range(3):
        alone = effects(client, X[k == K], FEATURES["dense"])
        for _, term, *numbers in rows[3 * k : 3 * k + 3]:
            assert numbers == pytest.approx(alone[term], rel=1e-9)


def test_rows_with_a_null_and_rows_of_weight_0_do_not_count(client: Client) -> None:
    task, y, _, _ = CASES["logistic"]
    keep(client, task, np.asarray(y, float), X, FEATURES["dense"])
    plain = effects(client, X[1:], FEATURES["dense"])
    gap = "CASE WHEN y > 0 THEN NULL ELSE c0 END"
    source, parameters = client.rows(X, np.arange(N) == 0)
    shown = ", ".join(f"(e).{name}" for name in ("term", *NUMBERS.split(", ")))
    for call in (
        f"marginal_effects(m, ARRAY[{gap}, c1, c2])",
        f"marginal_effects(m, {FEATURES['dense']}, 1 - y)",
        f"marginal_effects(m, {FEATURES['dense']}, 2 + {gap} - c0)",
        f"marginal_effects(m, {FEATURES['dense']}, 1, {gap} - c0)",
        f"marginal_effects(CASE WHEN y = 0 THEN m END, {FEATURES['dense']})",
    ):
        sql = f"SELECT {shown} FROM (SELECT unnest({call}) AS e FROM {source}, kept) AS t"
        for term, *numbers in client.connection.execute(sql, parameters).fetchall():
            assert numbers == pytest.approx(plain[term], rel=1e-9), call
    sql = f"SELECT marginal_effects(m, {FEATURES['dense']}) FROM {source}, kept WHERE y > 1"
    assert client.connection.execute(sql, parameters).fetchall() == [(None,)]


REFUSED = {
    "gbdt": ("'gbdt', y, ARRAY[c0], '{\"trees\": 2}'", "ARRAY[c0]", "model is 'gbdt', expected a"),
    "svm": ("'svm', c2, ARRAY[c0]", "ARRAY[c0]", "model is 'svm', expected a linear or"),
    "several": (
        "'logistic', c3, ARRAY[c0]",
        "ARRAY[c0]",
        "the model has more than two classes, expected one of numbers or of two classes",
    ),
    "calibrated": (
        "'logistic', c2, ARRAY[c0], '{\"calibration\": \"platt\"}'",
        "ARRAY[c0]",
        "the model keeps calibrated probabilities, expected one that",
    ),
    "narrow": ("'linear', y, ARRAY[c0, c1]", "ARRAY[c0]", "the model has 2 features, row has 1"),
    "text": (
        "'linear', y, ARRAY[c0]",
        "CAST(c0 AS text)",
        "features is (VARCHAR|text), expected a row with names",
    ),
    "weight": ("'linear', y, ARRAY[c0]", "ARRAY[c0], -1", "weight is -1, expected a finite"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_effects_is_refused(client: Client, case: str) -> None:
    train, arguments, sentence = REFUSED[case]
    source, parameters = client.rows(LEVELS, A)
    model = f"(SELECT train_model({train}) AS m FROM {source}) AS t"
    sql = f"SELECT marginal_effects(m, {arguments}) FROM {source}, {model}"
    with pytest.raises(Exception, match=f"marginal_effects: {sentence}"):
        client.connection.execute(sql, [*parameters, *parameters])


def test_wrong_types_get_the_arguments_in_a_sentence() -> None:
    told = explain_message("function marginal_effects(integer, numeric[]) does not exist")
    assert told.startswith(
        "marginal_effects got (integer, numeric[]), expected (model, features [,"
    )


def test_rows_of_two_models_are_refused(client: Client) -> None:
    source, parameters = client.rows(LEVELS, A)
    model = f"(SELECT c3, train_model('linear', y, ARRAY[c0]) AS m FROM {source} GROUP BY c3) AS t"
    sql = f"SELECT marginal_effects(m, ARRAY[c0]) FROM {source}, {model}"
    with pytest.raises(Exception, match="rows of a group have different models, expected one"):
        client.connection.execute(sql, [*parameters, *parameters])


def test_a_wide_model_is_refused(here: Client) -> None:
    model = "(SELECT train_model('lasso', x, sparse([x], [1]), '{\"lambda\": 0.1}') AS m FROM range(2000) AS t(x))"
    with pytest.raises(duckdb.Error, match="the model has 2000 features, expected at most 1023"):
        here.connection.execute(f"SELECT marginal_effects(m, sparse([1], [1.0])) FROM {model}")
