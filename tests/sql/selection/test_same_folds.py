"""All candidates of a search are judged by the same rows, whichever way they read them."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import duckdb
import pytest

from tuskml.groups.selection import metrics as judging

ROWS = """
CREATE TABLE rows AS SELECT i, i % 3 AS x, i % 3 = 0 OR hash(i) % 4 = 0 AS y, 1 + hash(i + 5) % 7 AS w,
    ['a', 'b', 'c', 'd'][1 + (hash(i + 9) % 4)::INT] AS k FROM range(1200) AS r(i)
"""


def metrics(con: duckdb.DuckDBPyConnection, sql: str) -> list[list[float]]:
    """Of each candidate the metric of each fold."""
    ((text,),) = con.execute(sql).fetchall()
    trials: list[dict[str, Any]] = json.loads(text)["trials"]
    return [[fold["metric"] for fold in trial["folds"]] for trial in trials]


@pytest.fixture
def rows(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(ROWS)
    return con


def test_candidates_that_read_categories_differently_have_the_same_folds(
    rows: duckdb.DuckDBPyConnection,
) -> None:
    """A penalty gives the first level a feature of its own; a weak one changes no prediction."""
    weak = """SELECT (train_model('logistic', y, {'x': x, 'i': i % 97, 'k': k}, '{"l2": [0, 1e-11], "epsilon": 1e-10}')).trials FROM rows"""
    first, second = metrics(rows, weak)
    assert first == pytest.approx(second, abs=1e-7)
    assert max(first) - min(first) > 1e-4


def test_learners_that_compete_have_the_same_folds(rows: duckdb.DuckDBPyConnection) -> None:
    """Trees that cannot split predict a fold's mean, as linear models with a hard penalty do."""
    sql = """SELECT (train_model('auto', i % 97, {'x': x, 'k': k}, '{"tasks": [{"task": "linear", "l2": 1e9},
        {"task": "gbdt", "min_child_rows": 100000}]}')).trials FROM rows"""
    first, second = metrics(rows, sql)
    assert first == pytest.approx(second, rel=1e-7)


def test_folds_do_not_depend_on_the_order_of_rows_that_differ_in_weight(
    rows: duckdb.DuckDBPyConnection,
) -> None:
    sql = """SELECT (train_model('logistic', y, [x], '{{"l2": [0.1]}}', w)).trials
             FROM (SELECT * FROM rows ORDER BY {0})"""
    rows.execute("SET threads = 1")
    found = [metrics(rows, sql.format(order)) for order in ("i", "w, i DESC")]
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-12)


def test_a_search_that_is_cancelled_while_models_are_judged_ends(
    rows: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "cancel_mark", lambda: 2**40)
    for features in ("[x, i]", "{'x': x, 'k': k}"):
        sql = f"SELECT train_model('logistic', y, {features}, '{{\"l2\": [0.1]}}') FROM rows"
        with pytest.raises(duckdb.Error, match=r"(?i)interrupt"):
            rows.execute(sql).fetchall()


def test_a_candidate_without_a_penalty_changes_no_fold_of_the_others(
    rows: duckdb.DuckDBPyConnection,
) -> None:
    """It reads categories in another way, and lists of numbers in the same."""
    sql = """SELECT (train_model('logistic', y, [x, i % 97], '{{"l2": {0}}}')).trials FROM rows"""
    alone, beside = (metrics(rows, sql.format(l2)) for l2 in ("[0.1]", "[0.1, 0]"))
    assert beside[0] == alone[0]


def test_groups_whose_categories_have_different_levels_are_searched(
    rows: duckdb.DuckDBPyConnection,
) -> None:
    """Each group has the trials that it has alone, though others have more features."""
    sql = """SELECT i % 3 AS g, (train_model('logistic', y, {'x': x, 'k': k || (i % (1 + i % 3))}, '{"l2": [1, 0.01], "epsilon": 1e-8}')).trials
             FROM rows WHERE i % 3 IN (0, 1, 2) GROUP BY g"""
    together = dict(rows.execute(sql).fetchall())
    for g, trials in together.items():
        alone = f"SELECT (train_model('logistic', y, {{'x': x, 'k': k || (i % (1 + i % 3))}}, '{{\"l2\": [1, 0.01], \"epsilon\": 1e-8}}')).trials FROM rows WHERE i % 3 = {g}"
        ((text,),) = rows.execute(alone).fetchall()
        for one, other in zip(
            json.loads(trials)["trials"], json.loads(text)["trials"], strict=True
        ):
            assert one["metric"] == pytest.approx(other["metric"], abs=1e-7)
