"""Nets whose steps several processes of Ray take together, some of which are killed."""

import os
import random
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
import sharded

import tuskml
from tuskml.cluster import units
from tuskml.groups.execution import leading
from tuskml.groups.execution.leading import Ran

pytestmark = [pytest.mark.slow, pytest.mark.nightly]
"""`test_parted_ray.py` has another one that shares its cluster."""
NET: dict[str, Any] = {
    "label": "y", "features": ["x", "z", "c"], "group_by": "g", "objective": "logistic",
    "layers": [16], "max_iter": 4, "batch_size": 128, "placement": "exchange",
}  # fmt: skip


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect() as connection:
        connection.execute(
            """CREATE TABLE rows AS SELECT 1 AS g, hash(i, 1) % 1000 / 500 - 1 AS x,
            hash(i, 2) % 1000 / 500 - 1 AS z, 'c' || hash(i, 3) % 50 AS c,
            x + z * (hash(i, 3) % 3) > 0.5 AS y FROM range(8_000) t(i)"""
        )
        yield connection


@pytest.fixture(scope="module")
def source(con: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("exchanged") / "s"
    return tuskml.split(con, source="rows", group_by="g", into=folder, shard_bytes=20_000).source


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BATCH_ROWS", 1_000)


@pytest.fixture(scope="module")
def expected(con: duckdb.DuckDBPyConnection, source: str) -> tuskml.Models:
    """What threads of this process answer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "BATCH_ROWS", 1_000)
        patch.setattr(leading, "heard", [lambda _: None])
        return tuskml.train(con, "mlp", source=source, executor="threads", **NET)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_bits_of_threads(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, expected: tuskml.Models, n: int
) -> None:
    local_ray.grow(n)
    heard: list[Ran] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leading, "heard", [heard.append])
        found = tuskml.train(con, "mlp", source=source, executor="ray", **NET)
    sharded.assert_same_bits(found, expected)
    trained = {one.worker for one in heard if (one.unit.work or "").endswith("crews:train_member")}
    assert len(trained) == n


@pytest.mark.parametrize("seed", range(8))
def test_a_worker_is_killed_at_any_moment(
    local_ray: Any,
    con: duckdb.DuckDBPyConnection,
    source: str,
    expected: tuskml.Models,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    """From when it has its seat to the end of the training: the others begin again with another
    worker, and reach the same numbers."""
    local_ray.grow(2)
    draw = random.Random(seed)
    seats: list[Ran] = []

    def kill() -> None:
        time.sleep(draw.uniform(0, 2))
        if there := local_ray.workers():
            os.kill(draw.choice(there).pid, signal.SIGKILL)

    def hear(one: Ran) -> None:
        if (one.unit.work or "").endswith("crews:take_seat"):
            seats.append(one)
            if len(seats) == 2:
                threading.Thread(target=kill).start()

    monkeypatch.setattr(leading, "heard", [hear])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tuskml.ClusterWarning)
        found = tuskml.train(con, "mlp", source=source, executor="ray", **NET)
    sharded.assert_same_bits(found, expected)
    assert len(seats) >= 2
