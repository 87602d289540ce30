"""The task `fm` in SQL of both databases: models, predictions, statuses, errors."""

# ruff: noqa: E501, SQL is read better on one line

import math
import re
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from machines import margins
from sklearn.metrics import log_loss

import tuskml
from tuskml.learners.fm.options import machine_in

ROWS = """
CREATE {temp} TABLE t AS
SELECT i, i % 3 AS g, 'k' || (i * 7919) % 5 AS k, 'l' || (i * 31) % 4 AS l, (i * 7919) % 5 AS a, 5 + (i * 31) % 4 AS b,
       CAST((i * 104729) % 997 AS DOUBLE PRECISION) / 100 + 500 AS c,
       CAST(((i * 7919) % 5 - 2) * ((i * 31) % 4 - 1) AS DOUBLE PRECISION) + CAST((i * 104729) % 997 AS DOUBLE PRECISION) / 1000 AS y
FROM generate_series(1, 1200) AS s(i)
"""
FEATURES = {
    "duck": {"dense": "[a, b, c]", "sparse": "sparse([b, a], [1.0, 1.0])", "named": "{'k': k, 'l': l, 'c': c}"},
    "post": {"dense": "ARRAY[a, b, c]", "sparse": "sparse(ARRAY[b, a], ARRAY[1.0, 1.0])", "named": "ROW(k, l, c)"},
}  # fmt: skip
SAME = '"threads": 1, "rank": 4'
NUMBERS = f"{{{SAME}}}"
CLASSES = f'{{{SAME}, "objective": "logistic"}}'
KINDS = ("dense", "sparse", "named")


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        session.execute(ROWS.format(temp="TEMP" if name == "post" else ""))
        if name == "post":
            session.execute("CREATE TYPE pg_temp.named AS (k text, l text, c double precision)")

    def features(self, kind: str) -> str:
        found = FEATURES[self.name][kind]
        return f"{found}::pg_temp.named" if (self.name, kind) == ("post", "named") else found

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self.session.execute(sql).fetchall()

    def trained(self, label: str, kind: str, options: str, where: str = "true") -> str:
        return f"(SELECT train_model('fm', {label}, {self.features(kind)}, '{options}') AS m FROM t WHERE {where}) AS f"

    def model(
        self, label: str = "y", kind: str = "dense", options: str = NUMBERS, where: str = "true"
    ) -> tuskml.Model:
        trained = self.trained(label, kind, options, where)
        if self.name == "duck":
            return tuskml.Model.of(self.ask(f"SELECT m FROM {trained}")[0][0])
        return tuskml.Model.of(self.ask(f"SELECT to_jsonb(m) - 'payload' FROM {trained}")[0][0])

    def answers(
        self, functions: str, label: str, kind: str, options: str
    ) -> list[tuple[Any, ...]]:
        """What predictions say of each row; X stands for the features."""
        functions = functions.replace("X", self.features(kind))
        return self.ask(
            f"SELECT {functions} FROM t, {self.trained(label, kind, options)} ORDER BY i"
        )


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


def rows_of(db: Database, kind: str, d: int) -> np.ndarray:
    """The rows as the model has them, (n, d)."""
    a, b, c = np.array(db.ask("SELECT a, b, c FROM t ORDER BY i"), float).T
    if kind == "dense":
        return np.stack([a, b, c], axis=1)
    x = np.zeros((len(a), d))
    x[np.arange(len(a)), a.astype(int)] = x[np.arange(len(a)), b.astype(int)] = 1
    if kind == "named":
        x[:, 9] = c
    return x


def by_pairs(model: tuskml.Model, x: np.ndarray) -> np.ndarray:
    """The margins of a model by its `coef` and all pairs of features."""
    weights, vectors = machine_in(model.coef)
    return margins(model.intercept, np.column_stack([weights, vectors]), x)


