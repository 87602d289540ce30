"""Auctions of workers: partial allocation, filtering, what is left over, and values of bundles.

Bidders name rho for bundles of the offer. The allocation with the greatest product of values, 1 /
rho, is proportionally fair. Each winner keeps only a fraction of it, by which its presence lowers
the product of the others; the rest is its hidden payment. So a bidder's kept value is the product
of all values over what the others could have without it, and the truth maximises it.

Source: K. Mahajan, PhD thesis, 2021, section 3.3.3, pseudocode 3; the mechanism is that of R.
Cole, V. Gkatzelis, G. Goel, Mechanism design for fair division, EC 2013.

The value of an allocation of workers to an app is rho = T_shared / T_ideal. An app trains one
model, or searches for one: then it goes through phases, of which each keeps fewer jobs than the
one before. A worker is a GPU, or a CPU of a Ray cluster. Seconds of work are those of one worker
(section 3.4.3, equations 3.1 and 3.2).
"""

import heapq
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

import numpy as np

from tuskml.schedule.fair.solving import Bundles, Solver, Uses, Values, exactly


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


Name = TypeVar("Name", bound=Hashable)
STAY = 0.03
"""Relative difference by which the rho of an app whose leases end may be smaller than another's
and still precede it, as a change costs a restart. Chosen on simulated apps of seeds 100 to 115,
among 0, 0.01, 0.02, 0.03, 0.05 and 0.1.
"""


@dataclass(frozen=True)
class Bid:
    """A valuation table.

    use: amount of each good in each bundle (B, K), such as workers by machine; rho: with the
    bundle until the end (B,); without: rho with none of them, at least as large as all others;
    size: workers of each bundle (B,), the sum of `use` if None.
    """

    use: Uses
    rho: Values
    without: float
    size: Uses | None = None

    def bundles(self) -> Bundles:
        """The bundles in the form of the solver."""
        gain = math.log(self.without) - np.log(self.rho)
        return Bundles(self.use, gain, self.use.sum(axis=1) if self.size is None else self.size)


@dataclass(frozen=True)
class Award:
    """An award.

    bundle: index of the proportionally fair one in the bid, -1 for none; kept: the fraction of it
    that remains after the hidden payment.
    """

    bundle: int
    kept: float


def partial_allocation(
    bids: Sequence[Bid], capacity: Uses, solver: Solver = exactly
) -> list[Award]:
    """Computes the award of each bid.

    capacity: of each good (K,). Raises ValueError for an invalid bid.
    """
    for bid in bids:
        refuse_wrong(bid, len(capacity))
    won = solver([bid.bundles() for bid in bids], capacity)
    return [
        Award(bundle, math.exp(-others)) if bundle >= 0 else Award(-1, 0.0)
        for bundle, others in zip(won.chosen, won.others, strict=True)
    ]


def refuse_wrong(bid: Bid, goods: int) -> None:
    """Raises ValueError if numbers are not finite and positive, or shapes disagree."""
    if bid.use.ndim != 2 or bid.use.shape[1] != goods or len(bid.rho) != len(bid.use):
        raise ValueError(f"a bid has bundles of shape {bid.use.shape}, expected (B, {goods})")
    rhos = [*bid.rho.tolist(), bid.without]
    if not all(math.isfinite(one) and one > 0 for one in rhos) or (bid.use < 0).any():
        raise ValueError("a bid has a rho that is not above 0 and finite, or a negative use")


def worst_off(rhos: Mapping[Name, float], f: float) -> list[Name]:
    """Selects the bidders: the share 1 - f with the greatest rho, at least one."""
    several = max(1, math.ceil((1 - f) * len(rhos) - 1e-9))
    ordered = sorted(rhos, key=lambda name: -rhos[name])  # stable: equal ones keep their order
    return ordered[:several]


def draw_kept_workers(workers: int, kept: float, draw: np.random.Generator) -> int:
    """Draws how many workers stay with a winner: the fraction in expectation, at least one.

    A payment of the only worker would be all that a winner has.
    """
    exact = max(workers * kept, 1.0)
    whole = math.floor(exact + 1e-9)
    return whole + int(draw.random() < exact - whole)
