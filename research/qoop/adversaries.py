"""Schedulers that give a query what does it least good, and those that know nothing of it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from research.qoop.model import Queries, Standing
from tuskml.kernels.passes import Floats


@dataclass
class NearCompletion:
    """The scheduler of theorem 2.1: it gives what the largest plan needs until some plan is nearly
    done, then just too little for that one, and so on; at the end what the smallest needs.

    The theorem's plans need twice as much each and take half the work.
    """

    phase: NDArray[np.int64] | None = None

    def __call__(self, queries: Queries, now: Standing, step: int) -> Floats:
        n = queries.need.shape[1]
        if self.phase is None:
            self.phase = np.full(len(queries.need), n - 1)
        rows = np.arange(len(queries.need))
        near = now.left <= queries.need  # another step would end it
        while True:
            reachable = np.arange(n) <= self.phase[:, None]
            ends = near & reachable & (self.phase > 0)[:, None]
            smallest = np.where(ends.any(axis=1), np.argmax(ends, axis=1), n)
            below = np.maximum(np.minimum(self.phase, smallest - 1), 0)
            if (below == self.phase).all():
                break
            self.phase = below
        return np.asarray(queries.need[rows, self.phase])


@dataclass
class Starving:
    """Gives one unit less than the running plan needs as soon as it is nearly done, with some
    probability a step, and else what a plan drawn at random needs, for some steps.

    near: the part of a plan's work that is left then; calm: the probability that what is given
    stays.
    """

    draws: np.random.Generator
    near: float = 0.1
    calm: float = 0.7

    def __call__(self, queries: Queries, now: Standing, step: int) -> Floats:
        k, n = queries.need.shape
        rows = np.arange(k)
        drawn = queries.need[rows, self.draws.integers(0, n, k)]
        drawn = drawn * np.where(self.draws.random(k) < 0.3, 1 + self.draws.random(k), 1.0)
        given = np.where((now.given > 0) & (self.draws.random(k) < self.calm), now.given, drawn)
        running = np.maximum(now.running, 0)
        ending = now.left[rows, running] <= self.near * queries.work[rows, running]
        starved = (now.running >= 0) & ending & (self.draws.random(k) < 0.8)
        below = queries.need[rows, np.maximum(running - 1, 0)]
        less = np.where(running > 0, below, queries.need[rows, 0])
        return np.where(starved, less, given)


@dataclass
class Profile:
    """Gives what it has recorded: (k, steps), or (steps,) for all queries."""

    recorded: Floats

    def __call__(self, queries: Queries, now: Standing, step: int) -> Floats:
        given = np.asarray(self.recorded[..., min(step, self.recorded.shape[-1] - 1)])
        return np.broadcast_to(given, len(queries.need))
