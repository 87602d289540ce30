"""Bins that all groups share: option `bounds` of boosted trees, in both databases."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from forests import grown, margins

import tuskml
from tuskml.errors import OptionError
from tuskml.kernels.trees.boosting import LOGISTIC, SQUARED
from tuskml.learners.trees.options import OPTIONS

BOUNDS = [[0.25, 0.5, 0.75], None, [2.5, 5.5]]
NAMED = {"a": BOUNDS[0], "c": BOUNDS[2]}
ROWS = """
CREATE {temp} TABLE t AS
SELECT i % 3 AS g, CAST((i * 7919) % 1009 AS DOUBLE PRECISION) / 1009 AS a,
       CAST((i * 104729) % 997 AS DOUBLE PRECISION) / 997 AS b, CAST((i * 31) % 11 AS DOUBLE PRECISION) AS c,
       CASE WHEN i % 2 = 0 THEN 'v' ELSE 'w' END AS k
FROM generate_series(1, 1500) AS s(i)
"""


@pytest.fixture
def db(session: tuple[str, Any]) -> tuple[str, Any]:
    name, connection = session
    connection.execute(ROWS.format(temp="TEMP" if name == "post" else ""))
    return session


def trees(db: tuple[str, Any], bounds: Any, by_name: str = "") -> list[tuple[Any, ...]]:
    """The numbers of each group's trees, and the names of their features."""
    name, connection = db
    x = "[a, b, c]" if name == "duck" else "ARRAY[a, b, c]"
    if by_name:
        pairs = ", ".join(f"'{column}': {column}" for column in by_name.split(", "))
        x = "{" + pairs + "}" if name == "duck" else f"(SELECT q FROM (SELECT {by_name}) AS q)"
    options = json.dumps({"trees": 8, "num_leaves": 7} | ({"bounds": bounds} if bounds else {}))
    call = f"train_model('gbdt', 3 * a * b + c, {x}, '{options}')"
    model = "m" if name == "duck" else "to_jsonb(m)"
    sql = f"SELECT {model} FROM (SELECT g, {call} AS m FROM t GROUP BY g) AS f ORDER BY g"
    models = [tuskml.Model.of(one) for (one,) in connection.execute(sql).fetchall()]
    return [(np.array(model.coef).tolist(), model.features) for model in models]


def test_groups_split_by_the_bounds_that_are_given(db: tuple[str, Any]) -> None:
    for coef, _ in trees(db, BOUNDS):
        count, numbers = int(coef[1]), np.array(coef)
        begin = 3 + count
        nodes = numbers[begin : begin + 6 * int(numbers[3:begin].sum())].reshape(-1, 6)
        for feature, allowed in ((0, BOUNDS[0]), (2, BOUNDS[2])):
            found = set(nodes[nodes[:, 0] == feature, 1])
            assert found
            assert found <= set(allowed)
        assert len(set(nodes[nodes[:, 0] == 1, 1])) > 3


def test_bounds_by_name_are_those_of_a_list(db: tuple[str, Any]) -> None:
    """In each group by its own features; a category has none."""
    named = trees(db, NAMED, "a, b, c")
    assert [coef for coef, _ in named] == [coef for coef, _ in trees(db, BOUNDS)]
    mixed = trees(db, NAMED, "c, k, a")
    assert mixed == trees(db, [BOUNDS[2], None, BOUNDS[0]], "c, k, a")
    assert mixed != trees(db, None, "c, k, a")


def test_what_bounds_cannot_be(db: tuple[str, Any]) -> None:
    for bounds, by_name, sentence in (
        ([[1.0]], "", "option 'bounds' has 1 lists and rows have 3 features"),
        ({"d": [1.0]}, "a, b, c", "option 'bounds' names 'd', which no feature is called"),
        ({"a": [1.0]}, "", "option 'bounds' names 'a', but features are a list without names"),
        ({"k": [1.0]}, "c, k, a", "which is a category: its levels have no order"),
    ):
        with pytest.raises((duckdb.Error, psycopg.Error), match=sentence):
            trees(db, bounds, by_name)


@pytest.mark.native
@pytest.mark.parametrize("objective", [SQUARED, LOGISTIC])
@pytest.mark.parametrize("n", [400, 5000, 210_000])
def test_trees_are_those_of_the_numbers_of_intervals(n: int, objective: int) -> None:
    """A group beyond the sample of rows too; an interval that no row is in changes nothing."""
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 4))
    bounds = [[-1.0, -0.25, 0.5, 1.25], [-50.0, 0.0, 0.1, 50.0], [], [-0.5, 0.5]]
    codes = np.stack([np.searchsorted(b, x[:, f]) for f, b in enumerate(bounds)], axis=1)
    y = codes[:, 0] * (codes[:, 1] > 1) - codes[:, 3] + rng.normal(size=n)
    y = y if objective == SQUARED else (y > 0) * 1.0
    given = {"objective": objective, "trees": 10, "min_child_rows": 20}
    shared = grown(x, y, bounds=tuple(map(tuple, bounds)), **given)
    plain = grown(codes.astype(float), y, **given)
    np.testing.assert_allclose(shared.loss, plain.loss, rtol=1e-12)
    np.testing.assert_allclose(margins(shared, x), margins(plain, codes.astype(float)), rtol=1e-9)
    assert not (shared.nodes["feature"] == 2).any()


@pytest.mark.parametrize(
    "bounds", [[[2, 2]], [[1, "2"]], [["NaN"]], [[True]], [1.0], [list(range(255))], {}, []]
)
def test_bounds_that_are_refused(bounds: Any) -> None:
    with pytest.raises(OptionError, match="option 'bounds'"):
        OPTIONS.parse(json.dumps({"bounds": bounds}), "gbdt")
