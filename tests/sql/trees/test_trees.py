"""The task `gbdt` in SQL of both databases: models, predictions, trees as tables, errors."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from forests import grown, margins
from sklearn.metrics import log_loss

import tuskml
from tuskml.kernels.trees.boosting import LOGISTIC, SOFTMAX
from tuskml.learners.trees import explanation
from tuskml.learners.trees.forest import OBJECTIVES

ROWS = """
CREATE {temp} TABLE t AS
SELECT i, i % 3 AS g, CAST((i * 7919) % 1009 AS DOUBLE PRECISION) / 1009 AS a,
       CAST((i * 104729) % 997 AS DOUBLE PRECISION) / 997 AS b, CAST((i * 31) % 11 AS DOUBLE PRECISION) AS c,
       CAST((i * 7919) % 1009 AS DOUBLE PRECISION) * ((i * 104729) % 997) / 400000 + (i * 31) % 11 AS y
FROM generate_series(1, 1500) AS s(i)
"""
X = {"duck": "[a, b, c]", "post": "ARRAY[a, b, c]"}
LATE = '{"objective": "logistic", "trees": 20}'


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session, self.x = name, session, X[name]
        session.execute(ROWS.format(temp="TEMP" if name == "post" else ""))

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query in which X stands for the features."""
        return self.session.execute(sql.replace("{x}", self.x)).fetchall()

    def model(self, label: str = "y", options: str = "", where: str = "true") -> tuskml.Model:
        given = f", '{options}'" if options else ""
        sql = f"SELECT train_model('gbdt', {label}, {{x}}{given}) AS m FROM t WHERE {where}"
        if self.name == "duck":
            return tuskml.Model.of(self.ask(sql)[0][0])
        fields = self.ask(f"SELECT to_jsonb(m) FROM ({sql}) AS f")[0][0]
        return tuskml.Model.of(fields)


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


@pytest.fixture
def both(con: duckdb.DuckDBPyConnection, post: Any) -> list[Database]:
    return [Database("duck", con), Database("post", post)]


def columns(db: Database) -> tuple[np.ndarray, np.ndarray]:
    rows = np.array(db.ask("SELECT a, b, c, y FROM t ORDER BY i"), float)
    return rows[:, :3], rows[:, 3]


def test_both_databases_grow_the_same_trees(both: list[Database]) -> None:
    here, there = (db.model(options='{"trees": 20}') for db in both)
    assert here.coef == there.coef
    assert here.coef
    assert here.intercept == pytest.approx(there.intercept, rel=1e-12)
    assert here.history == pytest.approx(there.history, rel=1e-12)


def test_a_model_says_what_it_is(db: Database) -> None:
    model = db.model(options='{"trees": 20, "learning_rate": 0.2}')
    x, y = columns(db)
    assert (model.status, model.iterations, model.n_features) == ("ok", 20, 3)
    assert (model.classes, len(model.history), model.converged) == (None, 20, True)
    assert model.options["learning_rate"] == 0.2
    assert model.options["num_leaves"] == 31
    assert model.intercept == pytest.approx(y.mean())
    assert model.loss == pytest.approx(((model.predict(x) - y) ** 2).mean() / 2, rel=1e-9)
    assert model.feature_names == ("x1", "x2", "x3")


def test_sql_predicts_what_python_predicts(db: Database) -> None:
    x, y = columns(db)
    model = db.model("y > 5", LATE)
    assert model.classes == [0, 1]
    found = np.array(db.ask(
        f"SELECT decision(m, {{x}}), predict_proba(m, {{x}}), predict(m, {{x}}) FROM t, (SELECT train_model('gbdt', y > 5, {{x}}, '{LATE}') AS m FROM t) AS f ORDER BY i"
    ))  # fmt: skip
    assert found[:, 0] == pytest.approx(model.decision(x), rel=1e-12)
    assert found[:, 1] == pytest.approx(1 / (1 + np.exp(-found[:, 0])), rel=1e-12)
    assert (found[:, 2] == (found[:, 0] > 0)).all()
    assert log_loss(y > 5, found[:, 1]) == pytest.approx(model.loss, rel=1e-9)


