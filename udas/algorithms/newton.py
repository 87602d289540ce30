"""Newton's method, which for the logistic loss is iteratively reweighted least squares.

Each iteration solves H step = gradient, H = mean(h_i z_i z_i') + the l2 part, and backtracks. For
the squared loss H does not change and the first step solves the normal equations; the next pass
only confirms it. Nocedal and Wright, Numerical Optimization, 2006, algorithm 3.2.
"""

from dataclasses import replace

import numpy as np

from tuskml.udas.algorithms.batch import Evaluate, settle_move
from tuskml.udas.algorithms.search import backtrack
from tuskml.udas.kernels import Floats, solve
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

ILL_CONDITIONED = 1e-5
"""Relative pivot below which products of floats are no longer good enough."""


class NewtonStep:
    """Update: the step of the quadratic model, halved until the objective falls."""

    def __init__(self, plan: Plan, problem: Problem) -> None:
        self.endless = plan.epsilon == 0
        self.quadratic = problem.task.quadratic
        self.threads = plan.threads

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert found is not None
        assert found.hessian is not None
        active = state.active
        v, gradient = state.v[active], found.gradient
        solution = solve(found.hessian, gradient, self.threads)
        part = self._precise(part, state, solution.pivot)

        def propose(which: Index, by: Floats) -> Floats:
            return v[which] - by[:, None] * solution.step[which]

        def gain(which: Index, candidate: Floats) -> Floats:
            return np.asarray(np.einsum("gp,gp->g", candidate - v[which], gradient[which]))

        def look(some: Problem, at: Floats) -> Found:
            return some.evaluate(at, curvature=not self.quadratic)

        step = np.ones(len(active))
        new_v, there, moved = backtrack(part, v, found, step, propose, gain, look)
        if self.quadratic:  # its curvature is the same everywhere
            there = replace(there, hessian=found.hessian)
        settle_move(state, new_v, there, moved, self.endless)

    def _precise(self, part: Problem, state: State, pivot: Floats) -> Problem:
        if (pivot < ILL_CONDITIONED).any():
            state.memory["precise"] = True
        return replace(part, precise=True) if state.memory.get("precise") else part


def operators(problem: Problem, plan: Plan, start: Floats, deadline: float | None) -> Operators:
    """Newton's method as a choice of operators."""
    return Operators(
        as_given,
        StartAt(start),
        all_rows,
        Evaluate(curvature=True),
        NewtonStep(plan, problem),
        Tolerance(plan.converge, plan.epsilon),
        Budget(plan.max_iter, deadline),
    )
