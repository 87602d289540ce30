"""Apps of a simulation: what they are to do, and how fast, with workers here or there.

Jobs of a phase are alike, and an app divides its workers among them so that they end together;
jobs may wait for each other. R. McNaughton, Scheduling with deadlines and loss functions, 1959:
with preemption nothing ends sooner.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tuskml.schedule.fair.auction import Slowdowns

NO_SLOWDOWN = Slowdowns(1.0, 1.0, 1.0)


class Stage(NamedTuple):
    """A phase of a number of equal jobs; seconds: of work of each; most: workers that a job can
    use."""

    jobs: int
    seconds: float
    most: int

    @property
    def demand(self) -> int:
        """Workers that the phase can use."""
        return self.jobs * self.most

    @property
    def work(self) -> float:
        """Seconds of one worker."""
        return self.jobs * self.seconds


@dataclass(frozen=True)
class Spec:
    """arrival: in seconds; stages: one after another; halving: of an app's loss, seconds of work
    after which it has fallen by half of what is left, for SLAQ."""

    arrival: float
    stages: tuple[Stage, ...]
    slowdowns: Slowdowns = NO_SLOWDOWN
    halving: float = 3600.0

    @property
    def work(self) -> float:
        """Seconds of one worker, of all stages."""
        return sum(stage.work for stage in self.stages)

    def ideal(self, share: float) -> float:
        """Seconds alone with a given number of workers, or parts of one, as if all were on one
        machine.
        """
        return sum(stage.work / min(share, stage.demand) for stage in self.stages)

    @property
    def most(self) -> int:
        """Workers that its widest stage can use."""
        return max(stage.demand for stage in self.stages)


def successive_halving(jobs: int, most: int, seconds: float, widest: int = 8) -> list[Stage]:
    """Half of the jobs stay in each phase and may use twice the workers, up to `widest` (thesis,
    section 3.4.3.2); seconds: of each job in each phase."""
    stages = []
    while jobs:
        stages.append(Stage(jobs, seconds, min(most, max(widest, 1))))
        jobs, most = jobs // 2, most * 2
    return stages


def speed(stage: Stage, held: Mapping[int, int], racks: Sequence[int], by: Slowdowns) -> float:
    """Seconds of work per second with workers by machine; racks: of each machine."""
    if not held:
        return 0.0
    one_rack = len({racks[machine] for machine in held}) == 1
    outside = by.rack if one_rack else by.cluster
    return speed_of(stage.jobs, stage.most, tuple(sorted(held.values())), by.machine, outside)


@lru_cache(maxsize=200_000)
def speed_of(
    jobs: int, most: int, counts: tuple[int, ...], inside: float, outside: float
) -> float:
    """Jobs take whole machines first. Workers that remain where every job has some join the jobs
    with the fewest, which then are spread, if that makes them faster."""
    chunks = []
    for count in counts:
        whole, part = divmod(count, most)
        chunks += [most] * whole + [part] * (part > 0)
    chunks.sort(reverse=True)
    alone = [one / (inside if one > 1 else 1.0) for one in chunks[:jobs]]
    rest = sum(chunks[jobs:])
    for place in range(len(alone) - 1, -1, -1):
        more = min(rest, most - chunks[place])
        faster = (chunks[place] + more) / outside
        if more and faster > alone[place]:
            alone[place], rest = faster, rest - more
    return sum(alone)
