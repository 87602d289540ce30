"""Groups on several shards, trained by steps: the model hops from shard to shard."""

from pathlib import Path
from typing import Any

import duckdb
import invariants
import pytest
import sharded

import tuskml
from tuskml.cluster import units
from tuskml.cluster.parts import groups
from tuskml.groups.execution import choosing
from tuskml.groups.execution.leading import Ran

GIVEN: dict[str, Any] = sharded.GIVEN | {"executor": "threads", "placement": "gap"}
N_ROWS = 40_000
THREE = "CASE WHEN x > 0.3 THEN 2 WHEN z > x THEN 1 ELSE 0 END"


def by_parts(con: duckdb.DuckDBPyConnection, task: str, **given: Any) -> tuskml.Models:
    """The models of groups by parts; a warning is an error."""
    return sharded.by_parts(con, task, **GIVEN | given)


def in_one_place(con: duckdb.DuckDBPyConnection, task: str, **given: Any) -> tuskml.Models:
    return tuskml.train(con, task, source="rows", **sharded.GIVEN | given)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("algorithm", "task", "more"),
    [
        ("sgd", "logistic", {"l2": 0.01}),
        ("mgd", "linear", {"label": "2 * x - z + hash(x) % 10 / 10"}),
        ("sgd", "svm", {"l2": 0.01}),
        ("mgd", "logistic", {"label": THREE}),
        ("sgd", "logistic", {"features": "sparse([0, 1], [x, z])", "l2": 0.01}),
        ("mgd", "logistic", {"weight": "1 + abs(x)", "l2": 0.01}),
        ("hogbatch", "logistic", {"deterministic": False, "l2": 0.01}),
        ("hogwild", "linear", {"deterministic": False, "label": "2 * x - z"}),
    ],
)
def test_the_optimum_is_that_of_rows_in_one_place(
    con: duckdb.DuckDBPyConnection,
    source: str,
    ran: list[Ran],
    algorithm: str,
    task: str,
    more: dict[str, Any],
) -> None:
    """After as many epochs, the loss is no further from the least one than in one place."""
    given = more | {"algorithm": algorithm, "max_iter": 10}
    found = by_parts(con, task, source=source, **given)
    same = in_one_place(con, task, **given)
    least = in_one_place(con, task, **more, epsilon=1e-6)
    assert ran
    assert list(found) == list(least)
    for key, model in found.items():
        other, best = same[key], least[key]
        assert model is not None
        assert other is not None
        assert best is not None
        assert (model.n_rows, model.status, model.classes) == (
            other.n_rows, other.status, other.classes
        )  # fmt: skip
        assert model.loss <= max(other.loss, best.loss) + 0.01 * abs(best.loss) + 2e-3
        if model.n_rows > 5_000 and task == "linear":
            assert model.coef == pytest.approx([2, -1], abs=0.05)


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("algorithm", ["sgd", "mgd"])
def test_the_bits_are_those_of_one_worker(
    con: duckdb.DuckDBPyConnection,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    algorithm: str,
    n: int,
) -> None:
    """One worker visits the shards one after another; several, the same way."""
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: 1)
    expected = by_parts(con, "logistic", source=source, algorithm=algorithm, max_iter=5)
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: n)
    found = by_parts(con, "logistic", source=source, algorithm=algorithm, max_iter=5)
    sharded.assert_same_bits(found, expected)


def test_no_two_workers_are_on_one_model(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Config isolation; every epoch visits every part of a group once."""
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: 3)
    by_parts(con, "logistic", source=source, algorithm="sgd", max_iter=6, step=0.1)
    models = invariants.assert_config_isolation(ran, "sgd")
    assert len(models) > 1
    for some in models:
        invariants.assert_epochs(some, 6)


def test_recorded_units_keep_the_invariants_of_the_paper(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Section 4.2, as the research checks them of a timetable. The configurations of a search are
    on several workers of a group at a time, so that alone breaks group isolation."""
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: 2)
    steps = {"source": source, "algorithm": "sgd", "max_iter": 3, "step": 0.1, "epsilon": 0}
    by_parts(con, "logistic", **steps)
    assert invariants.broken_by(ran, "sgd", 3) == []
    ran.clear()
    by_parts(con, "logistic", **steps, l2=[0.001, 0.1, 1.0], folds=2)
    assert set(invariants.broken_by(ran, "sgd", 3)) <= {"group isolation"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("n", [2, 3])
def test_workers_have_the_parts_that_the_cost_model_gives_them(
    con: duckdb.DuckDBPyConnection,
    source: str,
    ran: list[Ran],
    monkeypatch: pytest.MonkeyPatch,
    n: int,
) -> None:
    placed: list[dict[str, int]] = []
    place = groups.PartedGroups.place

    def noted(self: groups.PartedGroups, workers: int) -> dict[str, int]:
        placed.append(place(self, workers))
        return placed[-1]

    monkeypatch.setattr(groups.PartedGroups, "place", noted)
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: n)
    by_parts(con, "logistic", source=source)
    (mine,) = placed
    expected = {frozenset(p for p in mine if mine[p] == worker) for worker in range(n)}
    assert invariants.parts_by_worker(ran) == expected
    rows = {one.unit.pin: one.unit.size for one in ran}
    each = [sum(rows[pin] for pin in one) for one in expected]
    assert max(each) - sum(each) / n <= max(rows.values()), "even but for a part"


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("task", "more", "sentence"),
    [
        ("logistic", {"algorithm": "svrg"}, "algorithm 'svrg' needs all rows"),
        ("logistic", {"algorithm": "mgd", "sampler": "bernoulli"}, "algorithm 'mgd' needs all"),
    ],
)
def test_what_needs_all_rows_is_trained_on_one_worker(
    con: duckdb.DuckDBPyConnection, source: str, task: str, more: dict[str, Any], sentence: str
) -> None:
    given = {k: v for k, v in (GIVEN | more).items() if k != "deterministic"}
    with pytest.warns(tuskml.ClusterWarning, match=sentence):
        tuskml.train(con, task, source=source, **given)


def test_a_third_class_in_a_part_names_no_row(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a part are in an order of their own."""
    monkeypatch.setattr(units, "BATCH_ROWS", 1_500)
    for n in range(3):
        con.execute(
            f"COPY (SELECT *, {n} AS k FROM rows WHERE rowid % 3 = {n}) "
            f"TO '{tmp_path}/{n}.parquet' (FORMAT parquet)"
        )
    given = {"source": f"{tmp_path}/*.parquet", "label": "k"}
    with pytest.raises(tuskml.ClusterError, match=r"label is 1 in a row of a group whose"):
        by_parts(con, "svm", **given, algorithm="sgd", invalid="error")
