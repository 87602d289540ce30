"""Trainings by group on real Ray processes: the numbers of one machine, whatever goes wrong.

Also one with leases and one by parts, since a cluster takes longer to start than they do; others
are in `test_leases.py` and `parted/test_parted_ray.py`. `test_handing_out.py` has the same faults
with workers of this process.
"""

import os
import signal
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import acting
import duckdb
import leased
import pytest
import sharded

import tuskml
from tuskml.cluster import units
from tuskml.groups.execution import leading, leases, ray_cluster
from tuskml.groups.execution.leading import Ran
from tuskml.groups.execution.leases import LeasedRun
from tuskml.learners.events import Event, listening

pytestmark = pytest.mark.slow
N_ROWS = 60_000


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BATCH_ROWS", 4_000)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect() as connection:
        sharded.table(connection, N_ROWS)
        yield connection


@pytest.fixture(scope="module")
def expected(con: duckdb.DuckDBPyConnection) -> tuskml.Models:
    """What one machine answers in one query."""
    return tuskml.train(con, "logistic", source="rows", **sharded.GIVEN)


@pytest.fixture
def source(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> str:
    return sharded.shards(con, tmp_path / "s")


@pytest.fixture
def all_have_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """No unit is handed out while a worker starts: a signal hits one that is at work."""
    hand_out = ray_cluster.Run.hand_out

    def when_started(run: ray_cluster.Run) -> None:
        if not run.starting:
            hand_out(run)

    monkeypatch.setattr(ray_cluster.Run, "hand_out", when_started)


def on_ray(con: duckdb.DuckDBPyConnection, source: str, **given: Any) -> tuskml.Models:
    """The models of the cluster at hand; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", tuskml.ClusterWarning)
        return tuskml.train(
            con, "logistic", source=source, executor="ray", **sharded.GIVEN | given
        )


def assert_bits_of_one_machine(
    local_ray: Any,
    con: duckdb.DuckDBPyConnection,
    source: str,
    expected: tuskml.Models,
    n_workers: int,
) -> None:
    """With so many workers, each on a node of its own."""
    local_ray.grow(n_workers)
    heard: list[Event] = []
    with listening(heard.append):
        sharded.assert_same_bits(on_ray(con, source), expected)
    assert sum(event.groups for event in heard) == len(expected)
    assert sum(event.rows for event in heard) == N_ROWS


@pytest.mark.nightly
def test_a_killed_and_a_stopped_arbiter_hold_up_no_training(
    local_ray: Any,
    source: str,
    expected: tuskml.Models,
    runs: list[LeasedRun],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(leases.SETTING, "6")
    monkeypatch.setenv("TUSKML_CLUSTER_TIMEOUT", "300")  # a slow machine
    monkeypatch.setattr(leases, "PATIENCE_SECONDS", 1.0)
    pids = []
    with ThreadPoolExecutor(1) as pool:
        training = pool.submit(leased.train, source)
        for kind in (signal.SIGKILL, signal.SIGSTOP):
            leased.until(lambda: runs and (runs[0].working or training.done()))
            pids.append(leased.state()["pid"])
            os.kill(pids[-1], kind)
            leased.until(lambda: leased.state_of_another(pids[-1]) or training.done())
        sharded.assert_same_bits(training.result(timeout=120), expected)
    assert runs[0].tenant.restarts >= 1
    assert pids[0] != pids[1]


@pytest.mark.nightly
def test_the_bits_of_one_machine_with_one_worker(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, expected: tuskml.Models
) -> None:
    assert_bits_of_one_machine(local_ray, con, source, expected, 1)


@pytest.mark.nightly
def test_a_worker_of_another_version_is_refused(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = ray_cluster.versions() | {"duckdb": "1.0.0"}
    monkeypatch.setattr(ray_cluster, "versions", lambda: here)
    with pytest.raises(tuskml.ClusterError, match=r"install duckdb==1\.0\.0 there"):
        on_ray(con, source)


def test_another_address_than_the_one_at_hand_is_refused(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str
) -> None:
    with pytest.raises(tuskml.ClusterError, match="this process is connected to the Ray cluster"):
        tuskml.train(con, "logistic", source=source, executor="10.0.0.1:6379", **sharded.GIVEN)


def test_an_address_where_nothing_listens_is_a_sentence() -> None:
    from tuskml.groups.execution.ray_session import refuse_unreachable

    with pytest.raises(tuskml.ClusterError, match=r"127\.0\.0\.1:1 cannot be reached: "):
        refuse_unreachable("127.0.0.1:1")


@pytest.mark.nightly
def test_a_cluster_without_a_free_processor_is_a_sentence(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    class Holder:
        def hold(self) -> None:
            pass

    n = len(local_ray.nodes)
    held = [ray.remote(Holder).options(num_cpus=1).remote() for _ in range(n)]
    ray.get([one.hold.remote() for one in held], timeout=60)
    monkeypatch.setenv("TUSKML_CLUSTER_TIMEOUT", "1")
    try:
        with pytest.raises(tuskml.ClusterError, match=f"within 1 s, 0 of its {n} CPUs are free"):
            on_ray(con, source)
    finally:
        for one in held:
            ray.kill(one)


@pytest.mark.nightly
def test_the_bits_of_one_machine_with_two_workers(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, expected: tuskml.Models
) -> None:
    assert_bits_of_one_machine(local_ray, con, source, expected, 2)


@pytest.mark.nightly
def test_parquet_in_no_order_needs_no_split(
    local_ray: Any, con: duckdb.DuckDBPyConnection, tmp_path: Path, expected: tuskml.Models
) -> None:
    source = sharded.shuffled(con, tmp_path / "s")
    sharded.assert_same_bits(on_ray(con, source), expected)


@pytest.mark.nightly
@pytest.mark.usefixtures("all_have_started")
def test_a_killed_worker_costs_a_note_and_no_model(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, expected: tuskml.Models
) -> None:
    local_ray.grow(2)
    killed: list[int] = []

    def kill() -> None:
        killed.append(local_ray.workers()[0].pid)
        os.kill(killed[0], signal.SIGKILL)

    with (
        acting.when_the_first_unit_is_done(kill),
        pytest.warns(tuskml.ClusterWarning, match="a worker was lost and its groups trained aga"),
    ):
        found = tuskml.train(con, "logistic", source=source, executor="ray", **sharded.GIVEN)
    assert killed
    sharded.assert_same_bits(found, expected)


@pytest.mark.nightly
def test_a_killed_worker_costs_no_model_by_parts(
    local_ray: Any,
    con: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Small groups, and large ones whose parts are read again elsewhere."""
    local_ray.grow(2)
    source = sharded.shards(con, tmp_path / "s", 40_000)
    given = sharded.GIVEN | {"source": source, "placement": "gap", "epsilon": 1e-9}
    expected = tuskml.train(con, "logistic", executor="threads", **given)
    heard: list[Ran] = []

    def kill(one: Ran) -> None:
        heard.append(one)
        if len(heard) == 20:
            os.kill(local_ray.workers()[0].pid, signal.SIGKILL)

    monkeypatch.setattr(leading, "heard", [kill])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tuskml.ClusterWarning)
        found = tuskml.train(con, "logistic", executor="ray", **given)
    assert len(heard) > 20
    sharded.assert_same_bits(found, expected)


