"""Further descents of a training whose problem has changed, which share its iterations.

Some parameters of a loss are estimated between descents, and features that are crowded get other
coordinates. The option `max_iter` limits all descents of a group together. A group that has
arrived, or has no iteration left, does not go on with its neighbours.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Index, Problem
from tuskml.learners.linear.request import LinearOptions, Plan

Counts = NDArray[np.int64]
Again = Callable[[Problem, Floats, Counts], State]
"""Descends from weights v (G, p), in at most so many iterations of each group (G,)."""


@dataclass
class Turns:
    """Descents after the first one.

    most: iterations of each group; of_all: whether these are all of its training's, or by default
    those after the first descent.
    """

    again: Again
    most: int
    of_all: bool
    before: Counts | None = None

    @property
    def of_training(self) -> int:
        """The most iterations of the first descent and of those after it."""
        return self.most if self.of_all else 2 * self.most

    def begin(self, problem: Problem, v: Floats) -> State:
        """A first descent from weights v (G, p) on another problem, with iterations of its own."""
        self.before = None
        return self.again(problem, v, np.full(problem.n_groups, self.most))

    def spent(self, state: State) -> Counts:
        """The iterations of each group that do not count, (G,): by default those until now."""
        if self.before is None:
            iterations = state.iterations
            self.before = np.zeros_like(iterations) if self.of_all else iterations.copy()
        return self.before

    def left(self, state: State) -> Counts:
        """The iterations that are left to each group, (G,)."""
        return np.asarray(np.maximum(self.most - (state.iterations - self.spent(state)), 0))

    def cut_short(self, state: State, which: Index) -> NDArray[np.bool_]:
        """Tests which of some groups ended their last turn for want of iterations alone."""
        return np.asarray(state.running[which] & ~state.converged[which])

    def descend(self, problem: Problem, state: State, which: Index, last: bool = False) -> None:
        """Goes on with some groups: each gets half of what it has left, or in its last turn all
        of that.
        """
        if not len(which):
            return
        left = self.left(state)[which]
        share = left if last else (left + 1) // 2
        state.put(which, self.again(problem.of(which), state.v[which], share))


def first_turn(plan: Plan, options: LinearOptions, alternates: bool) -> Plan:
    """The plan of the first descent: it has half of the option's iterations if others follow."""
    if not alternates or not options.max_iter:
        return plan
    return replace(plan, max_iter=(plan.max_iter + 1) // 2)