@pytest.mark.parametrize("kind", KINDS)
def test_both_databases_train_the_same_machine(
    con: duckdb.DuckDBPyConnection, post: Any, kind: str
) -> None:
    """Bit for bit with `deterministic`, as rows may come in another order."""
    here, there = (Database(*one) for one in (("duck", con), ("post", post)))
    given = (("y", NUMBERS), ("y > 1", CLASSES))
    for label, options in (
        (label, f'{{"deterministic": true, {text[1:]}') for label, text in given
    ):
        one, other = (db.model(label, kind, options) for db in (here, there))
        assert one.coef == other.coef
        assert one.coef
        assert (one.history, one.loss, one.class_names) == (
            other.history,
            other.loss,
            other.class_names,
        )


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_predicted_by_the_formula(db: Database, kind: str) -> None:
    model = db.model("y", kind)
    x = rows_of(db, kind, model.n_features)
    y = np.array(db.ask("SELECT y FROM t ORDER BY i"), float)[:, 0]
    found = np.array(db.answers("predict(m, X), decision(m, X)", "y", kind, NUMBERS))
    assert (model.status, model.iterations, model.coef[:2]) == ("ok", 10, [model.n_features, 4])
    assert found[:, 0] == pytest.approx(by_pairs(model, x), rel=1e-9, abs=1e-9)
    assert (found[:, 1] == found[:, 0]).all()
    assert model.loss == pytest.approx(((found[:, 0] - y) ** 2).mean() / 2, rel=1e-3)
    assert model.loss < 0.3 * y.var() / 2


@pytest.mark.parametrize("kind", KINDS)
def test_two_classes(db: Database, kind: str) -> None:
    model = db.model("CASE WHEN y > 1 THEN 'much' ELSE 'little' END", kind, CLASSES)
    x = rows_of(db, kind, model.n_features)
    y = np.array(db.ask("SELECT y > 1 FROM t ORDER BY i"))[:, 0].astype(bool)
    functions = "decision(m, X), predict_proba(m, X), predict_class(m, X)"
    rows = db.answers(functions, "CASE WHEN y > 1 THEN 'much' ELSE 'little' END", kind, CLASSES)
    margin, p = np.array([row[:2] for row in rows], float).T
    assert model.class_names == ["little", "much"]
    assert margin == pytest.approx(by_pairs(model, x), rel=1e-9, abs=1e-9)
    assert p == pytest.approx(1 / (1 + np.exp(-margin)), rel=1e-12)
    assert [row[2] for row in rows] == [model.class_names[int(m > 0)] for m in margin]
    assert log_loss(y, p) == pytest.approx(model.loss, rel=1e-3)
    assert ((margin > 0) == y).mean() > 0.9


def test_each_group_has_its_model(db: Database) -> None:
    """That of the rows of the group alone, whatever the others."""
    x = db.features("sparse")
    sql = f"SELECT g, (train_model('fm', y, {x}, '{NUMBERS}')).coef FROM t GROUP BY g ORDER BY g"
    for group, coef in db.ask(sql):
        assert list(coef) == db.model("y", "sparse", NUMBERS, f"g = {group}").coef


def test_ids_that_are_unknown_weigh_nothing_and_repeated_ones_add_up(db: Database) -> None:
    array = "[{}]" if db.name == "duck" else "ARRAY[{}]"

    def predicted(ids: str, values: str) -> float:
        row = f"sparse({array.format(ids)}, {array.format(values)})"
        return float(
            db.ask(f"SELECT predict(m, {row}) FROM {db.trained('y', 'sparse', NUMBERS)}")[0][0]
        )

    known = predicted("7, 2", "1.0, 3.0")
    assert predicted("7, 2, 100, 90", "1.0, 3.0, 5.0, 7.0") == pytest.approx(known, rel=1e-12)
    assert predicted("2, 7, 2", "1.0, 1.0, 2.0") == pytest.approx(known, rel=1e-12)
    assert predicted("2, 7", "4.0, 1.0") != pytest.approx(known, rel=1e-3)


def test_values_far_from_zero_are_predicted_by_the_formula(db: Database) -> None:
    """c is a hundred million times its deviation from 0."""
    x = "[a, b, c + 1e9]" if db.name == "duck" else "ARRAY[a, b, c + 1e9]"
    trained = f"(SELECT train_model('fm', y, {x}, '{NUMBERS}') AS m FROM t) AS f"
    found = np.array(db.ask(f"SELECT predict(m, {x}), y FROM t, {trained}"), float)
    loss = float(db.ask(f"SELECT (m).loss FROM {trained}")[0][0])
    assert ((found[:, 0] - found[:, 1]) ** 2).mean() / 2 == pytest.approx(loss, rel=1e-3)


@pytest.mark.parametrize(("label", "options"), [("y", NUMBERS), ("y > 1", CLASSES)])
def test_rows_without_ids_have_the_best_constant(db: Database, label: str, options: str) -> None:
    array = "[]" if db.name == "duck" else "ARRAY[]"
    x = f"sparse({array}::int[], {array}::double precision[])"
    answer = f"SELECT (m).status, (m).coef, decision(m, {x})"
    trained = f"(SELECT train_model('fm', {label}, {x}, '{options}') AS m FROM t) AS f"
    status, coef, margin = db.ask(f"{answer} FROM {trained}")[0]
    classes = options == CLASSES
    mean = float(db.ask(f"SELECT avg({f'({label})::int' if classes else label}) FROM t")[0][0])
    best = math.log(mean / (1 - mean)) if classes else mean
    assert status in ("ok", "not converged")
    assert not coef
    assert margin == pytest.approx(best, abs=0.2)