def test_each_group_has_its_own_trees(db: Database) -> None:
    """The same as of a training of the group's rows alone."""
    asked = "SELECT g, (m).loss, (m).n_rows FROM (SELECT g, train_model('gbdt', y, {x}, '{\"trees\": 10}') AS m FROM t GROUP BY g) AS f ORDER BY g"
    losses = db.ask(asked)
    for g, loss, n in losses:
        alone = db.model(options='{"trees": 10}', where=f"g = {g}")
        assert (alone.loss, alone.n_rows) == (pytest.approx(loss, rel=1e-12), n)
    assert len({loss for _, loss, _ in losses}) == 3


def test_sql_trains_what_the_kernels_grow(db: Database) -> None:
    x, y = columns(db)
    forest = grown(
        x, (y > 5) * 1.0, objective=LOGISTIC, trees=20, num_leaves=31, min_child_rows=20
    )
    model = db.model("y > 5", LATE)
    assert model.history == pytest.approx(list(forest.loss), rel=1e-12)


def test_trees_are_tables(db: Database) -> None:
    trained = 'SELECT train_model(\'gbdt\', y, {x}, \'{"trees": 5, "feature_names": ["a", "b", "c"]}\') FROM t'
    model = db.model(options='{"trees": 5}')
    nodes = db.ask(f"SELECT * FROM tree_dump(({trained}))")
    assert len(nodes) == sum(model.coef[3:8])
    roots = [node for node in nodes if node[1] == 0]
    assert [node[0] for node in roots] == [1, 2, 3, 4, 5]
    assert all(node[8] == 1500 for node in roots)
    x, _ = columns(db)
    for row in x[:20]:
        assert model.intercept + sum(
            walk(nodes, tree, row) for tree in range(1, 6)
        ) == pytest.approx(model.predict([row])[0], rel=1e-12)
    importance = db.ask(f"SELECT * FROM feature_importance(({trained}))")
    splits = [node for node in nodes if node[2] is not None]
    assert sum(row[2] for row in importance) == len(splits)
    assert {row[0]: row[1] for row in importance} == pytest.approx(
        {name: sum(node[7] for node in splits if node[2] == name) for name in "abc"}
    )
    assert [row[1] for row in importance] == sorted((row[1] for row in importance), reverse=True)
    assert importance[0][0] == "c"


def walk(nodes: list[tuple[Any, ...]], tree: int, row: np.ndarray) -> float:
    """What a tree of `tree_dump` adds."""
    found = {node[1]: node for node in nodes if node[0] == tree}
    node = found[0]
    while node[2] is not None:
        node = found[node[4] if row["abc".index(node[2])] <= node[3] else node[5]]
    return node[6]


def test_held_out_rows_end_a_training(db: Database) -> None:
    noise = "(i * 7919 * 31) % 1013"
    model = db.model(noise, '{"validation": 0.3, "trees": 400, "patience": 5}')
    assert model.status == "early stop"
    assert model.iterations < 50
    assert len(model.history) == model.iterations + 5
    assert model.loss == pytest.approx(model.history[model.iterations - 1], rel=1e-12)
    longer = db.model(noise, '{"trees": 60}')
    assert (longer.status, longer.iterations) == ("ok", 60)


@pytest.mark.parametrize(("label", "options", "where", "status", "iterations"), [
    ("y", "", "i < 5", "too few rows", 0),
    ("y", '{"min_gain": 1e9}', "true", "no split", 0),
    ("y > -1", LATE, "true", "one class", 0),
    ("y * 1e200", "", "true", "out of range", 0),
])  # fmt: skip
def test_groups_without_trees_have_a_status(
    db: Database, label: str, options: str, where: str, status: str, iterations: int
) -> None:
    model = db.model(label, options, where)
    assert (model.status, model.iterations, model.coef) == (status, iterations, None)
    assert np.isfinite(model.predict([[0.1, 0.2, 3.0]])).all()


def test_one_class_predicts_it(db: Database) -> None:
    model = db.model("y > -1", LATE)
    assert model.predict([[0, 0, 0]]).tolist() == [1]
    assert model.predict_probas([[0, 0, 0]])[0] == [1]
    assert model.predict_proba([[0, 0, 0]])[0] == 1  # true is the higher one
    assert (model.intercept, model.loss) == (1000, 0)


