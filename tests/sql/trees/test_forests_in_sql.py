"""The task `random_forest` in SQL of both databases."""

# ruff: noqa: E501, SQL is read better on one line

import json
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest

import tuskml
from tuskml import DataError
from tuskml.export_onnx import to_onnx
from tuskml.learners.registry import all_options
from tuskml.learners.trees import explanation
from tuskml.learners.trees.options import FOREST_OPTIONS

ROWS = """CREATE {temp} TABLE t AS SELECT i, (i * 7919 % 1009)::float8 / 1009 AS a, (i * 31 % 101)::float8 / 101 AS b,
(i * 17 % 13)::float8 AS c FROM generate_series(0, 899) AS r(i)"""
X = {"duck": "[a, b, c]", "post": "ARRAY[a, b, c]"}
CLASSES = "CASE WHEN b > 0.6 THEN 'high' WHEN c > 5 THEN 'low' ELSE 'none' END"
OF_A_FOREST = FOREST_OPTIONS.parse("{}", "random_forest", all_options)
GINI = {"objective": "gini", "trees": 15}


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        self.temp = "TEMP" if name == "post" else ""
        session.execute(ROWS.format(temp=self.temp))

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query in which {x} stands for the features."""
        return self.session.execute(sql.replace("{x}", X[self.name])).fetchall()

    def keep(self, label: str, where: str = "true", **options: Any) -> tuskml.Model:
        """Trains a model into table f."""
        call = f"train_model('random_forest', {label}, {X[self.name]}, '{json.dumps(options)}')"
        self.session.execute("DROP TABLE IF EXISTS f")
        self.session.execute(
            f"CREATE {self.temp} TABLE f AS SELECT {call} AS m FROM t WHERE {where}"
        )
        found = "m" if self.name == "duck" else "to_jsonb(m)"
        return tuskml.Model.of(self.ask(f"SELECT {found} FROM f")[0][0])


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


@pytest.mark.parametrize("label", ["sin(9 * a) + c", "sin(9 * a) + c > 6"])
def test_features_may_be_monotone(db: Database, label: str) -> None:
    options = {} if label.endswith("c") else {"objective": "gini"}
    line = [[a / 50, 0.5, 6.0] for a in range(50)]
    free = db.keep(label, trees=10, **options)
    for sign in (1, -1):
        model = db.keep(label, trees=10, monotone=[sign, 0, 0], **options)
        assert (sign * np.diff(model.decision(line)) >= -1e-12).all()
        assert not (sign * np.diff(free.decision(line)) >= 0).all()
    with pytest.raises((duckdb.Error, psycopg.Error), match="label has more than two, whose prob"):
        db.keep(CLASSES, objective="gini", monotone=[1, 0, 0])


def test_both_databases_grow_the_same_forest(con: duckdb.DuckDBPyConnection, post: Any) -> None:
    here, there = (
        Database(*one).keep("a * b + c", trees=5) for one in (("duck", con), ("post", post))
    )
    assert here.coef == there.coef
    assert here.loss == pytest.approx(there.loss, rel=1e-12)


def test_numbers(db: Database) -> None:
    """The loss is out of bag: higher than that of the rows that trees have seen."""
    model = db.keep("a * b + c", trees=40, min_child_rows=3)
    assert (model.status, model.iterations) == ("ok", 40)
    assert len(model.history or []) == 40
    told = db.ask(
        "SELECT avg((predict(m, {x}) - (a * b + c)) ^ 2) / 2, var_pop(a * b + c) / 2 FROM f, t"
    )[0]
    assert told[0] < model.loss < told[1] / 4
    assert "40 trees" in model.plan
    nodes = db.ask("SELECT count(*) FILTER (WHERE node = 0) FROM tree_dump((SELECT m FROM f))")
    assert nodes == [(40,)]
    assert db.ask("SELECT feature FROM feature_importance((SELECT m FROM f))")[0] == ("x3",)
    row = db.ask(
        "SELECT sum(e.contribution), max(decision(m, {x})) FROM f, t, LATERAL explain_prediction(m, {x}) AS e WHERE i = 7"
    )[0]
    assert row[0] == pytest.approx(row[1], rel=1e-9)


def test_two_classes_have_shares(db: Database) -> None:
    model = db.keep("b > 0.6", **GINI)
    assert model.class_names == ["false", "true"] or model.classes == [0, 1]
    rows = np.array(
        db.ask(
            "SELECT predict_proba(m, {x}), decision(m, {x}), predict(m, {x}), CASE WHEN b > 0.6 THEN 1 ELSE 0 END FROM f, t"
        ),
        float,
    )
    assert rows[:, 0] == pytest.approx(np.clip(rows[:, 1] + 0.5, 0, 1), abs=1e-12)
    assert ((rows[:, 0] >= 0.5) == (rows[:, 2] == 1)).all()
    assert (rows[:, 2] == rows[:, 3]).mean() > 0.99
    assert 0 <= rows[:, 0].min() < 0.1
    assert 0.9 < rows[:, 0].max() <= 1
    x = np.array(db.ask("SELECT a, b, c FROM t"), float)
    assert model.predict_proba(x) == pytest.approx(rows[:, 0], abs=1e-12)


def test_several_classes_have_shares_that_add_up(db: Database) -> None:
    model = db.keep(CLASSES, **GINI)
    assert model.class_names == ["high", "low", "none"]
    x = np.array(db.ask("SELECT a, b, c FROM t"), float)
    shares = model.predict_probas(x)
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(x)), abs=1e-12)
    assert shares.min() >= 0
    right = db.ask(
        f"SELECT avg(CASE WHEN predict_class(m, {{x}}) = {CLASSES} THEN 1.0 ELSE 0 END) FROM f, t"
    )
    assert float(right[0][0]) > 0.98
    told = db.ask("SELECT predict_class(m, {x}) FROM f, t ORDER BY i")
    best = [
        model.class_names[k]
        for k in model.predict_probas(
            np.array(db.ask("SELECT a, b, c FROM t ORDER BY i"), float)
        ).argmax(axis=1)
    ]
    assert [row[0] for row in told] == best


STATUSES = [
    ("1.0", "true", {}, "no split"),
    ("a", "i = 0", {}, "too few rows"),
    ("a > -1", "true", {"objective": "gini"}, "one class"),
    ("a > -1", "true", {"objective": "gini", "classes": [False, True]}, "one class"),
    ("a + b", "true", {}, "ok"),
]


@pytest.mark.parametrize(("label", "where", "options", "status"), STATUSES)
def test_statuses(db: Database, label: str, where: str, options: Any, status: str) -> None:
    model = db.keep(label, where, trees=3, **options)
    assert model.status == status
    assert np.isfinite(model.loss)
    told = db.ask("SELECT predict(m, {x}) FROM f, t LIMIT 1")[0][0]
    assert np.isfinite(told)
    if status == "one class":  # true is the higher one
        assert db.ask("SELECT predict_proba(m, {x}) FROM f, t LIMIT 1") == [(1.0,)]


def test_gaps_have_a_side(db: Database) -> None:
    db.session.execute("UPDATE t SET c = NULL WHERE i % 5 = 0")
    db.keep("CASE WHEN c IS NULL THEN 5 ELSE a END", trees=20)
    told = db.ask("SELECT avg(predict(m, {x})) FROM f, t WHERE c IS NULL")[0][0]
    assert told == pytest.approx(5, abs=0.6)


def test_options_of_boosting_are_refused(db: Database) -> None:
    with pytest.raises(
        (duckdb.Error, psycopg.Error),
        match="'learning_rate' is not available with task 'random_forest'",
    ):
        db.keep("a", learning_rate=0.1)
    with pytest.raises(
        (duckdb.Error, psycopg.Error),
        match="'objective' is \"logistic\", expected 'squared' or 'gini'",
    ):
        db.keep("a", objective="logistic")


def test_lightgbm_has_forests_of_numbers_only(con: duckdb.DuckDBPyConnection) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    db = Database("duck", con)
    x = np.array(db.ask("SELECT a, b, c FROM t"), float)
    model = db.keep("a * b + c", trees=5)
    booster = lightgbm.Booster(model_str=model.to_lightgbm())
    np.testing.assert_allclose(booster.predict(x), model.predict(x), rtol=1e-12)
    for label in ("b > 0.6", CLASSES):
        with pytest.raises(DataError, match="random forest of classes"):
            db.keep(label, **GINI).to_lightgbm()


@pytest.mark.parametrize(
    ("label", "given"),
    [("b + c / 40 > 0.6", {}), (CLASSES, {}), ("c > -1", {"classes": [False, True]})],
)
def test_onnx_has_forests_of_classes(
    con: duckdb.DuckDBPyConnection, label: str, given: Any
) -> None:
    """Two classes, three and one; rows that the forest has not seen, and features that are missing."""
    runtime = pytest.importorskip("onnxruntime")
    model = Database("duck", con).keep(label, where="i % 9 > 0", **GINI, **given)
    x = np.random.default_rng(1).uniform(-0.1, 1.1, (300, 3)) * [1, 1, 13]
    x[::7, 1] = np.nan
    graph = to_onnx(model)
    found = runtime.InferenceSession(graph.SerializeToString()).run(None, {"features": x})
    by_name = dict(zip([one.name for one in graph.graph.output], found, strict=True))
    shares = model.predict_probas(x) if model.many_classes else model.predict_proba(x)
    np.testing.assert_allclose(by_name["probability"], shares, atol=1e-12)
    assert (by_name["prediction"] == model.predict(x)).all()
    assert np.isfinite(by_name["probability"]).all()
    with pytest.raises(DataError, match="the graph is a random forest of classes"):
        tuskml.Model.from_onnx(graph)


def test_onnx_has_no_forest_of_a_class_that_may_be_either(con: duckdb.DuckDBPyConnection) -> None:
    model = Database("duck", con).keep("c * 0 + 2", **GINI)
    with pytest.raises(DataError, match="status is 'one class', and it has no margin"):
        to_onnx(model)


def test_explanations_time_trees_of_a_forest(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials grow what a training grows: deep trees on features that are drawn for each split."""
    seen = []
    kept = explanation.boost
    monkeypatch.setattr(
        explanation, "boost", lambda rows, rules, *more: seen.append(rules) or kept(rows, rules, *more)
    )  # fmt: skip
    con.execute(ROWS.format(temp=""))
    options = json.dumps(GINI | {"format": "json"})
    told = con.execute(
        f"SELECT explain_training('random_forest', b > 0.6, [a, b, c], '{options}') FROM t"
    ).fetchone()
    (one,) = json.loads(told[0])["candidates"]
    assert one["algorithm"] == "random_forest"
    assert one["iterations"] == {"low": 15, "point": 15, "high": 15}
    assert one["seconds"]["point"] >= 15 * one["seconds_per_iteration"] > 0
    assert {rules.averaged for rules in seen} == {1}
    assert {rules.num_leaves for rules in seen} == {2**31 - 1}
    assert {rules.node_fraction for rules in seen} == {3**-0.5}


def test_whole_trees_take_longer_than_their_rows_are_more() -> None:
    """Sixteen times the rows are four levels more of trees that have eight levels."""
    whole, few = (replace(OF_A_FOREST, num_leaves=most) for most in (2**31 - 1, 31))
    assert explanation.growth(whole, 1 << 12, 1 << 8) == pytest.approx(16 * 12 / 8)
    assert explanation.growth(few, 1 << 12, 1 << 8) == 16
    assert explanation.growth(replace(whole, max_depth=6), 1 << 12, 1 << 8) == 16
