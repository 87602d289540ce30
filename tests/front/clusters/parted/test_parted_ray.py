"""Groups on several shards, trained by sums over these on real Ray processes."""

import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import invariants
import pytest
import sharded

import tuskml
from tuskml.cluster import units
from tuskml.groups.execution import leading
from tuskml.groups.execution.leading import Ran

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
"""`test_ray.py` has a twin that shares its cluster."""
N_ROWS = 60_000
GIVEN: dict[str, Any] = sharded.GIVEN | {"placement": "gap", "epsilon": 1e-9}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect() as connection:
        sharded.table(connection, N_ROWS)
        yield connection


@pytest.fixture(scope="module")
def expected(con: duckdb.DuckDBPyConnection, source: str) -> tuskml.Models:
    """What threads of this process answer on the same shards."""
    before = units.BATCH_ROWS
    try:
        units.BATCH_ROWS = 5_000
        return tuskml.train(con, "logistic", source=source, executor="threads", **GIVEN)
    finally:
        units.BATCH_ROWS = before


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Ran]:
    """What workers ran for leaders."""
    found: list[Ran] = []
    monkeypatch.setattr(leading, "heard", [found.append])
    monkeypatch.setattr(leading, "PATIENCE_SECONDS", 600.0)  # workers may take long to start
    return found


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_bits_of_threads(
    local_ray: Any,
    con: duckdb.DuckDBPyConnection,
    source: str,
    expected: tuskml.Models,
    ran: list[Ran],
    n: int,
) -> None:
    """With so many workers, each on a node of its own; and the invariants of section 4.2."""
    local_ray.grow(n)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tuskml.ClusterWarning)
        found = tuskml.train(con, "logistic", source=source, executor="ray", **GIVEN)
    sharded.assert_same_bits(found, expected)
    assert invariants.assert_data_sharding(ran) > 4
    assert invariants.assert_worker_exclusivity(ran) == n, "all workers have parts"


def test_a_model_without_groups_has_the_bits_of_threads(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran]
) -> None:
    local_ray.grow(2)
    given: dict[str, Any] = {"label": "y", "features": ["x", "z"], "deterministic": True}
    one = tuskml.train(con, "logistic", source=source, executor="threads", **given)
    ran.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error", tuskml.ClusterWarning)
        found = tuskml.train(con, "logistic", source=source, executor="ray", **given)
    assert [getattr(found, f) for f in sharded.FIELDS] == [getattr(one, f) for f in sharded.FIELDS]
    n = len(local_ray.nodes)  # two, or as many as an earlier test has added
    assert len({ran_one.worker for ran_one in ran}) == n


def test_a_model_that_hops_has_the_bits_of_threads(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran]
) -> None:
    """By steps: each part is asked after the one before, wherever it is."""
    local_ray.grow(2)
    given = GIVEN | {"source": source, "algorithm": "sgd", "max_iter": 4, "epsilon": 0}
    expected = tuskml.train(con, "logistic", executor="threads", **given)
    ran.clear()
    found = tuskml.train(con, "logistic", executor="ray", **given)
    sharded.assert_same_bits(found, expected)
    assert invariants.broken_by(ran, "sgd", 4) == []
    models = invariants.assert_config_isolation(ran, "sgd")
    assert any(len({one.worker for one in some}) >= 2 for some in models)


@pytest.mark.parametrize("task", ["linear", "gbdt"])
def test_folds_are_those_of_rows_in_one_place(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], task: str
) -> None:
    """Models that predict a constant: the metric of a fold is of its labels alone."""
    local_ray.grow(2)
    options = {"linear": {"l2": [1e12]}, "gbdt": {"trees": [1], "min_child_rows": N_ROWS}}[task]
    given: dict[str, Any] = sharded.GIVEN | {"label": "2 * x - z", "folds": 4, "seed": 5}
    del given["deterministic"]
    given |= options | {"features": ["x", "z", "x * z"]}
    found = tuskml.train(con, task, source=source, executor="ray", placement="gap", **given)
    expected = tuskml.train(con, task, source="rows", **given)
    for key, model in expected.items():
        assert fold_metrics(found[key]) == pytest.approx(fold_metrics(model), rel=1e-7)
        assert len(set(fold_metrics(model))) == 4
    assert len({one.unit.name for one in ran}) > 1


