"""Groups of one statement train into one store side by side."""

# ruff: noqa: E501, SQL is read better on one line

import json
import threading

import duckdb
import numpy as np
import pytest
from stored_fits import SPARSE, put, rows_of

import tuskml
from tuskml.errors import DataError
from tuskml.kvstore import StoreRoot
from tuskml.learners.linear.learner import LinearStored

pytestmark = pytest.mark.native

STEADY = {"max_iter": 4, "epsilon": 0, "step": 0.1}
PATIENCE = 60
"""Seconds after which a thread that is alone gives up: no test takes as long."""


@pytest.fixture
def con(tmp_path):
    """One thread, so that DuckDB itself does not finish several groups at once."""
    with tuskml.connect(store_root=tmp_path, threads=1) as connection:
        put(connection, *rows_of("logistic"))
        yield connection


def trained(con, groups=4, where="true", **options):
    call = f"train_model('logistic', y, {SPARSE}, '{json.dumps(STEADY | {'store': 'ads'} | options)}')"
    query = f"SELECT i % {groups} AS g, {call} AS m FROM t WHERE {where} GROUP BY g"
    return dict(con.execute(f"SELECT g, m FROM ({query}) ORDER BY g").fetchall())


def meeting(monkeypatch, n):
    """Trainings wait for each other, n of them; they fail where they are fewer."""
    barrier, train = threading.Barrier(n), LinearStored.train
    options = []

    def met(self, group, request, memory, root):
        options.append(request.options)
        barrier.wait(PATIENCE)
        return train(self, group, request, memory, root)

    monkeypatch.setattr(LinearStored, "train", met)
    return options


def test_two_groups_train_at_the_same_time(con, tmp_path, monkeypatch) -> None:
    """Each model is about that of a statement of its own, which orders the rows; they share the
    cache.
    """
    options = meeting(monkeypatch, 2)
    models = trained(con, threads=2)
    assert [one.cache for one in options] == 4 * [128 << 20]
    assert StoreRoot(tmp_path).versions("ads") == [1, 2, 3, 4]
    assert len({model["store"] for model in models.values()}) == 4
    monkeypatch.undo()
    for g, model in models.items():
        alone = trained(con, where=f"i % 4 = {g}", threads=1)[g]
        assert model["loss"] == pytest.approx(alone["loss"], rel=0.01)
        stores = StoreRoot(tmp_path)
        with stores.open(model["store"]) as one, stores.open(alone["store"]) as other:
            ids = np.arange(150)
            apart = one.weights(ids) - other.weights(ids)
            assert np.abs(apart).max() < 0.1 * np.abs(other.weights(ids)).max()


@pytest.mark.parametrize(
    "given",
    [{"deterministic": True, "threads": 2}, {"threads": 1}, {}, {"cache": "20MB", "threads": 2}],
)
def test_what_trains_in_turn(con, tmp_path, monkeypatch, given) -> None:
    """What must not depend on processors, and caches that cannot be shared."""
    running, most, train = [], [], LinearStored.train

    def counted(self, *arguments):
        running.append(1)
        most.append(len(running))
        try:
            return train(self, *arguments)
        finally:
            running.pop()

    monkeypatch.setattr(LinearStored, "train", counted)
    trained(con, **given)
    assert most == [1, 1, 1, 1]


def test_a_group_that_fails_fails_the_statement(con, monkeypatch) -> None:
    begun, train = [], LinearStored.train

    def fails(self, *arguments):
        begun.append(1)
        if len(begun) == 2:
            raise DataError("the second group is bad")
        return train(self, *arguments)

    monkeypatch.setattr(LinearStored, "train", fails)
    with pytest.raises(duckdb.Error, match="the second group is bad"):
        trained(con, groups=40, threads=2)
    assert len(begun) < 40
