"""Offsets of every likelihood, in trainings and predictions of both databases."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import statsmodels.api as sm

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

from tuskml.learners.linear.algorithms import ALGORITHMS, REGISTERED
from tuskml.learners.linear.tasks import LINEAR

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(41)
N = 200
X = (RANDOM.normal(size=(N, 2)) * [1, 2]).astype(np.float32).astype(float)
OFFSET = RANDOM.normal(size=N) * 2 + 1
MARGIN = 0.3 + X @ [0.8, -0.4]
NUMBERS = MARGIN + OFFSET + RANDOM.normal(size=N)
SIDES = (MARGIN + OFFSET + RANDOM.logistic(size=N) > 0).astype(float)
COUNTS = RANDOM.poisson(np.exp((MARGIN + OFFSET) / 2)).astype(float)
SETTLED = {"epsilon": 1e-9, "max_iter": 20000}
ONES = np.ones(N)


def labels_of(task: str) -> Any:
    if LINEAR[task].classifies:
        return SIDES
    return NUMBERS if LINEAR[task].of_label else COUNTS + (task in ("gamma", "inverse_gaussian"))


def estimates(model: Any) -> Any:
    return np.r_[model.intercept, model.coef]


@pytest.mark.parametrize("storage", ["dense", "sparse", "float"])
@pytest.mark.parametrize("task", ["linear", "huber"])
def test_an_offset_of_numbers_is_taken_off_the_label(
    client: Client, task: str, storage: str
) -> None:
    more = {"w": ONES, "o": OFFSET}
    model = client.fit(task, X, NUMBERS, storage, more=more, **SETTLED)
    plain = client.fit(task, X, NUMBERS - OFFSET, storage, **SETTLED)
    assert model.status == "ok"
    assert estimates(model) == pytest.approx(estimates(plain), rel=1e-8)
    assert model.std_err == pytest.approx(plain.std_err, rel=1e-7)
    assert model.loss == pytest.approx(plain.loss, rel=1e-9)


@pytest.mark.parametrize("storage", ["dense", "sparse", "float"])
def test_log_odds_with_an_offset_are_those_of_a_glm(client: Client, storage: str) -> None:
    weight = RANDOM.integers(1, 4, N)
    more = {"w": weight, "o": OFFSET}
    model = client.fit("logistic", X, SIDES, storage, more=more, fit=True, **SETTLED)
    truth = sm.GLM(
        SIDES,
        sm.add_constant(X),
        sm.families.Binomial(),
        offset=OFFSET,
        freq_weights=weight,
    ).fit(tol=1e-13)
    assert estimates(model) == pytest.approx(truth.params, rel=1e-7)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)
    assert model.options["deviance"] == pytest.approx(truth.deviance, rel=1e-9)
    assert model.options["null_deviance"] == pytest.approx(truth.null_deviance, rel=1e-9)


def test_the_fit_of_numbers_is_that_of_labels_without_the_offset(here: Client) -> None:
    """As summary.lm of R, whose R^2 leaves the offset out."""
    more = {"w": ONES, "o": OFFSET}
    model = here.fit("linear", X, NUMBERS, more=more, fit=True, **SETTLED)
    plain = here.fit("linear", X, NUMBERS - OFFSET, fit=True, **SETTLED)
    for name in ("deviance", "null_deviance", "log_likelihood", "parameters"):
        assert model.options[name] == pytest.approx(plain.options[name], rel=1e-9)


SETTLING = [
    (task.name, one.name)
    for task in LINEAR.values()
    for one in REGISTERED
    if task.test is not None and not (one.noisy or one.proves_gap)
    if not (one.refusal(task) or one.refusal(replace(task, offset=True)))
]


@pytest.mark.parametrize("covariance", ["HC0", "HC3"])
def test_robust_errors_know_the_offset(here: Client, covariance: str) -> None:
    more = {"w": ONES, "o": OFFSET}
    model = here.fit("linear", X, NUMBERS, more=more, covariance=covariance, **SETTLED)
    plain = here.fit("linear", X, NUMBERS - OFFSET, covariance=covariance, **SETTLED)
    assert model.std_err == pytest.approx(plain.std_err, rel=1e-8)


@pytest.mark.sample(6)
@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize(("task", "algorithm"), SETTLING)
def test_a_constant_offset_is_taken_off_the_intercept(
    here: Client, task: str, algorithm: str, storage: str
) -> None:
    y, how = labels_of(task), SETTLED | {"algorithm": algorithm, "epsilon": 1e-7}
    moved = here.fit(task, X, y, storage, more={"w": ONES, "o": ONES * 0.75}, **how)
    plain = here.fit(task, X, y, storage, **how)
    assert (moved.status, plain.status) == ("ok", "ok")
    assert estimates(moved) == pytest.approx(estimates(plain) - np.array([0.75, 0, 0]), abs=2e-5)


@pytest.mark.parametrize("task", [name for name, one in LINEAR.items() if one.test is not None])
def test_offsets_change_every_task(here: Client, task: str) -> None:
    """The optimum with offsets has the least loss with them: no kernel forgets them."""
    y = labels_of(task)
    found = [
        here.fit(task, X, y, storage, more={"w": ONES, "o": OFFSET / 2}, **SETTLED)
        for storage in ("dense", "sparse")
    ]
    plain = here.fit(task, X, y, **SETTLED)
    assert estimates(found[0]) == pytest.approx(estimates(found[1]), abs=1e-6)
    assert abs(estimates(found[0]) - estimates(plain)).max() > 0.05


FEATURES = {
    "list": "ARRAY[c0, c1]",
    "floats": "CAST(ARRAY[c0, c1] AS real[])",
    "sparse": "sparse(ARRAY[0, 1], ARRAY[c0, c1])",
}
ANSWERS = {"linear": lambda m: m, "poisson": np.exp, "logistic": lambda m: 1 / (1 + np.exp(-m))}


def asked(client: Client, task: str, features: str, by_name: bool) -> Any:
    """Offsets, margins without them, and predictions with them, of all rows."""
    source, parameters = client.rows(X, labels_of(task), o=OFFSET)
    if by_name:
        features, source = client.by_name({"a": "c0", "b": "c1"}, source)
    function = "predict_proba_with_offset" if task == "logistic" else "predict_with_offset"
    sql = (
        f"WITH r AS (SELECT o, y, {features} AS x FROM {source}), "
        f"t AS (SELECT train_model('{task}', y, x, '{{}}', 1, o) AS m FROM r) "
        f"SELECT o, decision(m, x), {function}(m, x, o), {function}(m, x, NULL) FROM r, t"
    )
    return client.connection.execute(sql, parameters).fetchall()


@pytest.mark.parametrize("features", [*FEATURES, "row"])
@pytest.mark.parametrize("task", list(ANSWERS))
def test_predictions_add_the_offset_to_the_margin(
    client: Client, task: str, features: str
) -> None:
    rows = asked(client, task, FEATURES.get(features, ""), features == "row")
    found = np.array([row[:3] for row in rows], float)
    assert len(found) == N
    assert all(row[3] is None for row in rows)
    assert found[:, 2] == pytest.approx(ANSWERS[task](found[:, 0] + found[:, 1]), rel=1e-12)


def test_each_row_is_scored_by_its_own_model_and_offset(client: Client) -> None:
    """Models of few rows each, which come in turn."""
    source, parameters = client.rows(X, NUMBERS, o=OFFSET, g=np.arange(N) % 40)
    sql = (
        f"WITH r AS (SELECT * FROM {source}), t AS (SELECT g, train_model('linear', y, "
        "ARRAY[c0, c1], '{\"l2\": 0.1}', 1, o) AS m FROM r GROUP BY g) "
        "SELECT decision(m, ARRAY[c0, c1]) + o, predict_with_offset(m, ARRAY[c0, c1], o) "
        "FROM r JOIN t USING (g)"
    )
    found = np.array(client.connection.execute(sql, parameters).fetchall())
    assert len(found) == N
    assert found[:, 1] == pytest.approx(found[:, 0], rel=1e-12)


def test_classes_by_name_are_those_of_the_margin_with_the_offset(client: Client) -> None:
    source, parameters = client.rows(X, SIDES, o=OFFSET)
    sql = (
        f"WITH r AS (SELECT *, CASE WHEN y = 1 THEN 'yes' ELSE 'no' END AS said FROM {source}), "
        "t AS (SELECT train_model('logistic', said, ARRAY[c0, c1], '{}', 1, o) AS m FROM r) "
        "SELECT decision(m, ARRAY[c0, c1]) + o > 0, "
        "predict_class_with_offset(m, ARRAY[c0, c1], o) = 'yes' FROM r, t"
    )
    found = client.connection.execute(sql, parameters).fetchall()
    assert all(a == b for a, b in found)
    assert len(set(found)) == 2


@pytest.mark.parametrize(
    ("task", "label", "function"),
    [
        ("svm", "y > 0", "predict_with_offset"),
        ("logistic", "CAST(round(c0) AS int)", "predict_class_with_offset"),
        ("random_forest", "y", "predict_with_offset"),
    ],
)
def test_models_that_take_no_offset_say_so(
    client: Client, task: str, label: str, function: str
) -> None:
    source, parameters = client.rows(X, NUMBERS)
    sql = (
        f"SELECT {function}(m, ARRAY[0.5, 1], 2) FROM (SELECT train_model('{task}', {label}, "
        f"ARRAY[c0, c1]) AS m FROM {source}) AS t"
    )
    with pytest.raises(Exception, match=f"{function}: the model takes no offset, expected a gen"):
        client.connection.execute(sql, parameters).fetchall()


STEPPING = [
    (task, one.name)
    for task in ("linear", "logistic")
    for one in REGISTERED
    if one.stochastic and not one.refusal(LINEAR[task])
]


@pytest.mark.parametrize(("task", "algorithm"), STEPPING)
def test_stochastic_steps_add_offsets_or_say_that_they_do_not(
    here: Client, task: str, algorithm: str
) -> None:
    """Their loss is near the optimum with offsets, and not near that of the weights without."""
    more, y = {"w": ONES, "o": OFFSET}, labels_of(task)
    how = {"epsilon": 0, "max_iter": 300, "seed": 1, "threads": 1, "algorithm": algorithm}
    if ALGORITHMS[algorithm].refusal(replace(LINEAR[task], offset=True)):
        said = f"offset is not available with algorithm '{algorithm}', expected"
        with pytest.raises(duckdb.Error, match=said):
            here.fit(task, X, y, more=more, **how)
        return
    model = here.fit(task, X, y, more=more, **how)
    best = here.fit(task, X, y, more=more, **SETTLED)
    assert model.loss == pytest.approx(best.loss, rel=2e-3)


@pytest.mark.parametrize("sampler", ["random-partition", "bernoulli"])
def test_samplers_that_draw_rows_take_no_offsets(here: Client, sampler: str) -> None:
    with pytest.raises(duckdb.Error, match=f"offset is not available with sampler '{sampler}'"):
        here.fit("linear", X, NUMBERS, more={"w": ONES, "o": OFFSET}, sampler=sampler)


def test_searches_judge_with_offsets(con: duckdb.DuckDBPyConnection) -> None:
    """Rows held out are predicted with their offsets: no penalty suits labels that are those."""
    rows = Client(con, "?")
    source, parameters = rows.rows(X, 40 * OFFSET + MARGIN, o=40 * OFFSET)
    (best,) = con.execute(
        "SELECT min(metric) FROM model_trials((SELECT train_model('linear', y, [c0, c1], "
        f'\'{{"l2": [0.0001, 100.0], "folds": 4}}\', 1, o) FROM {source}))',
        parameters,
    ).fetchone()
    assert best < 0.1