def fold_metrics(model: Any) -> list[float]:
    """The metric of each fold of the only candidate."""
    (trial,) = model.trials["trials"]
    return [fold["metric"] for fold in trial["folds"]]


TREES = {
    "gbdt": {"trees": 6, "num_leaves": 8, "objective": "logistic"},
    "random_forest": {"trees": 2, "min_child_rows": 20, "objective": "gini"},
}
"""Options of trees by task."""


def trees(con: duckdb.DuckDBPyConnection, task: str, source: str, executor: str) -> tuskml.Models:
    """Groups of trees, those alone that are trained by parts: others follow the order of rows."""
    given = {k: v for k, v in GIVEN.items() if k not in ("epsilon", "deterministic")} | TREES[task]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tuskml.ClusterWarning)
        found = tuskml.train(con, task, source=source, executor=executor, **given)
    large = {key: one for key, one in found.items() if one is not None and "shards" in one.plan}
    assert len(large) > 1
    return tuskml.Models(large.items())


@pytest.mark.parametrize(
    ("task", "n"),
    [("gbdt", 1), ("gbdt", 2), ("random_forest", 2)],
)
def test_trees_have_the_bits_of_threads(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], task: str, n: int
) -> None:
    local_ray.grow(n)
    expected = trees(con, task, source, "threads")
    ran.clear()
    sharded.assert_same_bits(trees(con, task, source, "ray"), expected)
    invariants.assert_data_sharding(ran)


def test_rows_with_names_have_the_bits_of_threads(
    local_ray: Any, con: duckdb.DuckDBPyConnection, tmp_path: Path, ran: list[Ran]
) -> None:
    """Workers count the levels of their parts, and all parts have the features of all rows."""
    local_ray.grow(2)
    band = "CASE WHEN z < -0.5 THEN 'low' WHEN z < 0.5 THEN 'mid' WHEN g > 'g1' THEN 'high' END"
    query = f"SELECT g, x, z, {band} AS band, CASE WHEN y THEN 'yes' ELSE 'no' END AS y FROM rows"
    manifest = tuskml.split(
        con, source=query, group_by="g", into=tmp_path / "named", shard_bytes=50_000
    )
    given = GIVEN | {"source": manifest.source, "features": ["x", "band"], "missing": "level"}
    expected = tuskml.train(con, "logistic", executor="threads", **given)
    ran.clear()
    found = tuskml.train(con, "logistic", executor="ray", **given)
    sharded.assert_same_bits(found, expected)
    for key, model in expected.items():
        assert model is not None
        assert found[key].features == model.features
        assert found[key].class_names == ["no", "yes"]
    counted = {one.worker for one in ran if b'"counting"' in one.unit.payload}
    assert len(counted) >= 2, "both workers count; one that starts slowly is replaced"


ROTATED: dict[str, dict[str, Any]] = {
    "lda": {"features": "['x' || round(4 * x), 'z' || round(9 * z)]", "topics": 3, "max_iter": 40},
    "matrix_factorization": {
        "label": "x * z", "features": "[hash(x) % 60, hash(z) % 40]", "rank": 2, "max_iter": 40,
    },
}  # fmt: skip
"""Options of tasks whose blocks rotate."""


def rotated(con: duckdb.DuckDBPyConnection, task: str, source: str, executor: str) -> Any:
    """Groups whose blocks rotate."""
    given = {"group_by": "g", "placement": "gap"} | ROTATED[task]
    return tuskml.train(con, task, source=source, executor=executor, **given)


@pytest.mark.parametrize(("task", "n"), [("lda", 1), ("lda", 2), ("matrix_factorization", 2)])
def test_blocks_that_rotate_have_the_bits_of_threads(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], task: str, n: int
) -> None:
    local_ray.grow(n)
    expected = rotated(con, task, source, "threads")
    ran.clear()
    sharded.assert_same_bits(rotated(con, task, source, "ray"), expected)
    assert invariants.assert_worker_exclusivity(ran) >= n, "all workers have parts"
    assert any("blocks of" in model.plan for model in expected.values())


