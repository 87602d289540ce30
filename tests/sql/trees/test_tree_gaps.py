"""The task `gbdt` with NULLs among features, in both databases."""

# ruff: noqa: E501, SQL is read better on one line

from typing import Any

import numpy as np
import pytest
from forests import grown, margins
from sklearn.ensemble import HistGradientBoostingRegressor

import tuskml
from tuskml.errors import OptionError
from tuskml.kernels.trees.boosting import LOGISTIC
from tuskml.learners.registry import learners, options_of, task_named
from tuskml.udas.tasks import TASK_TABLE

ROWS = """
CREATE {temp} TABLE gaps AS
SELECT i, x1, x2, k, CASE WHEN x1 IS NULL THEN 3.0 ELSE CAST(x1 AS double precision) / 5 END + CASE WHEN x2 > 7 THEN 2.0 ELSE 0 END
         + CASE WHEN k IS NULL THEN 4.0 ELSE 0 END + CAST(i * 7919 % 101 AS double precision) / 200 AS y
FROM (SELECT i, CASE WHEN i % 7 < 2 THEN NULL ELSE CAST(i * 31 % 13 AS double precision) END AS x1,
             CASE WHEN i % 11 = 3 THEN NULL ELSE CAST(i * 17 % 12 AS double precision) END AS x2,
             CASE WHEN i % 5 = 1 THEN NULL WHEN i % 2 = 0 THEN 'even' ELSE 'odd' END AS k
      FROM generate_series(1, 1200) AS s(i)) AS r
"""
LISTS = ["ARRAY[x1, x2]", "CAST(ARRAY[x1, x2] AS real[])"]
HOW = '{"trees": 30, "num_leaves": 15, "min_child_rows": 5}'
HELD = {"trees": 30, "num_leaves": 15, "min_child_rows": 5}


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        session.execute(ROWS.format(temp="TEMP" if name == "post" else ""))

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self.session.execute(sql).fetchall()

    def named(self, columns: str) -> tuple[str, str]:
        """Features by name, and the table that has them."""
        if self.name == "duck":
            pairs = ", ".join(f"'{one}': {one}" for one in columns.split(", "))
            return f"{{{pairs}}}", "gaps"
        return "f", f"gaps, LATERAL (SELECT {columns}) AS f"


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


def numbers(db: Database) -> tuple[np.ndarray, np.ndarray]:
    rows = np.array(db.ask("SELECT x1, x2, y FROM gaps ORDER BY i"), float)
    return rows[:, :2], rows[:, 2]


@pytest.mark.parametrize("features", LISTS)
def test_lists_with_nulls_predict_what_the_kernels_say(db: Database, features: str) -> None:
    """scikit-learn has a side for NaN too, and these whole numbers are bins of both."""
    x, y = numbers(db)
    expected = margins(grown(x, y, **HELD), x)
    peer = HistGradientBoostingRegressor(
        max_iter=30, max_leaf_nodes=15, min_samples_leaf=5, early_stopping=False
    )
    assert expected == pytest.approx(peer.fit(x, y).predict(x), rel=1e-5, abs=1e-5)
    found = np.array(
        db.ask(
            f"SELECT (m).n_rows, (m).n_skipped, predict(m, {features}), decision(m, {features}) FROM gaps, "
            f"(SELECT train_model('gbdt', y, {features}, '{HOW}') AS m FROM gaps) AS f ORDER BY i"
        ),
        float,
    )
    assert (found[:, 0] == len(y)).all()
    assert (found[:, 1] == 0).all()
    assert found[:, 2] == pytest.approx(expected, rel=1e-9)
    assert found[:, 3] == pytest.approx(expected, rel=1e-9)


def test_classes_of_lists_with_nulls(db: Database) -> None:
    x, y = numbers(db)
    late = (y > 2) * 1.0
    expected = margins(grown(x, late, objective=LOGISTIC, **HELD), x)
    how = HOW.replace("}", ', "objective": "logistic"}')
    found = np.array(
        db.ask(
            "SELECT predict_proba(m, ARRAY[x1, x2]), predict(m, ARRAY[x1, x2]) FROM gaps, "
            f"(SELECT train_model('gbdt', y > 2, ARRAY[x1, x2], '{how}') AS m FROM gaps) AS f ORDER BY i"
        ),
        float,
    )
    assert found[:, 0] == pytest.approx(1 / (1 + np.exp(-expected)), rel=1e-9)
    assert (found[:, 1] == (expected > 0)).all()


