"""Newton's method without the curvature: each system is solved by conjugate gradients.

Lin, Weng and Keerthi, Trust region Newton method for logistic regression, JMLR 2008, with a line
search instead of the trust region (Nocedal and Wright, Numerical Optimization, 2006, algorithm
7.1) and the curvature's diagonal as preconditioner (Hsia, Chiang and Lin, Preconditioned conjugate
gradient methods in truncated Newton frameworks for large-scale linear classification, ACML 2018).
A product of the curvature with a direction is one pass over the rows. Systems are solved as well
as the gradient deserves, which keeps convergence superlinear (Dembo, Eisenstat and Steihaug,
Inexact Newton methods, 1982); for the squared loss the first one is all there is, the normal
equations, and is solved to the tolerance.
"""

import copy
import math
import time
from collections.abc import Callable

import numpy as np

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Floats
from tuskml.kernels.speculated import Method
from tuskml.learners.linear.algorithms.parts.algorithm import Algorithm, Unfit
from tuskml.learners.linear.algorithms.parts.batch import Evaluate, backtrack, settle_move
from tuskml.learners.linear.operators import Operators, StartAt, State, on_all_rows
from tuskml.learners.linear.planner import iterations as spread
from tuskml.learners.linear.planner.cost import SEARCHED, TYPICAL, Cost, Costs, Parts
from tuskml.learners.linear.planner.curves import Interval, Question, decades
from tuskml.learners.linear.planner.iterations import Usual, by_density, narrow
from tuskml.learners.linear.problem import Found, Index, Problem
from tuskml.learners.linear.request import LinearOptions, Plan
from tuskml.learners.linear.tasks import LinearTask
from tuskml.learners.machine.constants import interpolate_table

MOST_PRODUCTS = 500
"""Products in an iteration; the next iteration continues."""
ENOUGH = 0.5
"""A system is solved to this share of the tolerance at most."""
FORCING = 0.25
"""A system is solved to this share of the gradient at least."""
SPENT = 1e-14
FEW = 0.75
"""Below this share of unsolved groups, the solved ones are left out of the products."""


class Curvature:
    """The operator H = mean(h_i z_i z_i') + the l2 part at weights v (G, p).

    diagonal (G, p): as given, or from the first product on about H's own, 1 where that is 0.
    """

    def __init__(self, part: Problem, v: Floats, diagonal: Floats | None = None) -> None:
        n = int(part.rows.groups["n_rows"].sum())
        self.part = part
        self.offset = part.rows.first_rows
        self.h = None if part.task.quadratic else part.rows.beside(n)
        self.weights = np.ascontiguousarray(part.to_caller(v))
        self.n: Floats | None = None
        self.known = diagonal is not None
        self.diagonal = np.ones_like(v) if diagonal is None else diagonal

    def of(self, which: Index) -> "Curvature":
        """Selects some of the groups; requires an earlier product."""
        assert self.n is not None
        some = copy.copy(self)
        some.part, some.offset = self.part.of(which), self.offset[which]
        some.weights, some.diagonal = self.weights[which], self.diagonal[which]
        some.n = self.n[which]
        return some

    def times(self, u: Floats) -> Floats:
        """H u by group, (G, p). Raises Interrupted."""
        direction = np.ascontiguousarray(self.part.to_caller(u))
        return self.part.smooth_gradient(self._sums(direction), direction)

    def _sums(self, direction: Floats) -> Floats:
        """Means over rows in the caller's coordinates; the first time h and diagonal with them."""
        part, first = self.part, self.n is None
        sums = np.empty_like(direction)
        squares = np.empty((len(sums), part.d + 2)) if first else None
        pointers = (
            pointer(self.weights if first else None),
            pointer(direction),
            pointer(self.offset),
            pointer(self.h),
            pointer(sums),
            pointer(squares),
        )
        check_code(library().tk_curvature_times(part.rows.struct, *pointers))
        if part.rows.meter is not None:
            part.rows.meter.products += 1 / part.rows.stride
        if squares is not None:
            self.n = squares[:, -1:]
            if not self.known:
                self.diagonal = self._diagonal(squares[:, :-1] / self.n)
        sums /= np.asarray(self.n)
        return sums

    def _diagonal(self, squares: Floats) -> Floats:
        part, d = self.part, self.part.d
        if part.rows.sparse:
            squares[:, :d] *= part.scale**2
        if part.l2:
            squares[:, :d] += part.l2 * part.scale**2
        squares[~((squares > 0) & np.isfinite(squares))] = 1.0
        return squares


