"""Value of an allocation of workers to an app: rho = T_shared / T_ideal.

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
    """Slowdowns S(G) of one job whose workers are on one machine, in one rack, or in several.

    The defaults are those of the thesis before a job is profiled (footnote 3).
    """

    machine: float = 1.0
    rack: float = 1.1
    cluster: float = 1.3

    def of(self, machines: int, racks: int) -> float:
        """Returns the slowdown of a job whose workers span `machines` in `racks`."""
        return self.machine if machines <= 1 else self.rack if racks <= 1 else self.cluster


@dataclass(frozen=True)
class Phase:
    """A phase.

    jobs: remaining seconds of work of each job; most: workers that one job can use.
    """

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
            return queue_makespan(self.jobs, workers)  # one worker per job, so no job is spread
        return slowdown * spread(self.jobs, workers, self.most)


def queue_makespan(jobs: Sequence[float], workers: int) -> float:
    """Makespan with fewer workers than jobs: the longest job goes to the first free worker.

    R. L. Graham, Bounds on multiprocessing timing anomalies, 1969 (longest processing time).
    """
    ends = [0.0] * workers
    for seconds in sorted(jobs, reverse=True):
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)


def spread(jobs: Sequence[float], workers: int, most: int) -> float:
    """Makespan with a worker for each job; further workers go to the slowest jobs."""
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
    """Remaining work of an app, by phases.

    work: seconds of all of its work since its start; most: workers that it can use at any time, 0
    for the maximum over the remaining phases.
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
    def remaining_seconds(self) -> float:
        """Remaining seconds of work."""
        return math.fsum(seconds for phase in self.phases for seconds in phase.jobs)

    def seconds_left(self, workers: int, slowdown: float = 1.0) -> float:
        """Seconds until its end with `workers`: the sum over phases of equation 3.2."""
        return math.fsum(phase.seconds(workers, slowdown) for phase in self.phases)


def halving(jobs: Sequence[float], most: int, iterations: Sequence[int]) -> App:
    """An app of successive halving: half of the jobs stay in each phase.

    jobs: seconds of an iteration of each; iterations: of each phase. The jobs that stay are not
    known before, so those of later phases take the median's seconds, as the thesis estimates them.
    """
    usual, n = median(jobs), len(jobs)
    phases = [Phase(tuple(one * iterations[0] for one in jobs), most)]
    for several in iterations[1:]:
        n = max(1, n // 2)
        phases.append(Phase((usual * several,) * n, most))
    app = App(tuple(phases), 0.0)
    return replace(app, work=app.remaining_seconds)


def ideal_seconds(work: float, cluster: float, most: float, contention: float) -> float:
    """T_ideal: time of all of an app's work on a cluster of 1 / contention of the workers.

    The thesis multiplies the time on the whole cluster by the contention (equation 3.1). The two
    are equal if the app can use the whole cluster. If it cannot, the thesis's T_ideal is that of
    less than 1 / contention of the workers, so all apps seem well treated; this one avoids that.
    """
    return work / min(cluster / max(contention, 1.0), most)


def rho(elapsed: float, seconds_left: float, ideal: float) -> float:
    """T_shared / T_ideal, with `seconds_left` for the remaining work."""
    return (elapsed + seconds_left) / ideal
