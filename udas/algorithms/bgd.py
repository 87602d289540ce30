"""Batch gradient descent: v -= step * gradient, then the proximal step of the l1 part.

schedule `line_search` finds the step by backtracking, from the step of Barzilai and Borwein
(Two-point step size gradient methods, 1988). Such steps do not lower the objective each time: they
are shortened only where it would be higher than in all of the last iterations (Raydan, The
Barzilai and Borwein gradient method for the large scale unconstrained minimization problem, 1997).
The other schedules shrink a given first step.
"""

import numpy as np

from tuskml.udas.algorithms.batch import Evaluate, settle_move
from tuskml.udas.algorithms.search import backtrack
from tuskml.udas.kernels import Floats
from tuskml.udas.operators import (
    Budget,
    Operators,
    StartAt,
    State,
    Tolerance,
    all_rows,
    as_given,
)
from tuskml.udas.plan import Plan
from tuskml.udas.problem import Found, Index, Problem

POWERS = {"constant": 0.0, "1/sqrt(i)": 0.5, "1/i": 1.0, "1/i^2": 2.0}


def curvature_bound(problem: Problem) -> Floats:
    """About the gradient's Lipschitz constant by group, (G,): l'' at most times the mean ||z||^2.

    Dense z have unit variance; sparse ones about one in each of their entries.
    """
    loss = problem.task.steepest
    if problem.task.name == "svm" and problem.rows.smoothing > 0:
        loss = 1.0 / problem.rows.smoothing
    norm = np.full(problem.n_groups, float(problem.d))
    if problem.rows.sparse:
        norm[:] = problem.rows.nonzeros() / problem.rows.groups["n_rows"].sum()
    return weighted(problem) * loss * (norm + 1.0)


def weighted(problem: Problem) -> Floats:
    """A power of 4 (G,) near both class weights where both are well above or below 1; else 1."""
    weight = problem.rows.class_weight
    if weight is None:
        return np.ones(problem.n_groups)
    near = np.clip(1.0, weight.min(axis=1), weight.max(axis=1))
    return np.asarray(4.0 ** np.round(np.log2(near) / 2))


def first_steps(plan: Plan, problem: Problem) -> Floats:
    """The step of the first iteration by group, (G,)."""
    if plan.step == "auto":
        return 1.0 / curvature_bound(problem)
    return np.full(problem.n_groups, float(plan.step))


class ScheduledStep:
    """Update: the step shrinks by a schedule, whatever the objective does."""

    def __init__(self, plan: Plan, problem: Problem) -> None:
        self.first = first_steps(plan, problem)
        self.power = POWERS[plan.schedule]

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert found is not None
        active = state.active
        step = self.first[active] / (state.iteration + 1) ** self.power
        v = state.v[active] - step[:, None] * found.gradient
        state.v[active] = part.proximal(v, step)
        state.known[active] = False


LAST = 10
"""Iterations whose highest objective is not to be passed."""


class SearchedStep:
    """Update: backtracking from the Barzilai-Borwein step.

    Where a training ends by anything else than the gradient the objective falls each time.
    """

    def __init__(self, plan: Plan, problem: Problem) -> None:
        self.first = first_steps(plan, problem)
        self.endless = plan.epsilon == 0
        self.last = LAST if plan.converge == "gradient" and plan.epsilon > 0 else 1

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert found is not None
        active = state.active
        v, gradient = state.v[active], found.gradient
        step = state.memory.setdefault("step", self.first.copy())[active]

        def propose(which: Index, by: Floats) -> Floats:
            moved = v[which] - by[:, None] * gradient[which]
            return part.of(which).proximal(moved, by)

        def gain(which: Index, candidate: Floats) -> Floats:
            change = candidate - v[which]
            return np.asarray(-np.einsum("gp,gp->g", change, change) / step[which])

        def look(which: Index, candidate: Floats) -> Found:
            return part.of(which).evaluate(candidate)

        highest = np.nanmax([seen[active] for seen in state.history[-self.last :]], axis=0)
        new_v, there, moved = backtrack(look, v, found, step, propose, gain, highest)
        state.memory["step"][active] = next_step(new_v - v, there.gradient - gradient, step)
        settle_move(state, new_v, there, moved, self.endless)


def next_step(change: Floats, change_of_gradient: Floats, step: Floats) -> Floats:
    """s's / s'y, the step that would have been right for the move just made."""
    sy = np.einsum("gp,gp->g", change, change_of_gradient)
    ss = np.einsum("gp,gp->g", change, change)
    fitting = sy > 1e-14 * ss
    return np.where(fitting, ss / np.where(fitting, sy, 1.0), 2 * step)


def operators(problem: Problem, plan: Plan, start: Floats, deadline: float | None) -> Operators:
    """Batch gradient descent as a choice of operators; there is nothing to sample."""
    searched = plan.schedule == "line_search"
    return Operators(
        as_given,
        StartAt(start),
        all_rows,
        Evaluate(),
        SearchedStep(plan, problem) if searched else ScheduledStep(plan, problem),
        Tolerance.of(problem, plan),
        Budget(plan.max_iter, deadline),
    )
