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

from tuskml.kernels.gpu.passes import DevicePass
from tuskml.kernels.passes import Floats, Solution, Triangles, solve
from tuskml.learners.linear.algorithms.parts import fused, interior, small
from tuskml.learners.linear.algorithms.parts.algorithm import Algorithm, Unfit
from tuskml.learners.linear.algorithms.parts.batch import (
    OF_WHOLE_STEPS,
    Bounds,
    Evaluate,
    Metric,
    backtrack,
    metric_of,
    settle_move,
)
from tuskml.learners.linear.algorithms.parts.kept_curvature import (
    Chord,
    EvaluateNear,
    LastStep,
    Pairs,
    Steepness,
    Steps,
)
from tuskml.learners.linear.operators import (
    Compute,
    Operators,
    StartAt,
    State,
    Tolerance,
    Update,
    on_all_rows,
)
from tuskml.learners.linear.planner.cost import (
    DOUBLE,
    SEARCHED,
    SYSTEM_STEP,
    TYPICAL,
    Cost,
    Costs,
    Parts,
    curvature_chunks,
)
from tuskml.learners.linear.planner.curves import Interval, Question
from tuskml.learners.linear.planner.iterations import Usual
from tuskml.learners.linear.problem import Found, Index, Problem, add_to_diagonal, diagonal_of
from tuskml.learners.linear.request import LinearOptions, Plan
from tuskml.learners.linear.tasks import LinearTask

ILL_CONDITIONED = 1e-5
"""Relative pivot below which products of floats are no longer good enough."""


FLOATS = (0, 2)
"""Kinds of rows whose products are of floats unless they must not be (`kernels.KINDS`)."""
NEAR = 0.05
"""Violation below which H may be kept, and the factor by which it then shrinks an iteration."""
FINER = 0.01
"""Smooth losses are trained to this share of epsilon: the last iterations, with an H that was kept
or summed in float, gain few digits each and cost little, and p-values are read to many digits.
"""
ENOUGH = 100.0
"""Times epsilon: from this violation on, a last step is taken without evaluating its result."""
ROUNDING = 1e-9
"""Relative pivot that rounding may produce, even with products of doubles."""
LEAST_DAMPING, MORE_DAMPING, MOST_DAMPING = 1e-11, 100.0, 1e-3
"""Damping as a share of the diagonal, after a step that was too long along nearly undetermined
directions.
"""
WHOLE_STEPS = Bounds(most_shrunk=OF_WHOLE_STEPS)
SLOW = 0.3
"""A violation that shrank by less than this factor asks for a new H."""


