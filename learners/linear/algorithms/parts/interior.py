"""Newton's method for the hinge: a primal-dual interior-point method.

Its systems are those of Newton's method with other curvatures by row
(`native/hinge/interior.cpp`), so an iteration costs what one of newton costs, and some ten to
thirty are enough for any data and any penalty: unlike those of a smoothed corner they do not grow
with the condition of the problem.
Each iteration solves the system twice: for the step to the optimum itself, which tells how far it
would come, and for one that stays off the bounds by as much less (Mehrotra 1992).

The dual variables give a bound below every objective (`gap.py`). What is found as violation
is twice the gap, and the best weights that were looked at are the answer.
"""

from dataclasses import dataclass

import numpy as np

from tuskml.kernels.hinge import AFFINE, CORRECTED, DUAL_HIGH, DUAL_LOW, Interior
from tuskml.kernels.passes import Floats, solve
from tuskml.learners.linear.gap import keep_bound, move_bound, summed_up
from tuskml.learners.linear.operators import Operators, State, on_all_rows
from tuskml.learners.linear.planner.cost import LOSS_ALONE, Cost, Costs
from tuskml.learners.linear.planner.curves import Interval
from tuskml.learners.linear.problem import ROUNDING, Found, Problem, clear_last_row, diagonal
from tuskml.learners.linear.request import Plan

NOT_QUITE = 0.995
"""Share of the step to the nearest bound."""
MAX_ITER = 500
"""Features of heavy tails can need some hundred, where most data needs thirty."""
NEAR = 10.0
"""Times the tolerance: below it, the gap is evaluated exactly instead of by products of variables.
"""


@dataclass
class InteriorState:
    """Variables of the rows of G groups, weights (G, p), and the least objectives so far (G,)."""

    inside: Interior
    weights: Floats
    least: Floats


def interior_state(state: State) -> InteriorState:
    """The interior-point state that Stage stored."""
    assert isinstance(state.own, InteriorState)
    return state.own


class StageInterior:
    """Stage: variables in the middle of their bounds, for the weights of the start."""

    def __init__(self, start: Floats) -> None:
        self.start = start

    def __call__(self, problem: Problem) -> State:
        state = State.at(self.start)
        inside = Interior.of_rows(problem.rows, problem.to_caller(state.v))
        state.own = InteriorState(inside, state.v.copy(), np.full(len(state.v), np.inf))
        return state


class InteriorGap:
    """Compute: the objective, and the gap where it may be small."""

    def __init__(self, plan: Plan) -> None:
        self.epsilon = plan.epsilon

    def __call__(self, part: Problem, state: State) -> Found:
        active, own = state.active, interior_state(state)
        inside, v = own.inside.of(active), own.weights[active]
        coef = part.to_caller(v)[:, :-1]
        objective = inside.groups["loss"] + part.penalty(coef)
        better = objective < own.least[active]
        own.least[active[better]] = objective[better]
        state.v[active[better]] = v[better]
        near = np.flatnonzero(inside.groups["product"] <= NEAR * max(self.epsilon, ROUNDING))
        move_bound(part, state, active)
        if len(near):
            some = part.of(near)
            theirs = inside.of(near)
            sums = (theirs.gradient(some.rows, mode) for mode in (DUAL_LOW, DUAL_HIGH))
            keep_bound(some, state, active[near], summed_up(some, sums))
        best = own.least[active]
        slack = ROUNDING * np.maximum(np.abs(best), 1.0)
        gap = np.maximum(best - state.below[active] - slack, 0.0)
        return Found(best, np.full_like(v, np.nan), 2 * gap, slack)


class InteriorStep:
    """Update: the corrected step, as long as all variables stay within their bounds."""

    def __init__(self, plan: Plan) -> None:
        self.threads = plan.threads

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        rows = part.rows
        active, own = state.active, interior_state(state)
        inside, v = own.inside.of(active), own.weights[active]
        curved = 1.0 * part.l2 * part.scale**2
        sums, packed = inside.curvature(rows, part.shift, part.scale)
        hessian = packed / sums[:, 1:2]
        if part.l2:
            hessian[:, diagonal(rows.p)[:-1]] += curved
        if not rows.fit_intercept:
            clear_last_row(hessian, part.d + 1)
        before = inside.groups["product"].copy()

        def towards(sums: Floats, mode: int) -> Floats:
            side = right_side(part, sums)
            side[:, :-1] += curved * v[:, :-1]
            step = -solve(
                hessian, side, self.threads, cancel_mark=rows.cancel_mark, deadline=rows.deadline
            ).step
            inside.aim(rows, part.to_caller(step), mode)
            return step

        towards(sums, AFFINE)
        after = inside.groups["product"]
        share = np.divide(after, before, where=before > 0, out=np.zeros_like(before))
        inside.groups["target"] = np.minimum(np.maximum(share, 0.0), 1.0) ** 3 * before
        step = towards(inside.gradient(rows, CORRECTED), CORRECTED)
        length = inside.groups["step"]
        np.minimum(NOT_QUITE * length, 1.0, out=length)
        inside.move(rows)
        own.weights[active] = v + length[:, None] * step
        own.inside.groups[active] = inside.groups
        self._give_up(state, length)

    @staticmethod
    def _give_up(state: State, length: Floats) -> None:
        """Ends a group that cannot move, as its arithmetic allows no more."""
        stuck = ~(length > 1e-10)
        state.running[state.active[stuck]] = False


def right_side(part: Problem, sums: Floats) -> Floats:
    """Sums over rows (G, d + 3) as a gradient in coordinates of v, (G, p)."""
    d, n = part.d, sums[:, 1:2]
    slope = sums[:, d + 2 : d + 3] / n
    out = np.empty((len(sums), d + 1))
    out[:, :d] = (sums[:, 2 : d + 2] / n - part.shift * slope) * part.scale
    out[:, d:] = slope if part.rows.fit_intercept else 0.0
    return out


def operators(problem: Problem, plan: Plan, start: Floats, deadline: float | None) -> Operators:
    """The interior-point method as a choice of operators."""
    return on_all_rows(
        problem, plan, deadline, StageInterior(start), InteriorGap(plan), InteriorStep(plan)
    )


ROW_BYTES = 57
"""Kept for each row."""
VARIABLES = 1e-7
"""Seconds a row of an iteration, for the work on its variables."""
ITERATIONS, ITERATIONS_A_DECADE = 2.0, 2.5
"""Before any digit, and for each: about the medians of the sets of `scripts/bench/planner` but the
last half, nine of ten of which take 0.6 to 1.9 times as many."""


def cost(costs: Costs, weights: float, memory: float) -> Cost:
    """An iteration is a curvature in double, a gradient, margins twice, and each row's work.

    weights: seconds of a system of equations; memory: bytes.
    """
    gradient = costs.rows_pass("gradient")
    rows = VARIABLES * costs.question.seen.rows / costs.speedup("gradient")
    passes = costs.rows_pass("curvature", precise=True) + (1 + 2 * LOSS_ALONE) * gradient
    return Cost(
        costs.common() + LOSS_ALONE * gradient + rows / 2,
        passes + rows + 2 * weights,
        LOSS_ALONE * gradient,
        0.0,
        memory,
    )


def usual(k: float) -> Interval:
    """Iterations to a tolerance k decades below 1."""
    point = ITERATIONS + ITERATIONS_A_DECADE * k
    return Interval.around(point / 1.6, point, 1.9 * point)
