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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuskml.kernels.hinge import AFFINE, CORRECTED, DUAL_HIGH, DUAL_LOW, Interior
from tuskml.kernels.passes import Floats, solve
from tuskml.learners.linear.algorithms.parts.absolute import Absolute, Changes
from tuskml.learners.linear.gap import (
    SHARES,
    DualPoint,
    felt,
    keep_bound,
    move_bound,
    sum_duals,
)
from tuskml.learners.linear.operators import Operators, State, on_all_rows
from tuskml.learners.linear.planner.cost import LOSS_ALONE, Cost, Costs
from tuskml.learners.linear.planner.curves import Interval
from tuskml.learners.linear.problem import (
    ROUNDING,
    Found,
    Index,
    Problem,
    clear_last_row,
    diagonal,
)
from tuskml.learners.linear.request import Plan

NOT_QUITE = 0.995
"""Share of the step to the nearest bound."""
MAX_ITER = 500
"""Features of heavy tails can need some hundred, where most data needs thirty."""
NEAR = 10.0
"""Times the tolerance: below it, the gap is evaluated exactly instead of by products of variables.
"""


Residuals = tuple[Floats, Floats]
"""Changes that both products of variables of the l1 penalty have to make."""


SURELY = 1e-3
"""The share of the tolerance as gap from where on coefficients stay as they are if zeros do harm.
"""


@dataclass
class InteriorState:
    """Variables of the rows of G groups, weights (G, p), the least objectives so far (G,), and the
    variables of the l1 penalty if there is one.
    """

    inside: Interior
    weights: Floats
    least: Floats
    absolute: Absolute | None = None

    def products(self, which: Index, inside: Interior) -> Floats:
        """The gap (n,) of some groups, by the products of their variables."""
        rows = 2 * inside.groups["product"]
        if self.absolute is None:
            return np.asarray(rows)
        more = self.absolute.some(which)
        return np.asarray(rows + more.product() / more.n[:, 0])


def interior_state(state: State) -> InteriorState:
    """The interior-point state that Stage stored."""
    assert isinstance(state.own, InteriorState)
    return state.own


def unit_of(problem: Problem) -> Floats:
    """The unit of margins and losses, (G,)."""
    if problem.weight_unit is None or problem.task.is_hinge:
        return np.ones(problem.n_groups)
    return problem.weight_unit


def tilt_of(problem: Problem) -> Floats:
    """The slope of a quantile's loss below its corner, (G,); 0 at the hinge."""
    if problem.task.is_hinge:
        return np.zeros(problem.n_groups)
    assert problem.rows.parameter is not None
    return np.asarray(1.0 - problem.rows.parameter[:, 0])


class StageInterior:
    """Stage: variables in the middle of their bounds, for the weights of the start."""

    def __init__(self, start: Floats) -> None:
        self.start = start

    def __call__(self, problem: Problem) -> State:
        state = State.at(self.start)
        weights = problem.to_caller(state.v)
        unit = unit_of(problem)
        inside = Interior.of_rows(problem.rows, weights, tilt_of(problem), unit)
        absolute = Absolute.of(problem, weights[:, :-1], unit) if problem.l1 else None
        state.own = InteriorState(inside, state.v.copy(), np.full(len(state.v), np.inf), absolute)
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
        gap = own.products(active, inside)
        unit = unit_of(part)
        near = np.flatnonzero(gap <= 2 * NEAR * max(self.epsilon, ROUNDING) * unit)
        move_bound(part, state, active)
        if len(near):
            some = part.of(near)
            theirs = inside.of(near)
            sums = [theirs.gradient(some.rows, mode) for mode in (DUAL_LOW, DUAL_HIGH)]
            if some.task.is_hinge:
                keep_bound(some, state, active[near], sum_duals(some, sums))
            else:
                found = bound_of_pinball(some, theirs, v[near], sums)
                state.below[active[near]] = np.maximum(state.below[active[near]], found)
        whole = (
            own.least[active].copy() if own.absolute is None else self._rounded(part, state, near)
        )
        best = own.least[active]
        slack = ROUNDING * np.maximum(np.abs(best), unit)
        gap = np.maximum(whole - state.below[active] - slack, 0.0)
        return Found(best, np.full_like(v, np.nan), 2 * gap / unit, slack)

    def _rounded(self, part: Problem, state: State, near: Index) -> Floats:
        """Sets coefficients of the groups `near` that vanish at the optimum to 0, where that is
        within the tolerance; returns the objectives by which groups end, (n,).

        A group whose coefficients may not be 0 yet goes on, unless that hardly matters any more.
        """
        active, own = state.active, interior_state(state)
        least, ended = own.least[active], own.least[active].copy()
        if not len(near) or own.absolute is None:
            return ended
        which, some = active[near], part.of(near)
        v = own.weights[which].copy()
        unit = unit_of(some)
        v[:, :-1][own.absolute.some(which).vanishing(some.scale * unit[:, None])] = 0.0
        objective = some.objective(v)
        slack = ROUNDING * np.maximum(np.abs(objective), unit)
        within = objective - state.below[which] - slack <= self.epsilon * unit / 2
        state.v[which[within]], own.least[which[within]] = v[within], objective[within]
        sure = least[near] - state.below[which] <= SURELY * self.epsilon * unit + slack
        ended[near] = np.where(sure & ~within, least[near], objective)
        return ended


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
        more = None if own.absolute is None else own.absolute.some(active)
        if more is not None:
            hessian[:, diagonal(rows.p)[:-1]] += part.scale**2 * more.curvature()
        before = inside.groups["product"].copy()

        def towards(sums: Floats, mode: int, residuals: Residuals | None) -> Floats:
            side = right_side(part, sums)
            side[:, :-1] += curved * v[:, :-1]
            if more is not None and residuals is not None:
                side[:, :-1] += part.scale * more.slope(residuals)
            step = -solve(
                hessian, side, self.threads, cancel_mark=rows.cancel_mark, deadline=rows.deadline
            ).step
            inside.aim(rows, part.to_caller(step), mode)
            return step

        residuals = None if more is None else more.residuals()
        step = towards(sums, AFFINE, residuals)
        bent = None
        if more is None:
            after = inside.groups["product"]
            share = np.divide(after, before, where=before > 0, out=np.zeros_like(before))
        else:
            assert residuals is not None
            bent = more.changes(residuals, part.scale * step[:, :-1])
            before, share = shrunk(inside, before, more, bent)
        target = np.minimum(np.maximum(share, 0.0), 1.0) ** 3 * before
        inside.groups["target"] = target
        residuals = None if more is None else more.residuals(target, bent)
        step = towards(inside.gradient(rows, CORRECTED), CORRECTED, residuals)
        length = inside.groups["step"]
        if more is not None and residuals is not None and own.absolute is not None:
            by = more.changes(residuals, part.scale * step[:, :-1])
            np.minimum(length, more.longest(by), out=length)
        np.minimum(NOT_QUITE * length, 1.0, out=length)
        if more is not None and own.absolute is not None:
            own.absolute.put(active, more.after(by, length))
        inside.move(rows)
        own.weights[active] = v + length[:, None] * step
        own.inside.groups[active] = inside.groups
        self._give_up(state, length)

    @staticmethod
    def _give_up(state: State, length: Floats) -> None:
        """Ends a group that cannot move, as its arithmetic allows no more."""
        stuck = ~(length > 1e-10)
        state.running[state.active[stuck]] = False


