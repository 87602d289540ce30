"""How units are handed out, with workers of this process whose answers come at a given moment."""

import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

import tuskml
from tuskml.groups.execution import executor, leading, ray_cluster
from tuskml.groups.execution.executor import Clock, Outcome, Tally, Unit
from tuskml.groups.execution.leading import Leaders
from tuskml.groups.execution.worker import versions


class Lost(Exception):
    """What Ray raises of a worker that is gone."""


class Reference:
    """An answer that may come."""

    def __init__(self, payload: bytes = b"") -> None:
        self.payload, self.ready = payload, False
        self.answer: Any = None
        self.elsewhere = False
        """Whether it has come, and cannot be fetched."""

    def put(self, answer: Any) -> None:
        """It has come; the first one counts."""
        if not self.ready:
            self.answer, self.ready = answer, True


class Worker:
    """A worker whose answers a test gives."""

    def __init__(self) -> None:
        self.greeting, self.dead = Reference(), False
        self.runs: list[Reference] = []
        self.asked: list[Reference] = []
        self.hello = SimpleNamespace(remote=self.say)
        self.run = SimpleNamespace(remote=lambda _, payload: self.new(self.runs, payload))
        self.alive = SimpleNamespace(remote=lambda: self.new(self.asked, b""))

    def new(self, of: list[Reference], payload: bytes) -> Reference:
        of.append(Reference(payload))
        if self.dead:
            of[-1].put(Lost("it is gone"))
        return of[-1]

    def say(self) -> Reference:
        return self.new([], b"") if self.dead else self.greeting

    def start(self, **other: str) -> None:
        """It says who it is, with versions of its own where they are given."""
        self.greeting.put(json.dumps({"pid": 1, "host": "here", **versions(), **other}))

    def die(self) -> None:
        """All that it was asked fails at once."""
        self.dead = True
        for one in (*self.runs, *self.asked):
            one.put(Lost("it is gone"))


class Cluster:
    """What `ray_cluster.Run` uses of Ray; act: called with the workers before each look."""

    exceptions = SimpleNamespace(RayError=Lost)

    def __init__(self, n: int, act: Callable[[list[Worker]], None]) -> None:
        self.n, self.act = n, act
        self.workers: list[Worker] = []

    def remote(self, *_: object) -> Any:
        def made(_: int) -> Worker:
            self.workers.append(Worker())
            return self.workers[-1]

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=made))

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address="")

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": self.n}

    def available_resources(self) -> dict[str, float]:
        return {}

    def nodes(self) -> list[Any]:
        return []

    def wait(
        self, pending: list[Reference], num_returns: int, timeout: float, fetch_local: bool = True
    ) -> Any:
        self.act(self.workers)
        there = [one for one in pending if one.ready or (one.elsewhere and not fetch_local)]
        return there[:num_returns], []

    def get(self, reference: Reference) -> Any:
        if isinstance(reference.answer, Lost):
            raise reference.answer
        return reference.answer

    def kill(self, worker: Worker) -> None:
        worker.die()

    def outcomes(self, units: Sequence[Unit], leaders: Leaders | None = None) -> list[Outcome]:
        """Of a run on this cluster."""
        caller: Any = SimpleNamespace(notes=[], tally=Tally(), most_seconds=None)
        run = ray_cluster.Run(self, "work", units, caller, leaders or leading.none())
        return list(run.outcomes())


def asked_for(workers: list[Worker]) -> list[Reference]:
    """Units that have no answer yet."""
    return [one for worker in workers for one in worker.runs if not one.ready]


def pinned_unit(pin: str, payload: bytes = b"") -> Unit:
    return Unit(pin, 1, payload, pin=pin, work="work")


@pytest.fixture
def all_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit is given to an idle worker too as soon as another unit is done."""
    monkeypatch.setattr(ray_cluster, "SLOW_SECONDS", 0.0)
    monkeypatch.setattr(ray_cluster, "SLOW_TIMES", 0.0)


@pytest.mark.usefixtures("all_are_slow")
def test_a_unit_whose_two_copies_end_together_has_one_outcome() -> None:
    def act(workers: list[Worker]) -> None:
        for worker in workers:
            worker.start()
        waiting = asked_for(workers)
        if len(waiting) == 2:  # two units, and then twice the same
            for one in waiting:
                if one.payload == b"b" or waiting[0].payload == waiting[1].payload:
                    one.put(b"+" + one.payload)

    found = Cluster(2, act).outcomes([Unit("a", 1, b"a"), Unit("b", 1, b"b")])
    assert [(one.key, one.answer) for one in found] == [("b", b"b"), ("a", b"a")]


def test_a_worker_that_is_lost_while_it_is_asked_whether_it_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both its unit and its sign of life fail in one look."""
    monkeypatch.setattr(ray_cluster, "SILENT_SECONDS", 0.04)
    lost: list[Worker] = []

    def act(workers: list[Worker]) -> None:
        for worker in workers:
            worker.start()
        if not lost and workers[0].asked:
            lost.append(workers[0])
            workers[0].die()
        for worker in workers[1:]:
            for one in (*worker.runs, *worker.asked):
                one.put(b"+done")

    monkeypatch.setattr(ray_cluster.Pulses, "is_silent", lambda self, worker: False)
    assert Cluster(1, act).outcomes([Unit("a", 1, b"a")]) == [Outcome("a", b"done")]
    assert lost