def test_probabilities_of_many_classes(db: Database) -> None:
    label = "CASE WHEN x1 IS NULL THEN 2 WHEN x2 IS NULL THEN 1 ELSE 0 END"
    rows = db.ask(
        f"SELECT {label}, predict_probas(m, ARRAY[x1, x2]), predict(m, ARRAY[x1, x2]) FROM gaps, "
        f'(SELECT train_model(\'gbdt\', {label}, ARRAY[x1, x2], \'{{"objective": "logistic", "trees": 40}}\') AS m FROM gaps) AS f'
    )
    assert len(rows) == 1200
    assert all(likeliest(shares) == str(label) == str(int(best)) for label, shares, best in rows)


def likeliest(shares: dict[str, float]) -> str:
    """The class of the largest probability."""
    return max(shares, key=shares.__getitem__)


def test_columns_by_name(db: Database) -> None:
    """A NULL number has a side, a NULL category a level."""
    features, table = db.named("x1, x2, k")
    rows = db.ask(
        f"SELECT y, predict(m, {features}), (m).n_rows FROM {table}, "
        f"(SELECT train_model('gbdt', y, {features}, '{{\"trees\": 100}}') AS m FROM {table}) AS t"
    )
    y, found, n = np.array(rows, float).T
    assert (n == 1200).all()
    assert np.abs(y - found).max() < 0.6


def test_numbers_by_name_are_those_of_lists(db: Database) -> None:
    features, table = db.named("x1, x2")
    by_name = db.ask(
        f"SELECT (m).loss FROM (SELECT train_model('gbdt', y, {features}, '{HOW}') AS m FROM {table}) AS t"
    )
    listed = db.ask(
        f"SELECT (m).loss FROM (SELECT train_model('gbdt', y, ARRAY[x1, x2], '{HOW}') AS m FROM gaps) AS t"
    )
    assert by_name[0][0] == pytest.approx(listed[0][0], rel=1e-12)


@pytest.mark.parametrize("by_name", [True, False])
def test_skip_leaves_rows_out(db: Database, by_name: bool) -> None:
    features, table = db.named("x1, x2") if by_name else ("ARRAY[x1, x2]", "gaps")
    complete = "gaps.x1 IS NOT NULL AND gaps.x2 IS NOT NULL"
    how = HOW.replace("}", ', "missing": "skip"}')
    asked = f"SELECT (m).n_rows, (m).n_skipped, (m).loss FROM (SELECT train_model('gbdt', y, {features}, '{how}') AS m FROM {table}"
    n, skipped, loss = db.ask(f"{asked}) AS t")[0]
    assert (n + skipped, skipped > 100) == (1200, True)
    assert db.ask(f"{asked} WHERE {complete}) AS t")[0][2] == pytest.approx(loss, rel=1e-12)


def test_labels_and_whole_lists_are_skipped(db: Database) -> None:
    asked = "SELECT (m).n_rows, (m).n_skipped FROM (SELECT train_model('gbdt', {}, {}) AS m FROM gaps) AS t"
    whole = "CASE WHEN x1 IS NOT NULL THEN ARRAY[x1, x2] END"
    gaps = db.ask("SELECT count(*) FROM gaps WHERE x1 IS NULL")[0][0]
    assert db.ask(asked.format("y", whole)) == [(1200 - gaps, gaps)]
    assert db.ask(asked.format("x1", "ARRAY[x2]")) == [(1200 - gaps, gaps)]
    found = db.ask(
        f"SELECT count(predict(m, {whole})) FROM gaps, (SELECT train_model('gbdt', y, ARRAY[x1, x2]) AS m FROM gaps) AS t"
    )
    assert found == [(1200 - gaps,)]


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
def test_what_is_no_number_is_refused_beside_a_null(db: Database, value: str) -> None:
    features = (
        f"ARRAY[NULL, CASE WHEN i = 700 THEN CAST('{value}' AS double precision) ELSE x2 END]"
    )
    with pytest.raises(Exception, match=r"feature 2 is (NaN|infinity) in row 700"):
        db.ask(
            f"SELECT (m).n_rows FROM (SELECT train_model('gbdt', y, {features}, '{{\"invalid\": \"error\"}}') AS m FROM gaps) AS t"
        )


