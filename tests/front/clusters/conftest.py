"""A Ray cluster of this machine: real processes, nodes of one logical CPU, small object stores.

Its tests are skipped where Ray is not installed, or fail if TUSKML_REQUIRE_RAY is set.
"""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tuskml.groups.execution import leading
from tuskml.groups.execution.leading import Ran
from tuskml.groups.execution.leases import LeasedRun

sys.path.append(str(Path(__file__).parent))
STORE = 80_000_000
"""Bytes of a node's object store, near the least that Ray allows."""
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_NUM_REDIS_GET_RETRIES": "120",  # seconds: other tests may keep all cores busy
    "RAY_gcs_server_port_wait_time_s": "120",
}
STARTS = 3
"""Ray waits 30 seconds for a node, which no setting changes, so a cluster is tried so often."""
if importlib.util.find_spec("ray") is None and os.environ.get("TUSKML_REQUIRE_RAY"):
    raise RuntimeError(
        "TUSKML_REQUIRE_RAY is set: ray is not installed, pip install 'tuskml[ray]'"
    )


class LocalRay:
    """The cluster, to which the tests' process is connected."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        self.cluster = Cluster()
        self.nodes: list[Any] = []

    def grow(self, n: int) -> None:
        """Adds nodes until there are n."""
        while len(self.nodes) < n:
            more = {"include_dashboard": False} if not self.nodes else {}
            self.nodes.append(self.cluster.add_node(num_cpus=1, object_store_memory=STORE, **more))
        self.cluster.wait_for_nodes()

    def remove(self) -> None:
        """Takes the last node away, without notice."""
        self.cluster.remove_node(self.nodes.pop(), allow_graceful=False)

    def connect(self) -> None:
        """Connects this process."""
        import ray

        ray.init(address=self.cluster.address, log_to_driver=False, logging_level="ERROR")

    def workers(self) -> list[psutil.Process]:
        """The processes of tuskml's workers."""
        raylets = [node.all_processes["raylet"][0].process.pid for node in self.nodes]
        below = [one for pid in raylets for one in psutil.Process(pid).children(recursive=True)]
        return [one for one in below if is_worker(one)]

    def stop(self) -> None:
        """Ends all processes that were started here."""
        import ray

        ray.shutdown()
        self.cluster.shutdown()


def is_worker(process: psutil.Process) -> bool:
    """Whether it is a worker of tuskml; not so of one that has just ended."""
    try:
        return "ray::Worker" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False


@pytest.fixture(scope="module")
def local_ray() -> Iterator[LocalRay]:
    """A cluster of one node, which tests let grow."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed: pip install 'tuskml[ray]'")
    cluster = started()
    try:
        yield cluster
    finally:
        cluster.stop()


def started() -> LocalRay:
    """A cluster of one node to which this process is connected."""
    for left in reversed(range(STARTS)):
        cluster = LocalRay()
        try:
            cluster.grow(1)
            cluster.connect()
            return cluster
        except Exception:
            cluster.stop()
            if not left:
                raise
    raise AssertionError("a cluster started or an error was raised")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Ran]:
    """What workers ran for leaders."""
    found: list[Ran] = []
    monkeypatch.setattr(leading, "heard", [found.append])
    return found


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[LeasedRun]:
    """All runs, which see to it that a test may act between two of their looks."""
    found: list[LeasedRun] = []
    begin = LeasedRun.__init__

    def note(run: LeasedRun, *given: Any) -> None:
        begin(run, *given)
        found.append(run)

    monkeypatch.setattr(LeasedRun, "__init__", note)
    return found
