"""A run of units whose workers come and go with leases.

A worker whose lease has ended finishes its unit and leaves; units are the checkpoints of trainings
by group. One that is not done two leases later is ended, and its unit restarts elsewhere.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tuskml.groups.execution import ray_session
from tuskml.groups.execution.executor import Outcome, Unit
from tuskml.groups.execution.leading import Leaders
from tuskml.groups.execution.leases.actor import rules_for
from tuskml.groups.execution.leases.tenant import Tenant
from tuskml.groups.execution.ray_cluster import ACTOR, Caller, Run, Task
from tuskml.groups.execution.worker import Worker
from tuskml.schedule.fair.profile import Profile
from tuskml.schedule.fair.valuation import App, Phase

GUESSED_PACE = 1e-5
"""Seconds of a row, before the first unit has ended."""
LED_UNITS = 20
"""Sums that a leader is taken to ask for still, of each of its shards."""
GRACE_LEASES = 2


class LeasedRun(Run):
    """lease: seconds."""

    def __init__(
        self,
        ray: Any,
        work: str,
        units: Sequence[Unit],
        caller: Caller,
        leaders: Leaders,
        lease: float,
    ) -> None:
        super().__init__(ray, work, units, caller, leaders)
        self.lease, self.profile = lease, Profile()
        self.nodes: dict[Any, str] = {}
        """The node of each worker."""
        self.due: dict[Any, float] = {}
        """Since when workers at work have no lease."""
        self.rows = sum(unit.size for unit in units)
        self.tenant = Tenant(
            ray, rules_for(lease), self.app, self.profile.slowdowns, self.is_measured
        )

    def is_measured(self) -> bool:
        """Returns whether a unit has ended."""
        return self.profile.pace is not None

    def app(self) -> App:
        """The remaining work, as the agent values it: units are jobs of one worker each."""
        pace = self.profile.pace or GUESSED_PACE
        left = [unit.size for unit in self.left]
        left += [task.unit.size for task in self.working.values() if task.unit.pin is None]
        jobs = [max(size, 1.0) * pace for size in left]
        jobs += [size * pace * LED_UNITS for size in self.pins.sizes.values()]
        if self.leaders.working and not self.pins.sizes:  # no request yet
            jobs += [pace] * ray_session.processors(self.ray)
        work = max(self.rows * pace, sum(jobs), 1e-9)
        return App((Phase(tuple(jobs)),) if jobs else (), work, len(self.units))

    def start(self) -> None:
        """Does nothing: workers come with leases."""

    def start_on(self, node: str) -> None:
        """Asks Ray for a worker on a node."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        options = ACTOR | {"scheduling_strategy": strategy}
        worker = self.ray.remote(Worker).options(**options).remote(self.memory)
        self.starting[worker.hello.remote()] = worker
        self.nodes[worker] = node

    def hand_out(self) -> None:
        """As `Run.hand_out`, except to workers whose lease has ended: these leave between two
        units.
        """
        self.follow()
        super().hand_out()

    def look(self) -> Iterator[Outcome]:
        """As `Run.look`, with the arbiter's answers."""
        self.tenant.look()
        if not self.tenant.held and self.tenant.answered > self.last_seen:
            self.last_seen = self.tenant.answered  # it waits for a lease, not for a worker
        yield from super().look()

    def follow(self) -> None:
        """Starts workers that leases allow, and ends idle ones without a lease."""
        have = Counter(self.nodes[worker] for worker in self.alive())
        for node, n in self.tenant.held.items():
            for _ in range(n - have[node]):
                self.start_on(node)
        more = {node: n - self.tenant.held.get(node, 0) for node, n in have.items()}
        for worker in [*self.idle, *self.starting.values()]:
            if more.get(self.nodes[worker], 0) > 0:
                more[self.nodes[worker]] -= 1
                self.end(worker)
        self.hurry(more)

    def alive(self) -> list[Any]:
        """All workers."""
        working = [task.worker for task in self.working.values()]
        return [*self.starting.values(), *working, *self.idle]

    def end(self, worker: Any) -> None:
        """Ends a worker that has no unit."""
        if worker in self.idle:
            self.idle.remove(worker)
        for reference in [ref for ref, one in self.starting.items() if one is worker]:
            del self.starting[reference]
            self.doubted.pop(reference, None)
        self.pins.forget(worker)
        self.ray.kill(worker)

    def hurry(self, more: dict[str, int]) -> None:
        """Ends workers that are at work long after their lease; their units are tried again."""
        now, late = time.monotonic(), dict(more)
        for reference, task in list(self.working.items()):
            node = self.nodes[task.worker]
            if late.get(node, 0) <= 0:
                self.due.pop(task.worker, None)
                continue
            late[node] -= 1
            since = self.due.setdefault(task.worker, now)
            if now > since + GRACE_LEASES * self.lease:
                del self.working[reference], self.due[task.worker]
                self.ended(task, "given back")
                self.give_back(task)
                self.end(task.worker)

    def give_back(self, task: Task) -> None:
        """Returns a unit to those that are left, without a failure."""
        for one in task.unit.each:
            self.tries[one.key] -= 1
        if task.unit.pin is None:
            self.left.appendleft(task.unit)
        else:
            self.pins.add(one for one in task.unit.each if self.wanted(one))

    def ended(self, task: Task, how: str) -> None:
        """As `Run.ended`; also adds a trained unit to the profile."""
        super().ended(task, how)
        if how == "trained" and task.unit.size:
            places = {self.nodes[worker] for worker in self.alive()} | {self.nodes[task.worker]}
            seconds = time.monotonic() - task.began
            self.profile.note(len(places) > 1, seconds / task.unit.size)

    def stop(self) -> None:
        """As `Run.stop`; also returns the lease."""
        super().stop()
        if not self.head.lost:
            self.tenant.leave()
