"""Newton's method, which for the logistic loss is iteratively reweighted least squares.

Each iteration solves H step = gradient, H = mean(h_i z_i z_i') + the l2 part, and backtracks. For
the squared loss H does not change and the first step solves the normal equations; the next pass
only confirms it. Nocedal and Wright, Numerical Optimization, 2006, algorithm 3.2.

Near the optimum H hardly changes, and a pass for the gradient alone is several times cheaper: H is
kept while that makes the gradient shrink fast (Shamanskii, A modification of Newton's method,
1967).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.udas.algorithms import interior
from tuskml.udas.algorithms.batch import Evaluate, settle_move
from tuskml.udas.algorithms.search import backtrack
from tuskml.udas.kernels import Floats, Solution, Triangles, solve
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
from tuskml.udas.problem import Found, Index, Problem, add_to_diagonal

ILL_CONDITIONED = 1e-5
"""Relative pivot below which products of floats are no longer good enough."""


FLOATS = (0, 2)
"""Kinds of rows whose products are of floats unless they must not be (`kernels.KINDS`)."""
NEAR = 0.05
"""Violation below which H may be kept, and the factor by which it then shrinks an iteration."""
DAMPING = 0.1
FINER = 0.01
"""Of epsilon, to which smooth losses are trained: the last iterations, with an H that was kept or
that was summed in float, gain few digits each and cost little, and p-values are read to many."""
SLOW = 0.3
"""A violation that shrank by less than this factor asks for a new H."""


class NewtonStep:
    """Update: the step of the quadratic model, halved until the objective falls."""

    def __init__(self, plan: Plan, problem: Problem) -> None:
        self.endless = plan.epsilon == 0
        self.quadratic = problem.task.quadratic
        self.smooth = problem.task.smooth
        self.threads = plan.threads

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert found is not None
        assert found.hessian is not None
        active = state.active
        v, gradient, hessian = state.v[active], found.gradient, found.hessian
        rows = part.rows
        solution = solve(
            self._damped(hessian, found),
            gradient,
            self.threads,
            cancel_mark=rows.cancel_mark,
            deadline=rows.deadline,
        )
        before, precise = self._precise(part, state, solution)
        renew = self._renew(state, active, found)
        if part.rows.groups["kind"][0] in FLOATS:
            renew |= precise & ~before

        def propose(which: Index, by: Floats) -> Floats:
            return v[which] - by[:, None] * solution.step[which]

        def gain(which: Index, candidate: Floats) -> Floats:
            return np.asarray(np.einsum("gp,gp->g", candidate - v[which], gradient[which]))

        def look(which: Index, candidate: Floats) -> Found:
            some = part.of(which)
            return evaluate(some, candidate, hessian[which], renew[which], precise[which])

        new_v, there, moved = backtrack(look, v, found, np.ones(len(active)), propose, gain)
        settle_move(state, new_v, there, moved, self.endless)

    def _damped(self, hessian: Triangles, found: Found) -> Triangles:
        """The hinge is flat but for its corner: without damping a step may have no length.

        The damping vanishes with the gradient, so that convergence stays superlinear (Li,
        Fukushima, Qi and Yamashita, Regularized Newton methods for convex minimization problems,
        2004).
        """
        if self.smooth:
            return hessian
        damped = hessian.copy()
        add_to_diagonal(damped, DAMPING * np.abs(found.gradient).max(axis=1)[:, None])
        return damped

    def _renew(self, state: State, active: Index, found: Found) -> NDArray[np.bool_]:
        """Which groups need H where they go; remembers for which it will be stale."""
        n = len(state.v)
        before = state.memory.setdefault("violation", np.full(n, np.inf))
        stale = state.memory.setdefault("stale", np.zeros(n, bool))
        slow = stale[active] & (found.violation > SLOW * before[active])
        renew: NDArray[np.bool_] = (found.violation > NEAR) | slow | (not self.smooth)
        if self.quadratic:
            renew[:] = False
        else:
            stale[active] = ~renew
        before[active] = found.violation
        return renew

    @staticmethod
    def _precise(
        part: Problem, state: State, solution: Solution
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Active groups whose products must be of doubles, before and from now on: from the first
        small pivot on, or the first that vanishes, which rounding may have done.
        """
        known = state.memory.setdefault("precise", np.zeros(len(state.v), bool))
        before = known[state.active]
        free = (part.scale > 0).sum(axis=1) + int(part.rows.fit_intercept)
        small = (solution.pivot < ILL_CONDITIONED) | (solution.rank < free)
        known[state.active] = before | small
        return before, before | small


def evaluate(
    part: Problem,
    v: Floats,
    hessian: Triangles,
    renew: NDArray[np.bool_],
    precise: NDArray[np.bool_],
) -> Found:
    """One pass at v, for the curvature too where it is to be renewed."""
    n = len(v)
    found = None
    for curvature, exact in ((False, False), (True, False), (True, True)):
        chosen = renew & (precise == exact) if curvature else ~renew
        which = chosen.nonzero()[0]
        if len(which) == n:
            every = replace(part, precise=exact).evaluate(v, curvature)
            return every if curvature else replace(every, hessian=hessian.copy())
        if len(which):
            if found is None:
                found = Found(
                    np.empty(n), np.empty_like(v), np.empty(n), np.empty(n), hessian.copy()
                )
            some = replace(part.of(which), precise=exact)
            found.put(which, some.evaluate(v[which], curvature))
    assert found is not None
    return found


def tolerance(problem: Problem, plan: Plan) -> Tolerance:
    """The plan's, finer where the curvature is kept for the last iterations on all rows."""
    task = problem.task
    keeps = task.smooth and problem.rows.stride == 1
    finer = keeps and plan.converge == "gradient"
    return Tolerance.of(problem, replace(plan, epsilon=FINER * plan.epsilon) if finer else plan)


def operators(problem: Problem, plan: Plan, start: Floats, deadline: float | None) -> Operators:
    """Newton's method as a choice of operators; on a device many small groups have their own.

    Of the hinge, where its corner is not smoothed, it is an interior-point method.
    """
    if not problem.task.smooth and problem.rows.smoothing == 0:
        return interior.operators(problem, plan, start, deadline)
    goal = tolerance(problem, plan)
    on_device = problem.rows.newton_update(problem, replace(plan, epsilon=goal.epsilon))
    return Operators(
        as_given,
        StartAt(start),
        all_rows,
        Evaluate(curvature=True),
        on_device or NewtonStep(plan, problem),
        goal,
        Budget(plan.max_iter, deadline),
    )
