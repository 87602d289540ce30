"""Rows with weights and offsets in both databases, against rows repeated and statsmodels."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, few, here, there

import tuskml
from tuskml.estimators import TuskClassifier, TuskRegressor
from tuskml.learners.linear.algorithms import ALGORITHMS, REGISTERED
from tuskml.learners.linear.tasks import LINEAR

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(16)
N = 300
X = RANDOM.normal(size=(N, 2)) * [1, 3] + [0, 1]
WEIGHT = RANDOM.integers(0, 4, N)
EXPOSURE = RANDOM.uniform(0.5, 1e4, N)
MARGIN = 0.2 + X @ [0.5, -0.1]
COUNTS = RANDOM.poisson(np.exp(MARGIN))
NUMBERS = MARGIN + RANDOM.normal(size=N)
SIDES = (MARGIN + RANDOM.logistic(size=N) > 0).astype(float)
SPREAD = RANDOM.negative_binomial(1.5, 1.5 / (1.5 + np.exp(MARGIN)))
LABELS = {"poisson": COUNTS, "negative_binomial": SPREAD, "tweedie": COUNTS}
LABELS |= {"gamma": COUNTS + 1.0, "inverse_gaussian": COUNTS + 1.0}
SETTLED = {"epsilon": 1e-8, "max_iter": 5000}


def labels_of(task: str) -> Any:
    return LABELS.get(task, SIDES if LINEAR[task].classifies else NUMBERS)


def numbers(model: SimpleNamespace) -> Any:
    return np.r_[model.intercept, model.coef, model.std_err, model.loss]


def same(a: SimpleNamespace, b: SimpleNamespace, size: float) -> None:
    assert (a.status, a.converged) == (b.status, b.converged) == ("ok", True)
    assert numbers(a) == pytest.approx(numbers(b), abs=size, rel=size, nan_ok=True)


PAIRS = [
    (task, algorithm)
    for task in LINEAR.values()
    for algorithm in REGISTERED
    if not algorithm.refusal(task)
]
RESTLESS = [
    (task, one) for task, one in PAIRS if one.noisy or (one.stochastic and not task.smooth)
]
SETTLING = [(task.name, one.name) for task, one in PAIRS if (task, one) not in RESTLESS]
NOISY = [
    pytest.param(
        task.name, one.name, marks=pytest.mark.nightly if task.name == "huber" else ()
    )  # which takes half a minute
    for task, one in RESTLESS
]


@pytest.mark.sample(16)
@pytest.mark.parametrize(("task", "algorithm"), SETTLING)
def test_a_weight_is_the_row_as_many_times(here: Client, task: str, algorithm: str) -> None:
    y, how = labels_of(task), SETTLED | {"algorithm": algorithm}
    if ALGORITHMS[algorithm].proves_gap:  # dcd has no dual without the penalty
        how["l2"] = 0.05
    weighted = here.fit(task, X, y, more={"w": WEIGHT}, **how)
    repeated = here.fit(task, np.repeat(X, WEIGHT, axis=0), np.repeat(y, WEIGHT), **how)
    same(weighted, repeated, 1e-6 if task != "svm" else 1e-5)
    assert weighted.n_rows == (WEIGHT > 0).sum()


@pytest.mark.sample(4)
@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize(("task", "algorithm"), NOISY)
def test_noisy_steps_end_near_the_weighted_optimum(
    here: Client, task: str, algorithm: str, storage: str
) -> None:
    """Much nearer than the optimum without weights, which are largest where labels are."""
    # One thread: where two race for few rows, the last weights depend on the machine's other work.
    how = {"epsilon": 0, "max_iter": 300, "seed": 1, "threads": 1, "algorithm": algorithm}
    y = labels_of(task)
    weight = np.where(y > np.median(y) - (y.max() == 1), 5.0, 1.0)
    model = here.fit(task, X, y, storage, more={"w": weight}, **how)
    best = here.fit(task, X, y, storage, more={"w": weight}, algorithm="lbfgs", **SETTLED)
    plain = here.fit(task, X, y, storage, algorithm="lbfgs", **SETTLED)
    ends = [np.r_[one.intercept, one.coef] for one in (model, best, plain)]
    assert np.linalg.norm(ends[0] - ends[1]) < 0.4 * np.linalg.norm(ends[2] - ends[1])
    assert model.loss == pytest.approx(best.loss, rel=0.05)


@pytest.mark.sample(9)
@pytest.mark.parametrize("storage", ["dense", "sparse", "float"])
@pytest.mark.parametrize("task", list(LINEAR))
def test_auto_takes_weights_in_both_databases(client: Client, task: str, storage: str) -> None:
    y = labels_of(task)
    weighted = client.fit(task, X, y, storage, more={"w": WEIGHT}, **SETTLED)
    repeated = client.fit(
        task, np.repeat(X, WEIGHT, axis=0), np.repeat(y, WEIGHT), storage, **SETTLED
    )
    same(weighted, repeated, 1e-6)


@pytest.mark.parametrize("task", ["linear", "logistic", "poisson"])
def test_penalties_and_class_weights_go_with_weights(client: Client, task: str) -> None:
    how = SETTLED | {"l2": 0.1, "l1": 0.01}
    if task == "logistic":
        how |= {"class_weight": "balanced"}
    y = labels_of(task)
    weighted = client.fit(task, X, y, more={"w": WEIGHT}, **how)
    repeated = client.fit(task, np.repeat(X, WEIGHT, axis=0), np.repeat(y, WEIGHT), **how)
    same(weighted, repeated, 1e-6)


def test_many_classes_take_weights(client: Client) -> None:
    y = np.digitize(NUMBERS, [-0.5, 1.0]).astype(float)
    weighted = client.fit("logistic", X, y, more={"w": WEIGHT}, **SETTLED)
    repeated = client.fit(
        "logistic", np.repeat(X, WEIGHT, axis=0), np.repeat(y, WEIGHT), **SETTLED
    )
    assert weighted.coef == pytest.approx(repeated.coef, abs=1e-7)
    assert weighted.std_err == pytest.approx(repeated.std_err, rel=1e-7, nan_ok=True)
    assert weighted.loss == pytest.approx(repeated.loss, rel=1e-12)


FAMILIES = {
    "poisson": sm.families.Poisson(),
    "gamma": sm.families.Gamma(sm.families.links.Log()),
    "linear": sm.families.Gaussian(),
}


@pytest.mark.parametrize("task", list(FAMILIES))
def test_standard_errors_are_those_of_frequency_weights(client: Client, task: str) -> None:
    """Weights need not be whole numbers."""
    weight, y = RANDOM.uniform(0.2, 5, N), labels_of(task)
    model = client.fit(task, X, y, more={"w": weight}, **SETTLED)
    truth = sm.GLM(y, sm.add_constant(X), FAMILIES[task], freq_weights=weight).fit(tol=1e-13)
    assert np.r_[model.intercept, model.coef] == pytest.approx(truth.params, abs=1e-7)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)


@pytest.mark.parametrize("task", ["poisson", "gamma"])
@pytest.mark.parametrize("storage", ["dense", "sparse", "float"])
def test_an_offset_is_the_exposure_of_a_glm(client: Client, task: str, storage: str) -> None:
    x = X.astype(np.float32).astype(float)
    y = RANDOM.poisson(EXPOSURE * np.exp(MARGIN)) + 1.0
    more = {"w": WEIGHT, "o": np.log(EXPOSURE)}
    model = client.fit(task, x, y, storage, more=more, **SETTLED)
    truth = sm.GLM(
        y,
        sm.add_constant(x),
        FAMILIES[task],
        offset=np.log(EXPOSURE),
        freq_weights=WEIGHT,
    ).fit(tol=1e-13)
    assert np.r_[model.intercept, model.coef] == pytest.approx(truth.params, abs=1e-6)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-5)


def test_the_dispersion_of_counts_is_estimated_with_exposure(client: Client) -> None:
    mean = EXPOSURE / 1e3 * np.exp(MARGIN)
    y = RANDOM.negative_binomial(2.0, 2 / (2 + mean))
    more = {"w": np.ones(N), "o": np.log(EXPOSURE / 1e3)}
    model = client.fit("negative_binomial", X, y, more=more, **SETTLED)
    truth = sm.NegativeBinomial(y, sm.add_constant(X), offset=np.log(EXPOSURE / 1e3)).fit(
        disp=False, gtol=1e-10, maxiter=500
    )
    found = np.r_[model.intercept, model.coef, model.options["dispersion"]]
    assert found == pytest.approx(truth.params, abs=1e-4)


@given(st.lists(st.integers(0, 5), min_size=40, max_size=40).filter(lambda w: sum(w) > 60))
@few
def test_any_whole_weights_are_rows_repeated(here: Client, weights: list[int]) -> None:
    x, y = X[:40], NUMBERS[:40]
    weighted = here.fit("linear", x, y, more={"w": weights}, validation=0.0)
    repeated = here.fit("linear", np.repeat(x, weights, axis=0), np.repeat(y, weights))
    assert numbers(weighted) == pytest.approx(numbers(repeated), rel=1e-9, abs=1e-12)


@pytest.mark.nightly
def test_a_task_of_your_own_takes_weights(con: duckdb.DuckDBPyConnection) -> None:
    """The log cosh of the residual; a weight of 2 is the row twice."""

    def loss(m: Any, y: Any) -> Any:
        return np.logaddexp(m - y, y - m) - np.log(2)

    tuskml.register_task("log_cosh", loss=loss, derivative=lambda m, y: np.tanh(m - y))
    try:
        own = Client(con, "?")
        weighted = own.fit("log_cosh", X, NUMBERS, more={"w": WEIGHT}, **SETTLED)
        x, y = np.repeat(X, WEIGHT, axis=0), np.repeat(NUMBERS, WEIGHT)
        repeated = own.fit("log_cosh", x, y, **SETTLED)
    finally:
        tuskml.unregister_task("log_cosh")
    assert weighted.coef == pytest.approx(repeated.coef, abs=1e-6)
    assert weighted.loss == pytest.approx(repeated.loss, rel=1e-10)


def test_equal_weights_change_nothing(client: Client) -> None:
    """But for standard errors, which are those of so many rows."""
    plain = client.fit("logistic", X, SIDES, **SETTLED)
    weighted = client.fit("logistic", X, SIDES, more={"w": np.full(N, 4.0)}, **SETTLED)
    assert weighted.coef == pytest.approx(plain.coef, abs=1e-9)
    assert weighted.std_err == pytest.approx(plain.std_err / 2, rel=1e-7)


def test_separable_classes_have_the_ridge_of_rows_repeated(client: Client) -> None:
    y = (X[:, 0] > 0).astype(float)
    weighted = client.fit("logistic", X, y, more={"w": WEIGHT})
    repeated = client.fit("logistic", np.repeat(X, WEIGHT, axis=0), np.repeat(y, WEIGHT))
    assert weighted.status == repeated.status == "separable"
    assert weighted.coef == pytest.approx(repeated.coef, rel=1e-6)


def test_held_out_rows_keep_their_weights(client: Client) -> None:
    """Rows of other labels weigh next to nothing, held out or not."""
    x, y = np.r_[X, X], np.r_[NUMBERS, NUMBERS + 1e3 * X[:, 0]]
    weight = np.r_[np.ones(N), np.full(N, 1e-12)]
    model = client.fit("linear", x, y, more={"w": weight}, validation=0.2, epsilon=0)
    plain = client.fit("linear", X, NUMBERS)
    assert model.coef == pytest.approx(plain.coef, abs=0.1)


SQL = "SELECT (train_model('linear', y, ARRAY[c0, c1], '{{}}', {weight})).n_skipped FROM {source}"


def test_rows_without_a_weight_are_skipped_and_counted(client: Client) -> None:
    source, parameters = client.rows(X, NUMBERS, w=WEIGHT)
    sql = SQL.format(weight="CASE WHEN w < 2 THEN NULL ELSE w END", source=source)
    assert client.connection.execute(sql, parameters).fetchall() == [((WEIGHT < 2).sum(),)]
    sql = SQL.format(weight="w * 0", source=source)
    assert client.connection.execute(sql, parameters).fetchall() == [(None,)]


BAD = {
    "CASE WHEN y = 3 THEN -1 ELSE 1 END": "weight is -1 in row 3 of the group, expected a finite",
    "CASE WHEN y = 3 THEN CAST('nan' AS double precision) ELSE 1 END": "weight is NaN in row 3",
    "CAST('inf' AS double precision)": "weight is infinity in row 1",
    "1, CAST('-inf' AS double precision)": "offset is -infinity in row 1",
}


@pytest.mark.parametrize("weight", list(BAD))
def test_bad_weights_are_errors_that_name_the_row(client: Client, weight: str) -> None:
    source, parameters = client.rows(np.ones((4, 2)), [1, 2, 3, 4])
    sql = SQL.replace("{{}}", '{{"invalid": "error"}}').format(weight=weight, source=source)
    with pytest.raises(Exception, match=BAD[weight]) as caught:
        client.connection.execute(sql, parameters).fetchall()
    assert "train_model" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "'linear', y, [c0], '{\"store\": \"s\"}', 2",
            "option 'store' is not available with weig",
        ),
        (
            "'svm', y > 4, [c0], '{}', 2, 1",
            "offset is not available with task 'svm', expected 'linear'",
        ),
        ("'logistic', y, [c0], '{}', 2, 1", "offset is not available with more than two classes"),
        ("'mlp', y, [c0], '{}', 2, 1", "offset is not available with task 'mlp', expected"),
        (
            "'random_forest', y, [c0], '{}', 2, 1",
            "offset is not available with task 'random_forest'",
        ),
        ("'linear', y, [c0], '{}', 'heavy'", "weight and offset numbers"),
        ("'linear', y, [c0], '{}', 1, 1, 1", r"\(task, label, features \[, options \[, weight"),
    ],
)
def test_what_takes_no_weights_says_so(
    con: duckdb.DuckDBPyConnection, call: str, message: str
) -> None:
    rows = "(SELECT i AS y, i * i AS c0 FROM range(9) AS t(i))"
    with pytest.raises(duckdb.Error, match=message):
        con.execute(f"SELECT train_model({call}) FROM {rows}").fetchall()


def test_named_rows_and_text_labels_have_weights(client: Client) -> None:
    """Small groups, whose rows are gathered, and rows that come in many segments."""
    source, parameters = client.rows(X, SIDES, w=WEIGHT, g=np.arange(N) % 3)
    row = "{'a': c0, 'b': c1, 's': s}" if client.mark == "?" else "r"
    sql = """
        SELECT g, (m).coef, (m).intercept FROM (
            SELECT g, train_model('logistic', label, {row}, '{{}}'{weight}) AS m
            FROM (SELECT CASE WHEN y > 0 THEN 'yes' ELSE 'no' END AS label, g, w, c0, c1,
                CASE WHEN c1 > 2 THEN 'up' ELSE 'down' END AS s FROM {source}) AS t{join}
            GROUP BY g) AS u ORDER BY g"""
    lateral = ", LATERAL (SELECT c0 AS a, c1 AS b, s) AS r" if client.mark == "%s" else ""
    times = f"{lateral}, generate_series(1, CAST(w AS int)) AS n"

    def found(weight: str, join: str) -> Any:
        text = sql.format(row=row, weight=weight, source=source, join=join)
        rows = client.connection.execute(text, parameters).fetchall()
        return np.array([[g, *coef, intercept] for g, coef, intercept in rows])

    assert found(", w", lateral) == pytest.approx(found("", times), abs=1e-5)


def test_many_small_groups_have_their_own_weights(client: Client) -> None:
    source, parameters = client.rows(X, NUMBERS, w=WEIGHT + 1, g=np.arange(N) % 70)
    sql = """
        SELECT g, (m).intercept, (m).coef FROM (
            SELECT g, train_model('linear', y, ARRAY[c0], '{{}}'{weight}) AS m
            FROM {source}{join} GROUP BY g) AS u ORDER BY g"""

    def found(weight: str, join: str) -> Any:
        text = sql.format(weight=weight, source=source, join=join)
        rows = client.connection.execute(text, parameters).fetchall()
        return np.array([[g, intercept, *coef] for g, intercept, coef in rows])

    repeated = found("", ", generate_series(1, CAST(w AS int)) AS n")
    assert found(", w", "") == pytest.approx(repeated, rel=1e-6, abs=1e-9)


TABLE = (
    "CREATE {temp} TABLE weighted AS SELECT i % 5 AS x, i % 3 AS w, 1 + i % 4 AS years, "
    "i % 5 + i % 7 AS y FROM {range} AS t(i)"
)


def test_the_table_form_takes_weight_and_offset(client: Client) -> None:
    here = client.mark == "?"
    source = "range(90)" if here else "generate_series(0, 89)"
    client.connection.execute("DROP TABLE IF EXISTS weighted")
    client.connection.execute(TABLE.format(temp="" if here else "TEMP", range=source))
    features, given = ("['x']", ":=") if here else ("ARRAY['x']", "=>")
    how = f"weight {given} 'w', \"offset\" {given} 'ln(years)'"
    sql = f"SELECT intercept, coef FROM train('weighted', 'poisson', 'y', {features}, {how})"
    call = "train_model('poisson', y, ARRAY[x], '', w, ln(years))"
    plain = f"SELECT (m).intercept, (m).coef FROM (SELECT {call} AS m FROM weighted) AS t"
    assert client.connection.execute(sql).fetchall() == client.connection.execute(plain).fetchall()
    for one in ("weight", "offset"):
        model = tuskml.train(
            client.connection,
            "poisson",
            source="weighted",
            label="y",
            features=["x"],
            **{one: "w" if one == "weight" else "ln(years)"},
        )
        last = ", w" if one == "weight" else ", 1, ln(years)"
        call = f"train_model('poisson', y, ARRAY[x], ''{last})"
        plain = f"SELECT (m).coef FROM (SELECT {call} AS m FROM weighted) AS t"
        assert client.connection.execute(plain).fetchall() == [(list(model.coef),)]
    with pytest.raises(tuskml.DataError, match="weight names column 'ww'"):
        tuskml.train(
            client.connection, "poisson", source="weighted", label="y", features="x", weight="ww"
        )


@pytest.mark.sample(1)
@pytest.mark.parametrize("task", ["regressor", "classifier"])
def test_estimators_take_sample_weights(task: str) -> None:
    y = NUMBERS if task == "regressor" else SIDES
    estimator = TuskRegressor() if task == "regressor" else TuskClassifier()
    weighted = estimator.fit(X, y, sample_weight=WEIGHT).coef_.copy()
    repeated = estimator.fit(np.repeat(X, WEIGHT, axis=0), np.repeat(y, WEIGHT)).coef_
    assert weighted == pytest.approx(repeated, abs=1e-6)
