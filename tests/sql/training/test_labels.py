"""What labels make of a training, in both databases: classes, numbers, and a label among its features."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import duckdb
import psycopg
import pytest

import tuskml
from tuskml.errors import DataError

ROWS = """
CREATE {temp} TABLE t AS SELECT CAST(i AS INTEGER) AS i, CAST(i % 4 AS INTEGER) AS g,
CAST(i % 3 AS DOUBLE PRECISION) AS a, CAST((i * 7) % 5 AS DOUBLE PRECISION) AS b
FROM generate_series(0, 199) AS s(i)
"""
CLASSIFIERS = ["gbdt", "random_forest", "mlp", "fm"]
FEW = {
    "gbdt": {"trees": 5},
    "random_forest": {"trees": 5},
    "mlp": {"max_iter": 40},
    "fm": {"max_iter": 40},
}


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        session.execute(ROWS.format(temp="TEMP" if name == "post" else ""))

    def list(self, *items: str) -> str:
        listed = ", ".join(items)
        return f"[{listed}]" if self.name == "duck" else f"ARRAY[{listed}]"

    def row(self, **columns: str) -> str:
        if self.name == "duck":
            return "{" + ", ".join(f"'{name}': {sql}" for name, sql in columns.items()) + "}"
        listed = ", ".join(f'{sql} AS "{name}"' for name, sql in columns.items())
        return f"(SELECT q FROM (SELECT {listed}) AS q)"

    def ask(self, shown: str, task: str, label: str, features: str, **options: Any) -> Any:
        call = f"train_model('{task}', {label}, {features}, '{json.dumps(options)}')"
        return self.session.execute(
            f"SELECT {shown} FROM (SELECT {call} AS m FROM t) AS f"
        ).fetchall()


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


@pytest.mark.parametrize("kind", ["list", "row"])
@pytest.mark.parametrize("task", CLASSIFIERS)
def test_booleans_and_texts_are_classes(db: Database, task: str, kind: str) -> None:
    x = db.list("a", "b") if kind == "list" else db.row(a="a", b="b")
    labels = {
        "a < 2": ["false", "true"],
        "CASE WHEN a < 2 THEN 'low' ELSE 'high' END": ["high", "low"],
        "b": None,
    }
    for label, names in labels.items():
        ((found,),) = db.ask("(m).class_names", task, label, x, **FEW[task])
        assert found == names


@pytest.mark.parametrize("task", CLASSIFIERS)
def test_numbers_of_booleans_are_asked_for(db: Database, task: str) -> None:
    found = db.ask(
        "(m).class_names", task, "a < 2", db.list("a", "b"), objective="squared", **FEW[task]
    )
    assert found == [(None,)]


def test_searches_take_classes_too(db: Database) -> None:
    for task, options in (
        ("gbdt", {"num_leaves": [3, 7]}),
        ("auto", {"tasks": ["logistic", "gbdt"]}),
    ):
        found = db.ask("(m).class_names", task, "a < 2", db.list("a", "b"), folds=2, **options)
        assert found == [(["false", "true"],)]


@pytest.mark.parametrize("task", ["logistic", "svm", *CLASSIFIERS])
def test_texts_of_numbers_are_predicted_as_numbers(db: Database, task: str) -> None:
    """Also where the order of the texts is not that of the numbers."""
    several = task not in ("svm", "fm")
    label = (
        "CASE CAST(a AS INTEGER) WHEN 0 THEN '9' WHEN 1 THEN '20' ELSE '100' END"
        if several
        else "CASE WHEN a < 1 THEN '-1' ELSE '10.5' END"
    )
    options = {"l2": 0.01} if task in ("logistic", "svm") else FEW[task]
    x = db.list("a", "a * a", "b")
    shown = ", ".join(
        f"predict(m, {db.list(v, w, '1.0')}), predict_class(m, {db.list(v, w, '1.0')})"
        for v, w in (("0.0", "0.0"), ("1.0", "1.0"), ("2.0", "4.0"))
    )
    ((*found,),) = db.ask(shown, task, label, x, **options)
    expected = ["9", "20", "100"] if several else ["-1", "10.5", "10.5"]
    assert found[1::2] == expected
    assert found[::2] == [float(one) for one in expected]


@pytest.mark.parametrize("kind", ["list", "row"])
@pytest.mark.parametrize("task", ["logistic", "svm", *CLASSIFIERS])
def test_texts_have_no_number_to_predict(db: Database, task: str, kind: str) -> None:
    """Of one class, of two and of more: `predict` refuses, and `predict_class` answers."""
    x = db.list("a", "b") if kind == "list" else db.row(a="a", b="b")
    options = {"l2": 0.01} if task in ("logistic", "svm") else FEW[task]
    labels = ["CASE WHEN a < 2 THEN '10' ELSE 'high' END"]
    if task not in ("svm", "fm"):
        labels.append("CASE CAST(a AS INTEGER) WHEN 0 THEN '1' WHEN 1 THEN 'b' ELSE 'c' END")
    for label in labels:
        train = f"train_model('{task}', {label}, {x}, '{json.dumps(options)}')"
        models = f"(SELECT {train} AS m FROM t) AS f, t"
        for model in ("m", "with_payload(m)"):
            with pytest.raises((duckdb.Error, psycopg.Error), match=r"use predict_class\(model"):
                db.session.execute(f"SELECT predict({model}, {x}) FROM {models}").fetchall()
            right = (
                f"SELECT avg(CAST(predict_class({model}, {x}) = {label} AS INTEGER)) FROM {models}"
            )
            ((share,),) = db.session.execute(right).fetchall()
            assert share > 0.3


@pytest.mark.parametrize("task", ["logistic", "gbdt", "random_forest", "mlp"])
def test_proportions_are_no_classes(db: Database, task: str) -> None:
    options = (
        {}
        if task == "logistic"
        else FEW[task] | {"objective": "gini" if task == "random_forest" else "logistic"}
    )
    ((status, plan),) = db.ask("(m).status, (m).plan", task, "b / 5", db.list("a"), **options)
    assert status == "invalid rows"
    assert "for proportions give 'logistic' the option 'proportions'" in plan
    with pytest.raises((duckdb.Error, psycopg.Error), match="for proportions give 'logistic'"):
        db.ask("m", task, "b / 5", db.list("a"), **options, invalid="error")
    assert db.ask("(m).status <> 'invalid rows'", task, "b", db.list("a"), **options) == [(True,)]


@pytest.mark.parametrize("task", ["linear", "gbdt", "random_forest", "mlp", "lasso"])
def test_a_label_among_its_features_has_a_status(db: Database, task: str) -> None:
    options = FEW.get(task, {"lambda": 0.1} if task == "lasso" else {})
    for x in (db.list("a", "b"), db.row(a="a", b="b")):
        assert db.ask("(m).status", task, "b", x, **options) == [("label among features",)]
        assert db.ask("(m).status", task, "b + i % 2", x, **options) != [("label among features",)]


def test_a_class_among_its_features_has_a_status(db: Database) -> None:
    label = "CASE WHEN b < 2 THEN 'no' ELSE 'yes' END"
    found = db.ask("(m).status", "logistic", label, db.row(a="a", c=label))
    assert found == [("label among features",)]


NOISE = "(CAST(i * i * 7919 % 1009 AS DOUBLE PRECISION) / 8)"
"""A label of many values, of which no feature below is a function by chance."""
KINDS = "CASE i * i * 7919 % 1009 % 3 WHEN 0 THEN 'x' WHEN 1 THEN 'y' ELSE 'z' END"
COPIES = {
    "the label": "{y}",
    "a cast": "CAST({y} AS REAL)",
    "a sum": "{y} + 0",
    "a multiple": "{y} * -3 + 1000000",
    "another unit": "({y} - 32) / 1.8",
}


@pytest.mark.parametrize("form", COPIES)
@pytest.mark.parametrize("kind", ["list", "row", "sparse"])
def test_a_copy_of_the_label_has_a_status(db: Database, kind: str, form: str) -> None:
    copy = COPIES[form].format(y=NOISE)
    other = f"{copy} + CASE WHEN i = 77 THEN 1 ELSE 0 END"
    search = {"l2": [0.1, 1], "folds": 2}
    for task, options in (("linear", {}), ("lasso", {"lambda": 0.1}), ("linear", search)):
        for sql, leaks in ((copy, True), (other, False)):
            x = {
                "list": db.list("a", sql),
                "row": db.row(a="a", c=sql),
                "sparse": f"sparse({db.list('1', '70')}, {db.list('a', sql)})",
            }[kind]
            ((status,),) = db.ask("(m).status", task, NOISE, x, **options)
            assert (status == "label among features") == leaks, (task, sql)


@pytest.mark.parametrize("task", ["logistic", *(one for one in FEW if one != "fm")])
def test_levels_that_tell_the_class_have_a_status(db: Database, task: str) -> None:
    """Whatever the levels of the category are called; of some rows of another class they do not."""
    options = {"l2": 0.1} if task == "logistic" else FEW[task]
    renamed = f"CASE {KINDS} WHEN 'x' THEN 'q' WHEN 'y' THEN 'p' ELSE 'r' END"
    for copy, leaks in (
        (KINDS, True),
        (renamed, True),
        (f"CASE WHEN i < 9 THEN 'x' ELSE {KINDS} END", False),
    ):
        ((status,),) = db.ask("(m).status", task, KINDS, db.row(a="a", c=copy), **options)
        assert (status == "label among features") == leaks, copy


def test_a_rare_class_is_told_by_chance(db: Database) -> None:
    """A level of one row is the label of one row in every tenth group of ten rows."""
    x = db.row(a="a", c="CASE WHEN i = 7 THEN 'once' ELSE 'often' END")
    ((status,),) = db.ask("(m).status", "gbdt", "i = 7", x, trees=3)
    assert status != "label among features"


@pytest.mark.parametrize("feature", ["b", '"b"', "(b)", "CAST(b AS real)", "b::float", "t.b"])
def test_the_table_form_refuses_the_label_by_its_text(db: Database, feature: str) -> None:
    features = f"['a', $${feature}$$]" if db.name == "duck" else f"ARRAY['a', $${feature}$$]"
    call = f"SELECT * FROM train('t', 'linear', 'b', {features})"
    with pytest.raises((duckdb.Error, psycopg.Error), match="features has the label 'b' itself"):
        db.session.execute(call)
    db.session.execute(call.replace(f"$${feature}$$", "'b + i'"))


def test_a_field_of_a_column_is_another_column(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE t AS SELECT i % 7 AS b, {'b': 2 * (i % 7) + i % 3, 'a': 1} AS s, i % 5 AS a FROM range(60) AS r(i)")  # fmt: skip
    for label, features in (("s.b", ["b", "a"]), ("b", ["s.b", "a"])):
        listed = ", ".join(f"'{one}'" for one in features)
        found = con.execute(f"SELECT status FROM train('t', 'linear', '{label}', [{listed}])")
        assert found.fetchall() == [("ok",)]
        assert tuskml.train(con, "linear", source="t", label=label, features=features).status == "ok"  # fmt: skip
    with pytest.raises(duckdb.Error, match=r"features has the label 's\.b' itself"):
        con.execute("FROM train('t', 'linear', 's.b', ['\"s\".b', 'a'])")
    with pytest.raises(DataError, match=r"features has the label 's\.b' itself"):
        tuskml.train(con, "linear", source="t", label="s.b", features=["S.b + 1", "a"])


def test_a_column_with_a_point_in_its_name_is_another_column(post: psycopg.Connection) -> None:
    post.execute('CREATE TABLE t AS SELECT i % 7 AS b, 2 * (i % 7) + i % 3 AS "a.b", i % 5 AS a FROM generate_series(0, 59) AS r(i)')  # fmt: skip
    call = "SELECT status FROM train('t', 'linear', 'a.b', ARRAY['b', 'a'])"
    assert post.execute(call).fetchall() == [("ok",)]
    with pytest.raises(psycopg.Error, match=r"features has the label 'a\.b' itself"):
        post.execute(call.replace("ARRAY['b'", "ARRAY['a.b'"))


@pytest.mark.parametrize("task", ["logistic", "svm", "sparse_logistic", *CLASSIFIERS])
@pytest.mark.parametrize("kind", ["list", "row"])
def test_zero_has_no_sign_as_a_class(db: Database, task: str, kind: str) -> None:
    x = db.list("a", "b") if kind == "list" else db.row(a="a", b="b")
    given = FEW.get(task, {}) | ({"objective": "gini" if task == "random_forest" else "logistic"} if task in CLASSIFIERS else {})  # fmt: skip
    label = "CASE WHEN i % 5 < 2 THEN CAST('-0' AS double precision) WHEN i % 5 = 2 THEN 0 ELSE 1 END"  # fmt: skip
    ((names, classes),) = db.ask(
        "(m).class_names, CAST((m).classes AS text)", task, label, x, **given
    )
    assert names == ["0", "1"]
    assert "-" not in classes


def test_zero_has_no_sign_in_sparse_rows(db: Database) -> None:
    x = f"sparse({db.list('0', '1')}, {db.list('a', 'b')})"
    label = "CASE WHEN i % 5 < 2 THEN CAST('-0' AS double precision) ELSE 1 END"
    assert db.ask("(m).class_names", "logistic", label, x) == [(["0", "1"],)]
