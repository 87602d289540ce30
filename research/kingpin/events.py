"""The simulation itself: discrete events of workers that take tasks, finish them, and fail.

One process hands out the tasks, one after the other. A free worker takes a task that is pinned to
it, and else the first one of those that any worker may have. A task may wait for a gate, which
opens some time after all tasks that feed it are done. A worker that fails loses the task that it
was at, and another one takes its place after a while and reads its pinned rows again.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np


class Task(NamedTuple):
    """seconds: of a worker; worker: the one that has its rows, -1 for any; opens, feeds: gates
    that it waits for and counts down, -1 for none. Of a worker's tasks the urgent come first."""

    seconds: float
    worker: int = -1
    opens: int = -1
    feeds: int = -1
    urgent: int = 0


@dataclass(frozen=True)
class Failures:
    """every: hours between two failures of one worker, on average; back: seconds until another
    one has taken its place; reload: seconds to read its pinned rows again."""

    every: float
    back: float = 30.0
    reload: float = 0.0
    seed: int = 0


class Did(NamedTuple):
    """A worker's time with a task, by places; done: whether it was finished."""

    worker: int
    task: int
    begin: float
    end: float
    done: bool


@dataclass
class Run:
    """What happened. Seconds: makespan of the run, busy and lost of all workers together."""

    workers: int
    makespan: float = 0.0
    busy: float = 0.0
    lost: float = 0.0
    failures: int = 0
    trace: list[Did] = field(default_factory=list)

    @property
    def worker_hours(self) -> float:
        """What the run costs: all workers are paid for until the last one ends."""
        return self.workers * self.makespan / 3600


class Gate(NamedTuple):
    """feeding: tasks that feed it; delay: seconds from the last one until it opens."""

    feeding: int
    delay: float


DONE, FAILED, BACK, OPEN = range(4)


class Simulation:
    """A simulation of tasks on workers; dispatch: seconds to hand out a task."""

    def __init__(
        self,
        tasks: Sequence[Task],
        workers: int,
        gates: Sequence[Gate] = (),
        dispatch: float = 0.0,
        failures: Failures | None = None,
        traced: bool = False,
    ) -> None:
        if workers < 1:
            raise ValueError(f"there are {workers} workers, expected at least 1")
        self.tasks, self.dispatch, self.failures, self.traced = tasks, dispatch, failures, traced
        self.gates, self.counts = gates, [gate.feeding for gate in gates]
        self.run = Run(workers)
        self.events: list[tuple[float, int, int, int, int]] = []
        self.serial, self.hands, self.left = 0, 0.0, len(tasks)
        self.at: list[tuple[int, float] | None] = [None] * workers
        """Of each worker the task that it is at, and since when."""
        self.lives = [0] * workers
        self.idle = dict.fromkeys(range(workers))
        self.woken: list[int] = list(range(workers))
        """Idle workers for which there may be a task."""
        self.mine: list[list[tuple[int, int]]] = [[] for _ in range(workers)]
        self.waiting: dict[int, list[int]] = {}
        free = [place for place, task in enumerate(tasks) if task.worker < 0 and task.opens < 0]
        self.free = deque(sorted(free, key=lambda place: -tasks[place].seconds))
        self.draw = np.random.default_rng(failures.seed if failures else 0)

    def ran(self) -> Run:
        """Everything from the first task to the last."""
        for place, task in enumerate(self.tasks):
            if task.opens >= 0:
                self.waiting.setdefault(task.opens, []).append(place)
            elif task.worker >= 0:
                heapq.heappush(self.mine[task.worker], (-task.urgent, place))
        for worker in range(self.run.workers):
            self.fail_later(worker, 0.0)
        self.hand_out(0.0)
        while self.left:
            now, _, kind, one, life = heapq.heappop(self.events)
            if kind == OPEN:
                self.opened(one)
            elif life != self.lives[one]:
                continue  # of a worker that has failed since
            elif kind == DONE:
                self.done(one, now)
            elif kind == FAILED:
                self.failed(one, now)
            else:
                self.wake(one)
                self.fail_later(one, now)
            self.hand_out(now)
        return self.run

    def put(self, time: float, kind: int, one: int) -> None:
        """An event to come, of a gate or of a worker as it lives now."""
        self.serial += 1
        life = self.lives[one] if kind != OPEN else 0
        heapq.heappush(self.events, (time, self.serial, kind, one, life))

    def hand_out(self, now: float) -> None:
        """Gives tasks to idle workers; those without one stay idle."""
        for worker in self.woken:
            if worker in self.idle and self.mine[worker]:
                self.give(worker, heapq.heappop(self.mine[worker])[1], now)
        self.woken.clear()
        while self.free and self.idle:
            self.give(next(iter(self.idle)), self.free.popleft(), now)

    def give(self, worker: int, place: int, now: float) -> None:
        """The worker begins a task as soon as it has been handed out."""
        del self.idle[worker]
        self.hands = max(self.hands, now) + self.dispatch
        self.at[worker] = place, self.hands
        self.put(self.hands + self.tasks[place].seconds, DONE, worker)

    def wake(self, worker: int) -> None:
        """The worker is free."""
        self.idle[worker] = None
        self.woken.append(worker)

    def done(self, worker: int, now: float) -> None:
        """A worker has finished its task."""
        place = self.note(worker, now, True)
        self.wake(worker)
        self.left -= 1
        self.run.makespan = max(self.run.makespan, now)
        gate = self.tasks[place].feeds
        if gate >= 0:
            self.counts[gate] -= 1
            if not self.counts[gate]:
                self.put(now + self.gates[gate].delay, OPEN, gate)

    def opened(self, gate: int) -> None:
        """What waited for it can begin."""
        for place in self.waiting.pop(gate, ()):
            task = self.tasks[place]
            if task.worker >= 0:
                heapq.heappush(self.mine[task.worker], (-task.urgent, place))
                self.woken.append(task.worker)
            else:
                self.free.append(place)

    def failed(self, worker: int, now: float) -> None:
        """A worker is gone; its task is the next one of the same kind."""
        assert self.failures is not None
        self.run.failures += 1
        self.lives[worker] += 1
        if self.at[worker] is None:
            del self.idle[worker]
        else:
            place = self.note(worker, now, False)
            task = self.tasks[place]
            if task.worker >= 0:
                heapq.heappush(self.mine[worker], (-task.urgent, place))
            else:
                self.free.appendleft(place)
        self.put(now + self.failures.back + self.failures.reload, BACK, worker)

    def note(self, worker: int, now: float, done: bool) -> int:
        """The end of what a worker was at; its place."""
        held = self.at[worker]
        assert held is not None
        place, began = held
        self.at[worker] = None
        took = max(now - began, 0.0)
        if done:
            self.run.busy += took
        else:
            self.run.lost += took
        if self.traced:
            self.run.trace.append(Did(worker, place, min(began, now), now, done))
        return place

    def fail_later(self, worker: int, now: float) -> None:
        """When the worker will fail, where workers do."""
        if self.failures is not None:
            after = self.draw.exponential(self.failures.every * 3600)
            self.put(now + after, FAILED, worker)