@pytest.mark.usefixtures("all_are_slow")
def test_a_pinned_unit_whose_second_worker_is_lost_goes_to_a_third() -> None:
    slow: list[Reference] = []
    lost: list[Worker] = []

    def lead(leaders: Leaders) -> bytes:
        leaders.ask([pinned_unit("p", b"quick")])
        return leaders.ask([pinned_unit("p", b"slow")])[0]

    def act(workers: list[Worker]) -> None:
        for worker in workers:
            worker.start()
            for one in worker.runs:
                if one.payload == b"quick" or (lost and one not in slow):
                    one.put(b"+done")
                elif not slow:
                    slow.append(one)
                elif one not in slow:
                    lost.append(worker)
                    worker.die()

    found = Cluster(3, act).outcomes([], Leaders({"led": lead}, 1))
    assert found == [Outcome("led", b"done")]
    assert lost


def test_a_node_that_vanishes_with_idle_workers_fails_no_unit() -> None:
    """The unit is not tried on one lost worker after another: idle ones are asked first."""
    gone: list[Worker] = []

    def act(workers: list[Worker]) -> None:
        for worker in workers[:4]:
            if not worker.dead:
                worker.start()
        if not gone and all(worker.greeting.ready for worker in workers[:4]) and workers[0].runs:
            gone.extend(workers[:3])
            for worker in gone:
                worker.die()
        for one in workers[3].runs:
            one.put(b"+done")

    cluster = Cluster(4, act)
    leader = {"led": lambda leaders: leaders.ask([pinned_unit("p", b"")])[0]}
    assert cluster.outcomes([], Leaders(leader, 1)) == [Outcome("led", b"done")]
    assert len(gone) == 3
    assert sum(len(worker.runs) for worker in gone) == 1


@pytest.mark.nightly
def test_an_idle_worker_that_says_nothing_when_it_is_asked_again_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first replacement, of the lost worker, never starts; the second one does the work."""
    looks = 0

    def tick(clock: Clock) -> float:
        clock.now += 1
        return clock.now

    def act(workers: list[Worker]) -> None:
        nonlocal looks
        looks += 1
        assert looks < 1000
        for one in workers[:2]:
            one.start()
        busy = [one for one in workers[:2] if one.runs]
        if busy and not busy[0].dead:
            (idle,) = (one for one in workers[:2] if one is not busy[0])
            idle.hello = SimpleNamespace(remote=Reference)
            busy[0].die()
        for one in workers[3:]:
            one.start()
            for run in one.runs:
                run.put(b"+done")

    monkeypatch.setattr(Clock, "tick", tick)
    leader = {"led": lambda leaders: leaders.ask([pinned_unit("p", b"")])[0]}
    assert Cluster(2, act).outcomes([], Leaders(leader, 1)) == [Outcome("led", b"done")]


def test_an_answer_that_cannot_be_fetched_is_computed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where the file that Ray has put it in is lost: Ray looks for it without end, and the
    worker lives.
    """
    monkeypatch.setattr(ray_cluster, "SILENT_SECONDS", 0.02)
    monkeypatch.setattr(executor, "MOST_STEP", 0.01)
    away: list[Reference] = []

    def act(workers: list[Worker]) -> None:
        for worker in workers:
            worker.start()
            for one in worker.asked:
                one.put(True)
        for one in asked_for(workers):
            if not away:
                away.append(one)
                one.elsewhere = True
            elif one is not away[0]:
                one.put(b"+again")

    assert Cluster(1, act).outcomes([Unit("a", 1, b"")]) == [Outcome("a", b"again")]
    assert away


def test_the_last_worker_to_start_has_parts_too() -> None:
    """The others have their shares by then, and wait."""
    made: list[Worker] = []
    looks = 0

    def lead(leaders: Leaders) -> bytes:
        for _ in range(2):
            leaders.ask([pinned_unit(f"p{n}") for n in range(12)])
        return b"done"

    def act(workers: list[Worker]) -> None:
        nonlocal looks
        looks += 1
        made[:] = workers
        for one in asked_for(workers):
            one.put(b"+")
        if looks % 40 == 0:
            next((one for one in workers if not one.greeting.ready), workers[0]).start()

    assert Cluster(4, act).outcomes([], Leaders({"led": lead}, 1)) == [Outcome("led", b"done")]
    assert all(worker.runs for worker in made)


def test_a_worker_of_another_version_is_refused() -> None:
    """`test_ray.py` has a real one."""

    def act(workers: list[Worker]) -> None:
        workers[0].start(duckdb="1.0.0")

    cluster = Cluster(1, act)
    with pytest.raises(tuskml.ClusterError, match=r"a worker has duckdb 1\.0\.0 and this process"):
        cluster.outcomes([Unit("a", 1, b"a")])
    assert not cluster.workers[0].runs


def test_finished_units_are_kept_where_all_workers_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that are left have an error, as no worker starts again in time."""
    monkeypatch.setenv("TUSKML_CLUSTER_TIMEOUT", "0.05")

    def act(workers: list[Worker]) -> None:
        for one in workers[:2]:
            one.start()
        for one in asked_for(workers):
            if one.payload == b"a":
                one.put(b"+done")
            elif any(run.payload == b"a" for worker in workers for run in worker.runs):
                for worker in workers[:2]:
                    worker.die()

    found = Cluster(2, act).outcomes([Unit(name, 1, name.encode()) for name in "abc"])
    assert Outcome("a", b"done") in found
    assert sorted(one.key for one in found) == ["a", "b", "c"]
    left = [one for one in found if one.key != "a"]
    assert all("no worker has started on the Ray cluster" in (one.error or "") for one in left)


def test_a_cancelled_run_ends_its_workers() -> None:
    def act(workers: list[Worker]) -> None:
        for worker in workers:
            worker.start()
        if asked_for(workers):
            tuskml.cancel()

    cluster = Cluster(2, act)
    with pytest.raises(tuskml.Interrupted):
        cluster.outcomes([Unit("a", 1, b"a"), Unit("b", 1, b"b")])
    assert [worker.dead for worker in cluster.workers] == [True, True]