def test_linear_models_skip_rows_with_nulls(db: Database) -> None:
    asked = "SELECT (m).n_rows, (m).n_skipped FROM (SELECT train_model('linear', y, ARRAY[x1, x2]{}) AS m FROM gaps) AS t"
    n, skipped = db.ask(asked.format(""))[0]
    assert (n + skipped, skipped > 100) == (1200, True)
    with pytest.raises(Exception, match="expected 'skip', 'impute', 'level' or 'error'"):
        db.ask(asked.format(', \'{"missing": "keep"}\''))


def test_rows_of_nulls_alone(db: Database) -> None:
    """No split, and a constant answer."""
    nothing = "CAST(ARRAY[NULL, NULL] AS double precision[])"
    rows = db.ask(
        f"SELECT (m).status, (m).n_rows, predict(m, {nothing}) - (m).intercept FROM (SELECT train_model('gbdt', y, {nothing}) AS m FROM gaps) AS t"
    )
    assert rows == [("no split", 1200, 0)]


def test_weights_go_with_gaps(db: Database) -> None:
    x, y = numbers(db)
    weight = np.arange(1, 1201) % 4 + 1.0
    forest = grown(x, y, weight=weight, **HELD)
    found = db.ask(
        f"SELECT (m).loss FROM (SELECT train_model('gbdt', y, ARRAY[x1, x2], '{HOW}', i % 4 + 1) AS m FROM gaps) AS t"
    )
    assert found[0][0] == pytest.approx(forest.loss[-1], rel=1e-9)


def test_python_and_sql_agree(con: Any) -> None:
    """By frame and by array, where NaN is a NULL."""
    db = Database("duck", con)
    x, _ = numbers(db)
    model = tuskml.Model.of(
        db.ask(f"SELECT train_model('gbdt', y, ARRAY[x1, x2], '{HOW}') FROM gaps")[0][0]
    )
    found = [
        one
        for (one,) in db.ask(
            f"SELECT predict(m, ARRAY[x1, x2]) FROM gaps, (SELECT train_model('gbdt', y, ARRAY[x1, x2], '{HOW}') AS m FROM gaps) AS t ORDER BY i"
        )
    ]
    assert model.predict(x) == pytest.approx(found, rel=1e-12)


def test_packers_know_the_defaults() -> None:
    """Packers in C need the default before options are read: `udas/scalars/models/kinds.c`."""
    keep = [name for name, row in TASK_TABLE.items() if row.kind == "boosted"]
    names = [name for learner in learners() for name in learner.tasks]
    found = [name for name in names if options_of(task_named(name), "").missing == "keep"]
    assert sorted(found) == sorted(keep)
    with pytest.raises(OptionError, match="missing"):
        options_of(task_named("linear"), '{"missing": "keep"}')


@pytest.mark.parametrize("task", ["gbdt", "mlp"])
def test_rows_by_name_stay_dense_however_wide(db: Database, task: str) -> None:
    """A linear model's rows with a level of 60 are sparse; trees and nets have dense ones alone."""
    features, table = "{'w': 'l' || (i % 60), 'x2': x2}", "gaps"
    if db.name == "post":
        features, table = "f", "gaps, LATERAL (SELECT 'l' || (i % 60) AS w, x2) AS f"
    more = ', "category_encoding": "one_hot"' if task == "gbdt" else ""
    how = f'{{"missing": "skip"{more}}}'
    sql = f"SELECT train_model('{task}', y, {features}, '{how}') AS m FROM {table}"
    found = db.ask(f"SELECT (m).status, (m).n_features FROM ({sql}) AS s")
    assert found == [("ok", 61)]


@pytest.mark.parametrize("task", ["gbdt", "mlp"])
def test_numbers_of_trees_and_nets_are_no_coefficients(db: Database, task: str) -> None:
    model = f"SELECT train_model('{task}', y, ARRAY[i]) FROM gaps"
    found = db.ask(f"SELECT term, std_err, note FROM model_summary(({model}))")
    assert found == [("intercept", None, f"no standard errors: '{task}' models have none")]
