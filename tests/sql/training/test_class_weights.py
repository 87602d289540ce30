"""Weights of classes in SQL of both databases: they are weights of rows."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
from typing import Any

import duckdb
import psycopg
import pytest

import tuskml

ROWS = """
CREATE {temp} TABLE t AS
SELECT i, CAST((i * 7919) % 101 AS DOUBLE PRECISION) / 101 AS a,
       CAST((i * 104729) % 97 AS DOUBLE PRECISION) / 97 AS b, 'k' || i % 4 AS k,
       CAST((i * 31) % 8 / 4.0 + 0.25 AS DOUBLE PRECISION) AS w, (i * 7919) % 101 + (i * 131) % 40 AS s
FROM generate_series(1, 300) AS r(i)
"""
LABELS = {
    "numbers": ("CASE WHEN s > 110 THEN 7 ELSE -3 END", {"-3": 0.5, "7": 2.5}),
    "booleans": ("s > 110", {"false": 0.5, "true": 2.5}),
    "texts": ("CASE WHEN s > 110 THEN 'late' ELSE 'in time' END", {"late": 2.5, "in time": 0.5}),
    "three": ("CASE WHEN s > 110 THEN 'late' WHEN s > 40 THEN 'some' ELSE 'none' END", {"late": 3.5, "none": 1, "some": 0.25}),
}  # fmt: skip
"""Labels in SQL, with weights by their own names."""
FEATURES = {
    "list": {"duck": "[a, b]", "post": "ARRAY[a, b]"},
    "sparse": {"duck": "sparse([0, 3], [a, b])", "post": "sparse(ARRAY[0, 3], ARRAY[a, b])"},
    "row": {"duck": "{'a': a, 'k': k}", "post": "(SELECT r FROM (SELECT a, k) AS r)"},
}
TREES = {"trees": 8, "num_leaves": 6}
OPTIONS: dict[str, dict[str, Any]] = {
    "gbdt": {**TREES, "objective": "logistic"},
    "random_forest": {**TREES, "objective": "gini"},
    "fm": {"objective": "logistic", "max_iter": 4, "rank": 2, "deterministic": True},
    "sparse_logistic": {"lambda": 0.01},
    "mlp": {"objective": "logistic", "max_iter": 3, "layers": [4], "threads": 1},
    "logistic": {"l2": 0.1},
    "svm": {"l2": 0.1},
}
BY_ROWS = ("gbdt", "random_forest", "fm", "sparse_logistic")
"""Tasks whose models are, bit for bit, those of rows with such weights."""


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        session.execute(ROWS.format(temp="TEMP" if name == "post" else ""))

    def model(
        self,
        task: str,
        label: str,
        features: str = "list",
        weight: str | None = None,
        where: str = "true",
        **options: Any,
    ) -> tuskml.Model:
        if features == "row" and task in ("gbdt", "random_forest"):
            options["min_category_rows"] = 10
        given = json.dumps(OPTIONS[task] | options)
        more = "" if weight is None else f", {weight}"
        x = FEATURES[features][self.name]
        sql = f"SELECT train_model('{task}', {label}, {x}, '{given}'{more}) AS m FROM (SELECT t.*, {label} AS y FROM t WHERE {where}) AS t"
        found = sql if self.name == "duck" else f"SELECT to_jsonb(m) FROM ({sql}) AS f"
        return tuskml.Model.of(self.session.execute(found).fetchall()[0][0])


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


def same(one: tuskml.Model, other: tuskml.Model) -> bool:
    return (one.coef, one.intercept, one.loss) == (other.coef, other.intercept, other.loss)


CASES = [
    (task, labels, features)
    for task in BY_ROWS
    for labels in LABELS
    for features in FEATURES
    if labels != "three" or task in ("gbdt", "random_forest")
    if features != "sparse" or task in ("fm", "sparse_logistic")
]


@pytest.mark.sample(7)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("task", "labels", "features"), CASES)
def test_a_class_weighs_what_its_rows_do(
    db: Database, task: str, labels: str, features: str, weighted: bool
) -> None:
    label, by_name = LABELS[labels]
    own = "w" if weighted else None
    factor = " ".join(f"WHEN '{name}' THEN {weight}" for name, weight in by_name.items())
    each = f"{own or 1} * CASE CAST(y AS VARCHAR) {factor} END"
    plain = db.model(task, label, features, own)
    found = db.model(task, label, features, own, class_weight=by_name)
    assert same(found, db.model(task, label, features, each))
    assert not same(found, plain)
    assert (found.status, found.n_rows, found.class_names) == (
        plain.status,
        300,
        plain.class_names,
    )
    shown = {"0": 0.5, "1": 2.5} if labels == "booleans" else by_name
    assert (found.std_err, found.options["class_weight"]) == (None, shown)
    listed = [weight for _, weight in sorted(by_name.items(), key=lambda one: one[0])]
    if labels != "numbers":
        assert same(found, db.model(task, label, features, own, class_weight=listed))


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("task", ["gbdt", "random_forest"])
def test_balanced_classes_weigh_the_same(db: Database, task: str, labels: str) -> None:
    label, by_name = LABELS[labels]
    each = f"w * (sum(w) OVER () / ({len(by_name)} * sum(w) OVER (PARTITION BY {label})))"
    table = "TEMP TABLE" if db.name == "post" else "TABLE"
    db.session.execute(f"CREATE {table} u AS SELECT i, {each} AS each FROM t")
    found = db.model(task, label, "list", "w", class_weight="balanced")
    other = db.model(task, label, "list", "(SELECT u.each FROM u WHERE u.i = t.i)")
    assert same(found, other)
    assert not same(found, db.model(task, label, "list", "w"))


@pytest.mark.parametrize("task", OPTIONS)
def test_all_classifiers_have_them(db: Database, task: str) -> None:
    """A heavy class is predicted more often, and a lone one is that class."""
    label = LABELS["texts"][0]
    heavy = db.model(task, label, class_weight={"late": 50, "in time": 1})
    light = db.model(task, label, class_weight={"late": 1, "in time": 50})
    x = [[row / 10, column / 10] for row in range(10) for column in range(10)]
    late = [sum(one == "late" for one in m.predict_class(x)) for m in (heavy, light)]
    assert late[0] > late[1]
    lone = db.model(task, label, where="s > 110", class_weight=[1, 2])
    assert (lone.status, lone.class_names) == ("one class", ["late"])


@pytest.mark.parametrize("more", [{}, {"validation": 0.3}])
def test_candidates_are_judged_without_them(db: Database, more: dict[str, Any]) -> None:
    """Trials on rows that are twice as heavy have the metrics of trials on rows as they are."""
    given = {"trees": [5, 9], "folds": 3, "learning_rate": 0.3, **more}
    plain = db.model("gbdt", "s > 110", **given)
    twice = db.model("gbdt", "s > 110", class_weight=[2, 2], **given)
    heavy = db.model("gbdt", "s > 110", class_weight=[1, 9], **given)
    told = [[one["metric"] for one in m.trials["trials"]] for m in (plain, twice, heavy)]
    assert told[1] == pytest.approx(told[0], rel=1e-9)
    assert min(told[2]) > min(told[0])


ERRORS = [
    ("gbdt", "three", {"class_weight": [1, 2]}, "has 2 weights and a group 3 classes"),
    ("gbdt", "numbers", {"class_weight": {"7": 2, "8": 1}}, "label is -3 in row"),
    ("random_forest", "texts", {"class_weight": {"late": 2, "soon": 1}}, "soon"),
    ("fm", "numbers", {"class_weight": [1, 0]}, "option 'class_weight' is [1, 0], expected"),
    ("sparse_logistic", "numbers", {"class_weight": [1, 2], "store": "s"}, "option 'class_weight'"),
    ("gbdt", "numbers", {"class_weight": [1, 2], "objective": "squared"}, "option 'class_weight' is not available with task 'gbdt', which has no classes"),
]  # fmt: skip


@pytest.mark.parametrize(("task", "labels", "options", "sentence"), ERRORS)
def test_mistakes_have_a_sentence(
    db: Database, task: str, labels: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((duckdb.Error, psycopg.Error), match=re.escape(sentence)):
        db.model(task, LABELS[labels][0], invalid="error", **options)