ERRORS = [
    ("train_model('gbdt', y, {x}, '{\"tree\": 5}')", "unknown option 'tree'"),
    ("train_model('gbdt', y, {x}, '{\"objective\": \"logistc\"}')", "did you mean 'logistic'?"),
    (
        "train_model('gbdt', y, {x}, '{\"num_leaves\": 1}')",
        "expected a whole number from 2 to 65536",
    ),
    (
        "train_model('gbdt', y, {x}, '{\"store\": \"s\"}')",
        "option 'store' is not available with task 'gbdt'",
    ),
    (
        'train_model(\'gbdt\', y, {x}, \'{"objective": "logistic", "invalid": "error"}\')',
        "label has more than 1,000 distinct values in a group",
    ),
    (
        'train_model(\'gbdt\', y - 9, {x}, \'{"objective": "poisson", "invalid": "error"}\')',
        "objective 'poisson' needs a label of at least 0",
    ),
    (
        'train_model(\'gbdt\', y - 9, {x}, \'{"objective": "tweedie", "invalid": "error"}\')',
        "objective 'tweedie' needs a label of at least 0",
    ),
    (
        'train_model(\'gbdt\', floor(y), {x}, \'{"objective": "gamma", "invalid": "error"}\')',
        "objective 'gamma' needs a label greater than 0",
    ),
    (
        'train_model(\'gbdt\', y, {x}, \'{"objective": "tweedie", "power": 2}\')',
        "option 'power' is 2, expected a number greater than 1 and less than 2",
    ),
    (
        "train_model('gbdt', y, {x}, '{\"power\": 1.5}')",
        "option 'power' is for option 'objective': 'tweedie'",
    ),
    (
        "train_model('gbdt', y, {x}, '{\"monotone\": [1, 0]}')",
        "option 'monotone' has 2 signs and rows have 3 features",
    ),
    (
        "train_model('gbdt', y, {x}, '{\"monotone\": [1, 0, 2]}')",
        "expected a list with 1, 0 or -1 for each feature, such as [1, 0, -1]",
    ),
    (
        'train_model(\'gbdt\', y, {x}, \'{"monotone": [1, 0, 0], "objective": "quantile"}\')',
        "option 'monotone' is for option 'objective': 'squared', 'logistic', 'poisson', 'gamma', 'tweedie' or 'huber'",
    ),
    (
        'train_model(\'gbdt\', y, {x}, \'{"goss": true, "objective": "quantile"}\')',
        "option 'goss' is for option 'objective': 'squared', 'logistic', 'poisson', 'gamma', 'tweedie' or 'huber'",
    ),
    (
        "train_model('gbdt', y, {x}, '{\"goss\": true, \"row_fraction\": 0.5}')",
        "options 'goss' and 'row_fraction' both draw rows",
    ),
    (
        'train_model(\'gbdt\', y, {x}, \'{"goss": true, "top_rate": 0.6, "other_rate": 0.5}\')',
        "options 'top_rate' and 'other_rate' are 0.6 and 0.5",
    ),
    (
        "predict_proba(train_model('gbdt', y, {x}, '{\"trees\": 2}'), {x3})",
        "only models of classes give probabilities",
    ),
    (
        "predict(train_model('gbdt', y, {x}, '{\"trees\": 2}'), {x2})",
        "the model has 3 features, row has 2",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), ERRORS)
def test_mistakes_have_a_sentence(db: Database, call: str, sentence: str) -> None:
    literal = {"{x3}": "[1.0, 2, 3]", "{x2}": "[1.0, 2]"}
    for name, text in literal.items():
        call = call.replace(name, text if db.name == "duck" else f"ARRAY{text}::float8[]")
    with pytest.raises((duckdb.Error, psycopg.Error), match=re.escape(sentence)):
        db.ask(f"SELECT {call} FROM t")


def test_other_models_have_no_trees(db: Database) -> None:
    for table in ("tree_dump", "feature_importance"):
        with pytest.raises(
            (duckdb.Error, psycopg.Error),
            match=f"{table}: the model is 'linear', expected a model of trees",
        ):
            db.ask(f"SELECT * FROM {table}((SELECT train_model('linear', y, {{x}}) FROM t))")