@pytest.mark.parametrize("task", [*ROTATED])
def test_blocks_that_rotate_outlive_a_worker_that_is_killed(
    local_ray: Any,
    con: duckdb.DuckDBPyConnection,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    task: str,
) -> None:
    """The rotations since the last checkpoint are repeated."""
    local_ray.grow(2)
    expected = rotated(con, task, source, "threads")
    seen: list[Ran] = []

    def kill(one: Ran) -> None:
        seen.append(one)
        if len(seen) == 900:
            os.kill(local_ray.workers()[0].pid, signal.SIGKILL)

    monkeypatch.setattr(leading, "heard", [kill])
    monkeypatch.setattr(leading, "PATIENCE_SECONDS", 600.0)
    with pytest.warns(tuskml.ClusterWarning, match="was lost"):
        found = rotated(con, task, source, "ray")
    sharded.assert_same_bits(found, expected)


@pytest.mark.parametrize("task", ["gbdt", "random_forest"])
def test_trees_outlive_a_worker_that_is_killed(
    local_ray: Any,
    con: duckdb.DuckDBPyConnection,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    task: str,
) -> None:
    """Whoever takes its parts over is told the trees so far."""
    local_ray.grow(2)
    expected = trees(con, task, source, "threads")
    heard: list[Ran] = []

    def kill(one: Ran) -> None:
        heard.append(one)
        if len(heard) == 150:
            os.kill(local_ray.workers()[0].pid, signal.SIGKILL)

    monkeypatch.setattr(leading, "heard", [kill])
    sharded.assert_same_bits(trees(con, task, source, "ray"), expected)
    assert len(heard) > 150


def test_scheduled_updates_outlive_a_worker_that_is_killed(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever takes its parts over gets the weights so far."""
    local_ray.grow(2)
    given: dict[str, Any] = sharded.GIVEN | {"placement": "gap", "lambda": 0.01, "tol": 1e-9}
    given |= {"features": ["x", "z", "x * z", "x * x", "z * z", "x - z * x"]}
    del given["deterministic"]
    expected = tuskml.train(con, "sparse_logistic", source=source, executor="threads", **given)
    heard: list[Ran] = []

    def kill(one: Ran) -> None:
        heard.append(one)
        if len(heard) == 40:
            os.kill(local_ray.workers()[0].pid, signal.SIGKILL)

    monkeypatch.setattr(leading, "heard", [kill])
    found = tuskml.train(con, "sparse_logistic", source=source, executor="ray", **given)
    assert len(heard) > 40
    for key, model in expected.items():
        assert found[key].coef == pytest.approx(model.coef, abs=1e-5)
        assert "scheduled updates" in model.plan or model.n_rows < 5_000


def test_steps_that_workers_take_together_outlive_one_that_is_killed(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All begin again with another worker, and reach the same numbers."""
    local_ray.grow(2)
    given = GIVEN | {"placement": "exchange", "max_iter": 4, "batch_size": 256, "layers": [8]}
    given = {k: v for k, v in given.items() if k not in ("epsilon", "deterministic")}
    expected = tuskml.train(con, "mlp", source=source, executor="threads", **given)
    seats: list[str] = []

    def kill(one: Ran) -> None:
        if (one.unit.work or "").endswith("crews:take_seat"):
            seats.append(one.unit.payload.decode())
            if len(seats) == 2:
                os.kill(local_ray.workers()[0].pid, signal.SIGKILL)

    monkeypatch.setattr(leading, "PATIENCE_SECONDS", 600.0)  # workers may take long to start
    monkeypatch.setattr(leading, "heard", [kill])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tuskml.ClusterWarning)
        found = tuskml.train(con, "mlp", source=source, executor="ray", **given)
    sharded.assert_same_bits(large_of(found), large_of(expected))
    assert {one.split()[-2] for one in seats} == {"0", "1"}, "they took seats anew"


def large_of(found: tuskml.Models) -> tuskml.Models:
    """Those of more rows than a unit: the bits of others follow the order in which rows come."""
    large = {key: one for key, one in found.items() if one and one.n_rows > units.BATCH_ROWS}
    assert len(large) > 1
    return tuskml.Models(large.items())
