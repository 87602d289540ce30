"""Apps while they run, as the simulation and the schedulers see them."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from research.themis.simulation.apps import Spec, Stage, speed
from research.themis.simulation.machines import Machines

Array = NDArray[np.float64]


@dataclass(slots=True, eq=False)
class Running:
    """An app that has arrived and not ended. Seconds of the simulation's clock and of workers.

    left: work of the stage that it is in; held: workers by machine; before: the same under the
    lease before; rate: work per second; since: when `left` held; resumes: when it goes on after a
    change; service: work done; spent: seconds of workers held; crowd: the integral of the number
    of apps until it arrived; version: of its next event.
    """

    number: int
    spec: Spec
    since: float
    crowd: float
    stage: int = 0
    left: float = 0.0
    held: dict[int, int] = field(default_factory=dict)
    before: dict[int, int] = field(default_factory=dict)
    rate: float = 0.0
    resumes: float = 0.0
    service: float = 0.0
    spent: float = 0.0
    lost: float = 0.0
    version: int = 0
    grown: int = 0

    def __post_init__(self) -> None:
        self.left = self.spec.stages[0].work

    @property
    def now_in(self) -> Stage:
        """The stage that it is in."""
        return self.spec.stages[self.stage]

    @property
    def workers(self) -> int:
        """Number of workers that it holds."""
        return sum(self.held.values())

    @property
    def unmet(self) -> int:
        """Workers that it could use besides."""
        return self.now_in.demand - self.workers

    @property
    def remaining(self) -> float:
        """Seconds of work of all that is left."""
        return self.left + sum(stage.work for stage in self.spec.stages[self.stage + 1 :])

    def seconds_left(self, workers: float) -> float:
        """Without slowdowns."""
        rest = self.left / min(workers, self.now_in.demand)
        for stage in self.spec.stages[self.stage + 1 :]:
            rest += stage.work / min(workers, stage.demand)
        return rest

    def advance(self, now: float) -> None:
        """Work up to now."""
        if self.held:
            worked = max(0.0, now - max(self.since, self.resumes))
            done = min(self.left, worked * self.rate)
            self.left -= done
            self.service += done
            workers = self.workers
            self.spent += (now - self.since) * workers
            self.lost += (now - self.since - worked) * workers
        self.since = now

    def changed(self, now: float, machines: Machines, restart: float) -> None:
        """It holds other workers than before, after a moment in which it loads a checkpoint."""
        self.rate = speed(self.now_in, self.held, machines.racks, self.spec.slowdowns)
        self.resumes = max(self.resumes, now + restart)  # it may load already
        self.version += 1

    def ends_stage(self) -> float:
        """When its stage will have ended."""
        return max(self.since, self.resumes) + self.left / self.rate


@dataclass
class View:
    """What a scheduler may look at when workers are free.

    apps: all that are active; free: workers; capacity: of pieces by size; total: workers of the
    cluster; crowd: integral of the number of apps until now; lease: seconds.
    """

    now: float
    apps: list[Running]
    free: int
    capacity: list[int]
    total: int
    crowd: float
    lease: float
    draw: np.random.Generator

    @property
    def wanting(self) -> list[Running]:
        """Those that could use more."""
        return [app for app in self.apps if app.unmet > 0]

    def contention(self, app: Running) -> float:
        """The mean number of apps since it arrived; at that moment, those that are there."""
        elapsed = self.now - app.spec.arrival
        if elapsed < 1.0:
            return float(len(self.apps))
        return max(1.0, (self.crowd - app.crowd) / elapsed)

    def share(self, app: Running) -> float:
        """Workers of a cluster of its own."""
        return self.total / self.contention(app)


Shares = list[tuple[Running, int]]
"""How many workers more each app gets, in the order in which they choose their machines."""


def filled(wanted: Array, weight: Array, free: int, have: Array | None = None) -> list[int]:
    """Whole workers by water-filling: all get the same per weight, with what they have, up to what
    they want. The first ones get what cannot be divided."""
    have = np.zeros(len(wanted)) if have is None else have
    free = int(min(free, wanted.sum()))
    if not free:
        return [0] * len(wanted)
    low, high = 0.0, float(((wanted + have) / weight).max())
    for _ in range(60):
        level = (low + high) / 2
        if np.clip(level * weight - have, 0, wanted).sum() > free:
            high = level
        else:
            low = level
    exact = np.clip(high * weight - have, 0, wanted)
    return rounded(exact, wanted, free)


def rounded(exact: Array, wanted: Array, free: int) -> list[int]:
    """Whole numbers that add up to `free` or to all that is wanted, by the largest remainders."""
    whole = np.minimum(np.floor(exact + 1e-9), wanted)
    rest = round(free - whole.sum())
    if rest > 0:
        order = np.argsort(-np.round(exact - whole, 9), kind="stable")
        for place in order[whole[order] < wanted[order]][:rest].tolist():
            whole[place] += 1
    elif rest < 0:
        for place in np.flatnonzero(whole)[::-1][:-rest].tolist():
            whole[place] -= 1
    return [int(n) for n in whole.tolist()]