def test_sparse_rows_predict_and_do_not_train(con: duckdb.DuckDBPyConnection) -> None:
    db = Database("duck", con)
    with pytest.raises(duckdb.Error, match=r"features of 'gbdt' are a list, got sparse\(\.\.\.\)"):
        db.ask("SELECT train_model('gbdt', y, sparse([0], [a])) FROM t")
    db.ask("CREATE TABLE f AS SELECT train_model('gbdt', y, {x}) AS m FROM t")
    rows = db.ask("SELECT predict(m, sparse([2, 1], [c, b])), predict(m, [0, b, c]) FROM f, t")
    assert [sparse for sparse, _ in rows] == [dense for _, dense in rows]


def test_features_by_name(con: duckdb.DuckDBPyConnection) -> None:
    """Text is a category, a feature of its own; the order of the columns does not matter."""
    con.execute(
        "CREATE TABLE n AS SELECT a, 'k' || (i % 4) AS k, CASE i % 4 WHEN 1 THEN 3 * a ELSE a END AS y "
        "FROM (SELECT i, (i * 7919) % 1009 / 1009 AS a FROM range(2000) r(i))"
    )
    con.execute("CREATE TABLE f AS SELECT train_model('gbdt', y, {'a': a, 'k': k}) AS m FROM n")
    told, loss = con.execute(
        "SELECT avg((predict(m, {'k': k, 'a': a}) - y) ** 2) / 2, any_value(m.loss) FROM n, f"
    ).fetchall()[0]
    assert told == pytest.approx(loss, rel=1e-9)
    assert loss < 0.001
    importance = con.execute("FROM feature_importance((SELECT m FROM f))").fetchall()
    assert [row[0] for row in importance][:2] == ["a", "k"]


@pytest.mark.parametrize("gap", ["NULL", "'NaN'::float8"])
def test_gaps_go_where_the_trees_send_them(db: Database, gap: str) -> None:
    """Training has none of them; then they go with the larger child."""
    nan = f"ARRAY[1.0, {gap}, 3]::float8[]"
    told = db.ask(f"SELECT predict(train_model('gbdt', y, {{x}}), {nan}) FROM t")[0][0]
    assert told == pytest.approx(db.model().predict([[1, np.nan, 3]])[0], rel=1e-12)
    assert 0 < told < 11


def test_more_than_two_classes(db: Database) -> None:
    x, _ = columns(db)
    options = '{"objective": "logistic", "trees": 20}'
    model = db.model("CASE WHEN b > 0.6 THEN 7 WHEN c > 5 THEN 2 ELSE 4 END", options)
    assert (model.classes, model.class_names, model.intercept) == (
        [2, 4, 7],
        ["2", "4", "7"],
        None,
    )
    assert (model.status, model.iterations, model.coef[:3]) == ("ok", 20, [3, 60, 3])
    y = np.where(x[:, 1] > 0.6, 7, np.where(x[:, 2] > 5, 2, 4))
    forest = grown(x, y * 1.0, objective=SOFTMAX, trees=20, num_leaves=31, min_child_rows=20)
    m = margins(forest, x)
    p = np.exp(m) / np.exp(m).sum(axis=1, keepdims=True)
    assert model.history == pytest.approx(list(forest.loss), rel=1e-12)
    trained = f"SELECT train_model('gbdt', CASE WHEN b > 0.6 THEN 7 WHEN c > 5 THEN 2 ELSE 4 END, {{x}}, '{options}') AS m FROM t"
    rows = db.ask(
        f"SELECT predict(m, {{x}}), predict_class(m, {{x}}), predict_proba(m, {{x}}, '4'), predict_probas(m, {{x}}) FROM t, ({trained}) AS f ORDER BY i"
    )
    assert [row[0] for row in rows] == np.array([2, 4, 7])[p.argmax(axis=1)].tolist()
    assert [row[1] for row in rows] == [str(int(row[0])) for row in rows]
    assert [row[2] for row in rows] == pytest.approx(p[:, 1].tolist(), rel=1e-9)
    assert [row[3]["7"] for row in rows] == pytest.approx(p[:, 2].tolist(), rel=1e-9)
    nodes = db.ask(f"SELECT tree, class FROM tree_dump(({trained})) WHERE node = 0 ORDER BY tree")
    assert nodes == [(tree, ["2", "4", "7"][(tree - 1) % 3]) for tree in range(1, 61)]


