"""Units on the workers of a Ray cluster.

One worker per processor takes units one at a time, the largest first, so fast workers take more.
The driver alone assigns units: Ray restarts nothing. A unit whose worker died, or is very slow, is
given to another one. That is safe: a unit is named by its key and writes nothing. A worker that
does not answer, for example because its process is stopped, is ended and replaced.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 2: group task parallelism (GTP).
"""

import json
import os
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tuskml.errors import ClusterError
from tuskml.groups.execution import executor, leading, ray_session
from tuskml.groups.execution.executor import (
    ANSWERED,
    Outcome,
    Pulses,
    Tally,
    Unit,
    bundle,
    largest_first,
    outcomes_of,
)
from tuskml.groups.execution.leading import Leaders, Pins, Ran
from tuskml.groups.execution.worker import Worker, difference, mismatch, versions
from tuskml.kernels.library import cancel_mark, raise_if_cancelled

LOOK_SECONDS = 0.1
LEADING_SECONDS = 0.002
"""The same if a worker is idle and a leader may request at any moment."""
ACTOR = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": 2}
"""A worker has a thread for its unit and one that says that it lives."""
ATTEMPTS = 3
"""Attempts at a unit, and consecutive failures of workers to start."""
START_SECONDS = 60.0
SILENT_SECONDS = 60.0
"""A worker at work that does not answer for so long is ended."""
SLOW_SECONDS, SLOW_TIMES = 10.0, 5.0
"""A unit that takes longer than both, the second times what others took by their size, is
given to an idle worker too: its own may be stopped, or on a machine that swaps.
"""


def start_seconds() -> float:
    """Returns the seconds to wait for the first worker: TUSKML_CLUSTER_TIMEOUT, or a minute."""
    text = os.environ.get("TUSKML_CLUSTER_TIMEOUT", "")
    try:
        return float(text) if text else START_SECONDS
    except ValueError:
        raise ClusterError(
            f"TUSKML_CLUSTER_TIMEOUT is {text!r}, expected a number of seconds"
        ) from None


@dataclass(frozen=True)
class Task:
    """A unit on a worker, since a time of the monotonic clock.

    counted: the same by the clock of `executor.py`; mark: of `executor.begin`.
    """

    worker: Any
    unit: Unit
    began: float
    counted: float
    mark: object


class Caller(Protocol):
    """The caller that runs units. notes, tally, most_seconds: as of `RayCluster`."""

    notes: list[str]
    tally: Tally
    most_seconds: float | None


