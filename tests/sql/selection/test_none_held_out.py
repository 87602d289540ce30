"""Groups of which a column can hold out no row, or a gap leaves none: a status of theirs alone."""

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

ROWS = """
CREATE TABLE t AS SELECT i, i % 3 AS g, i + sin(i) AS a, i / 40.0 + cos(i) AS y,
       (i * 7919 % 101) % 2 AS two,
       CASE i % 3 WHEN 0 THEN 1 ELSE i // 4 END AS c,
       CASE i % 3 WHEN 1 THEN i + 100000 * (i // 50) ELSE i END AS d
FROM range(240) AS t(i)
"""
"""Group 0 has one value of c; days of group 1 have long breaks, in which a gap may lie."""
TASKS: dict[str, dict[str, Any]] = {
    "gbdt": {"trees": 3},
    "mlp": {"max_iter": 40, "layers": [4], "learning_rate": 0.01},
    "fm": {"max_iter": 3},
    "linear": {"algorithm": "sgd"},
    "logistic": {"l2": 0.1, "algorithm": "mgd"},
}


@pytest.fixture(scope="module")
def rows() -> Iterator[duckdb.DuckDBPyConnection]:
    import tuskml

    with tuskml.connect() as con:
        con.execute(ROWS)
        yield con


def told(con: Any, task: str, options: dict[str, Any], where: str = "true") -> dict[int, Any]:
    given = json.dumps(options | TASKS[task] | {"threads": 1})
    label = "two" if task == "logistic" else "y"
    call = f"train_model('{task}', {label}, {{'a': a, 'c': c, 'd': d}}, '{given}')"
    found = con.execute(
        f"SELECT g, (m).status, (m).coef, (m).intercept, (m).options, (m).payload "
        f"FROM (SELECT g, {call} AS m FROM t WHERE {where} GROUP BY g)"
    ).fetchall()
    return {group: rest for group, *rest in found}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("name", ["fold_by", "time_by"])
def test_one_value_holds_nothing_out(rows: Any, task: str, name: str) -> None:
    models = told(rows, task, {"validation": 0.2, name: "c"})
    assert [models[g][0] == "not compared" for g in range(3)] == [True, False, False]
    assert all(json.loads(models[g][3])[name] == "c" for g in range(3))


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("random_forest", {"validation": 0.2, "fold_by": "c", "trees": 2}),
        ("random_forest", {"validation": 0.2, "time_by": "c", "trees": 2}),
        ("linear", {"folds": 3, "fold_by": "c", "metric": "mae"}),
        ("gbdt", {"folds": 3, "time_by": "c", "trees": 2}),
    ],
)
def test_one_candidate_that_could_not_be_judged(rows: Any, task: str, options: Any) -> None:
    """It was not compared with anything, and `chosen` is NULL."""
    call = f"train_model('{task}', y, {{'a': a, 'c': c}}, '{json.dumps(options)}')"
    found = rows.execute(
        f"SELECT g, (m).status, (m).trials FROM (SELECT g, {call} AS m FROM t GROUP BY g)"
    ).fetchall()
    for g, status, trials in found:
        assert (status == "not compared") == (g == 0), (g, status)
        assert (json.loads(trials)["chosen"] is None) == (g == 0)


@pytest.mark.parametrize("task", TASKS)
def test_a_gap_that_leaves_no_row_is_of_its_group_alone(rows: Any, task: str) -> None:
    asked = {"validation": 0.2, "time_by": "d", "gap": 1000}
    models = told(rows, task, asked)
    assert [models[g][0] == "not compared" for g in range(3)] == [True, False, True]
    assert {json.loads(models[g][3])["gap"] for g in range(3)} == {1000}
    alone = told(rows, task, asked, "g = 1")
    assert alone[1][1:3] == models[1][1:3]
    assert alone[1][4] == models[1][4]


def test_the_winner_of_a_search_names_the_column(rows: Any) -> None:
    models = told(rows, "linear", {"l2": [0.1, 1], "folds": 3, "time_by": "d", "gap": 2})
    found = json.loads(models[2][3])
    assert (found["time_by"], found["gap"]) == ("d", 2)