@pytest.mark.nightly
@pytest.mark.usefixtures("all_have_started")
def test_a_worker_that_stops_is_overtaken(
    local_ray: Any,
    con: duckdb.DuckDBPyConnection,
    source: str,
    expected: tuskml.Models,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its process neither answers nor ends."""
    local_ray.grow(2)
    monkeypatch.setattr(ray_cluster, "SLOW_SECONDS", 1.0)
    stopped: list[int] = []

    def stop() -> None:
        stopped.append(local_ray.workers()[0].pid)
        os.kill(stopped[0], signal.SIGSTOP)

    try:
        with (
            acting.when_the_first_unit_is_done(stop),
            pytest.warns(tuskml.ClusterWarning, match="a worker was slow and another one"),
        ):
            found = tuskml.train(con, "logistic", source=source, executor="ray", **sharded.GIVEN)
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    sharded.assert_same_bits(found, expected)


@pytest.mark.usefixtures("all_have_started")
@pytest.mark.nightly
@pytest.mark.parametrize("limit", ["silence", "worker_timeout"])
def test_a_run_whose_every_worker_is_stopped_goes_on(
    local_ray: Any,
    con: duckdb.DuckDBPyConnection,
    source: str,
    expected: tuskml.Models,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
) -> None:
    """Their processes neither answer nor end; others take their place."""
    given: dict[str, Any] = sharded.GIVEN
    why = "gave no sign of life"
    if limit == "worker_timeout":
        given, why = given | {"worker_timeout": 30}, r"not done within 30 s \(worker_timeout\)"
    stopped: list[int] = []
    runs: list[ray_cluster.Run] = []
    welcome = ray_cluster.Run.welcome

    def welcome_with_patience(run: ray_cluster.Run, reference: Any) -> None:
        run.pulses.silent = ray_cluster.SILENT_SECONDS  # a slow machine may be silent for a while
        runs.append(run)
        welcome(run, reference)

    def stop() -> None:
        for worker in local_ray.workers():
            stopped.append(worker.pid)
            os.kill(worker.pid, signal.SIGSTOP)
        if limit == "silence":
            runs[-1].pulses.silent = 2.0

    monkeypatch.setattr(ray_cluster.Run, "welcome", welcome_with_patience)

    with (
        acting.when_the_first_unit_is_done(stop),
        pytest.warns(tuskml.ClusterWarning, match=f"a worker was lost and its groups.*{why}"),
    ):
        found = tuskml.train(con, "logistic", source=source, executor="ray", **given)
    assert stopped
    sharded.assert_same_bits(found, expected)
    assert tuskml.activity() == []


@pytest.mark.nightly
@pytest.mark.usefixtures("all_have_started")
def test_groups_that_no_worker_survives_are_not_tried_for_ever(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_cluster, "ATTEMPTS", 1)

    def kill() -> None:
        os.kill(local_ray.workers()[0].pid, signal.SIGKILL)

    with (
        acting.when_the_first_unit_is_done(kill),
        pytest.raises(tuskml.ClusterError, match="trained: 1 workers were lost while"),
    ):
        on_ray(con, source)


@pytest.mark.nightly
@pytest.mark.usefixtures("all_have_started")
def test_finished_groups_are_kept_where_all_workers_are_gone(
    local_ray: Any,
    con: duckdb.DuckDBPyConnection,
    source: str,
    expected: tuskml.Models,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing waits for ever for a worker that no node has room for."""

    def kill_all() -> None:
        monkeypatch.setattr(ray_cluster.Run, "start", lambda self: None)
        monkeypatch.setenv("TUSKML_CLUSTER_TIMEOUT", "1")
        for worker in local_ray.workers():
            os.kill(worker.pid, signal.SIGKILL)

    with (
        acting.when_the_first_unit_is_done(kill_all),
        pytest.warns(tuskml.ClusterWarning, match="a worker was lost"),
        pytest.raises(tuskml.ClusterError, match="no worker has started on the Ray clu") as error,
    ):
        tuskml.train(con, "logistic", source=source, executor="ray", **sharded.GIVEN)
    assert 0 < len(error.value.models) < len(expected)


@pytest.mark.nightly
def test_a_shard_that_vanishes_is_a_sentence_and_finished_groups_are_kept(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, expected: tuskml.Models
) -> None:
    def remove_all() -> None:
        for path in Path(source).parent.glob("*.parquet"):
            path.unlink()

    with (
        acting.when_the_first_unit_is_done(remove_all),
        pytest.raises(tuskml.ClusterError, match=r"cannot be read on a worker.*same") as error,
    ):
        on_ray(con, source)
    kept = error.value.models
    assert 0 < len(kept) < len(expected)
    some = tuskml.Models((k, model) for k, model in expected.items() if k in kept)
    sharded.assert_same_bits(kept, some)


@pytest.mark.nightly
def test_a_cancelled_run_ends_and_frees_its_workers(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str
) -> None:
    with acting.when_the_first_unit_is_done(tuskml.cancel), pytest.raises(tuskml.Interrupted):
        on_ray(con, source)
    acting.assert_no_worker_is_left(local_ray)


def test_a_statement_trains_on_ray(
    local_ray: Any, tmp_path: Path, expected: tuskml.Models
) -> None:
    """In threads of DuckDB's, by a database that was opened for Ray; a cancel ends its workers."""
    fields = ", ".join(f"model.{field}" for field in sharded.FIELDS)
    form = "train('rows', 'logistic', 'y', ['x', 'z'], '{}', group_by := 'g')"
    exact, long = '{"cluster": "ray", "deterministic": true}', '{"cluster": "ray", "trees": 9999}'
    with tuskml.connect(tmp_path / "rows.duckdb", cluster="ray") as own:
        sharded.table(own, N_ROWS)
        query = f"SELECT g, {fields} FROM {form.format(exact)} ORDER BY g ASC NULLS LAST"
        assert own.execute(query).fetchall() == [
            (key, *(getattr(model, field) for field in sharded.FIELDS))
            for key, model in expected.items()
        ]
        with acting.interrupted_at_work(own), pytest.raises(duckdb.Error, match=r"(?i)interrupt"):
            own.execute(f"FROM {form.format(long).replace('logistic', 'gbdt')}")
    acting.assert_no_worker_is_left(local_ray)


@pytest.mark.nightly
def test_a_full_object_store_costs_no_model(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, expected: tuskml.Models
) -> None:
    """Answers that have no room there go to disk, as Ray does with all objects."""
    import numpy as np
    import ray

    held = [ray.put(np.zeros(2_000_000)) for _ in range(8)]  # 128 MB on some 80 MB a node
    given = sharded.GIVEN | {"source": source, "executor": "ray"}
    forest = {"trees": 60, "max_depth": 8}  # whose answers are too large to come without it
    trees = {name: one for name, one in given.items() if name != "deterministic"}
    sharded.assert_same_bits(tuskml.train(con, "logistic", **given), expected)
    assert len(tuskml.train(con, "random_forest", **trees | forest)) == len(expected)
    assert len(held) == 8


@pytest.mark.nightly
def test_a_node_that_vanishes_costs_no_model(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, expected: tuskml.Models
) -> None:
    local_ray.grow(2)
    with acting.when_the_first_unit_is_done(local_ray.remove), warnings.catch_warnings():
        warnings.simplefilter("ignore", tuskml.ClusterWarning)  # its worker may have been idle
        found = tuskml.train(con, "logistic", source=source, executor="ray", **sharded.GIVEN)
    sharded.assert_same_bits(found, expected)


@pytest.mark.nightly
def test_the_bits_of_one_machine_with_four_workers(
    local_ray: Any, con: duckdb.DuckDBPyConnection, source: str, expected: tuskml.Models
) -> None:
    assert_bits_of_one_machine(local_ray, con, source, expected, 4)


@pytest.mark.nightly
def test_an_answer_that_is_lost_alone_is_computed_again(
    local_ray: Any,
    con: duckdb.DuckDBPyConnection,
    source: str,
    expected: tuskml.Models,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its worker lives, and must not keep the processor that the next one needs."""
    import ray

    monkeypatch.setenv("TUSKML_CLUSTER_TIMEOUT", "20")
    lost: list[Any] = []
    take = ray_cluster.Run.take

    def gone(reference: Any) -> None:
        lost.append(reference)
        raise ray.exceptions.ObjectLostError(reference.hex(), reference.owner_address(), "")

    def take_or_lose(run: ray_cluster.Run, reference: Any) -> Iterator[Any]:
        with monkeypatch.context() as patch:
            if not lost:  # Ray has no call any more that frees an object
                patch.setattr(ray, "get", gone)
            yield from take(run, reference)

    monkeypatch.setattr(ray_cluster.Run, "take", take_or_lose)
    with pytest.warns(tuskml.ClusterWarning, match="trained again: Failed to retrieve"):
        found = tuskml.train(con, "logistic", source=source, executor="ray", **sharded.GIVEN)
    assert len(lost) == 1
    sharded.assert_same_bits(found, expected)