class NewtonStep(Steps):
    """Update: the step of the quadratic model, halved until the objective falls.

    Where a curvature was known before the first pass, or passes take long, or another plan went
    before, gradients correct it while it is kept.
    """

    def __init__(self, plan: Plan, problem: Problem, metric: Metric | None = None) -> None:
        self.metric = metric
        self.endless = plan.epsilon == 0
        self.quadratic = problem.task.quadratic
        self.flat = problem.task.flat
        self.unit = problem.weight_unit
        self.threads = plan.threads
        before = problem.before
        self.violation = None if before is None else before.violation.copy()  # an iteration ago
        self.damping = np.zeros(problem.n_groups)
        long = plan.sample_stride > 1 or plan.after is not None
        self.pairs = Pairs(problem.before) if long or problem.begun is not None else None

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert found is not None
        assert found.hessian is not None
        active = state.active
        v, gradient, hessian = state.v[active], found.gradient, found.hessian
        solution = self._solve(part, state, found)
        before, precise = self._precise(part, state, solution)
        renew = self._renew(state, active, found)
        if part.rows.groups["kind"][0] in FLOATS:
            renew |= precise & ~before

        def propose(which: Index, by: Floats) -> Floats:
            return v[which] - by[:, None] * solution.step[which]

        def gain(which: Index, candidate: Floats) -> Floats:
            return np.asarray(np.einsum("gp,gp->g", candidate - v[which], gradient[which]))

        def look(which: Index, candidate: Floats) -> Found:
            kept = hessian if len(which) == len(active) else hessian[which]
            return evaluate(part.of(which), candidate, kept, renew[which], precise[which])

        length = np.ones(len(active))
        new_v, there, moved = backtrack(look, v, found, length, propose, gain, WHOLE_STEPS)
        self._damp(active[before & (solution.pivot < ROUNDING) & (length < 1)])
        settle_move(state, new_v, there, moved, self.endless)

    def _solve(self, part: Problem, state: State, found: Found) -> Solution:
        """The step of the active groups, and the properties of their systems."""
        assert found.hessian is not None
        active, rows = state.active, part.rows
        hessian = self._add_damping(found.hessian, found, active)

        def by(right: Floats) -> Solution:
            mark, end = rows.cancel_mark, rows.deadline
            return solve(hessian, right, self.threads, cancel_mark=mark, deadline=end)

        if self.pairs is None:
            return by(found.gradient)
        seen: list[Solution] = []

        def step_by(right: Floats) -> Floats:
            seen.append(by(right))
            return seen[-1].step

        step = self.pairs.direction(state, active, found.gradient, step_by)
        return replace(seen[0], step=step)

    def step_of(self, state: State, active: Index, found: Found) -> Floats:
        """As in `Steps`."""
        assert self.pairs is not None
        assert found.hessian is not None
        hessian = found.hessian
        return self.pairs.direction(
            state, active, found.gradient, lambda q: solve(hessian, q, self.threads).step
        )

    def _damp(self, groups: Index) -> None:
        """Increases the damping of groups whose full step was too long because of rounding.

        Levenberg, A method for the solution of certain non-linear problems in least squares, 1944.
        """
        more = np.maximum(MORE_DAMPING * self.damping[groups], LEAST_DAMPING)
        self.damping[groups] = np.minimum(more, MOST_DAMPING)

    def _add_damping(self, hessian: Triangles, found: Found, active: Index) -> Triangles:
        """Adds damping for a loss that is flat outside a corner, whose step may have no length.

        The damping vanishes with the gradient, so that convergence stays superlinear (Li,
        Fukushima, Qi and Yamashita, Regularized Newton methods for convex minimization problems,
        2004).
        """
        damping = self.damping[active]
        if not self.flat and not (damping.any() and isinstance(hessian, np.ndarray)):
            return hessian
        damped = hessian.copy()
        if self.metric is not None:
            size = self.metric.size(active, found.gradient)
            if self.unit is not None:  # of a curvature by weights in units of the label
                size = size / self.unit[active]
            damped += small.DAMPING * size[:, None] * self.metric.triangles[active]
            return damped
        if not self.flat:
            add_to_diagonal(damped, damping[:, None] * diagonal_of(damped))
            return damped
        size = np.abs(found.gradient).max(axis=1)
        if self.unit is not None:  # of a curvature by weights in units of the label
            size = size / self.unit[active]
        add_to_diagonal(damped, small.DAMPING * size[:, None])
        return damped

    def _renew(self, state: State, active: Index, found: Found) -> NDArray[np.bool_]:
        """Tests which groups need H at their next weights; remembers those for which it will be
        stale.
        """
        n = len(state.v)
        if self.violation is None:
            self.violation = np.full(n, np.inf)
        before = self.violation
        slow = state.stale[active] & (found.violation > SLOW * before[active])
        renew: NDArray[np.bool_] = (found.violation > NEAR) | slow | self.flat
        if self.quadratic:
            renew[:] = False
        else:
            state.stale[active] = ~renew
        before[active] = found.violation
        return renew

    @staticmethod
    def _precise(
        part: Problem, state: State, solution: Solution
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Active groups whose products must be of doubles, before and from now on: from the first
        small pivot on, or the first that vanishes, which rounding may have done.
        """
        before = state.precise[state.active]
        free = (part.scale > 0).sum(axis=1) + int(part.rows.fit_intercept)
        small = (solution.pivot < ILL_CONDITIONED) | (solution.rank < free)
        state.precise[state.active] = before | small
        return before, before | small


def evaluate(
    part: Problem,
    v: Floats,
    hessian: Triangles,
    renew: NDArray[np.bool_],
    precise: NDArray[np.bool_],
) -> Found:
    """Makes one pass at v, for the curvature too where it is to be renewed."""
    n = len(v)
    found = None
    for curvature, exact in ((False, False), (True, False), (True, True)):
        chosen = renew & (precise == exact) if curvature else ~renew
        which = chosen.nonzero()[0]
        if len(which) == n:
            every = replace(part, precise=exact).evaluate(v, curvature)
            return every if curvature else replace(every, hessian=hessian)  # nothing writes to it
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


USUAL = Usual(((3, 4, 4, 6), (5, 5.5, 6.2, 9), (8, 10, 12, 20)))
"""However the features' variances spread: Newton's steps do not depend on the units."""
RENEWED = 1.5
"""Iterations that compute the curvature anew: those far from the optimum."""
MOST_FEATURES = 4096
MOST_BYTES = float(1 << 30)


class Newton(Algorithm):
    name = "newton"
    multinomial = True
    title = "Newton's method; at the hinge an interior-point method"
    source = "Nocedal and Wright 2006, Mehrotra 1992"
    by_parts = True
    first_choice = True
    max_iter = 100
    sets_steps = False
    proves_gap = True
    speeds_up = True
    begins_by_curvature = True
    step_widths = (8, 64, 256, 512)
    step_storage = "dense float64"

    def operators(
        self, problem: Problem, plan: Plan, start: Floats, deadline: float | None
    ) -> Operators:
        """The operators; on a device many small groups have an Update of their own.

        For a hinge whose corner is not smoothed, it is an interior-point method.
        """
        if not problem.task.smooth and problem.rows.smoothing == 0:
            return interior.operators(problem, plan, start, deadline)
        goal = tolerance(problem, plan)
        compute = Evaluate(curvature=True)
        in_place = replace(plan, epsilon=goal.epsilon)
        rows, metric = problem.rows, None
        by_group = None
        if rows.sparse and problem.begun is None:
            by_group = small.update(problem, in_place, deadline)
        if by_group is not None:
            compute = Evaluate()
        if problem.task.flat:
            metric = metric_of(problem, plan.threads)
        update = NewtonStep(plan, problem, metric)
        if problem.begun is not None:
            apart = None
            if goal.epsilon < plan.epsilon:
                goal = LastStep(goal, ENOUGH * plan.epsilon, update)
                pivot = ILL_CONDITIONED if problem.rows.groups["kind"][0] in FLOATS else 0.0
                apart = Chord(goal, Steepness(NEAR, SLOW, pivot))
            compute = EvaluateNear(problem.begun, evaluate, NEAR, apart)
        chosen: tuple[Compute, Update] = (compute, by_group or update)
        if isinstance(rows, DevicePass):
            chosen = fused.operators(problem, in_place) or chosen
        return on_all_rows(problem, plan, deadline, StartAt(start), *chosen, goal)

    def starts_on_sample(self, task: LinearTask | None) -> bool:
        return task is None or task.smooth

    def first_on_sample(self, whole: float, enough: bool) -> float | None:
        """Most of the iterations, since the sample's optimum is near that of all rows."""
        return max(1.0, (1.0 if enough else 0.6) * whole)

    def smooths(self, task: LinearTask, options: LinearOptions | None = None) -> bool:
        """The interior-point method is the hinge's, and that of quantiles with l1."""
        own = options is not None and options.l1 > 0 and task.straight
        return not task.smooth and not task.is_hinge and not own

    def smooths_on_gpu(self, task: LinearTask) -> bool:
        """The GPU has no interior-point method."""
        return not task.smooth

    def refusal(self, task: LinearTask) -> str | None:
        return None if task.has_curvature else f"task '{task.name}' has no curvature"

    def unfit(self, options: LinearOptions, task: LinearTask | None = None) -> Unfit | None:
        """As the base class has it; the interior-point method has the penalty."""
        if options.l1 > 0 and not (task is not None and task.straight):
            return Unfit("l1", f"l1 > 0 leaves no curvature for {self.name}")
        return None

    def why_not(self, question: Question, memory: float) -> str | None:
        features = question.seen.n_features
        if question.gpu and question.options.l1:
            return "the GPU has no interior-point method"
        if features > MOST_FEATURES:
            return f"{features:,} features make systems of more than {MOST_FEATURES:,} unknowns"
        if memory > MOST_BYTES:
            return f"its curvature would take {memory / 2**20:,.0f} MiB"
        return None

    def cost(
        self, costs: Costs, plan: Plan, iterations: float = TYPICAL, on_sample: float = 0.0
    ) -> Cost:
        task, weights = costs.question.task, costs.on_weights(SYSTEM_STEP)
        memory = self.memory(costs)
        if not task.smooth:
            return interior.cost(costs, weights, memory)
        gradient, curvature = costs.rows_pass("gradient"), costs.rows_pass("curvature")
        sampled = plan.sample_stride > 1
        rough = cost_of_reads(costs, on_sample if sampled else iterations)
        reads = SEARCHED * gradient if sampled else rough
        first = curvature + (curvature / plan.sample_stride) * sampled
        stale = min(max(iterations - (0.0 if sampled else RENEWED), 0.0), 1.0)
        fresh = 1.0 if task.quadratic else 1.0 - stale
        return Cost(
            costs.common() + first,
            reads + weights,
            costs.inference(fresh, precise=False),
            rough / plan.sample_stride + weights,
            memory,
            parts=Parts(weights, gradient, curvature),
        )

    def most_iterations(self, task: LinearTask) -> int:
        return self.max_iter if task.smooth else interior.MAX_ITER

    def usual(self, question: Question, k: float) -> Interval:
        if question.task.quadratic:
            return Interval(1, 1, 2)
        if not question.task.smooth:
            return interior.usual(k)
        return USUAL.iterations(question, k)

    def memory(self, costs: Costs) -> float:
        """Bytes including the curvature and each thread's sums; for the hinge, more for each
        row.
        """
        seen, threads, p = costs.question.seen, costs.question.threads, costs.p
        total = costs.memory(self.vectors, 0 if costs.question.task.smooth else interior.ROW_BYTES)
        triangle = p * (p + 1) / 2 * DOUBLE
        chunks = curvature_chunks(seen, p)
        kept = 5 if costs.question.task.flat else 3  # with two of a metric
        return total + (triangle * (kept * seen.groups + chunks) + 4 * triangle * threads)


def cost_of_reads(costs: Costs, iterations: float) -> float:
    """Seconds of an iteration's passes: the curvature is renewed until near the optimum."""
    gradient, curvature = costs.rows_pass("gradient"), costs.rows_pass("curvature")
    anew = 0.0
    if not costs.question.task.quadratic:
        anew = min(RENEWED / max(iterations, 1.0), 1.0)
    return SEARCHED * ((1 - anew) * gradient + anew * curvature)


ALGORITHM = Newton()
