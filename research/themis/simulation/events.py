"""The simulation: apps arrive, get workers under leases, go from stage to stage, and end.

Discrete events on a heap. All leases end together, at multiples of their length; what becomes free
in between is given at once, until then. A change of workers costs a restart from a checkpoint, of
the part of the app that has other workers than before.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from research.themis.simulation.apps import Spec
from research.themis.simulation.machines import Machines, Room
from research.themis.simulation.placing import place
from research.themis.simulation.running import Running, Shares, View

Policy = Callable[[View], Shares]


@dataclass(frozen=True)
class Rules:
    """Seconds. lease: of workers; restart: after a change of workers, 35 s for containers and 5 to
    10 s for a checkpoint in the thesis, section 3.6.2.3; pause: between two allocations within a
    lease, 0 for none."""

    lease: float = 600.0
    restart: float = 45.0
    pause: float = 0.0


@dataclass(frozen=True)
class Ended:
    """An app that ended, in seconds: ended: by the clock; ideal: alone with its share of the
    cluster; spent: of workers held; lost: of these, in restarts; contention: mean number of
    apps."""

    number: int
    arrival: float
    ended: float
    ideal: float
    spent: float
    lost: float
    work: float
    contention: float

    @property
    def rho(self) -> float:
        """Finish-time fairness."""
        return (self.ended - self.arrival) / self.ideal


@dataclass
class Outcome:
    """allocations: how often a scheduler was asked."""

    apps: list[Ended] = field(default_factory=list)
    allocations: int = 0
    makespan: float = 0.0


class Simulation:
    """A simulation of apps on machines under a policy."""

    def __init__(
        self,
        specs: Sequence[Spec],
        machines: Machines,
        policy: Policy,
        rules: Rules | None = None,
        seed: int = 0,
    ) -> None:
        self.machines, self.policy, self.rules = machines, policy, rules or Rules()
        self.coming = sorted(range(len(specs)), key=lambda n: specs[n].arrival, reverse=True)
        self.specs = specs
        self.apps: dict[int, Running] = {}
        self.room = Room(machines.sizes)
        self.heap: list[tuple[float, int, int]] = []
        self.draw = np.random.default_rng(seed)
        self.now = self.crowd = 0.0
        self.leases_end = self.asked_at = 0.0
        self.outcome = Outcome()

    def ran(self) -> Outcome:
        """Until the last app has ended."""
        while self.coming or self.apps:
            if not self.apps:  # leases of nobody: the next begin with the next app
                self.move(self.specs[self.coming[-1]].arrival)
                self.leases_end = self.now
            else:
                self.move(self.next_event())
            self.arrive()
            freed = self.end_stages()
            if self.now >= self.leases_end - 1e-9:
                self.end_leases()
            elif self.room.workers and (freed or self.now >= self.asked_at):
                self.allocate()
        self.outcome.makespan = self.now
        return self.outcome

    def move(self, to: float) -> None:
        """The clock."""
        self.crowd += len(self.apps) * (to - self.now)
        self.now = to

    def next_event(self) -> float:
        """When the next one is: an arrival, the end of a stage or of leases, or an allocation."""
        while self.heap:
            _, number, version = self.heap[0]
            app = self.apps.get(number)
            if app is not None and app.version == version:
                break
            heapq.heappop(self.heap)
        times = [self.leases_end]
        if self.heap:
            times.append(self.heap[0][0])
        if self.coming:
            times.append(self.specs[self.coming[-1]].arrival)
        if self.now < self.asked_at:
            times.append(self.asked_at)
        return min(times)

    def arrive(self) -> None:
        """Apps whose time has come."""
        while self.coming and self.specs[self.coming[-1]].arrival <= self.now:
            number = self.coming.pop()
            self.apps[number] = Running(number, self.specs[number], self.now, self.crowd)
            self.want()

    def want(self) -> None:
        """Somebody may want what is free, now or after the pause."""
        if self.asked_at <= self.now:
            pause = self.rules.pause
            self.asked_at = self.now if not pause else (self.now // pause + 1) * pause

    def end_stages(self) -> bool:
        """Apps that go on to their next stage, or end; whether workers became free."""
        freed = False
        while self.heap and self.heap[0][0] <= self.now + 1e-9:
            _, number, version = heapq.heappop(self.heap)
            app = self.apps.get(number)
            if app is None or app.version != version:
                continue
            app.advance(self.now)
            app.service += app.left
            app.stage += 1
            self.release(app)
            if app.stage == len(app.spec.stages):
                self.end(app)
            else:
                app.left = app.now_in.work
                self.changed(app, 0.0)
            freed = True
            self.want()
        return freed and not self.rules.pause

    def release(self, app: Running) -> None:
        """Workers that its next stage cannot use, of the machines with the fewest first."""
        more = app.stage < len(app.spec.stages)
        surplus = app.workers - (app.now_in.demand if more else 0)
        for machine, workers in sorted(app.held.items(), key=lambda pair: pair[1]):
            fewer = min(workers, surplus)
            if fewer > 0:
                self.room.take(machine, -fewer)
                surplus -= fewer
                app.held[machine] -= fewer
                if not app.held[machine]:
                    del app.held[machine]

    def end(self, app: Running) -> None:
        """The app is done."""
        del self.apps[app.number]
        lived = self.now - app.spec.arrival
        mean = max(1.0, (self.crowd - app.crowd) / lived)
        self.outcome.apps.append(
            Ended(
                app.number,
                app.spec.arrival,
                self.now,
                app.spec.ideal(self.machines.workers / mean),
                app.spent,
                app.lost,
                app.spec.work,
                mean,
            )
        )

    def end_leases(self) -> None:
        """All workers are free again."""
        lease = self.rules.lease
        self.leases_end = (self.now // lease + 1) * lease
        if self.leases_end - self.now < 1e-6:
            self.leases_end += lease
        for app in self.apps.values():
            app.advance(self.now)
            app.before, app.held = app.held, {}
        self.room = Room(self.machines.sizes)
        self.allocate()
        for app in self.apps.values():
            if app.held != app.before:
                self.changed(app, self.restart(app, app.before))
            app.before = {}

    def allocate(self) -> None:
        """Asks the scheduler who gets what is free."""
        fresh = any(app.before for app in self.apps.values())
        apps = list(self.apps.values())
        if not any(app.unmet > 0 for app in apps):
            return
        self.outcome.allocations += 1
        view = View(
            self.now,
            apps,
            self.room.workers,
            self.room.capacity(),
            self.machines.workers,
            self.crowd,
            self.rules.lease,
            self.draw,
        )
        shares = [(app, n) for app, n in self.policy(view) if n]
        had = {app: dict(app.held) for app, _ in shares}
        place(shares, self.room, self.machines)
        if not fresh:
            for app, held in had.items():
                app.advance(self.now)
                self.changed(app, self.restart(app, held))

    def restart(self, app: Running, before: dict[int, int]) -> float:
        """Seconds in which it does nothing: of one job all, of many those that changed."""
        changed = sum(max(0, n - before.get(machine, 0)) for machine, n in app.held.items())
        changed += sum(max(0, n - app.held.get(machine, 0)) for machine, n in before.items())
        if app.now_in.jobs == 1:
            return self.rules.restart if changed else 0.0
        return self.rules.restart * min(1.0, changed / max(app.workers, 1))

    def changed(self, app: Running, restart: float) -> None:
        """The app goes on with what it holds now."""
        app.changed(self.now, self.machines, restart)
        if app.rate > 0:
            heapq.heappush(self.heap, (app.ends_stage(), app.number, app.version))
