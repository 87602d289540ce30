"""Nets of groups on several shards: the net hops from shard to shard."""

from pathlib import Path
from typing import Any

import duckdb
import invariants
import pytest
import sharded

import tuskml
from tuskml.cluster import units
from tuskml.groups.execution import choosing
from tuskml.groups.execution.leading import Ran

FIELDS = {key: value for key, value in sharded.GIVEN.items() if key != "deterministic"}
NET: dict[str, Any] = FIELDS | {
    "objective": "logistic",
    "layers": [8],
    "max_iter": 5,
    "learning_rate": 0.01,
}
N_ROWS = 40_000
THREE = "CASE WHEN x > 0.3 THEN 2 WHEN z > x THEN 1 ELSE 0 END"


def by_parts(con: duckdb.DuckDBPyConnection, **given: Any) -> tuskml.Models:
    """The nets of groups by parts; a warning is an error."""
    return sharded.by_parts(con, "mlp", **NET | given)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"objective": "squared", "label": "2 * x - z + hash(x) % 10 / 10"},
        {"label": THREE, "algorithm": "sgd", "schedule": "cosine"},
        {"label": THREE, "class_weight": "balanced"},
        {"weight": "1 + abs(x)", "class_weight": [1, 3], "dropout": 0.1},
        {"validation": 0.2, "patience": 2, "max_iter": 30, "weight": "1 + abs(z)"},
        {"classes": [0, 1], "activation": "gelu", "schedule": "step", "decay_epochs": 2},
    ],
    ids=["two", "numbers", "three", "balanced", "weighted", "stopped", "named"],
)
def test_the_loss_is_that_of_rows_in_one_place(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], more: dict[str, Any]
) -> None:
    found = by_parts(con, source=source, **more)
    same = tuskml.train(con, "mlp", source="rows", **NET | more)
    assert list(found) == list(same)
    assert len({one.unit.name for one in ran}) > 1
    for key, model in found.items():
        other = same[key]
        assert model is not None
        assert other is not None
        assert (model.n_rows, model.status, model.classes, len(model.coef)) == (
            other.n_rows, other.status, other.classes, len(other.coef)
        )  # fmt: skip
        assert model.loss == pytest.approx(other.loss, rel=0.04, abs=0.02)


@pytest.mark.sample(1)
@pytest.mark.parametrize("more", [{"dropout": 0.2}, {"validation": 0.25, "patience": 1}])
def test_the_bits_are_those_of_one_worker(
    con: duckdb.DuckDBPyConnection,
    source: str,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, Any],
) -> None:
    """One worker visits the shards one after another; several, the same way."""
    given = more | {"source": source, "max_iter": 3}
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: 1)
    expected = by_parts(con, **given)
    for n in (2, 4):
        monkeypatch.setattr(choosing.budget, "threads", lambda asked=None, n=n: n)
        sharded.assert_same_bits(by_parts(con, **given), expected)


def test_no_two_workers_are_on_one_net(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Config isolation; every epoch visits every part of a group once, in an order of its own."""
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: 3)
    by_parts(con, source=source, max_iter=6)
    models = invariants.assert_config_isolation(ran, "net_steps")
    assert len(models) > 1
    orders = {order for some in models for order in invariants.assert_epochs(some, 6)}
    assert len(orders) > len(models)


def test_rows_held_out_are_not_trained_on(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """Labels by chance: a net that learns its rows by heart is worse on others, and stops."""
    for n in range(2):
        con.execute(
            f"""COPY (SELECT 1 AS g, hash(i, 7) % 2 AS y, [hash(i, k) % 1000 / 500 - 1
            FOR k IN range(12)] AS x FROM range({n} * 300, {n + 1} * 300) t(i))
            TO '{tmp_path}/{n}.parquet' (FORMAT parquet)"""
        )
    given = {"source": f"{tmp_path}/*.parquet", "features": "x", "layers": [64], "max_iter": 300}
    units.BATCH_ROWS = 100
    model = by_parts(con, **given, validation=0.4, patience=5)[1]
    whole = by_parts(con, **given)[1]
    assert model is not None
    assert whole is not None
    assert (model.status, whole.status) == ("early stop", "ok")
    assert model.iterations < 40
    assert whole.loss < 0.1
    assert model.loss > 0.5


@pytest.mark.nightly
def test_a_class_that_only_rows_held_out_have(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    for n in range(2):
        con.execute(
            f"""COPY (SELECT 1 AS g, i / 150 AS x, i % 150 AS z,
            CASE WHEN i % 150 = 7 THEN 5 ELSE i % 2 END AS y
            FROM range({n} * 150, {n + 1} * 150) t(i))
            TO '{tmp_path}/{n}.parquet' (FORMAT parquet)"""
        )
    units.BATCH_ROWS = 100
    for seed in range(8):
        given = {"source": f"{tmp_path}/*.parquet", "validation": 0.5, "seed": seed}
        model = by_parts(con, **given, class_weight="balanced", max_iter=1)[1]
        assert model is not None
        assert model.classes == [0, 1, 5]
        assert model.loss > 0


@pytest.mark.nightly
def test_a_time_limit_and_a_start(con: duckdb.DuckDBPyConnection, source: str) -> None:
    first = by_parts(con, source=source, max_iter=2)
    key = max(first, key=lambda one: first[one].n_rows)  # type: ignore[union-attr]
    late = by_parts(con, source=source, max_iter=100_000, time="0.1s")[key]
    assert late is not None
    assert late.status == "time limit"
    model = first[key]
    assert model is not None
    again = by_parts(con, source=source, max_iter=1, learning_rate=1e-12, warm_start=model)
    went_on = again[key]
    assert went_on is not None
    assert went_on.coef == pytest.approx(model.coef, rel=1e-5, abs=1e-6)
    for more in ({}, {"validation": 0.3}):
        steep = {"max_iter": 1, "learning_rate": 40, "warm_start": model} | more
        worse = by_parts(con, source=source, **steep)[key]
        assert worse is not None
        assert worse.status == ("early stop" if more else "worse than start")
        assert worse.coef == model.coef
