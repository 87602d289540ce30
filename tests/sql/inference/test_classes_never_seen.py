"""A class that a group's model never saw: predictions of it are NULL, and labels of it are wrong
predictions, so that one group never fails a query of all."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import numpy as np
import pytest

from tuskml import DataError, Model

ROWS = """(SELECT i, i % 4 AS g, (i * 7919 % 101) / 10.0 AS x,
    CASE WHEN i * 1049 % 89 > 60 THEN 'c' WHEN i * 31 % 17 > 8 THEN 'b' ELSE 'a' END AS y
    FROM generate_series(1, 240) AS s(i)) AS r"""
SEEN = ["ab", "ac", "a", "abc"]
"""The classes that the models of the groups saw."""
TASKS: dict[str, tuple[dict[str, Any], int]] = {
    "logistic": ({"l2": 0.1}, 4),
    "gbdt": ({"trees": 3}, 4),
    "random_forest": ({"trees": 3}, 4),
    "mlp": ({"layers": [2], "max_iter": 2}, 4),
    "fm": ({"rank": 1, "max_iter": 2}, 3),
    "sparse_logistic": ({"lambda": 0.01}, 3),
}
"""Options of tasks, and the groups that they can have."""
STORAGES = ["dense", "sparse", "named"]


class Source:
    """One of both databases: models of groups, and features."""

    def __init__(self, session: Any, postgres: bool) -> None:
        self.session, self.postgres = session, postgres

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.session.execute(sql).fetchall()
        return found

    def features(self, storage: str) -> str:
        if storage == "named":
            return (
                "(SELECT c FROM (SELECT x, x * x AS z) AS c)"
                if self.postgres
                else "{'x': x, 'z': x * x}"
            )
        values = "ARRAY[x::float8, (x * x)::float8]"
        return values if storage == "dense" else f"sparse(ARRAY[0, 70000], {values})"

    def models(self, task: str, storage: str) -> str:
        """Rows of all groups with their models, which saw some of the classes."""
        options, groups = TASKS[task]
        seen = " OR ".join(
            f"(g = {g} AND strpos('{names}', y) > 0)" for g, names in enumerate(SEEN[:groups])
        )
        return (
            f"(SELECT g, train_model('{task}', y, {self.features(storage)}, '{json.dumps(options)}') AS m "
            f"FROM {ROWS} WHERE {seen} GROUP BY g) AS models JOIN {ROWS} USING (g)"
        )


@pytest.fixture
def source(session: tuple[str, Any]) -> Source:
    return Source(session[1], session[0] == "post")


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("task", TASKS)
def test_its_probability_is_null_in_that_group_alone(
    source: Source, task: str, storage: str
) -> None:
    if storage == "sparse" and task in ("gbdt", "random_forest", "mlp"):
        storage = "dense"
    x = source.features(storage)
    classes = ", ".join(f"count(predict_proba(m, {x}, '{name}'))" for name in ("a", "b", "c", "d"))
    found = source.ask(
        f"SELECT g, count(*), {classes} FROM {source.models(task, storage)} GROUP BY g ORDER BY g"
    )
    assert len(found) == TASKS[task][1]
    for g, n, *told in found:
        assert told == [n if name in SEEN[g] else 0 for name in "abcd"]


def test_its_label_is_a_wrong_prediction(source: Source) -> None:
    x = source.features("dense")
    given = f"SELECT g, y, predict_probas(m, {x}) AS p, predict_class(m, {x}) AS c FROM {source.models('logistic', 'dense')}"
    shown = "log_loss(y, p), brier(y, p), accuracy(y, c)"
    rows = source.ask(
        f"SELECT {shown} FROM ({given}) AS t WHERE strpos('abacaabc', y) > 0 GROUP BY g ORDER BY g"
    )
    assert len(rows) == 4
    alone = source.ask(f"SELECT {shown} FROM ({given}) AS t WHERE g = 0 AND y = 'c'")
    worst = float(-np.log(np.finfo(float).eps))
    assert alone[0][0] == pytest.approx(worst)
    assert alone[0][2] == 0
    assert 1 < alone[0][1] <= 2
    assert rows[0][0] < worst < np.inf


def test_shuffles_count_it_as_a_wrong_prediction(source: Source) -> None:
    """The loss of rows is -log(1e-15) where the model never saw their class."""
    x = source.features("named")
    source.session.execute(
        f"CREATE {'TEMP ' if source.postgres else ''}TABLE shuffled AS SELECT g, x, x * x AS z, m, "
        f"y FROM {source.models('logistic', 'named')} WHERE g < 3"
    )
    features = "ARRAY['x', 'z']" if source.postgres else "['x', 'z']"
    found = source.ask(
        f"SELECT DISTINCT in_group, loss FROM permutation_importance('shuffled', 'm', 'y', {features}, "
        f"group_by {'=>' if source.postgres else ':='} 'g', repeats {'=>' if source.postgres else ':='} 1) ORDER BY 1"
    )
    p = f"coalesce(predict_proba(m, {x}, y), 0)"
    truth = source.ask(
        f"SELECT g::text, avg(-ln(greatest({p}, 1e-15))) FROM shuffled GROUP BY g ORDER BY 1"
    )
    source.session.execute("DROP TABLE shuffled")
    assert [g for g, _ in found] == [g for g, _ in truth] == ["0", "1", "2"]
    for (_, one), (_, other) in zip(found, truth, strict=True):
        assert one == pytest.approx(other, rel=1e-9)


def test_a_model_in_python_counts_it_too(con: Any) -> None:
    source = Source(con, False)
    value = source.ask(f"SELECT DISTINCT m FROM {source.models('logistic', 'dense')} WHERE g = 3")[
        0
    ][0]
    model = Model.of(value)
    x = np.random.default_rng(3).normal(5, 3, (60, 2))
    labels = np.array(["a", "b", "c"] * 20)
    some = np.where(np.arange(60) < 30, labels, "d")
    known = model.permutation_importance(x[:30], labels[:30], repeats=1).loss
    found = model.permutation_importance(x, some, repeats=1).loss
    assert found == pytest.approx((known - np.log(1e-15)) / 2, rel=1e-9)
    with pytest.raises(DataError, match="label is 'd', which is none of the classes"):
        model.permutation_importance(x, np.full(60, "d"))


@pytest.mark.parametrize("given", ["1.5", "'1.50'", "1.50::numeric(5, 3)", "1.5::float8"])
def test_a_number_names_its_own_class_alone(source: Source, given: str) -> None:
    rows = "(VALUES (1.5, 1.0::float8), (2, 2.0::float8), (2, 1.0::float8), (1.5, 3.0::float8)) AS t(y, x)"
    model = f"(SELECT train_model('logistic', y::float8, ARRAY[x], '{{\"l2\": 1}}') AS m FROM {rows}) AS t"
    shown = ", ".join(
        f"predict_proba(m, ARRAY[1.0::float8], {one})" for one in (given, "1.5", "2.4", "1.7")
    )
    found, same, *others = source.ask(f"SELECT {shown} FROM {model}")[0]
    assert 0 < found < 1
    assert (same, others) == (found, [None, None])


@pytest.mark.parametrize("given", ["DATE '2020-01-01'", "ARRAY[1]", "INTERVAL '1 day'"])
def test_what_no_label_can_be_is_refused(source: Source, given: str) -> None:
    x = source.features("dense")
    with pytest.raises(Exception, match=r"expected the name of a class|predict_proba got"):
        source.ask(
            f"SELECT predict_proba(m, {x}, {given}) FROM {source.models('logistic', 'dense')}"
        )
    if source.postgres:
        source.session.rollback()