class TruncatedStep:
    """Update: along the approximate solution of Newton's system, halved until that helps."""

    def __init__(self, plan: Plan, problem: Problem, deadline: float | None) -> None:
        self.endless = plan.epsilon == 0
        self.epsilon = plan.epsilon if plan.converge == "gradient" else 0.1 * plan.epsilon
        self.quadratic = problem.task.quadratic
        self.deadline = math.inf if deadline is None else deadline
        self.products = self.last = 0  # of the curvature, in all, and at the last look
        self.diagonal: Floats | None = None  # that of the first iteration is good enough

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert found is not None
        v, gradient = state.v[state.active], found.gradient
        kept = self.diagonal
        curvature = Curvature(part, v, None if kept is None else kept[state.active])
        direction = conjugate_gradients(
            curvature, gradient, self._goal(found), lambda errors: self._is_over(state, errors)
        )
        self.products = self.last
        if kept is None:
            kept = self.diagonal = np.ones_like(state.v)
            kept[state.active] = curvature.diagonal

        def propose(which: Index, by: Floats) -> Floats:
            return v[which] + by[:, None] * direction[which]

        def gain(which: Index, candidate: Floats) -> Floats:
            return np.asarray(np.einsum("gp,gp->g", candidate - v[which], gradient[which]))

        def look(which: Index, candidate: Floats) -> Found:
            return part.of(which).evaluate(candidate)

        new_v, there, moved = backtrack(look, v, found, np.ones(len(v)), propose, gain)
        settle_move(state, new_v, there, moved, self.endless)

    def _is_over(self, state: State, errors: list[float]) -> bool:
        """Returns whether time is over, or another plan takes over; errors: of this system so
        far.
        """
        self.last = self.products + len(errors)
        over = time.monotonic() >= self.deadline
        return over or (state.enough is not None and state.enough(self.last, errors))

    def _goal(self, found: Found) -> Floats:
        """The violation (G,) that the quadratic model may be left with."""
        least = ENOUGH * self.epsilon
        if self.quadratic:
            return np.maximum(least, SPENT * found.violation)
        share = np.minimum(FORCING, np.sqrt(found.violation))
        return np.asarray(np.maximum(least, share * found.violation))


def conjugate_gradients(
    curvature: Curvature, gradient: Floats, goal: Floats, ended: Callable[[list[float]], bool]
) -> Floats:
    """About -H^-1 gradient (G, p), until the residual violates by at most goal (G,).

    Preconditioned by H's diagonal (Nocedal and Wright, algorithm 5.3); where that is not known
    yet, a step of steepest descent comes first, whose product gives it. A group whose curvature
    vanishes along its direction keeps its weights. ended: whether to stop, given the residual
    after each product in units of the goal.
    """
    blind = not curvature.known
    step, left = np.zeros_like(gradient), -gradient
    direction, size = left.copy(), dots(left, left)
    if not blind:
        direction /= curvature.diagonal
        size = dots(left, direction)
    moving, errors = np.ones(len(gradient), bool), list[float]()
    settled: list[tuple[Index, Floats]] = []
    for number in range(MOST_PRODUCTS):
        error = violation(curvature.part, left)
        moving &= error > goal
        errors.append(float((error / goal).max()))
        if not moving.any() or ended(errors):
            break
        if number and np.count_nonzero(moving) < FEW * len(moving):
            kept = np.flatnonzero(moving)
            settled.append((kept, step))
            step, left, direction, size = (one[kept] for one in (step, left, direction, size))
            curvature, goal, moving = curvature.of(kept), goal[kept], moving[kept]
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
    for kept, whole in reversed(settled):
        whole[kept] = step
        step = whole
    return step


def dots(a: Floats, b: Floats) -> Floats:
    """Inner products by group, (G,)."""
    return np.asarray(np.einsum("gp,gp->g", a, b))


def violation(part: Problem, gradient: Floats) -> Floats:
    """The largest component (G,) of a gradient in coordinates of v, in gradient units."""
    return part.in_gradient_units(np.abs(gradient).max(axis=1))