class Run:
    """One run of units: workers that start, work or wait, and the units that are left."""

    def __init__(
        self, ray: Any, work: str, units: Sequence[Unit], caller: Caller, leaders: Leaders
    ) -> None:
        self.ray, self.work, self.notes, self.tally = ray, work, caller.notes, caller.tally
        self.leaders = leaders
        self.pins = Pins(leaders.place, ray_session.processors(ray))
        self.most_seconds, self.pulses = caller.most_seconds, Pulses(SILENT_SECONDS)
        self.names: dict[Any, str] = {}
        """The host and process of each worker."""
        self.units = units
        self.left = deque(largest_first(units))
        self.done: set[str] = set()
        self.took: dict[int, float] = {}
        """The most seconds of units, by the number of binary digits of their size."""
        self.tries: Counter[str] = Counter()
        self.here, self.head = versions(), Head(ray)
        self.actor = ray.remote(Worker).options(**ACTOR)
        self.memory = ray_session.memory_per_processor(ray)
        self.starting: dict[Any, Any] = {}
        self.doubted: dict[Any, float] = {}
        """When idle workers that are tested again came into doubt, by that clock."""
        self.working: dict[Any, Task] = {}
        self.idle: list[Any] = []
        self.failed_starts = 0
        self.last_seen = time.monotonic()
        """The last time a worker had, or could have taken, a unit."""

    def outcomes(self) -> Iterator[Outcome]:
        """The outcome of each unit. All workers are stopped at the end, whatever happens.

        A cluster that fails as a whole raises, unless some units are done: then the others fail.
        """
        mark = cancel_mark()
        most = sys.maxsize if self.leaders.leaders else len(self.left)
        try:
            for _ in range(min(ray_session.processors(self.ray), most)):
                self.start()
            self.leaders.begin()
            while len(self.done) < len(self.units) + len(self.leaders.leaders):
                self.hand_out()
                for outcome in self.came():
                    self.done.add(outcome.key)
                    yield outcome
                raise_if_cancelled(mark)
        except ClusterError as error:
            if not self.done:
                raise
            for key in [*(unit.key for unit in self.units), *self.leaders.leaders]:
                if key not in self.done:
                    yield Outcome(key, None, str(error))
        finally:
            self.stop()

    def came(self) -> Iterator[Outcome]:
        """Outcomes of this moment, one at a time: `done` has each before the next is looked at."""
        yield from self.look()
        yield from self.leaders.outcomes()

    def start(self) -> None:
        """Asks Ray for another worker."""
        worker = self.actor.remote(self.memory)
        self.starting[worker.hello.remote()] = worker

    def hand_out(self) -> None:
        """Gives each idle worker a unit. First come those of leaders whose pin the worker has or
        may take, then those that are left, and then copies of those that are late elsewhere.
        """
        self.pulses.clock.tick()  # since when the caller may have taken its time
        self.pins.add(self.leaders.take_requested())
        waiting, self.idle = sorted(self.idle, key=self.pins.rows), []
        for worker in waiting:
            unit = self.pins.take(worker, bool(self.starting))
            if unit is not None:
                unit = bundle([unit, *self.pins.beside(worker, unit)])
            else:
                unit = self.left.popleft() if self.left else self.late()
                if unit is not None and unit.pin is not None:
                    self.pins.move(unit, worker)
            if unit is None:
                self.idle.append(worker)
                continue
            self.tries.update(one.key for one in unit.each)
            reference = worker.run.remote(unit.work or self.work, unit.payload)
            mark = executor.begin(unit, self.names[worker])
            self.pulses.begin(worker)
            self.working[reference] = Task(
                worker, unit, time.monotonic(), self.pulses.clock.now, mark
            )

    def late(self) -> Unit | None:
        """A unit that takes much longer than others did, and that one worker alone has."""
        copies = Counter(task.unit.key for task in self.working.values())
        for task in self.working.values():
            usual = max(SLOW_SECONDS, SLOW_TIMES * self.usual_seconds(task.unit))
            fresh = copies[task.unit.key] == 1 and task.unit.copied and self.is_wanted(task.unit)
            if fresh and self.took and time.monotonic() - task.began > usual:
                self.notes.append("a worker was slow and another one trained its groups too")
                return task.unit
        return None

    def usual_seconds(self, unit: Unit) -> float:
        """The longest time of units at least about as large; without any, scaled by size from the
        largest one.

        A small unit takes long for its size, so it predicts nothing about larger ones.
        """
        own = digits(unit)
        alike = [seconds for size, seconds in self.took.items() if size >= own]
        if alike or not self.took:
            return max(alike, default=0.0)
        largest = max(self.took)
        return self.took[largest] * 2.0 ** (own - largest)

    def is_wanted(self, unit: Unit) -> bool:
        """Returns whether it has no outcome yet."""
        if unit.pin is None:
            return unit.key not in self.done
        return any(self.leaders.wants(one.key) for one in unit.each)

    def look(self) -> Iterator[Outcome]:
        """Waits a moment, and processes what has arrived."""
        for reference in self.ready([*self.starting, *self.working, *self.pulses.ask()]):
            if reference in self.starting:
                self.welcome(reference)
            elif reference in self.working:
                yield from self.take(reference)
            else:  # maybe of a worker whose unit has just ended
                self.pulses.take(reference)
        yield from self.give_up()
        self.replace_doubted()
        if self.head.is_gone():
            raise ClusterError(self.head.sentence())
        now = time.monotonic()
        if self.idle or self.working:
            self.last_seen = now
        elif (self.left or self.pins.waiting) and now > self.last_seen + start_seconds():
            raise ClusterError(ray_session.no_processor(self.ray, start_seconds()))

    def give_up(self) -> Iterator[Outcome]:
        """Ends workers that do not answer, or have had a unit for longer than they may."""
        most, now = self.most_seconds, self.pulses.clock.now
        away = self.pulses.find_unfetched(self.ray, list(self.working))
        for reference, task in list(self.working.items()):
            if most is not None and now > task.counted + most:
                why = f"it was not done within {most:g} s (worker_timeout)"
            elif self.pulses.is_silent(task.worker):
                why = f"its worker gave no sign of life for {self.pulses.silent:g} s"
            elif reference in away:
                why = f"its answer could not be fetched for {self.pulses.silent:g} s"
            else:
                continue
            del self.working[reference]
            self.end_task(task, "given up")
            self.ray.kill(task.worker)
            yield from self.retry_lost(task, why)

    def end_task(self, task: Task, how: str) -> None:
        """Forgets a task that has ended."""
        self.pulses.end(task.worker)
        executor.end(task.mark, how)

    def ready(self, pending: list[Any]) -> list[Any]:
        """Returns what has arrived, after a moment if nothing has."""
        if not pending:
            self.leaders.wait(LOOK_SECONDS)
            return []
        done, _ = self.ray.wait(pending, num_returns=len(pending), timeout=0)
        if not done:
            seconds = LEADING_SECONDS if self.idle and self.leaders.working else LOOK_SECONDS
            done, _ = self.ray.wait(pending, num_returns=1, timeout=seconds)
        return list(done)

    def welcome(self, reference: Any) -> None:
        """Receives a worker that has started, or could not."""
        worker = self.starting.pop(reference)
        try:
            there = json.loads(self.ray.get(reference))
        except self.ray.exceptions.RayError as error:
            if worker in self.names:  # it was tested again and is gone
                self.pins.forget(worker)
                self.start()
                return
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
        self.names[worker] = f"{there['host']} (process {there['pid']})"
        self.idle.append(worker)

    def take(self, reference: Any) -> Iterator[Outcome]:
        """A unit that is finished, or whose worker was lost."""
        task = self.working.pop(reference)
        unit = task.unit
        try:
            answer = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            self.end_task(task, "lost")
            self.ray.kill(task.worker)  # it lives where its answer alone was lost
            yield from self.retry_lost(task, reason(error))
            return
        self.end_task(task, "trained" if answer[:1] == ANSWERED else "failed")
        self.idle.append(task.worker)
        if not self.is_wanted(unit):  # a copy was faster
            return
        if answer[:1] == ANSWERED:
            ended, size = time.monotonic(), digits(unit)
            self.took[size] = max(self.took.get(size, 0.0), ended - task.began)
            self.tally.note(self.names[task.worker], unit, answer)
            if unit.pin is not None:
                leading.note(Ran(str(task.worker), unit, task.began, ended))
        for one, outcome in zip(unit.each, outcomes_of(unit, answer), strict=True):
            yield from self.deliver(one, outcome)

    def deliver(self, unit: Unit, outcome: Outcome) -> Iterator[Outcome]:
        """Yields the outcome of a caller's unit; a leader gets that of its own."""
        if unit.pin is None:
            yield outcome
        else:
            self.leaders.settle(outcome)

    def retry_lost(self, task: Task, cause: str) -> Iterator[Outcome]:
        """Retries a unit whose worker was lost, unless the unit may be the cause."""
        unit = task.unit
        self.pins.forget(task.worker)
        self.doubt_idle()
        executor.log.warning("%s: a worker was lost: %s", unit.name, cause)
        if not self.is_wanted(unit) or unit in (one.unit for one in self.working.values()):
            pass  # a copy was faster, or may still be
        elif max(self.tries[one.key] for one in unit.each) >= ATTEMPTS:
            why = f"{ATTEMPTS} workers were lost while they trained {unit.name}: {cause}"
            for one in unit.each:
                yield from self.deliver(one, Outcome(one.key, None, why))
        else:
            self.notes.append(f"a worker was lost and its groups trained again: {cause}")
            if unit.pin is None:
                self.left.appendleft(unit)
            else:
                self.pins.add(one for one in unit.each if self.is_wanted(one))
        if self.left or self.leaders.working:
            self.start()

    def doubt_idle(self) -> None:
        """Asks idle workers again who they are: they may be gone with the node of a lost one."""
        for worker in self.idle:
            reference = worker.hello.remote()
            self.starting[reference] = worker
            self.doubted[reference] = self.pulses.clock.now
        self.idle = []

    def replace_doubted(self) -> None:
        """Ends idle workers that do not say for long who they are, as stopped ones."""
        for reference, since in list(self.doubted.items()):
            if reference not in self.starting:
                del self.doubted[reference]
            elif self.pulses.clock.now > since + self.pulses.silent:
                worker = self.starting.pop(reference)
                self.pins.forget(worker)
                self.ray.kill(worker)
                self.start()

    def stop(self) -> None:
        """Ends all workers with their work, and the leaders."""
        self.leaders.close()
        for task in (working := list(self.working.values())):
            self.end_task(task, "stopped")
        if self.head.lost:  # to whom Ray would speak of it; they end with their nodes
            return
        for worker in [*self.starting.values(), *(one.worker for one in working), *self.idle]:
            self.ray.kill(worker)


