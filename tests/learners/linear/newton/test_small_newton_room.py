"""A call's objectives take room for its iterations alone, however many a training may make."""

from typing import Any

import duckdb
import pytest

from tuskml.learners.linear.algorithms.parts import small


def test_many_iterations_allowed_take_no_room(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    usual = small.descents

    def noted(part: Any, v: Any, epsilon: float, most: int, deadline: float | None) -> Any:
        asked.append(most)
        return usual(part, v, epsilon, most, deadline)

    monkeypatch.setattr(small, "descents", noted)
    options = '{"algorithm": "newton", "l2": 0.01, "max_iter": 1000000000}'
    rows = "SELECT i % 40 AS g, i % 7 < 3 AS y, sparse([1, 2], [i % 5, i % 11]) AS x"
    sql = f"SELECT train_model('logistic', y, x, '{options}') FROM ({rows} FROM range(4000) r(i)) GROUP BY g"  # noqa: E501
    assert len(con.execute(sql).fetchall()) == 40
    assert asked
    assert max(asked) <= 100
