"""Rows that trees can make little of: each training ends with a model and a status that says why."""

# ruff: noqa: E501, SQL is read better on one line

import math
from typing import Any

import duckdb
import pytest

import tuskml

pytestmark = pytest.mark.fault(family="bad input by name")

BOTH = ("gbdt", "random_forest")


class Database:
    """One of both databases."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session

    def told(self, task: str, label: str, features: str, rows: int, options: str = "") -> Any:
        """(status, loss, prediction, n_rows, n_skipped) of a model of generated rows."""
        given = options or '{"trees": 3}'
        source = f"(SELECT i, i::float8 AS x, NULL::float8 AS nothing FROM generate_series(1, {rows}) AS r(i)) AS t"
        sql = (
            f"SELECT (m).status, (m).loss, predict(m, {features}), (m).n_rows, (m).n_skipped FROM {source}, "
            f"(SELECT train_model('{task}', {label}, {features}, '{given}') AS m FROM {source}) AS f ORDER BY i LIMIT 1"
        )
        return self.session.execute(sql).fetchall()[0]


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


CASES = {
    "constant features": ("x", "ARRAY[1.0::float8, 2.0::float8]", 200, "no split"),
    "one row": ("x", "ARRAY[x]", 1, "too few rows"),
    "features that are all NULL": ("x", "ARRAY[nothing, nothing]", 200, "no split"),
    "equal labels": ("5.0::float8", "ARRAY[x]", 200, "no split"),
    "labels near the end of doubles": ("x * 1e300", "ARRAY[x]", 200, "out of range"),
    "the least doubles": ("x * 5e-324", "ARRAY[x]", 200, "out of range"),
    "features at the ends of doubles": (
        "x",
        "ARRAY[CASE WHEN x > 100 THEN 1.7e308 ELSE -1.7e308 END::float8]",
        200,
        "ok",
    ),
    "as deep as there are rows": ("x * x", "ARRAY[x]", 200, "ok"),
}


@pytest.mark.parametrize("task", BOTH)
@pytest.mark.parametrize("case", CASES)
def test_a_status_says_what_happened(db: Database, task: str, case: str) -> None:
    label, features, rows, status = CASES[case]
    options = '{"trees": 3, "min_child_rows": 1, "num_leaves": 65536}' if "deep" in case else ""
    found = db.told(task, label, features, rows, options)
    assert found[0] == status
    assert found[3:] == (rows, 0)
    assert found[2] is not None
    assert math.isfinite(found[2])


ENDS = "CASE WHEN i % 2 = 0 THEN 1e308::float8 ELSE {} END"
LABELS_AT_THE_ENDS = [
    ("1e308::float8", 1e308),
    (ENDS.format("-1e308::float8"), 0.0),
    (ENDS.format("1"), 5e307),
    ("1.7e308::float8", 1.7e308),
]
TASKS_OF_NUMBERS = [
    *(f'gbdt {{"trees": 3, "objective": "{name}"}}' for name in ("squared", "quantile", "huber")),
    'random_forest {"trees": 3}',
    'mlp {"max_iter": 2, "layers": [4]}',
]


@pytest.mark.parametrize("call", TASKS_OF_NUMBERS)
@pytest.mark.parametrize(("label", "middle"), LABELS_AT_THE_ENDS)
def test_labels_whose_sum_is_beyond_doubles(
    db: Database, call: str, label: str, middle: float
) -> None:
    """The model is a constant within the labels' range, never infinite."""
    task, _, options = call.partition(" ")
    status, _, prediction, *_ = db.told(task, label, "ARRAY[x]", 200, options)
    assert status in ("out of range", "no split")
    assert prediction == pytest.approx(middle)


def test_counts_whose_sum_is_beyond_doubles(db: Database) -> None:
    """The constant is that of the middle of their range, whose margin is its logarithm."""
    found = db.told(
        "gbdt", ENDS.format("1"), "ARRAY[x]", 200, '{"trees": 3, "objective": "poisson"}'
    )
    assert found[0] == "out of range"
    assert found[2] == pytest.approx(5e307, rel=1e-9)