def digits(unit: Unit) -> int:
    """Returns the number of binary digits of the unit's size."""
    return int(unit.size).bit_length()


def reason(error: Exception) -> str:
    """The first sentence of one of Ray's messages, which may fill pages."""
    cause = getattr(error, "cause", None) or error
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__


HEAD_SECONDS = 3.0
ANSWER_SECONDS = 2.0
FAILURES = 4
"""Consecutive failures after which the head is lost: some 10 s."""


class Head:
    """The process that knows all others of a cluster, by its address.

    Ray waits a minute for a lost head, and then ends the process. So the driver tests the head,
    and ends the run before that.
    """

    def __init__(self, ray: Any) -> None:
        self.address: str = getattr(ray.get_runtime_context(), "gcs_address", "")
        self.reached = self.answers()  # not so from outside its network
        self.failures, self.looked = 0, time.monotonic()

    @property
    def lost(self) -> bool:
        """Returns whether it was found to be lost."""
        return self.failures >= FAILURES

    def is_gone(self) -> bool:
        """Returns whether it has not answered for a while; looks now and then."""
        if self.reached and time.monotonic() > self.looked + HEAD_SECONDS:
            self.failures = 0 if self.answers() else self.failures + 1
            self.looked = time.monotonic()
        return self.lost

    def answers(self) -> bool:
        """Returns whether something listens at the address."""
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
        except (OSError, ValueError):
            return False
        return True

    def sentence(self) -> str:
        """Says that it is gone."""
        return (
            f"the head of the Ray cluster at {self.address} does not answer any more: start it "
            "again, and train again; the groups that `finished` has are not trained twice"
        )
