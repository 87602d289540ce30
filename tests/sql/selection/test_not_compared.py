"""Searches in which no candidate could be judged: a status, and a winner by rule."""

import itertools
import json
from typing import Any

import pytest

import tuskml

HELD = {"folds": 5, "fold_by": "c"}
SEARCHES: dict[str, tuple[str, dict[str, list[Any]], dict[str, Any]]] = {
    "grid": ("linear", {"l2": [0.1, 1000]}, HELD),
    "halving": (
        "linear", {"l2": [0.1, 3, 1000, 2, 5, 7]}, HELD | {"search": {"strategy": "halving"}}
    ),
    "tpe": ("linear", {"l2": [0.1, 3, 1000]}, HELD | {"search": {"strategy": "tpe", "trials": 3}}),
    "tasks": ("auto", {"tasks": ["linear", "gbdt"]}, HELD),
    "trees": ("gbdt", {"trees": [5, 3]}, HELD),
}  # fmt: skip


def chosen_by(con: Any, task: str, options: dict[str, Any]) -> tuple[Any, ...]:
    (model,) = con.execute(
        f"SELECT train_model('{task}', y, {{'a': a, 'c': c}}, '{json.dumps(options)}') FROM t"
    ).fetchone()
    told = json.loads(model["options"])
    return model["status"], model["task"], told.get("l2"), told.get("trees"), model["trials"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", SEARCHES)
def test_the_simplest_model_is_taken_in_any_order(name: str) -> None:
    con = tuskml.connect()
    con.execute("CREATE TABLE t AS SELECT i AS a, 1 AS c, i % 7 AS y FROM range(40) t(i)")
    task, listed, more = SEARCHES[name]
    ((option, values),) = listed.items()
    found = []
    for order in itertools.islice(
        itertools.permutations(values), 0, None, max(1, len(values) - 1)
    ):
        status, *which, trials = chosen_by(con, task, {option: list(order), **more})
        assert status == "not compared"
        assert json.loads(trials)["chosen"] is None
        found.append(which)
        if len(found) == 3:
            break
    assert found == found[:1] * len(found)
    if option == "l2":
        assert found[0][1] == 1000
    if option == "trees":
        assert found[0][2] == 3


def test_a_search_that_could_judge_says_which_one() -> None:
    con = tuskml.connect()
    con.execute("CREATE TABLE t AS SELECT i AS a, i % 4 AS c, i % 7 AS y FROM range(40) t(i)")
    status, *_, trials = chosen_by(con, "linear", {"l2": [0.1, 1000], "folds": 4, "fold_by": "c"})
    assert status != "not compared"
    assert json.loads(trials)["chosen"] in (0, 1)


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("linear", {"l2": [1, 2]}),
        ("random_forest", {"trees": [3, 2]}),
        ("mlp", {"layers": [[3], [2]], "max_iter": 2}),
        ("fm", {"rank": [3, 2], "max_iter": 2}),
    ],
)
def test_groups_of_two_rows(task: str, options: dict[str, Any]) -> None:
    con = tuskml.connect()
    found = con.execute(
        "SELECT DISTINCT mod.status FROM (SELECT g, train_model($1, i, [i * g], $2) AS mod "
        "FROM range(2) t(i), range(5) s(g) GROUP BY g)".replace("$1", f"'{task}'").replace(
            "$2", f"'{json.dumps(options | {'folds': 2})}'"
        )
    ).fetchall()
    assert {status for (status,) in found} <= {
        "not compared",
        "diverged",
        "no split",
        "too few rows",
    }
