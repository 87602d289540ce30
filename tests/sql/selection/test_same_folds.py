"""All candidates of a search are judged by the same rows, whichever way they read them."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import duckdb
import pytest

from tuskml.groups.selection import judging

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
