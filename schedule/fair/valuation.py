"""What an allocation of workers is worth to an app: rho = T_shared / T_ideal.

An app trains one model, or searches for one: then it goes through phases, of which each keeps
fewer jobs than the one before. A worker is a GPU, or a CPU of a Ray cluster. Seconds of work are
those of one worker.

Source: K. Mahajan, Scheduler-driven Strategies for Fair and Efficient Data Analytics Systems, PhD
thesis, 2021, section 3.4.3, equations 3.1 and 3.2.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median


@dataclass(frozen=True)
class Slowdowns:
    """S(G) of one job by where its workers are: on one machine, in one rack, or in several.

    The defaults are those with which the thesis begins before a job is profiled (footnote 3).
    """

    machine: float = 1.0
    rack: float = 1.1
    cluster: float = 1.3

    def of(self, machines: int, racks: int) -> float:
        """Returns the slowdown of a job whose workers span `machines` in `racks`."""
        return self.machine if machines <= 1 else self.rack if racks <= 1 else self.cluster


@dataclass(frozen=True)
class Phase:
    """jobs: seconds of work of each job that are left; most: workers that one job can use."""

    jobs: tuple[float, ...]
    most: int = 1

    @property
    def demand(self) -> int:
        """Workers that the phase can use."""
        return len(self.jobs) * self.most

    def seconds(self, workers: int, slowdown: float = 1.0) -> float:
        """Seconds until its last job ends: T_sh(i) of equation 3.2; infinite without workers."""
        if not self.jobs:
            return 0.0
        if workers < 1:
            return math.inf
        if workers < len(self.jobs):
            return queued(self.jobs, workers)  # a worker a job, so no job is spread
        return slowdown * spread(self.jobs, workers, self.most)


def queued(jobs: Sequence[float], workers: int) -> float:
    """The makespan where jobs wait for each other: the longest job goes to the first free worker.

    R. L. Graham, Bounds on multiprocessing timing anomalies, 1969 (longest processing time).
    """
    ends = [0.0] * workers
    for seconds in sorted(jobs, reverse=True):
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)


def spread(jobs: Sequence[float], workers: int, most: int) -> float:
    """The makespan where each job has a worker, and the slowest ones get those that are left."""
    held = [(-seconds, 1, seconds) for seconds in jobs]
    heapq.heapify(held)
    for _ in range(workers - len(jobs)):
        _, n, seconds = held[0]
        if n >= most:
            break  # the slowest job cannot use more
        heapq.heapreplace(held, (-seconds / (n + 1), n + 1, seconds))
    return -held[0][0]


@dataclass(frozen=True)
class App:
    """What is left of an app, by phases; work: seconds of all of its work, from its begin.

    most: workers that it can use at any time of its life, 0 for those of the phases that are left.
    """

    phases: tuple[Phase, ...]
    work: float
    most: int = 0

    @property
    def demand(self) -> int:
        """Workers that it can use now."""
        return self.phases[0].demand if self.phases else 0

    @property
    def most_ever(self) -> int:
        """Workers that it can use in its widest phase."""
        return max([self.most, *(phase.demand for phase in self.phases)])

    @property
    def left(self) -> float:
        """Seconds of work that are left."""
        return math.fsum(seconds for phase in self.phases for seconds in phase.jobs)

    def seconds_left(self, workers: int, slowdown: float = 1.0) -> float:
        """With a given number of workers until its end, the sum over phases of equation 3.2."""
        return math.fsum(phase.seconds(workers, slowdown) for phase in self.phases)


def halving(jobs: Sequence[float], most: int, iterations: Sequence[int]) -> App:
    """Successive halving: half of the jobs stay in each phase.

    jobs: seconds of an iteration of each; iterations: of each phase. Which jobs stay is not known
    before, so those of later phases take the median's seconds, as the thesis estimates them.
    """
    usual, n = median(jobs), len(jobs)
    phases = [Phase(tuple(one * iterations[0] for one in jobs), most)]
    for several in iterations[1:]:
        n = max(1, n // 2)
        phases.append(Phase((usual * several,) * n, most))
    app = App(tuple(phases), 0.0)
    return replace(app, work=app.left)


def ideal_seconds(work: float, cluster: float, most: float, contention: float) -> float:
    """T_ideal: all of an app's work on a cluster of its own, of 1 / contention of the workers.

    The thesis multiplies the time on the whole cluster by the contention (equation 3.1). This is
    the same where the app can use the whole cluster. Where it cannot, the thesis' T_ideal is that
    of less than 1 / contention of the workers, and everyone seems to be treated well; this is not.
    """
    return work / min(cluster / max(contention, 1.0), most)


def rho(elapsed: float, seconds_left: float, ideal: float) -> float:
    """T_shared / T_ideal, where the rest takes a given number of seconds."""
    return (elapsed + seconds_left) / ideal
