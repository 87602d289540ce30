"""Leases of workers on real Ray processes: several trainings, and whatever may happen to them.

`test_ray.py` has another one, which shares its cluster.
"""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import leased
import pytest
import sharded

import tuskml
from tuskml.cluster import units
from tuskml.groups.execution import leases, ray_executor
from tuskml.groups.execution.leases import LeasedRun

pytestmark = pytest.mark.slow
LEASE = 6.0


@pytest.fixture(autouse=True)
def small_units_and_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BATCH_ROWS", 3_000)
    monkeypatch.setenv(leases.SETTING, str(LEASE))
    monkeypatch.setenv("TUSKML_CLUSTER_TIMEOUT", "300")  # a slow machine; and others hold leases


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect() as connection:
        sharded.table(connection, 30_000)
        yield connection


@pytest.fixture(scope="module")
def expected(con: duckdb.DuckDBPyConnection) -> tuskml.Models:
    return tuskml.train(con, "logistic", source="rows", **sharded.GIVEN)


@pytest.fixture(scope="module")
def source(con: duckdb.DuckDBPyConnection, tmp_path_factory: Any) -> str:
    return sharded.shards(con, Path(tmp_path_factory.mktemp("leased")) / "s", 20_000)


@pytest.mark.nightly
def test_two_trainings_share_the_cluster_and_have_the_models_of_one_machine(
    local_ray: Any, source: str, expected: tuskml.Models, runs: list[LeasedRun]
) -> None:
    local_ray.grow(2)
    most: list[int] = []
    look = LeasedRun.look

    def watched(run: LeasedRun) -> Any:
        most.append(sum(len(one.working) for one in runs))
        return look(run)

    LeasedRun.look = watched  # type: ignore[method-assign]
    try:
        with ThreadPoolExecutor(2) as pool:
            both = list(pool.map(leased.train, [source, source]))
    finally:
        LeasedRun.look = look  # type: ignore[method-assign]
    for models in both:
        sharded.assert_same_bits(models, expected)
    assert len(runs) == 2
    assert max(most) <= 2, "no more than there are CPUs"
    assert all(run.profile.pace for run in runs), "units were measured"
    assert leased.until(lambda: not any(leased.state()["held"].values()) or None)


@pytest.mark.nightly
def test_one_that_lies_and_one_that_never_answers_hold_up_nobody(
    local_ray: Any, source: str, expected: tuskml.Models, runs: list[LeasedRun]
) -> None:
    import ray

    def pester(stop: list[bool]) -> None:
        """One app overstates its rho a thousand times, another one is made offers in vain."""
        while not stop:
            ask = {"app": "liar", "demand": 2, "work": 1e-3}
            said = json.loads(ray.get(leased.arbiter().ask.remote(json.dumps(ask))))
            if said["offer"]:
                bundles = [{node: 1} for node in said["offer"]]
                table = {"bundles": bundles, "rho": [1e3] * len(bundles), "without": 1e6}
                leased.arbiter().bid.remote("liar", said["round"], json.dumps(table))
            ray.get(
                leased.arbiter().ask.remote(json.dumps({"app": "mute", "demand": 2, "work": 1e-3}))
            )
            time.sleep(0.1)

    ray.get(leases.find_or_start(ray, leases.rules_for(LEASE)).state.remote())
    stop: list[bool] = []
    with ThreadPoolExecutor(1) as pool:
        pestering = pool.submit(pester, stop)
        try:
            sharded.assert_same_bits(leased.train(source), expected)
            leased.until(lambda: leased.state()["unanswered"])
        finally:
            stop.append(True)
        pestering.result(timeout=60)
    for app in ("liar", "mute"):
        ray.get(leased.arbiter().leave.remote(app))


@pytest.mark.nightly
def test_a_program_chooses_its_leases(
    local_ray: Any,
    source: str,
    expected: tuskml.Models,
    runs: list[LeasedRun],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(leases.SETTING)
    monkeypatch.setattr(leases, "_of_clusters", {})
    with tuskml.connect(cluster="ray", lease="6s") as con:
        models = tuskml.train(con, "logistic", source=source, **sharded.GIVEN)
    sharded.assert_same_bits(models, expected)
    assert [one.lease for one in runs] == [LEASE]
    assert leases.lease_seconds("10.0.0.1:6379") is None, (
        "another cluster's workers are not leased"
    )


def test_a_lease_is_of_one_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.delenv(leases.SETTING)
    monkeypatch.setattr(leases, "_of_clusters", {})
    monkeypatch.setattr(ray_executor, "LeasedRun", lambda *given: ("leased", given[-1]))
    monkeypatch.setattr(ray_executor, "Run", lambda *_: "to the end")
    cluster: Any = ray_executor.RayCluster
    leases.choose_lease("10.0.0.1:6379", "1m30s")
    assert cluster("10.0.0.1:6379").new(None, "work", [], None) == ("leased", 90.0)
    assert cluster(None).new(None, "work", [], None) == "to the end"
    leases.choose_lease("ray", "6s")
    assert cluster(None).new(None, "work", [], None) == ("leased", LEASE)


def test_a_lease_needs_a_cluster_and_a_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_of_clusters", {})
    for place in ({}, {"cluster": "threads"}):
        with pytest.raises(tuskml.OptionError, match="lease is '10m' without a cluster, expected"):
            tuskml.connect(lease="10m", **place)
    with pytest.raises(tuskml.OptionError, match="lease is 'soon', expected a duration such as"):
        tuskml.connect(cluster="ray", lease="soon")
    assert leases._of_clusters == {}


@pytest.mark.parametrize("wrong", ["soon", "-1", "0", "inf", "nan"])
def test_a_setting_that_is_none(source: str, wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(leases.SETTING, wrong)
    with pytest.raises(tuskml.ClusterError, match=f"TUSKML_CLUSTER_LEASE is '{wrong}', expected"):
        leases.lease_seconds()
    monkeypatch.delenv(leases.SETTING)
    assert leases.lease_seconds() is None