def test_a_class_beyond_whole_doubles_is_named_briefly(db: Database) -> None:
    options = '{"trees": 3, "objective": "logistic", "invalid": "error"}'
    for label, shown in (("-1e308", "-1e\\+308"), ("9223372036854775807", "9223372036854775808")):
        with pytest.raises(Exception, match=f"such as label = {shown}$|label = {shown}\\n"):
            db.told("gbdt", f"{label}::float8", "ARRAY[x]", 200, options)


SQUARED = '{"objective": "squared"}'


@pytest.mark.parametrize(
    ("task", "objective"), [("gbdt", "logistic"), ("random_forest", "gini"), ("mlp", "logistic")]
)
def test_labels_that_are_text_are_told_how_to_be_classes(
    con: duckdb.DuckDBPyConnection, task: str, objective: str
) -> None:
    """Where they ask for numbers; by themselves they are classes."""
    con.execute("CREATE TABLE t AS SELECT 'c' || (i % 3) AS y, i::float8 AS x FROM range(90) r(i)")
    told = f"give option 'objective' \"{objective}\" for classes"
    with pytest.raises(duckdb.InvalidInputException, match=told):
        con.execute(f"SELECT train_model('{task}', y, {{'x': x}}, '{SQUARED}') FROM t")
    with pytest.raises(tuskml.DataError, match=f"a boolean; {told}"):
        tuskml.train(con, task, source="t", label="y", features="x", objective="squared")
    model = tuskml.train(con, task, source="t", label="y", features="x")
    assert isinstance(model, tuskml.Model)
    assert model.class_names == ["c0", "c1", "c2"]


@pytest.mark.parametrize("task", BOTH)
def test_ten_thousand_features(con: duckdb.DuckDBPyConnection, task: str) -> None:
    con.execute(
        "CREATE TABLE wide AS SELECT 10 * (i % 7) + i % 2 AS y, list_transform(range(10000), lambda j: ((i * (j + 1)) % 7)::FLOAT) AS x FROM range(60) r(i)"
    )
    found = con.execute(
        f"SELECT m.status, m.n_features FROM (SELECT train_model('{task}', y, x, '{{\"trees\": 2, \"min_child_rows\": 2}}') AS m FROM wide)"
    ).fetchall()
    assert found == [("ok", 10000)]


@pytest.mark.parametrize("task", BOTH)
def test_a_category_with_a_level_per_row(con: duckdb.DuckDBPyConnection, task: str) -> None:
    """Levels of one row each say nothing of others: a model, whatever it is, and a finite number."""
    found = con.execute(
        f"SELECT m.status, predict(m, {{'k': 'new'}}) FROM (SELECT train_model('{task}', i % 2, {{'k': 'level ' || i}}, '{{\"trees\": 2}}') AS m FROM range(30000) r(i))"
    ).fetchall()[0]
    assert found[0] == "level per row"
    assert 0 <= found[1] <= 1


@pytest.mark.parametrize("task", BOTH)
def test_a_category_without_a_value(con: duckdb.DuckDBPyConnection, task: str) -> None:
    found = con.execute(
        f"SELECT m.status, predict(m, {{'k': NULL::VARCHAR}}), predict(m, {{'k': 'a'}}) FROM (SELECT train_model('{task}', i % 2, {{'k': NULL::VARCHAR}}, '{{\"trees\": 2}}') AS m FROM range(300) r(i))"
    ).fetchall()[0]
    assert found[0] == "no split"
    assert found[1] == found[2] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("multiclass", "are 'logistic'"), ("MSE", "are 'squared'"), ("poison", "did you mean")],
)
@pytest.mark.parametrize("task", ["gbdt", "mlp"])
def test_objectives_of_other_packages_are_named_here(
    con: duckdb.DuckDBPyConnection, task: str, name: str, hint: str
) -> None:
    if task == "mlp" and name == "poison":
        hint = "expected 'squared' or 'logistic'"
    with pytest.raises(duckdb.InvalidInputException, match=hint):
        con.execute(f"SELECT train_model('{task}', 1, [1.0], '{{\"objective\": \"{name}\"}}')")
