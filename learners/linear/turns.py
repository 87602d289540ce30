"""Further descents of a training whose problem has changed, which share its iterations.

Some parameters of a loss are estimated between descents, and features that are crowded get other
coordinates. The option `max_iter` limits all descents of a group together. A group that has
arrived, or has no iteration left, does not go on with its neighbours.

Features are crowded if a few rows lie so far away that they alone set the deviation. Among dates
in seconds, say, one is 0. Standardised by all rows, the others differ by so little that a descent
may end before it has seen them. Often the far rows do not matter at the optimum, where a
classifier is certain of them. So a descent goes on from its end in units of the crowd, and the
result is taken where it is an optimum, or better than before.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

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


CROWDED = 1e-2
"""The largest share of a feature's deviation that the spread of crowded values is."""
ROUNDING = 1e-9
"""The share of an objective that rounding may change."""
DESCENTS = 5
"""A descent may stop short while far rows hold it back, and go on once they are passed."""

P = TypeVar("P", bound=Problem)


def go_on_in_crowds(problem: P, state: State, turns: Turns) -> tuple[P, State]:
    """The problem and the state of a descent, which goes on where features are crowded.

    Groups that get further have the shift and the scale of their crowds from then on.
    """
    if problem.spread is None or not problem.task.saturates or state.out_of_time:
        return problem, state
    crowded = (problem.spread > 0) & (problem.spread * problem.scale < CROWDED)
    which = np.flatnonzero(crowded.any(axis=1))
    if not len(which):
        return problem, state
    far, crowded, spread = problem.of(which), crowded[which], problem.spread[which]
    near = replace(
        far,
        shift=np.where(crowded, 0.0, far.shift),
        scale=np.where(crowded, 1.0 / np.where(crowded, spread, 1.0), far.scale),
    )
    before = far.objective(state.v[which])
    ended, after = State.at(near.from_caller(far.to_caller(state.v[which]))), before.copy()
    ended.iterations, going = state.iterations[which], np.arange(len(which))
    of_these = replace(turns, before=turns.spent(state)[which])
    for _ in range(DESCENTS):
        of_these.descend(near, ended, going, last=True)
        at, after[going] = after[going], near.of(going).objective(ended.v[going])
        further = after[going] < at - ROUNDING * np.abs(at)
        going = going[further & ~ended.converged[going]]
        if not len(going) or ended.out_of_time:
            break
    state.iterations[which] = ended.iterations
    slack = ROUNDING * np.abs(before)
    better = (after < before - slack) | (ended.converged & (after <= before + slack))
    better = np.isfinite(after) & (better | ~np.isfinite(before))
    if not better.any():
        return problem, state
    taken = which[better]
    shift, scale = problem.shift.copy(), problem.scale.copy()
    shift[taken], scale[taken] = near.shift[better], near.scale[better]
    for name in ("v", "violation", "converged", "diverged", "running", "known"):
        getattr(state, name)[taken] = getattr(ended, name)[better]
    state.objective[taken] = after[better]
    state.hessian = state.found = None  # in other coordinates
    return replace(problem, shift=shift, scale=scale), state
