"""Nets whose steps several workers take together, with tables of vectors divided over them."""

import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import sharded

import tuskml
from tuskml.cluster import units
from tuskml.groups.execution import choosing
from tuskml.groups.execution import worker as processes
from tuskml.learners.nets.exchange import worker
from tuskml.learners.nets.exchange.rows import pieces_of
from tuskml.schedule.exchange.ordering import Search
from tuskml.schedule.exchange.workers import central, crew, mesh
from tuskml.schedule.exchange.workers.session import Session

N_ROWS = 6_000
LABEL = "x + z * (hash(i, 3) % 3) + hash(i, 4) % 7 / 7.0 > 0.9 + hash(i, 9) % 100 / 200.0"
ROWS = f"""SELECT 'g' || i // {N_ROWS} AS g, hash(i, 1) % 1000 / 500 - 1 AS x,
    hash(i, 2) % 1000 / 500 - 1 AS z, 'c' || hash(i, 3) % 50 AS c, 'd' || hash(i, 4) % 7 AS d,
    ({LABEL}) AS y, 1 + hash(i, 5) % 3 AS w FROM range({N_ROWS + 500}) t(i)"""
NET: dict[str, Any] = {
    "label": "y", "features": ["x", "z", "c", "d"], "group_by": "g", "objective": "logistic",
    "layers": [16, 8], "max_iter": 2, "batch_size": 256, "learning_rate": 0.01,
}  # fmt: skip
FULL = {"batch_size": 8192, "max_iter": 15}
"""All rows are one batch, so there is one order of steps."""


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect() as connection:
        connection.execute(f"CREATE TABLE rows AS {ROWS}")
        yield connection


@pytest.fixture(scope="module")
def source(con: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Shards, of which the larger group has several."""
    folder = tmp_path_factory.mktemp("exchanged") / "s"
    return tuskml.split(con, source="rows", group_by="g", into=folder, shard_bytes=20_000).source


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BATCH_ROWS", 3_000)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets how many there are."""

    def of(n: int) -> None:
        monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: asked or n)

    return of


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """Those of all workers."""
    made: list[Session] = []

    class Heard(Session):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(crew, "Session", Heard)
    return made


def exchanged(con: duckdb.DuckDBPyConnection, **given: Any) -> tuskml.Models:
    """The nets; a warning is an error."""
    return sharded.by_parts(con, "mlp", **NET | {"placement": "exchange"} | given)


@pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.nightly), 4])
@pytest.mark.parametrize(
    "more",
    [
        {"validation": 0.25, "patience": 1, "weight": "w", "sparse_embeddings": True},
        pytest.param({"dropout": 0.2}, marks=pytest.mark.nightly),
        pytest.param({"algorithm": "sgd", "schedule": "cosine"}, marks=pytest.mark.nightly),
        pytest.param({"features": ["x", "z"]}, marks=pytest.mark.nightly),
        pytest.param({"batch_size": 3}, marks=pytest.mark.nightly),
    ],
)
def test_the_bits_are_those_of_one_worker(
    con: duckdb.DuckDBPyConnection,
    source: str,
    workers: Callable[[int], None],
    sessions: list[Session],
    more: dict[str, Any],
    n: int,
) -> None:
    """Pieces of a batch do not depend on who computes them; the small group is not cut."""
    workers(1)
    expected = exchanged(con, source=source, **more)
    workers(n)
    sessions.clear()
    sharded.assert_same_bits(exchanged(con, source=source, **more), expected)
    used = min(n, pieces_of(more.get("batch_size", n)))
    assert sorted(one.links.rank for one in sessions) == list(range(used))
    assert not any(one.fallbacks for one in sessions)


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "more",
    [
        {"sparse_embeddings": True, "weight": "w"},
        {"algorithm": "sgd", "learning_rate": 0.5, "weight_decay": 0.01, "momentum": 0.5},
        {"label": "CASE WHEN x > 0.3 THEN 2 WHEN z > x THEN 1 ELSE 0 END", "embedding": 3},
        {"objective": "squared", "label": "2 * x - z + length(c)", "class_weight": None},
        {"class_weight": [1, 3], "activation": "tanh", "embedding": 0},
    ],
    ids=["sparse", "sgd", "classes", "numbers", "weighted classes"],
)
def test_one_batch_of_all_rows_is_that_of_one_machine(
    con: duckdb.DuckDBPyConnection,
    source: str,
    workers: Callable[[int], None],
    more: dict[str, Any],
) -> None:
    """The gradient of all rows has one value, wherever rows and vectors lie: up to rounding, which
    Adam makes larger where a gradient is near 0."""
    workers(2)
    given = NET | FULL | {one: value for one, value in more.items() if value is not None}
    (key, model), *_ = exchanged(con, **given, source=source).items()
    other = tuskml.train(con, "mlp", source="rows", **given)[key]
    assert model is not None
    assert other is not None
    told = ("status", "classes", "options", "n_rows", "features", "iterations")
    assert [getattr(model, one) for one in told] == [getattr(other, one) for one in told]
    assert model.loss == pytest.approx(other.loss, rel=1e-3)
    np.testing.assert_allclose(model.history, other.history, rtol=1e-3)
    assert np.median(np.abs(np.subtract(model.coef, other.coef))) < 1e-3
    assert len(model.coef) == len(other.coef) > 300