STATUSES = {
    "one class": ("true", "dense", CLASSES, "true"),
    "too few rows": ("y", "dense", NUMBERS, "i = 1"),
    "diverged": ("y", "dense", f'{{{SAME}, "algorithm": "sgd", "learning_rate": 1e5}}', "true"),
    "out of range": ("y * 1e300", "dense", NUMBERS, "true"),
    "early stop": ("(y > 1) <> ((i * 104729) % 997 > 700)", "sparse", f'{{{SAME}, "objective": "logistic", "validation": 0.3, "max_iter": 200, "learning_rate": 0.1}}', "true"),
    "not converged": ("(i * 104729) % 997 > 500", "sparse", f'{{{SAME}, "objective": "logistic", "validation": 0.3, "max_iter": 200, "learning_rate": 2}}', "true"),
    "time limit": ("y", "dense", f'{{{SAME}, "time": "1s", "max_iter": 1000000}}', "true"),
    "ok": ("5.0", "dense", NUMBERS, "true"),
}  # fmt: skip


@pytest.mark.parametrize("status", STATUSES)
def test_a_status_says_what_happened(db: Database, status: str) -> None:
    label, kind, options, where = STATUSES[status]
    x = db.features(kind)
    found = db.ask(
        f"SELECT (m).status, (m).loss, predict(m, {x}) FROM t, {db.trained(label, kind, options, where)} LIMIT 1"
    )
    assert found[0][0] == status
    assert found[0][1] is None or math.isfinite(found[0][1])
    assert math.isfinite(found[0][2])


REFUSED = {
    '"rank": 0': "option 'rank' is 0, expected a whole number from 1 to 256",
    '"layers": [3]': "option 'layers' is not available with task 'fm', which has objective, rank,",
    '"rank": 2, "objective": "hinge"': "option 'objective' is \"hinge\", expected 'squared' or 'logistic'",
    '"objective": "logistic", "invalid": "error"': "'fm' needs two classes",
}


@pytest.mark.parametrize("options", REFUSED)
def test_what_it_cannot_do_has_a_sentence(db: Database, options: str) -> None:
    with pytest.raises((duckdb.Error, psycopg.Error), match=re.escape(REFUSED[options])):
        db.model("a", "dense", f"{{{options}}}")


def test_too_many_numbers_have_a_sentence(db: Database) -> None:
    row = (
        "sparse([200000000], [1.0])"
        if db.name == "duck"
        else "sparse(ARRAY[200000000], ARRAY[1.0])"
    )
    with pytest.raises(
        (duckdb.Error, psycopg.Error), match=r"200,000,001 features, which make .* hash_features"
    ):
        db.ask(f"SELECT train_model('fm', y, {row}) FROM t")


def test_the_plan_is_explained(db: Database) -> None:
    text = db.ask(f"SELECT explain_training('fm', y, {db.features('sparse')}) FROM t")[0][0]
    assert text.startswith("fm: minimise mean 1/2 (m - y)^2, m = b + sum_i w_i x_i")
    assert "adagrad, squared loss, vectors of 8, 10 epochs" in text


def test_a_summary_has_the_intercept(db: Database) -> None:
    trained = db.trained("y", "dense", NUMBERS)
    if db.name == "post":
        rows = db.ask(f"SELECT s.term, s.note FROM {trained}, LATERAL model_summary(m) AS s")
    else:
        db.session.execute(f"CREATE TABLE one AS SELECT m FROM {trained}")
        rows = db.ask("SELECT term, note FROM model_summary((SELECT m FROM one))")
    assert rows == [("intercept", "no standard errors: 'fm' models have none")]


def test_ranks_can_be_searched(con: duckdb.DuckDBPyConnection) -> None:
    """Labels are a product of two features, so that a vector of one number is enough."""
    options = '{"rank": [1, 2], "folds": 2, "threads": 1}'
    con.execute(
        f"CREATE TABLE s AS SELECT train_model('fm', i % 7 * (i % 11), [i % 7, i % 11], '{options}') AS m FROM range(300) r(i)"
    )
    trials = con.execute(
        "SELECT configuration, metric FROM model_trials((SELECT m FROM s)) WHERE fold IS NULL"
    ).fetchall()
    assert len(trials) == 2
    assert all(0 < metric < 5 for _, metric in trials)
