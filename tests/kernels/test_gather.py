"""Rows of many small groups are moved side by side without a change."""

import numpy as np
import pytest

from tuskml.kernels import passes
from tuskml.learners.linear import training as trainer

pytestmark = pytest.mark.native

MANY = 3 * passes.LEAST_GROUPS


@pytest.fixture
def con(con):
    """A table of groups, one row of each in turn: every group has several segments."""
    con.execute(f"""
        SET threads = 1; CREATE TABLE t AS
            SELECT (i % {MANY})::INTEGER AS g, sin(i * 7) AS a, cos(i * 3) AS b,
            a + 2 * b + sin(i * 11) AS y, i FROM (SELECT i, sin(i * 7) a, cos(i * 3) b
            FROM range({MANY} * 40) r(i) WHERE hash(i) % 5 > 0)""")
    yield con
    con.execute("SET threads = 2")


@pytest.fixture
def gathered(monkeypatch):
    """Whether rows were moved, by call."""
    moved = []

    def spy(rows):
        result = passes.gather_groups(rows)
        moved.append(result is not rows)
        return result

    monkeypatch.setattr(trainer, "gather_groups", spy)
    return moved


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_the_same_models_as_from_rows_in_order(con, gathered, kind, task) -> None:
    label = "y" if task == "linear" else "y > 0"
    call = f"train_model('{task}', {label}, [a, b]::{kind}[], '{{\"l2\": 0.01}}')"
    con.execute("CREATE TABLE ordered AS SELECT * FROM t ORDER BY g, i")
    found = con.execute(f"SELECT g, {call} m FROM t GROUP BY g ORDER BY g").fetchall()
    assert any(gathered)
    gathered.clear()
    expected = con.execute(f"SELECT g, {call} m FROM ordered GROUP BY g ORDER BY g").fetchall()
    assert not any(gathered), "they lie side by side already"
    assert len(found) == len(expected) == MANY
    for (_, model), (_, other) in zip(found, expected, strict=True):
        assert model["n_rows"] == other["n_rows"]
        assert model["status"] == other["status"] == "ok"
        assert model["coef"] == pytest.approx(other["coef"], rel=1e-9)
        assert model["loss"] == pytest.approx(other["loss"], rel=1e-12)


def test_least_squares_of_each_group(con, gathered) -> None:
    found = con.execute(
        "SELECT g, (train_model('linear', y, [a, b])).coef FROM t GROUP BY g ORDER BY g"
    ).fetchall()
    assert any(gathered)
    rows = con.execute("SELECT g, a, b, y FROM t").fetchnumpy()
    for g, coef in found[::17]:
        mine = rows["g"] == g
        x = np.column_stack([rows["a"][mine], rows["b"][mine], np.ones(mine.sum())])
        expected = np.linalg.lstsq(x, rows["y"][mine], rcond=None)[0]
        assert coef == pytest.approx(expected[:2], rel=1e-8)


def test_large_batches_stay_where_they_are(con, gathered, monkeypatch) -> None:
    monkeypatch.setattr(passes, "MOST_BYTES", 1000)
    con.execute("SELECT g, train_model('linear', y, [a, b]) FROM t GROUP BY g").fetchall()
    assert not any(gathered)


def test_the_same_with_neighbours_or_alone(con) -> None:
    """Each group as one of many and as one of two."""
    call = "(train_model('linear', y, [a, b], '{\"l2\": 0.1}')).coef"
    many = dict(con.execute(f"SELECT g, {call} FROM t GROUP BY g").fetchall())
    few = con.execute(f"SELECT g, {call} FROM t WHERE g < 2 GROUP BY g").fetchall()
    for g, coef in few:
        assert coef == pytest.approx(many[g], rel=1e-12)