@pytest.mark.parametrize(("objective", "named", "shape"), [
    ("poisson", "", 0.5), ("tweedie", ', "power": 1.2', 1.2), ("quantile", ', "quantile": 0.9', 0.9), ("huber", ', "delta": 0.3', 0.3),
])  # fmt: skip
def test_other_objectives(db: Database, objective: str, named: str, shape: float) -> None:
    x, y = columns(db)
    y = np.floor(y)
    model = db.model("floor(y)", f'{{"objective": "{objective}", "trees": 20{named}}}')
    number = OBJECTIVES[objective].number
    limits = {"num_leaves": 31, "min_child_rows": 20, "shape": shape}
    m = margins(grown(x, y, objective=number, trees=20, **limits), x)
    assert model.decision(x) == pytest.approx(m, rel=1e-9)
    told = np.array(db.ask(
        f"SELECT predict(m, {{x}}) FROM t, (SELECT train_model('gbdt', floor(y), {{x}}, '{{\"objective\": \"{objective}\", \"trees\": 20{named}}}') AS m FROM t) AS f ORDER BY i"
    ))[:, 0]  # fmt: skip
    assert told == pytest.approx(np.exp(m) if objective in ("poisson", "tweedie") else m, rel=1e-9)
    if objective == "quantile":
        assert (y <= told).mean() == pytest.approx(0.9, abs=0.07)  # whole numbers are tied


def test_rows_are_drawn_and_features_are_monotone(db: Database) -> None:
    x, y = columns(db)
    model = db.model(
        options='{"row_fraction": 0.5, "monotone": [1, 0, -1], "trees": 20, "seed": 3}'
    )
    given = {"row_fraction": 0.5, "monotone": [1, 0, -1], "seed": 3}
    forest = grown(x, y, trees=20, num_leaves=31, min_child_rows=20, **given)
    assert model.predict(x) == pytest.approx(margins(forest, x), rel=1e-12)
    line = np.stack([np.linspace(0, 1, 50), np.full(50, 0.5), np.full(50, 5.0)], axis=1)
    assert (np.diff(model.predict(line)) >= 0).all()


def test_rows_are_drawn_by_their_gradients(db: Database) -> None:
    x, y = columns(db)
    model = db.model(options='{"goss": true, "trees": 20, "seed": 3}')
    given = {"top_rate": 0.2, "other_rate": 0.1, "seed": 3}
    forest = grown(x, y, trees=20, num_leaves=31, min_child_rows=20, **given)
    assert model.predict(x) == pytest.approx(margins(forest, x), rel=1e-12)
    assert forest.rows[forest.start[10]] < 0.35 * len(y) < forest.rows[0]


def test_explanations_say_the_plan(db: Database) -> None:
    text = db.ask(f"SELECT explain_training('gbdt', y > 5, {{x}}, '{LATE}') FROM t")[0][0]
    assert "histogram boosting, logistic loss, 20 trees of at most 31 leaves" in text
    told = db.ask("SELECT explain_training('gbdt', y, {x}, '{\"format\": \"json\"}') FROM t")[0][0]
    found = json.loads(told)
    assert found["plan"]["max_iter"] == 100
    (one,) = found["candidates"]
    assert one["iterations"] == {"low": 100, "point": 100, "high": 100}
    assert one["seconds_per_iteration"] > 0
    assert one["seconds"]["point"] >= 100 * one["seconds_per_iteration"]
    assert found["bytes"] + 1500 * (3 + 16 + 8) < one["memory_bytes"] < found["bytes"] + 1_000_000


def test_early_stopping_is_an_interval_of_iterations(db: Database) -> None:
    options = '{"objective": "logistic", "validation": 0.2, "patience": 7, "format": "json"}'
    told = db.ask(f"SELECT explain_training('gbdt', i % 3, {{x}}, '{options}') FROM t")[0][0]
    (one,) = json.loads(told)["candidates"]
    assert one["iterations"] == {"low": 8, "point": 100, "high": 100}
    assert one["seconds"]["low"] < one["seconds"]["point"]


def test_large_groups_are_timed_by_a_sample(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explanation, "SAMPLE", 900)
    seen = []
    kept = explanation.boost
    monkeypatch.setattr(
        explanation, "boost", lambda rows, *args: seen.append(rows) or kept(rows, *args)
    )
    con.execute(ROWS.format(temp=""))
    con.execute("SELECT explain_training('gbdt', y, [a, b, c]) FROM t").fetchall()
    assert [int(rows.groups["n_rows"][0]) for rows in seen] == [300] * 2 * explanation.TIMES
