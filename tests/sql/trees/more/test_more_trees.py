"""Option `warm_start` of the task `gbdt` in both databases: a training goes on from a model."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest

import tuskml
from tuskml.learners.trees.forest import trees_in, trees_of_payload

ROWS = """
CREATE {temp} TABLE t AS
SELECT i, i % 2 AS g, x1, x2, i % 6 AS k, CASE WHEN i % 3 = 0 THEN 'red' ELSE 'blue' END AS name,
       coalesce(x1, 50) + sqrt(x2) + CASE WHEN i % 6 IN (1, 4) THEN 20 ELSE 0 END AS y
FROM (SELECT i, CASE WHEN i % 7 = 0 THEN NULL ELSE CAST(i * 31 % 97 AS double precision) END AS x1,
             CAST(i * 17 % 53 AS double precision) AS x2 FROM generate_series(1, 1500) AS s(i)) AS r
"""
LISTS = "ARRAY[x1, x2, k]"
FEW = {"trees": 10, "num_leaves": 15}


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        session.execute(ROWS.format(temp="TEMP" if name == "post" else ""))

    def model(
        self, label: str, features: str, options: dict[str, Any], start: str = "", rows: str = "t"
    ) -> tuple[Any, ...]:
        """coef, intercept, status, iterations and loss of a model, and the model as JSON."""
        text = json.dumps(options)
        if start:
            text = f'{text[:-1]}, "warm_start": {start}}}'
        if self.name == "post":
            features = features.replace("ARRAY[x1, x2, k]", "ARRAY[x1, x2, k]::float8[]")
        call = f"train_model('gbdt', {label}, {features}, '{text}')"
        sql = f"SELECT (m).payload, (m).intercept, (m).status, (m).iterations, (m).loss, CAST(to_json(m) AS text) FROM (SELECT {call} AS m FROM {rows}) AS f"
        payload, *others = self.session.execute(sql).fetchall()[0]
        return (trees_of_payload(payload), *others)


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


SAME = {
    "numbers": ("y", {}),
    "categories": ("y", {"categorical": [3], "min_category_rows": 10, "max_cat_to_onehot": 2}),
    "two classes": ("CASE WHEN y > 60 THEN 1 ELSE 0 END", {"objective": "logistic"}),
    "three classes": ("i % 3", {"objective": "logistic"}),
    "counts": ("CAST(y AS integer)", {"objective": "poisson"}),
    "quantile": ("y", {"objective": "quantile", "quantile": 0.8}),
    "drawn rows and features": ("y", {"row_fraction": 0.6, "feature_fraction": 0.7, "seed": 4}),
    "held-out rows": ("y", {"validation": 0.2, "patience": 50}),
}


@pytest.mark.parametrize("case", SAME)
def test_ten_trees_and_ten_more_are_twenty(db: Database, case: str) -> None:
    label, more = SAME[case]
    first = db.model(label, LISTS, FEW | more)
    both = db.model(label, LISTS, FEW | more, first[-1])
    whole = db.model(label, LISTS, FEW | more | {"trees": 20})
    assert both[0] == whole[0] != first[0]
    assert both[1:3] == whole[1:3]
    assert both[3] == first[3] == 10
    assert both[4] == whole[4] < first[4]


def test_other_rows_keep_the_trees_of_before(db: Database) -> None:
    first = db.model("y", LISTS, FEW, rows="(SELECT * FROM t WHERE g = 0) AS h")
    both = db.model("y", LISTS, FEW, first[-1], rows="(SELECT * FROM t WHERE g = 1) AS h")
    old, new = trees_in(first[0]), trees_in(both[0])
    assert len(old) == 10
    assert len(new) == 20
    for a, b in zip(old, new, strict=False):
        np.testing.assert_array_equal(a, b)
    assert both[1] == first[1]


def test_early_stopping_keeps_the_trees_of_before(db: Database) -> None:
    how = {"validation": 0.3, "patience": 2, "learning_rate": 0.5, "min_child_rows": 2}
    noise = "CAST(i * 7919 % 101 AS double precision)"
    first = db.model(noise, LISTS, FEW | {"trees": 3})
    both = db.model(noise, LISTS, FEW | how | {"trees": 200}, first[-1])
    assert both[2] == "early stop"
    assert both[3] < 190
    assert both[0][1] == 3 + both[3]


def test_names_of_features(db: Database) -> None:
    def by_name(columns: str) -> tuple[str, str]:
        if db.name == "duck":
            pairs = ", ".join(f"'{one}': {one}" for one in columns.split(", "))
            return f"{{{pairs}}}", "t"
        return "f", f"t, LATERAL (SELECT {columns}) AS f"

    def made(columns: str, more: dict[str, Any], start: str = "") -> tuple[Any, ...]:
        features, rows = by_name(columns)
        return db.model("y", features, FEW | more, start, rows)

    wrong = duckdb.Error, psycopg.Error
    first, whole = made("x1, x2", {}), made("x1, x2", {"trees": 20})
    assert made("x1, x2", {}, first[-1])[0] == whole[0]
    with pytest.raises(wrong, match="has the feature 'x1' at place 1, expected 'x2' as the rows"):
        made("x2, x1", {}, first[-1])
    coded = {"category_encoding": "one_hot"}
    first, whole = made("x1, name", coded), made("x1, name", coded | {"trees": 20})
    assert made("x1, name", coded, first[-1])[0] == whole[0]
    with pytest.raises(wrong, match=r"has the feature 'name\[blue\]' at place 2, expected 'name'"):
        made("x1, name", {}, first[-1])


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "width": ({"coef": [4, 0, 0]}, {}, "warm_start has 4 features, expected 3 as the rows"),
    "store": ({"store": "ads@1"}, {}, "warm_start is the stored model 'ads@1', expected a model of 'gbdt' with"),
    "task": ({"coef": [3, 0, 0], "task": "random_forest"}, {}, "warm_start is a model of 'random_forest', expected one of 'gbdt'"),
    "objective": (
        {"coef": [3, 0, 0], "options": '{"objective": "huber"}'}, {},
        "warm_start has the objective 'huber', expected 'squared' as the training",
    ),
    "linear": ({"coef": [1, 2]}, {}, "warm_start has coefficients that are no trees"),
    "not a list": ({"coef": 3}, {}, "expected a model as JSON, an object with coef and intercept"),
    "text": ({"coef": ["a"]}, {}, "expected a model as JSON, an object with coef and intercept"),
    "outputs": ({"coef": [3, 0, 4, 0, 0, 0, 0]}, {}, "warm_start has 4 classes, expected a model with as many"),
    "cut": ({"coef": [3, 1, 0, 3, 0, 5, 2, 1, 9, 0]}, {}, "no trees, expected a whole model of 'gbdt'"),
    "a loop": ({"coef": [3, 1, 0, 3, 0, 5, 0, 1, 9, 0, -1, 1, -1, 0, 5, 0, -1, 1, -1, 0, 4, 0]}, {}, "no trees"),
    "beyond": ({"coef": [3, 1, 0, 3, 0, 5, 3, 1, 9, 0, -1, 1, -1, 0, 5, 0, -1, 1, -1, 0, 4, 0]}, {}, "no trees"),
    "no feature": ({"coef": [3, 1, 0, 3, 3, 5, 2, 1, 9, 0, -1, 1, -1, 0, 5, 0, -1, 1, -1, 0, 4, 0]}, {}, "no trees"),
    "no leaf": ({"coef": [3, 1, 0, 1, 0, 5, 1, 1, 9, 0]}, {}, "no trees"),
    "no set": ({"coef": [3, 1, 0, 3, 2, 9, 2, 1, 9, 2, -1, 1, -1, 0, 5, 0, -1, 1, -1, 0, 4, 0]}, {"categorical": [3]}, "no trees"),
    "half a set": ({"coef": [3, 1, 0, 3, 2, 2, 2, 1, 9, 2, -1, 1, -1, 0, 5, 0, -1, 1, -1, 0, 4, 0, 2, 1]}, {"categorical": [3]}, "no trees"),
    "no category": ({"coef": [3, 1, 0, 3, 2, 2, 2, 1, 9, 2, -1, 1, -1, 0, 5, 0, -1, 1, -1, 0, 4, 0, 1, 1]}, {}, "do not both have feature 3 as a category"),
    "a category": ({"coef": [3, 1, 0, 3, 2, 2, 2, 1, 9, 0, -1, 1, -1, 0, 5, 0, -1, 1, -1, 0, 4, 0]}, {"categorical": [3]}, "do not both have feature 3 as a category"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_models_that_are_not_gone_on_from(db: Database, case: str) -> None:
    start, more, sentence = WRONG[case]
    with pytest.raises((duckdb.Error, psycopg.Error), match=re.escape(sentence)):
        db.model("y", LISTS, FEW | more, json.dumps(start))


def test_other_classes_are_refused(db: Database) -> None:
    how = FEW | {"objective": "logistic"}
    first = db.model("i % 3", LISTS, how)
    wrong = duckdb.Error, psycopg.Error
    with pytest.raises(wrong, match="warm_start has other classes than the labels"):
        db.model("i % 3 + 1", LISTS, how, first[-1])
    with pytest.raises(wrong, match="3 classes, expected a model with as many classes"):
        db.model("i % 2", LISTS, how, first[-1])
    with pytest.raises(wrong, match="expected the 4 classes of the labels"):
        db.model("i % 4", LISTS, how, first[-1])
    first = db.model("i % 2", LISTS, how)
    with pytest.raises(wrong, match="warm_start has other classes than the labels"):
        db.model("i % 2 + 1", LISTS, how, first[-1])


def test_a_model_of_python_is_gone_on_from(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(ROWS.format(temp=""))
    given = {"source": "t", "label": "y", "features": ["x1", "x2"]}
    first = tuskml.train(con, "gbdt", **given, **FEW)
    both = tuskml.train(con, "gbdt", **given, **FEW, warm_start=first)
    whole = tuskml.train(con, "gbdt", **given, **(FEW | {"trees": 20}))
    assert both.coef == whole.coef
