"""Units on the workers of a Ray cluster.

One worker per processor takes units one at a time, the largest first, so fast workers take more.
The driver alone decides what runs where: Ray restarts nothing. A unit whose worker died is given
to another one, which is safe since a unit is named by its key and writes nothing.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 2: group task parallelism (GTP).
"""

import json
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from tuskml.errors import ClusterError
from tuskml.groups.execution import ray_session
from tuskml.groups.execution.executor import Outcome, Unit, largest_first
from tuskml.groups.execution.versions import difference, mismatch, versions
from tuskml.groups.execution.worker import ANSWERED, Worker
from tuskml.kernels.library import cancel_mark, raise_if_cancelled

LOOK_SECONDS = 0.1
ATTEMPTS = 3
"""How often a unit is tried, and how often in a row workers may fail to start."""
START_SECONDS = 60.0


def start_seconds() -> float:
    """How long to wait for the first worker: TUSKML_CLUSTER_TIMEOUT, or a minute."""
    text = os.environ.get("TUSKML_CLUSTER_TIMEOUT", "")
    try:
        return float(text) if text else START_SECONDS
    except ValueError:
        raise ClusterError(
            f"TUSKML_CLUSTER_TIMEOUT is {text!r}, expected a number of seconds"
        ) from None


class RayCluster:
    """The cluster at an address, or where it is None the one at hand."""

    remote = True

    def __init__(self, address: str | None) -> None:
        ray_session.imported()
        self.address = address
        self.notes: list[str] = []

    def run(self, work: str, units: Sequence[Unit]) -> Iterator[Outcome]:
        with ray_session.connected(self.address) as ray:
            yield from Run(ray, work, units, self.notes).outcomes()


class Run:
    """One run of units: workers that start, work or wait, and the units that are left."""

    def __init__(self, ray: Any, work: str, units: Sequence[Unit], notes: list[str]) -> None:
        self.ray, self.work, self.notes = ray, work, notes
        self.left = deque(largest_first(units))
        self.tries = dict.fromkeys((unit.key for unit in units), 0)
        self.here = versions()
        self.actor = ray.remote(Worker).options(num_cpus=1, max_restarts=0, max_task_retries=0)
        self.memory = ray_session.memory_per_processor(ray)
        self.starting: dict[Any, Any] = {}
        self.working: dict[Any, tuple[Any, Unit]] = {}
        self.idle: list[Any] = []
        self.failed_starts = 0
        self.last_seen = time.monotonic()
        """When a worker last had, or could have taken, a unit."""

    def outcomes(self) -> Iterator[Outcome]:
        """The outcome of each unit. All workers are stopped at the end, whatever happens.

        A cluster that fails as a whole raises, unless some units are done: then the others fail.
        """
        mark, n_done = cancel_mark(), 0
        for _ in range(min(ray_session.processors(self.ray), len(self.left))):
            self.start()
        try:
            while self.left or self.working:
                self.hand_out()
                for outcome in self.look():
                    n_done += 1
                    yield outcome
                raise_if_cancelled(mark)
        except ClusterError as error:
            if not n_done:
                raise
            for unit in [*self.left, *(unit for _, unit in self.working.values())]:
                yield Outcome(unit.key, None, str(error))
        finally:
            self.stop()

    def start(self) -> None:
        """Asks Ray for another worker."""
        worker = self.actor.remote(self.memory)
        self.starting[worker.hello.remote()] = worker

    def hand_out(self) -> None:
        """Gives each idle worker a unit."""
        while self.idle and self.left:
            worker, unit = self.idle.pop(), self.left.popleft()
            self.tries[unit.key] += 1
            self.working[worker.run.remote(self.work, unit.payload)] = worker, unit

    def look(self) -> Iterator[Outcome]:
        """Waits a moment, and takes what has come."""
        for reference in self.ready([*self.starting, *self.working]):
            if reference in self.starting:
                self.welcome(reference)
            else:
                yield from self.take(reference)
        now = time.monotonic()
        if self.idle or self.working:
            self.last_seen = now
        elif self.left and now > self.last_seen + start_seconds():
            raise ClusterError(ray_session.no_processor(self.ray, start_seconds()))

    def ready(self, pending: list[Any]) -> list[Any]:
        """What has come, after a moment if nothing has."""
        if not pending:
            time.sleep(LOOK_SECONDS)
            return []
        done, _ = self.ray.wait(pending, num_returns=len(pending), timeout=0)
        if not done:
            done, _ = self.ray.wait(pending, num_returns=1, timeout=LOOK_SECONDS)
        return list(done)

    def welcome(self, reference: Any) -> None:
        """A worker that has started, or could not."""
        worker = self.starting.pop(reference)
        try:
            there = json.loads(self.ray.get(reference))
        except self.ray.exceptions.RayError as error:
            self.failed_starts += 1
            if self.failed_starts >= ATTEMPTS:
                raise ClusterError(f"a worker cannot start: {reason(error)}") from error
            self.start()
            return
        self.failed_starts = 0
        wrong, note = mismatch(self.here, there), difference(self.here, there)
        if wrong:
            raise ClusterError(wrong)
        if note and note not in self.notes:
            self.notes.append(note)
        self.idle.append(worker)

    def take(self, reference: Any) -> Iterator[Outcome]:
        """A unit that is finished, or whose worker was lost."""
        worker, unit = self.working.pop(reference)
        try:
            answer = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            yield from self.lost(unit, error)
            return
        self.idle.append(worker)
        if answer[:1] == ANSWERED:
            yield Outcome(unit.key, answer[1:])
        else:
            yield Outcome(unit.key, None, answer[1:].decode())

    def lost(self, unit: Unit, error: Exception) -> Iterator[Outcome]:
        """Tries a unit again whose worker was lost, unless it may be what kills them."""
        if self.tries[unit.key] >= ATTEMPTS:
            why = f"{ATTEMPTS} workers were lost while they trained these groups: {reason(error)}"
            yield Outcome(unit.key, None, why)
        else:
            self.notes.append(f"a worker was lost and its groups trained again: {reason(error)}")
            self.left.appendleft(unit)
        if self.left:
            self.start()

    def stop(self) -> None:
        """Ends all workers and with them what they still compute."""
        working = [worker for worker, _ in self.working.values()]
        for worker in [*self.starting.values(), *working, *self.idle]:
            self.ray.kill(worker)


def reason(error: Exception) -> str:
    """The first sentence of one of Ray's messages, which go on for pages."""
    cause = getattr(error, "cause", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
