"""Newton's steps after the descent: what a small gradient does not see along flat directions."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats, solve
from tuskml.learners.linear.inference.determined import MOST_WEIGHTS
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Found, Index, Problem

REFINEMENTS = 2
LAST_STEPS = 20
LONG = 1e-6
"""Squared change of margins by a last step, from where on the curvature is taken anew behind it:
standard errors change by about half of the change.
"""


def is_long(
    problem: Problem, step: Floats, gradient: Floats, much: float = LONG
) -> NDArray[np.bool_]:
    """Groups (G,) whose margins Newton's step (G, p) changes by much."""
    unit = 1.0 if problem.gradient_unit is None else problem.gradient_unit
    return np.asarray(4.0 * np.einsum("gp,gp->g", step, gradient) > much * unit)


def refine(
    problem: Problem, state: State, which: Index, step_of: Callable[[Floats], Floats]
) -> None:
    """Makes Newton's steps with residuals of all rows, to correct the error of the normal
    equations.

    step_of: from gradients (len(which), p); a step that does not help is not taken.
    """
    if not len(which):
        return
    part = problem.of(which)
    v = state.v[which]
    found = part.evaluate(v)
    for _ in range(REFINEMENTS):
        moved = v - step_of(found.gradient)
        there = part.evaluate(moved)
        better = there.objective <= found.objective + found.slack
        v[better] = moved[better]
        found.put(np.flatnonzero(better), there.of(better))
    state.v[which] = v
    state.objective[which], state.violation[which] = found.objective, found.violation


def polish(problem: Problem, state: State, which: Index, step: Floats) -> None:
    """Makes Newton's step (n, p) after trainings without a curvature.

    Their remaining error depends on the order of rows and on flat directions. A step that does not
    help is not taken.
    """
    if not len(which):
        return
    part, moved = problem.of(which), state.v[which] - step
    there = part.evaluate(moved)
    better = there.objective <= state.objective[which] + there.slack
    some = which[better]
    state.v[some] = moved[better]
    state.objective[some], state.violation[some] = (
        there.objective[better],
        there.violation[better],
    )


def step_once(problem: Problem, state: State, some: Index | None = None) -> None:
    """Makes one of Newton's steps in groups that converged without a curvature and a penalty.

    some: the groups that are looked at, None: all.
    """
    which = np.arange(problem.n_groups) if some is None else some
    which = which[state.converged[which]]
    small = problem.d < MOST_WEIGHTS and not (problem.l1 or problem.l2)
    if state.hessian is None and small and len(which):
        step, _ = newton_step(problem.of(which), state.v[which])
        polish(problem, state, which, step)


def finish(problem: Problem, state: State, which: Index, epsilon: float) -> None:
    """Makes Newton's steps after trainings without a curvature, whose gradients are small along
    flat directions wherever they end. Groups whose last step is still long, for a tolerance of
    epsilon, have not converged.
    """
    left, by = which, np.ones(len(which))
    for _ in range(LAST_STEPS):
        part, v = problem.of(left), state.v[left]
        step, found = newton_step(part, v)
        state.objective[left] = found.objective
        long = is_long(part, step, found.gradient, max(LONG, epsilon))
        if not long.any():
            return
        polish(problem, state, left, step * by[:, None])
        by = np.where((state.v[left] == v).all(axis=1), by / 4, np.minimum(2 * by, 1.0))
        left, by = left[long], by[long]
    state.converged[left] = False


def newton_step(problem: Problem, v: Floats) -> tuple[Floats, Found]:
    """Newton's step from weights v (G, p), to be subtracted, and the objective there."""
    found = problem.evaluate(v, curvature=True)
    step = solve(np.asarray(found.hessian), found.gradient, problem.rows.threads).step
    return step, found