def shrunk(
    inside: Interior, before: Floats, more: Absolute, bent: Changes
) -> tuple[Floats, Floats]:
    """The mean product of all variables, and the share of it that the affine step leaves, (G,).

    before (G,): of the rows; that of their products is a parabola in the length of the step.
    """
    n, whole = 2.0 * inside.groups["n_rows"], inside.groups["step"]
    length = np.minimum(whole, more.longest(bent))
    bend = np.divide(
        inside.groups["product"] - before * (1 - whole),
        whole**2,
        where=whole > 0,
        out=np.zeros_like(whole),
    )
    left = n * (before * (1 - length) + bend * length**2) + more.after(bent, length).product()
    all_ = n * before + more.product()
    return all_ / (n + more.count), np.divide(left, all_, where=all_ > 0, out=np.zeros_like(all_))


def bound_of_pinball(
    part: Problem, inside: Interior, v: Floats, gradients: Sequence[Floats]
) -> Floats:
    """A lower bound of a quantile's objective with l1, (G,), from the dual variables.

    For any b_i between q - 1 and q whose sum is 0 no weights have an objective below mean(b_i y_i)
    - max_w (g.w - l2/2 ||w||^2 - l1 ||w||_1), g = mean(b_i z_i). Those above 0 and those below are
    scaled until their sums agree, and all until l1 bounds g. mean(b_i y_i) is that of b_i (y_i -
    m_i), which the variables have, and of b_i m_i. gradients: sums over both.
    """
    n = inside.groups["n_rows"].astype(float)
    total = np.array([-sums[:, part.d + 2] / n for sums in gradients])
    pull = np.array(
        [-(sums[:, 2 : part.d + 2] - part.shift * sums[:, part.d + 2 :]) for sums in gradients]
    )
    pull /= n[:, None]
    coef = part.to_caller(v)[:, :-1]
    value = np.array([inside.groups["low"], inside.groups["high"]]) + total * v[:, -1]
    value += np.einsum("kgd,gd->kg", pull, coef)
    if part.rows.fit_intercept:
        size = np.abs(total)
        least = size.min(axis=0)
        share = np.divide(least, size, where=size > 0, out=np.zeros_like(size))
        total, value, pull = total * share, value * share, pull * share[:, :, None]
    at = DualPoint(np.abs(total).sum(axis=0), pull.sum(axis=0))
    size, dual = felt(part, at), value.sum(axis=0)
    largest = np.maximum(size.max(axis=1, initial=0.0), part.l1)
    found = part.l1 / largest * dual
    for share_of_all in SHARES if part.l2 else ():
        excess = np.maximum(share_of_all * size - part.l1, 0.0)
        less = np.einsum("gd,gd->g", excess, excess) / (2 * part.l2)
        found = np.maximum(found, share_of_all * dual - less)
    return np.asarray(np.maximum(found, 0.0))


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