@pytest.mark.nightly
def test_a_database_predicts_by_it(
    con: duckdb.DuckDBPyConnection, source: str, workers: Callable[[int], None]
) -> None:
    """The model says which rows are which, and its loss is that of the rows."""
    workers(2)
    assert exchanged(con, source=source, max_iter=6, into="nets", replace=True) == 2
    query = """SELECT log_loss(y, predict_proba(model, {'x': x, 'z': z, 'c': c, 'd': d})),
        any_value(model.loss) FROM rows JOIN nets USING (g) GROUP BY g ORDER BY g"""
    for found, told in con.execute(query).fetchall():
        assert found == pytest.approx(told, rel=1e-5)
        assert found < 0.6


@pytest.mark.nightly
def test_a_model_without_groups(
    con: duckdb.DuckDBPyConnection, source: str, workers: Callable[[int], None]
) -> None:
    given = {key: value for key, value in NET.items() if key != "group_by"} | FULL
    workers(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tuskml.ClusterWarning)
        found = tuskml.train(
            con, "mlp", source=source, **given, executor="threads", placement="exchange"
        )
    other = tuskml.train(con, "mlp", source="rows", **given)
    assert found.n_rows == other.n_rows == N_ROWS + 500
    assert found.loss == pytest.approx(other.loss, rel=1e-3)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The versions of plans that an optimizer commits, which it does early and again and again."""
    found: list[int] = []

    class Eager(central.Central):
        def commit(self, plan: Any) -> bool:
            done = super().commit(plan)
            found.extend([plan.version] if done else [])
            return done

    iterate = worker.Training.iterate

    def slowly(training: Any, session: Session, k: int, *visits: Any) -> None:
        if k > 10 and not found:
            time.sleep(0.2)  # for an optimizer that has little of the machine
        iterate(training, session, k, *visits)

    monkeypatch.setattr(worker.Training, "iterate", slowly)
    monkeypatch.setattr(central, "Central", Eager)
    monkeypatch.setattr(central, "WARM", 2)
    monkeypatch.setattr(central.serve, "__defaults__", (1, Search(0.02), 30.0))
    monkeypatch.setenv(processes.ADDRESSES, "127.0.0.1,127.0.0.1")
    monkeypatch.setattr(processes, "_shares", [processes.Share()])
    return found


@pytest.fixture
def plain(con: duckdb.DuckDBPyConnection, source: str, workers: Callable[[int], None]) -> Any:
    """The nets of one worker, which exchanges nothing."""
    workers(1)
    found = exchanged(con, source=source)
    workers(2)
    return found


@pytest.mark.nightly
def test_plans_change_no_bit(
    con: duckdb.DuckDBPyConnection,
    source: str,
    plain: tuskml.Models,
    planned: list[int],
    sessions: list[Session],
) -> None:
    sharded.assert_same_bits(exchanged(con, source=source), plain)
    assert planned
    assert {one.workers.links for one in sessions} == {2}
    assert all(set(one.versions) - {0} for one in sessions), "iterations followed the plan"


@pytest.mark.nightly
@pytest.mark.parametrize("what", [pytest.param("optimizer", marks=pytest.mark.nightly), "link"])
def test_what_is_lost_changes_no_bit(
    con: duckdb.DuckDBPyConnection,
    source: str,
    plain: tuskml.Models,
    planned: list[int],
    sessions: list[Session],
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    """The optimizer goes, or one of two links: workers go on in plain order."""
    iterate = worker.Training.iterate

    def lose(training: Any, session: Session, k: int, *visits: Any) -> None:
        if k == 20 and training.member.rank == 0:
            if what == "link":
                plan = session.plans[k]
                assert plan is not None
                used = plan.channels["all_layers"][0]
                session.links.peers[1, used].shutdown(socket.SHUT_RDWR)
            else:
                assert session.ballot.control is not None
                session.ballot.control.shutdown(socket.SHUT_RDWR)
        iterate(training, session, k, *visits)

    monkeypatch.setattr(worker.Training, "iterate", lose)
    sharded.assert_same_bits(exchanged(con, source=source), plain)
    assert all(bool(one.fallbacks) == (what == "link") for one in sessions)
    if what == "optimizer":
        assert planned
        assert all(one.versions[-1] == 0 for one in sessions)


@pytest.mark.nightly
@pytest.mark.parametrize("times", [pytest.param(1, marks=pytest.mark.nightly), 3])
def test_a_worker_that_is_lost(
    con: duckdb.DuckDBPyConnection,
    source: str,
    plain: tuskml.Models,
    monkeypatch: pytest.MonkeyPatch,
    times: int,
) -> None:
    """All begin again, three times at most; other groups are kept."""
    iterate, lost = worker.Training.iterate, []

    def leave(training: Any, session: Session, k: int, *visits: Any) -> None:
        if k == 5 and training.member.rank == 1 and len(lost) < times:
            lost.append(k)
            session.links.close()
            raise ConnectionError("this worker is gone")
        iterate(training, session, k, *visits)

    monkeypatch.setattr(worker.Training, "iterate", leave)
    given = NET | {"source": source, "executor": "threads", "placement": "exchange"}
    if times < 3:
        with pytest.warns(tuskml.ClusterWarning, match="began again"):
            sharded.assert_same_bits(tuskml.train(con, "mlp", **given), plain)
        return
    with (
        pytest.warns(tuskml.ClusterWarning, match="began again"),
        pytest.raises(tuskml.ClusterError, match="g = 'g0' together were lost: ") as failed,
    ):
        tuskml.train(con, "mlp", **given)
    assert failed.value.models is not None
    assert list(failed.value.models) == ["g1"]


def test_an_error_of_one_worker_is_said(
    con: duckdb.DuckDBPyConnection, source: str, plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it has met the others, who do not wait for it."""
    read = worker.read

    def fail(ask: Any, message: bytes, counts: Any, begin: int, *given: Any) -> Any:
        if begin:
            raise MemoryError("no room for the rows of this worker")
        return read(ask, message, counts, begin, *given)

    monkeypatch.setattr(worker, "read", fail)
    with pytest.raises(tuskml.ClusterError, match="no room for the rows of this worker"):
        exchanged(con, source=source)


