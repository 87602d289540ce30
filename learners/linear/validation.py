"""Early stopping: some rows are held out, and training ends when their loss stops falling."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Problem
from tuskml.learners.validation import PATIENCE


@dataclass
class EarlyStop:
    """Monitor: stops a group whose held-out loss has not fallen for PATIENCE iterations."""

    problem: Problem
    held: NDArray[np.void]
    best: Floats = field(init=False)
    best_v: Floats | None = field(init=False, default=None)
    since: NDArray[np.int64] = field(init=False)
    stopped: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.held)
        self.best = np.full(n, np.inf)
        self.since = np.zeros(n, np.int64)
        self.stopped = np.zeros(n, bool)

    def __call__(self, problem: Problem, state: State) -> None:
        watched = np.flatnonzero(state.running & (self.held["n_rows"] > 0))
        if not len(watched):
            return
        rows = replace(problem.rows, groups=self.held).of(watched)
        part = replace(problem.of(watched), rows=rows, l1=0.0, l2=0.0)
        if self.best_v is None:
            self.best_v = np.zeros_like(state.v)
        loss = part.objective(state.v[watched])
        better = loss < self.best[watched] * (1 - 1e-6)
        self.best[watched[better]] = loss[better]
        self.best_v[watched[better]] = state.v[watched[better]]
        self.since[watched] = np.where(better, 0, self.since[watched] + 1)
        done = watched[self.since[watched] >= PATIENCE]
        self.stopped[done] = True
        state.running[done] = False

    def restore(self, state: State) -> None:
        """Leaves stopped groups at the weights that did best on held-out rows."""
        state.stopped = self.stopped
        if self.best_v is None:
            return
        state.v[self.stopped] = self.best_v[self.stopped]
        if state.current is not None:
            state.current[self.stopped] = self.best_v[self.stopped]
        state.known[self.stopped] = False
