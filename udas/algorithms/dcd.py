"""Dual coordinate descent for the hinge with an l2 penalty.

Hsieh, Chang, Lin, Keerthi and Sundararajan, A dual coordinate descent method for large-scale
linear SVM, ICML 2008: LIBLINEAR's. An iteration looks at as many coordinates as there are rows,
each the dual variable of one row, in random order; rows whose variable rests at a bound are left
out for a while (shrinking). `native/dual.cpp` has what makes the intercept, which nothing
penalises, fit in.

The gap between the objective and the dual's bounds the distance to the optimum: an iteration
leaves the best weights that were looked at, and with `converge: gradient` it ends where their
objective is within epsilon / 2 of the least, as where the hinge is smoothed. So what is found as
violation is twice the gap; there is no gradient at the corner of the hinge, and none is given.

A look at the gap takes longer than an epoch over few rows in use. The gap shrinks about as fast as
what an epoch adds to the dual, which epochs tell: while that leaves it far from the tolerance it
is not looked at, for SELDOM epochs at most.
"""

import math
import time

import numpy as np
from numpy.typing import NDArray

from tuskml.udas.dual import Dual
from tuskml.udas.kernels import Floats
from tuskml.udas.operators import (
    Budget,
    Operators,
    State,
    Tolerance,
    all_rows,
    as_given,
)
from tuskml.udas.plan import Plan
from tuskml.udas.problem import ROUNDING, Found, Problem

SELDOM = 5
"""Epochs between two looks at the gap."""
FAR = 4.0
"""Times the tolerance that the gap is believed to be where it need not be looked at."""


class StageDual:
    """Stage: all dual variables 0, and so the weights; of the start the intercept alone counts."""

    def __init__(self, plan: Plan, start: Floats) -> None:
        self.plan, self.start = plan, start

    def __call__(self, problem: Problem) -> State:
        v = np.zeros_like(self.start)
        v[:, -1] = self.start[:, -1]
        state = State.at(v)
        state.memory["dual"] = Dual.of_rows(
            problem.rows,
            problem.shift,
            problem.l2,
            self.plan.epsilon / 2,
            self.plan.seed,
            v[:, -1],
        )
        state.memory["weights"] = v.copy()
        state.memory["best"] = np.full(len(v), np.inf)
        state.memory["bound"] = np.full(len(v), -np.inf)
        state.memory["gap"] = np.full(len(v), np.inf)
        return state


def look(part: Problem, state: State) -> Found:
    """The best weights so far of the active groups, left in the state, and the gap there."""
    active, memory = state.active, state.memory
    dual, weights = memory["dual"].of(active), memory["weights"][active]
    dual.check(part.rows, weights)
    memory["dual"].groups[active] = dual.groups
    better = dual.groups["objective"] < memory["best"][active]
    used = part.scale > 0
    v = np.zeros_like(weights)
    np.divide(weights[:, :-1], part.scale, out=v[:, :-1], where=used)
    v[:, -1] = dual.groups["intercept"]
    state.v[active[better]] = v[better]
    memory["best"][active[better]] = dual.groups["objective"][better]
    memory["bound"][active] = np.maximum(memory["bound"][active], dual.groups["bound"])
    objective = memory["best"][active]
    slack = ROUNDING * np.maximum(np.abs(objective), 1.0)
    gap = np.maximum(objective - memory["bound"][active] - slack, 0.0)
    memory["gap"][active] = gap
    return Found(objective, np.full_like(v, np.nan), 2 * gap, slack)


class Gap:
    """Compute: objective and gap, which Update has just looked at but for the first time."""

    def __call__(self, part: Problem, state: State) -> Found:
        kept = state.memory.pop("found", None)
        return kept if isinstance(kept, Found) else look(part, state)


class DualEpoch:
    """Update: as many coordinates as there are rows, and a look at the gap where that is due."""

    def __init__(self, plan: Plan, deadline: float | None) -> None:
        self.plan = plan
        self.deadline = math.inf if deadline is None else deadline
        self.always = plan.canonical or plan.converge != "gradient" or plan.epsilon == 0
        self.unseen = 0
        self.gained: Floats | None = None  # at the last look, by group

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert found is not None
        active = state.active
        dual, weights = state.memory["dual"].of(active), state.memory["weights"][active]
        dual.epoch(part.rows, weights)
        state.memory["dual"].groups[active] = dual.groups
        state.memory["weights"][active] = weights
        self.unseen += 1
        if self._due(state, dual.groups["gained"]):
            found = look(part, state)
            self.unseen, self.gained = 0, state.memory["dual"].groups["gained"].copy()
        state.memory["found"] = found

    def _due(self, state: State, gained: Floats) -> bool:
        """Whether any group's gap may be within the tolerance, or the training ends here."""
        last = self.unseen >= SELDOM or state.iteration + 1 >= self.plan.max_iter
        if self.always or last or self.gained is None or time.monotonic() >= self.deadline:
            return True
        active = state.active
        before = self.gained[active]
        share = np.divide(gained, before, where=before > 0, out=np.zeros_like(gained))
        near: NDArray[np.bool_] = state.memory["gap"][active] * share <= FAR * self.plan.epsilon
        return bool(near.any())


def operators(problem: Problem, plan: Plan, start: Floats, deadline: float | None) -> Operators:
    """Dual coordinate descent as a choice of operators."""
    return Operators(
        as_given,
        StageDual(plan, start),
        all_rows,
        Gap(),
        DualEpoch(plan, deadline),
        Tolerance.of(problem, plan),
        Budget(plan.max_iter, deadline),
    )