USUAL = Usual(((0.5, 2, 3, 5), (1, 2.6, 4, 5.6), (2, 4, 6, 9)))
PRODUCTS = {
    "linear": ((1.0, 3.0), (2.0, 6.5), (3.0, 12.0), (6.0, 40.0)),
    "logistic": ((1.0, 0.5), (2.0, 5.0), (3.0, 20.0), (6.0, 65.0)),
}
"""Products of the curvature with a direction that are taken in all, by decades of the tolerance,
where no spread is known."""
OF_SPARSE = ((1.0, 3.0), (2.0, 6.5), (3.0, 12.0), (6.0, 24.0))
"""Products for the squared loss on sparse rows, by decade of the tolerance: medians of 15 sets,
the fitted half's and the fresh ones, of which all but one took 8 to 47 products to 1e-6.
"""
OF_DENSITY = 0.11, 0.19
"""For losses that are not quadratic: on 63 logistic trainings on sparse rows, each judged by a fit
without it, 89 % take half to twice as many products. Without that power 68 % did.
"""
PRODUCTS_BY_SPREAD: dict[str, spread.BySpreads] = {
    "linear": (
        (1.0, 3.7, 4.5, 3.1),
        (2.0, 5.8, 8.4, 11.0),
        (3.2, 7.9, 12.0, 16.0),
        (5.4, 13.0, 18.0, 29.0),
    ),
    "logistic": (
        (0.5, 1.9, 1.8, 1.2),
        (2.0, 7.1, 9.4, 6.8),
        (3.9, 10.0, 15.0, 21.0),
        (8.1, 20.0, 28.0, 44.0),
    ),
}
BENT, OF_MODEL = 1.28, 1.17
"""For losses that are not quadratic: the ratio of products to those on the sketch, and the power
of the latter, because the curvature falls on the way and is solved for anew. Eight of ten groups
(150 to 4,000 rows of categories, a9a, and the fitted half and the fresh sets of
`scripts/bench/planner/truth_data.py`) took 0.6 to 1.8 times as many.
"""
EXPECTED = 1.3
"""Times the table of the spread: eight of ten of 168 dense trainings of the fitted half and the
fresh sets took 0.5 to 3.3 times as many products, the median 1.1 to 1.2 times.
"""
FRESH = 0.7
"""The extra time of an iteration's first product, as a share of a gradient's pass."""
STEPS_OF_CG = 0.7
"""Work on weights for a product, of that of a plain step."""


class NewtonCg(Algorithm):
    name = "newton_cg"
    title = "Newton's method by conjugate gradients, without the curvature's matrix"
    source = "Lin, Weng and Keerthi 2008, Hsia, Chiang and Lin 2018"
    max_iter = 100
    own_losses = False
    speeds_up = True
    on_gpu = False
    sets_steps = False
    row_bytes = 8
    """The curvature of each row."""

    def operators(
        self, problem: Problem, plan: Plan, start: Floats, deadline: float | None
    ) -> Operators:
        return on_all_rows(
            problem,
            plan,
            deadline,
            StartAt(start),
            Evaluate(),
            TruncatedStep(plan, problem, deadline),
        )

    def refusal(self, task: LinearTask) -> str | None:
        if task.smooth:
            return super().refusal(task)
        return f"{'the hinge' if task.is_hinge else 'a loss with a corner'} has no curvature"

    def unfit(self, options: LinearOptions, task: LinearTask | None = None) -> Unfit | None:
        if options.l1 > 0:
            return Unfit("l1", f"l1 > 0 leaves no curvature for {self.name}")
        return None

    def cost(
        self, costs: Costs, plan: Plan, iterations: float = TYPICAL, on_sample: float = 0.0
    ) -> Cost:
        """Products of all iterations, by the tolerance, are shared out evenly.

        Conjugate gradients end after as many as there are weights.
        """
        gradient, weights = costs.rows_pass("gradient"), costs.on_weights()
        products = products_of(costs.question, decades(plan.epsilon))
        product = cost_of_product(costs) + STEPS_OF_CG * weights
        each = min(products / max(iterations, 1.0), costs.p) * product
        searched = SEARCHED + FRESH
        return Cost(
            costs.common() + gradient,
            each + searched * gradient + weights,
            costs.inference(fresh=0.0),
            0.0,
            self.memory(costs),
            products,
            product,
            Parts(FRESH * gradient + weights, gradient),
        )

    def scale(self, problem: Problem, diagonal: Floats) -> tuple[Method, Floats] | None:
        return Method.CONJUGATE_GRADIENTS, 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))

    def usual(self, question: Question, k: float) -> Interval:
        if question.task.quadratic:
            return Interval(1, 1, 2)
        return USUAL.iterations(question, k)


def products_of(question: Question, k: float) -> float:
    """Products of the curvature with a direction, in all iterations, to k decades below 1."""
    if question.sketch is not None:
        tolerance = ENOUGH * 10**-k
        found = question.sketch.iterations(Method.CONJUGATE_GRADIENTS, tolerance).point
        return found if question.task.quadratic else BENT * (1 + found) ** OF_MODEL - 1
    task, known = question.task.name, question.spread
    task = task if task in PRODUCTS else "logistic"
    if known is None:
        sparse = question.seen.sparse and question.task.quadratic
        found = interpolate_table(OF_SPARSE if sparse else PRODUCTS[task], k)
        if question.seen.sparse:
            found *= by_density(question, k, OF_DENSITY)
        return found * narrow(question, k)
    return EXPECTED * spread.by_spread(PRODUCTS_BY_SPREAD[task], known, k)


def cost_of_product(costs: Costs) -> float:
    """Seconds of a product of the curvature with a direction: a gradient without its loss."""
    seen, known = costs.question.seen, costs.constants
    rows = [
        known.row("gradient", seen.storage, name) for name in (costs.question.task.name, "linear")
    ]
    spared = seen.rows * (rows[0] - rows[1]) / costs.speedup("gradient")
    return max(costs.rows_pass("gradient") - spared, 0.0)


ALGORITHM = NewtonCg()
