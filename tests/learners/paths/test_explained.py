"""What explain_training says of paths, and that a model's plan says the same."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import pytest

WIDE = "list_transform(range(100), lambda j: CAST(i * (j + 3) % 101 AS DOUBLE))"


@pytest.fixture
def table(con: Any) -> Any:
    con.execute(
        f"CREATE TABLE t AS SELECT i % 2 AS g, i % 7 AS a, i % 5 AS b, {WIDE} AS wide, "
        "i % 7 + 0.3 * (i % 5) + 0.1 * (i % 3) AS y FROM range(100) r(i)"
    )
    return con


@pytest.mark.parametrize(("call", "description", "objective"), [
    ("'lasso', y, [a, b]", "systems of equations from sums over rows, a path of 100 penalties, 5 folds", "mean 1/2 (m - y)^2 + lambda |w|"),
    ("'lasso', y, sparse([0, 1], [a, b])", "coordinate descent on working sets, a path of 100 penalties, 5 folds", "mean 1/2 (m - y)^2 + lambda |w|"),
    ("'lasso', y, [a, b], '{\"groups\": [[1, 2]], \"lambda\": 0.1}'", "coordinate descent on working sets", "mean 1/2 (m - y)^2 + 0.1 |w| by group"),
    ("'elastic_net', y, [a, b], '{\"path\": {\"length\": 7, \"folds\": 0}}'", "systems of equations from sums over rows, a path of 7 penalties", "mean 1/2 (m - y)^2 + lambda (0.5 |w| + 0.25 |w|^2)"),
    ("'sparse_logistic', y > 4, [a, b], '{\"lambda\": 0.1}'", "coordinate descent on working sets", "mean log(1 + exp(-y m)) + 0.1 |w|"),
])  # fmt: skip
def test_the_plan_is_what_runs(table: Any, call: str, description: str, objective: str) -> None:
    arguments = call if "{" in call else f"{call}, '{{}}'"
    explained = arguments.replace("'{", '\'{"format": "json", ', 1).replace(", }", "}")
    ((told, plan),) = table.execute(
        f"SELECT explain_training({explained}), train_model({arguments}).plan FROM t"
    ).fetchall()
    found = json.loads(told)
    assert found["objective"] == objective
    assert found["plan"]["description"].startswith(description)
    assert plan == found["plan"]["description"]


def test_groups_have_plans_of_their_own(table: Any) -> None:
    """With fewer rows than features sums are no shorter way."""
    plans = table.execute(
        "SELECT n, train_model('lasso', y, wide, '{\"lambda\": 1}').plan FROM t, "
        "(VALUES (50), (100)) AS v(n) WHERE a + b + 100 * g < 1000 AND (n = 100 OR g = 0) "
        "GROUP BY n ORDER BY n"
    ).fetchall()
    assert [plan.split(" from ")[0].split(" on ")[0] for _, plan in plans] == [
        "coordinate descent",
        "systems of equations",
    ]