@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_a_cancel_ends_all_workers(
    con: duckdb.DuckDBPyConnection,
    source: str,
    workers: Callable[[int], None],
    sessions: list[Session],
    monkeypatch: pytest.MonkeyPatch,
    n: int,
) -> None:
    workers(n)
    monkeypatch.setattr(units, "BATCH_ROWS", 100)  # no group keeps a worker from the others

    def cancel() -> None:
        until = time.monotonic() + 60
        while not (sessions and sessions[0].begun > 10) and time.monotonic() < until:
            time.sleep(0.01)
        tuskml.cancel()

    other = threading.Thread(target=cancel)
    other.start()
    with pytest.raises(tuskml.Interrupted):
        exchanged(con, source=source, max_iter=1_000_000)
    other.join()
    assert len(sessions) == n


def test_what_cannot_be_exchanged(
    con: duckdb.DuckDBPyConnection, source: str, workers: Callable[[int], None]
) -> None:
    workers(2)
    given = {"source": source, "executor": "threads", "placement": "exchange", "group_by": "g"}
    rows = {"label": "y", "features": ["x", "z"], "deterministic": True}
    with pytest.warns(tuskml.ClusterWarning, match="'logistic' takes no steps together"):
        found = tuskml.train(con, "logistic", **given, **rows)
    expected = tuskml.train(con, "logistic", source="rows", group_by="g", **rows)
    sharded.assert_same_bits(found, expected)
    with pytest.warns(tuskml.ClusterWarning, match="configuration of a search"):
        tuskml.train(con, "mlp", **NET | given | {"layers": [[4], [5]], "folds": 2})


@pytest.mark.nightly
def test_finished_groups_are_those_of_the_placement(
    con: duckdb.DuckDBPyConnection, source: str, tmp_path: Path, plain: tuskml.Models
) -> None:
    """A net that hopped is another model."""
    folder = tmp_path / "finished"
    hopped = sharded.by_parts(con, "mlp", **NET, source=source, finished=folder)
    sharded.assert_same_bits(exchanged(con, source=source, finished=folder), plain)
    assert hopped["g0"].coef != plain["g0"].coef  # type: ignore[union-attr]


def test_strangers_and_leavers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not know the token is sent away, silent ones too; who leaves is not waited for."""
    monkeypatch.setattr(mesh, "GREETING", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        at = server.getsockname()
        with socket.create_connection(at) as stranger, socket.create_connection(at):
            stranger.sendall(b'[1, 0, "a guess"]\n')
            until = time.monotonic() + 60
            mesh.leave(1, [at], "a guess")
            mesh.leave(3, [at], "a secret")
            with pytest.raises(ConnectionError, match="worker 3 is gone"):
                mesh.accept_worker(server, 0, "a secret", until)
            assert stranger.recv(1) == b""
