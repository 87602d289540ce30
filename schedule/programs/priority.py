"""The schedule of regressions: parameters that moved most are likely, dependent ones excluded.

Source: the paper of `program.py`, algorithm 2 and section 4.1: candidates are drawn with a
probability in proportion to the square of their last change, and those that are chosen have no
edge in the graph of correlations above a threshold.
"""

import numpy as np
from numpy.typing import NDArray

from tuskml.schedule.programs.correlations import Correlations

Places = NDArray[np.intp]
EVEN = 0.2
"""The share of what is picked that goes through all parameters in turn: each comes again."""


class Prioritised:
    """Picks parameters that may be updated at the same time.

    columns: of each parameter, whose correlations are its dependencies; None: there are none.
    at_once: how many are picked at most; candidates: how many are drawn for that, by default twice
    as many. threshold: correlations above it exclude each other.

    Each parameter is picked once before any is picked again. One that was picked, and those that
    depend on it, are not picked until `settle` says how it changed.
    """

    def __init__(
        self,
        n: int,
        columns: Correlations | None,
        at_once: int,
        *,
        candidates: int | None = None,
        threshold: float = 0.1,
        seed: int = 0,
    ) -> None:
        self.n, self.columns, self.at_once, self.threshold = n, columns, at_once, threshold
        self.candidates = candidates or 2 * at_once
        self.random = np.random.default_rng(seed)
        self.turn, self.next = self.random.permutation(n), 0
        self.fresh = self.turn
        """Those that were never picked."""
        self.change = np.zeros(n)
        """The squares of the last changes."""
        self.pending = np.zeros(n, np.bool_)

    def pick(self) -> Places:
        """Places of parameters, the most urgent first; maybe none while others are pending."""
        drawn = self._draw()
        drawn = drawn[~self.pending[drawn]]
        if self.columns is not None:
            drawn = self._independent(drawn, self.columns)
        chosen = drawn[: self.at_once]
        self.pending[chosen] = True
        if len(self.fresh):
            self.fresh = self.fresh[~self.pending[self.fresh]]
        return chosen[np.argsort(-self.change[chosen], kind="stable")]

    def settle(self, places: Places, change: NDArray[np.float64]) -> None:
        """By how much parameters that were picked have changed."""
        self.pending[places] = False
        self.change[places] = change**2

    def _draw(self) -> Places:
        """Candidates: those that were never picked; then some in turn, and those that moved."""
        fresh = self.fresh[: self.candidates]
        n = self.candidates - len(fresh)
        moving = np.flatnonzero(self.change)
        even = min(n, max(round(EVEN * self.at_once), n - len(moving), 1))
        # the smallest of exponential variables with these rates: draws without replacement
        late = self.random.exponential(size=len(moving)) / self.change[moving]
        likely = moving[np.argsort(late)[: n - even]]
        likely = likely[np.argsort(-self.change[likely], kind="stable")]
        drawn = np.concatenate([fresh, self._in_turn(even), likely])
        return drawn[np.sort(np.unique(drawn, return_index=True)[1])]

    def _in_turn(self, n: int) -> Places:
        found = np.take(self.turn, np.arange(self.next, self.next + n), mode="wrap")
        self.next = (self.next + n) % self.n
        return found

    def _independent(self, drawn: Places, columns: Correlations) -> Places:
        """Those without an edge to one before them, or to a pending one."""
        pending = np.flatnonzero(self.pending)
        every = np.concatenate([pending, drawn])
        edges = columns.among(every) > self.threshold
        free = np.asarray(~edges[: len(pending)].any(axis=0))
        chosen: list[int] = []
        for at in range(len(pending), len(every)):
            if free[at]:
                chosen.append(at)
                free &= ~edges[at]
                if len(chosen) == self.at_once:
                    break
        return every[chosen]
