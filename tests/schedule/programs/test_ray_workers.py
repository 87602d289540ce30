"""How workers of a Ray cluster start and end, with a Ray that is none."""

import json
import threading
import time
from types import SimpleNamespace

import pytest

import tuskml
from tuskml.groups.execution.worker import versions
from tuskml.groups.programs import RayWorkers, share_of


class Lost(Exception):
    """Of Ray's errors the root."""


class Task(Lost):
    def __init__(self, cause):
        self.cause = cause


class Actor(Lost):
    pass


class Object(Lost):
    pass


class Ray:
    """Its actors answer at once, but for some that never start; handles are values or errors."""

    exceptions = SimpleNamespace(
        RayError=Lost, RayTaskError=Task, RayActorError=Actor, ObjectLostError=Object
    )

    def __init__(self, starting=2, seconds=0.0):
        self.left, self.ready = starting, time.monotonic() + seconds

    def cluster_resources(self):
        return {"CPU": 2.0}

    available_resources = cluster_resources

    def nodes(self):
        return [{"Alive": True, "Resources": {"CPU": 1.0}}] * 2 + [
            {"Alive": False, "Resources": {}}
        ]

    def put(self, value):
        return value

    def remote(self, kind):
        return SimpleNamespace(options=lambda **given: SimpleNamespace(remote=self.actor))

    def actor(self, *given):
        self.left -= 1
        hello = (json.dumps(versions()),) if self.left >= 0 else None
        return SimpleNamespace(
            hello=SimpleNamespace(remote=lambda: hello),
            make=SimpleNamespace(remote=lambda: ("made",)),
        )

    def wait(self, handles, num_returns, timeout):
        slow = [one for one in handles if one == ("made",) and time.monotonic() < self.ready]
        done = [one for one in handles if one is not None and one not in slow][:num_returns]
        if len(done) < num_returns:
            time.sleep(timeout)
        return done, [one for one in handles if one not in done]

    def get(self, handles):
        for one in handles:
            if isinstance(one, Exception):
                raise one
        return [one[0] for one in handles]

    def kill(self, actor):
        pass


def test_workers_that_never_start_end_the_run(monkeypatch):
    monkeypatch.setenv("TUSKML_CLUSTER_TIMEOUT", "0.5")
    workers = RayWorkers(Ray(starting=1), None, [1, 2])
    with pytest.raises(tuskml.ClusterError, match="no worker has started"):
        workers.begin()


def test_data_may_take_longer_to_make_than_a_worker_to_start(monkeypatch):
    monkeypatch.setenv("TUSKML_CLUSTER_TIMEOUT", "0.1")
    RayWorkers(Ray(seconds=1), None, [1, 2]).begin()


def test_waiting_for_workers_is_cancelled():
    workers = RayWorkers(Ray(starting=0), None, [1])
    timer = threading.Timer(0.3, tuskml.cancel)
    timer.start()
    with pytest.raises(tuskml.Interrupted):
        workers.begin()
    timer.join()


@pytest.mark.parametrize("error", [Actor(), Task(Actor()), Task(Task(Object())), Object()])
def test_a_lost_worker_is_told_wherever_its_block_was(error):
    with pytest.raises(tuskml.ClusterError, match="a worker of the Ray cluster was lost"):
        RayWorkers(Ray(), None, [1]).get([(1,), error])
    with pytest.raises(KeyError, match="k"):
        RayWorkers(Ray(), None, [1]).get([Task(KeyError("k"))])


@pytest.mark.parametrize(("cpus", "count", "share"), [
    ([2], 2, 1), ([8], 2, 1), ([2], 3, 0.6666), ([1, 1], 3, 0.5), ([2, 2], 5, 0.6666),
    ([1], 1024, 0.0009), ([4, 0, 1], 5, 1),
])  # fmt: skip
def test_all_workers_fit_on_the_nodes(cpus, count, share):
    assert share_of(cpus, count) == share
    assert sum(int(round(one * 10_000) // round(share * 10_000)) for one in cpus) >= count
