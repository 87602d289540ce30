"""Newton's method without the curvature: each system is solved by conjugate gradients.

Lin, Weng and Keerthi, Trust region Newton method for logistic regression, JMLR 2008, with a line
search in the place of the trust region (Nocedal and Wright, Numerical Optimization, 2006,
algorithm 7.1) and the curvature's diagonal as preconditioner (Hsia, Chiang and Lin, Preconditioned
conjugate gradient methods in truncated Newton frameworks for large-scale linear classification,
ACML 2018). A product of the curvature with a direction is one pass over the rows. Systems are
solved as well as the gradient deserves, which keeps convergence superlinear (Dembo, Eisenstat and
Steihaug, Inexact Newton methods, 1982); for the squared loss the first one is all there is, the
normal equations, and is solved to the tolerance.
"""

import math
import time

import numpy as np

from tuskml.udas.algorithms.batch import Evaluate, settle_move
from tuskml.udas.algorithms.search import backtrack
from tuskml.udas.curvature import Curvature
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

MOST_PRODUCTS = 500
"""In an iteration; what is missing is the next one's."""
ENOUGH = 0.5
"""Of the tolerance, to which a system is solved at most."""
FORCING = 0.25
"""Of the gradient, to which it is solved at least."""
SPENT = 1e-14


class TruncatedStep:
    """Update: along the approximate solution of Newton's system, halved until that helps."""

    def __init__(self, plan: Plan, problem: Problem, deadline: float | None) -> None:
        self.endless = plan.epsilon == 0
        self.epsilon = plan.epsilon if plan.converge == "gradient" else 0.1 * plan.epsilon
        self.quadratic = problem.task.quadratic
        self.deadline = math.inf if deadline is None else deadline

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert found is not None
        v, gradient = state.v[state.active], found.gradient
        kept = state.memory.get("diagonal")  # that of the first iteration is good enough
        curvature = Curvature(part, v, None if kept is None else kept[state.active])
        direction = conjugate_gradients(curvature, gradient, self._goal(found), self.deadline)
        if kept is None:
            kept = state.memory["diagonal"] = np.ones_like(state.v)
            kept[state.active] = curvature.diagonal

        def propose(which: Index, by: Floats) -> Floats:
            return v[which] + by[:, None] * direction[which]

        def gain(which: Index, candidate: Floats) -> Floats:
            return np.asarray(np.einsum("gp,gp->g", candidate - v[which], gradient[which]))

        def look(which: Index, candidate: Floats) -> Found:
            return part.of(which).evaluate(candidate)

        new_v, there, moved = backtrack(look, v, found, np.ones(len(v)), propose, gain)
        settle_move(state, new_v, there, moved, self.endless)

    def _goal(self, found: Found) -> Floats:
        """The violation (G,) that the quadratic model may be left with."""
        least = ENOUGH * self.epsilon
        if self.quadratic:
            return np.maximum(least, SPENT * found.violation)
        share = np.minimum(FORCING, np.sqrt(found.violation))
        return np.asarray(np.maximum(least, share * found.violation))


def conjugate_gradients(
    curvature: Curvature, gradient: Floats, goal: Floats, deadline: float
) -> Floats:
    """About -H^-1 gradient (G, p): until what is left violates by at most goal (G,).

    Preconditioned by H's diagonal (Nocedal and Wright, algorithm 5.3); where that is not known yet
    a step of steepest descent, whose product tells it, comes first. A group whose curvature
    vanishes along its direction keeps what it has.
    """
    blind = not curvature.known
    step, left = np.zeros_like(gradient), -gradient
    direction, size = left.copy(), dots(left, left)
    if not blind:
        direction /= curvature.diagonal
        size = dots(left, direction)
    moving = np.ones(len(gradient), bool)
    for number in range(MOST_PRODUCTS):
        moving &= violation(curvature.part, left) > goal
        if not moving.any() or time.monotonic() >= deadline:
            break
        product = curvature.times(direction)
        along = dots(direction, product)
        moving &= along > 0
        by = np.where(moving, size / np.where(moving, along, 1.0), 0.0)[:, None]
        step += by * direction
        left -= by * product
        ready = left / curvature.diagonal
        before, size = size, dots(left, ready)
        if blind and number == 0:
            direction = ready
            continue
        grown = np.where(before > 0, size / np.where(before > 0, before, 1.0), 0.0)
        direction = ready + grown[:, None] * direction
    return step


def dots(a: Floats, b: Floats) -> Floats:
    """Inner products by group, (G,)."""
    return np.asarray(np.einsum("gp,gp->g", a, b))


def violation(part: Problem, gradient: Floats) -> Floats:
    """The largest component (G,) of a gradient in coordinates of v, in gradient units."""
    return part.in_gradient_units(np.abs(gradient).max(axis=1))


def operators(problem: Problem, plan: Plan, start: Floats, deadline: float | None) -> Operators:
    """Newton's method by conjugate gradients as a choice of operators."""
    return Operators(
        as_given,
        StartAt(start),
        all_rows,
        Evaluate(),
        TruncatedStep(plan, problem, deadline),
        Tolerance.of(problem, plan),
        Budget(plan.max_iter, deadline),
    )
