"""Newton's steps with a kept curvature, corrected by the gradients since, and the last step.

The differences of gradients along the steps since a curvature was summed correct it, as those of
L-BFGS correct its first one (J. Nocedal, Updating quasi-Newton matrices with limited storage,
1980; Nocedal and Wright, Numerical Optimization, 2006, algorithm 7.4). A pass for the gradient
alone then gains several digits where a kept curvature alone gains one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.operators import State, Tolerance
from tuskml.learners.linear.problem import Before, Found, Index

MOST_PAIRS = 5
LEAST_BEND = 1e-10
"""Product of a step and a change of gradients, relative to their lengths, that exceeds rounding.
"""
Solve = Callable[[Floats], Floats]


@dataclass
class Pair:
    """A step and the change of the gradient along it, (G, p); rate (G,): 1 / s'y, 0: unknown."""

    step: Floats
    change: Floats
    rate: Floats


class Pairs:
    """The steps of G groups since their curvatures were summed; before: the first one's start."""

    def __init__(self, before: Before | None = None) -> None:
        self.pairs: list[Pair] = []
        self.v = None if before is None else before.v.copy()
        self.gradient = None if before is None else before.gradient.copy()
        self.iteration = -1  # of the last pair

    def direction(self, state: State, active: Index, gradient: Floats, solve: Solve) -> Floats:
        """The step (n, p) back from the weights of the active groups, where gradients are so.

        solve: by the curvature that is kept. With several calls of an iteration groups differ.
        """
        self._note(state, active, gradient)
        q, sizes = gradient.copy(), []
        for pair in reversed(self.pairs):
            size = pair.rate[active] * np.einsum("gp,gp->g", pair.step[active], q)
            q -= size[:, None] * pair.change[active]
            sizes.append(size)
        found = solve(q)
        for pair, size in zip(self.pairs, reversed(sizes), strict=True):
            less = pair.rate[active] * np.einsum("gp,gp->g", pair.change[active], found)
            found = found + (size - less)[:, None] * pair.step[active]
        return found

    def _note(self, state: State, active: Index, gradient: Floats) -> None:
        """Adds the last step of groups that keep their curvature, and forgets those of others."""
        stale = state.stale[active]
        for pair in self.pairs:
            pair.rate[active[~stale]] = 0.0
        if self.v is None or self.gradient is None:
            self.v, self.gradient = state.v.copy(), np.zeros_like(state.v)
        elif stale.any():
            some = active[stale]
            step, change = state.v[some] - self.v[some], gradient[stale] - self.gradient[some]
            self._add(state, some, step, change)
        self.v[active], self.gradient[active] = state.v[active], gradient

    def _add(self, state: State, some: Index, step: Floats, change: Floats) -> None:
        """Adds a step of some groups to those of the others in the same iteration."""
        if self.iteration != state.iteration:
            empty = np.zeros_like(state.v), np.zeros_like(state.v), np.zeros(len(state.v))
            self.pairs = [*self.pairs, Pair(*empty)][-MOST_PAIRS:]
            self.iteration = state.iteration
        bend = np.einsum("gp,gp->g", step, change)
        length = np.linalg.norm(step, axis=1) * np.linalg.norm(change, axis=1)
        usable, pair = bend > LEAST_BEND * length, self.pairs[-1]
        pair.step[some], pair.change[some] = step, change
        pair.rate[some] = np.divide(1.0, bend, where=usable, out=np.zeros_like(bend))


class LastStep(Tolerance):
    """Converge: if one more step is certain to converge, it is taken without evaluating its
    result.

    The violation is then at most `enough`, and would be at most epsilon if the last step shrank it
    by the same factor as the one before, which used less curvature.
    """

    def __init__(self, goal: Tolerance, enough: float, update: "Steps") -> None:
        super().__init__(goal.criterion, goal.epsilon, goal.unit)
        self.enough, self.update = enough, update
        self.ended: NDArray[np.bool_] | None = None  # groups (G,) that are at an end already

    def __call__(self, state: State, active: Index, found: Found | None) -> NDArray[np.bool_]:
        done = super().__call__(state, active, found)
        if self.ended is not None:
            done = done | self.ended[active]
        before = self.update.violation
        if found is None or before is None:
            return done
        now = found.violation
        last = ~done & (now <= self.enough) & (now * now <= self.epsilon * before[active])
        last &= state.left()[active] > 0
        if last.any():
            which = np.flatnonzero(last)
            state.v[active[which]] -= self.update.step_of(state, active[which], found.of(which))
            state.iterations[active[which]] += 1
            state.stale[active[which]] = True  # the curvature is that of where the step began
        return np.asarray(done | last)


class Steps:
    """The parts of an Update that `LastStep` reads: the previous violations (G,), and steps."""

    violation: Floats | None = None

    def step_of(self, state: State, active: Index, found: Found) -> Floats:
        """The step (n, p) from the weights of some groups."""
        raise NotImplementedError
