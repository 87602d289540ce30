"""Shared by algorithms that read all rows in each iteration: known results are reused.

The metric gives sizes of gradients that do not depend on how the features lean on each other.
Where a loss has no curvature but at its corner, Newton's step is damped, and a training ends by
its gradient. By coordinate a gradient along nearly collinear features is small far from the
optimum. In the metric of the rows, sqrt(g' C^-1 g) with C = mean(z z'), it is as large as along
any other direction: an affine change of the features changes neither it nor a step that is damped
by C.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats, Triangles, solve
from tuskml.learners.linear.gap import SELDOM
from tuskml.learners.linear.operators import Converge, Operators, Stage, State, Tolerance
from tuskml.learners.linear.planner.cost import LOSS_ALONE, Cost, Costs, Parts
from tuskml.learners.linear.problem import Found, Index, Problem
from tuskml.learners.linear.request import Plan
from tuskml.learners.linear.tasks import LINEAR

MOST_FEATURES = 2048
"""With more features the metric would take longer than the steps of algorithms without curvature.
"""


class Metric:
    """The metric C of the rows of G groups, as packed triangles (G, p (p + 1) / 2)."""

    def __init__(self, triangles: Triangles, threads: int) -> None:
        self.triangles, self.threads = triangles, threads

    def size(self, which: Index, gradient: Floats) -> Floats:
        """The norm (n,) of gradients (n, p) of these groups."""
        step = solve(self.triangles[which], gradient, self.threads).step
        return np.asarray(np.sqrt(np.maximum(np.einsum("gp,gp->g", step, gradient), 0.0)))


class InMetric(Tolerance):
    """Converge: the gradient is small in the metric of the rows too."""

    def __init__(self, goal: Tolerance, problem: Problem, metric: Metric) -> None:
        super().__init__(goal.criterion, goal.epsilon, goal.unit)
        self.problem, self.metric = problem, metric

    def __call__(self, state: State, active: Index, found: Found | None) -> NDArray[np.bool_]:
        done = super().__call__(state, active, found)
        if found is None or self.criterion != "gradient" or not done.any():
            return done
        which = np.flatnonzero(done)
        size = self.metric.size(active[which], found.gradient[which])
        unit = self.problem.of(active[which]).in_gradient_units(size)
        done[which[unit > self.epsilon]] = False
        return done


def in_metric(problem: Problem, goal: Converge, threads: int) -> Converge:
    """Returns the criterion in the metric of the rows, where the goal is one of gradients."""
    if not isinstance(goal, Tolerance) or isinstance(goal, InMetric):
        return goal
    metric = metric_of(problem, threads)
    return goal if metric is None else InMetric(goal, problem, metric)


def metric_of(problem: Problem, threads: int) -> Metric | None:
    """Returns the metric of rows in memory, for a loss that is flat outside a corner."""
    known = problem.task.own is None and problem.rows.open is None
    if not problem.task.flat or not known or problem.d > MOST_FEATURES:
        return None
    task = LINEAR["linear"]
    rows = replace(problem.rows, loss=task.loss, smoothing=0.0)
    squared = replace(problem, task=task, rows=rows, l2=0.0, precise=True)
    origin = np.zeros((problem.n_groups, problem.d + 1))
    found = squared.evaluate(origin, curvature=True).hessian
    return Metric(found, threads) if isinstance(found, np.ndarray) else None


LOOK_PASSES = 2 + LOSS_ALONE
"""Passes that evaluate the duality gap: a gradient for each class, and the hinge itself."""
LAST_LOOKS = 2
"""Evaluations before the gap is small enough, besides those every SELDOM iterations."""


class Evaluate:
    """Compute: one pass at the weights, unless the line search has just made it."""

    def __init__(self, curvature: bool = False) -> None:
        self.curvature = curvature

    def __call__(self, part: Problem, state: State) -> Found:
        kept, state.found = state.found, None
        if kept is not None:
            return kept
        return part.evaluate(state.v[state.active], self.curvature)


def settle_move(
    state: State, v: Floats, found: Found, moved: NDArray[np.bool_], endless: bool
) -> None:
    """Takes over the result of a line search; a group that found no better point is finished."""
    active = state.active
    state.v[active] = v
    if moved.all() or endless:
        state.found = found
        return
    stuck = active[~moved]
    state.running[stuck] = False
    state.objective[stuck] = found.objective[~moved]
    state.found = found.of(moved)


def cost_of_passes(
    costs: Costs, plan: Plan, searched: float, first: float, weights: float, memory: float
) -> Cost:
    """The cost of iterations that make some passes for the gradient.

    searched: passes an iteration; first: further ones of the first iteration; weights: seconds of
    an iteration's work on weights; memory: bytes.
    """
    gradient = costs.rows_pass("gradient")
    parts = Parts(weights, gradient)
    weights += (searched - 1) * costs.again
    smoothed = len(plan.smoothing) > 1
    look = LOOK_PASSES * gradient * smoothed  # at the gap
    return Cost(
        costs.common() + (len(plan.smoothing) + first / plan.sample_stride) * gradient,
        searched * gradient + weights + look / SELDOM,
        costs.inference(fresh=0.0) + costs.sharpening_seconds(plan.smoothing) + LAST_LOOKS * look,
        searched * gradient / plan.sample_stride + weights,
        memory,
        parts=parts,
    )


# Backtracking line search for a batch of groups: steps shrink until the objective falls.


SUFFICIENT = 1e-4
HALF = 0.5
MOST_SHRUNK, LEAST_SHRUNK = 0.02, HALF
"""Bounds of the next step as a share of a step that failed."""
OF_WHOLE_STEPS = 0.1
"""As MOST_SHRUNK, for steps whose length is right near the optimum (Dennis and Schnabel, Numerical
Methods for Unconstrained Optimization, 1983, section 6.3.2). The logistic loss is straight far
from its optimum, and the parabola through a point there gives too short a step.
"""
MOST_TRIALS = 40

Propose = Callable[[Index, Floats], Floats]
Gain = Callable[[Index, Floats], Floats]
Look = Callable[[Index, Floats], Found]


@dataclass(frozen=True)
class Bounds:
    """Bounds of a search: on the objective, and on the share of a failed step that is tried next.

    highest: what the objective (G,) must fall below where it may rise, None: its value at v.
    """

    highest: Floats | None = None
    most_shrunk: float = MOST_SHRUNK


BOUNDS = Bounds()


def backtrack(
    look: Look,
    v: Floats,
    found: Found,
    step: Floats,
    propose: Propose,
    gain: Gain,
    bounds: Bounds = BOUNDS,
) -> tuple[Floats, Found, NDArray[np.bool_]]:
    """Moves each group from v to propose(groups, step), shrinking its step until that helps.

    look(groups, candidate) evaluates the objective; gain(groups, candidate) is its change by a
    linear model, negative. step (G,) is left at the accepted length. Returns weights, the result
    of the pass there, and which groups moved; the others found no better point and stay at v.
    """
    pending = np.arange(len(v))
    moved_v, moved_found = v, found
    highest = bounds.highest
    allowed = found.slack if highest is None else found.slack + highest - found.objective
    for trial in range(MOST_TRIALS):
        candidate = propose(pending, step[pending])
        there = look(pending, candidate)
        promised = gain(pending, candidate)
        rise = there.objective - found.objective[pending]
        good = rise <= SUFFICIENT * promised + allowed[pending]
        if trial == 0 and good.all():
            return candidate, there, np.ones(len(v), bool)
        if trial == 0:
            moved_v, moved_found = v.copy(), found.of(pending)
        moved_v[pending[good]] = candidate[good]
        moved_found.put(pending[good], there.of(good))
        pending = pending[~good]
        if not len(pending):
            break
        if highest is not None:
            step[pending] *= HALF
        else:
            step[pending] *= np.maximum(shrunk(rise[~good], promised[~good]), bounds.most_shrunk)
    moved = np.ones(len(v), bool)
    moved[pending] = False
    return moved_v, moved_found, moved


def shrunk(rise: Floats, promised: Floats) -> Floats:
    """The share of failed steps (G,) at which the objective is about least.

    rise: of the objective; promised: change by the slope at the start, negative. Where the
    objective is not finite: the least share.
    """
    bent = rise - promised
    known = np.isfinite(bent) & (bent > 0)
    share = np.divide(-promised, 2 * bent, where=known, out=np.zeros_like(bent))
    return np.asarray(np.clip(share, MOST_SHRUNK, LEAST_SHRUNK))


# The first pass of a training, made during planning and reused by the training.
#
# Algorithm 1 of Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD
# 2017, discards the results of its trials. Where the plan that is likely to train begins by a pass
# over the rows, that pass is made first: it tells more about the other plans than any sample, and
# costs nothing if the plan stays the same.


@dataclass(frozen=True)
class FirstPass:
    """The result of a pass at the start, on every stride-th chunk of the rows; seconds: its
    duration.
    """

    found: Found
    stride: int
    seconds: float

    def reuse(self, operators: Operators, problem: Problem) -> Operators:
        """The operators of a training's first stage, which reuse the result."""
        compute = operators.compute
        if problem.rows.stride != self.stride or not isinstance(compute, Evaluate):
            return operators
        found = self.found if compute.curvature else replace(self.found, hessian=None)
        return replace(operators, stage=FirstPassStage(operators.stage, found))


@dataclass(frozen=True)
class FirstPassStage:
    """Stage: the same start, with the result of the first pass known."""

    inner: Stage
    found: Found

    def __call__(self, problem: Problem) -> State:
        state = self.inner(problem)
        state.found = self.found
        return state


@dataclass(frozen=True)
class Beginning:
    """The start of a training: weights v (G, p) and results known there."""

    v: Floats
    kept: FirstPass | None = None


def first_pass(problem: Problem, start: Floats, stride: int) -> FirstPass:
    """The pass for the curvature at the start (G, p)."""
    began = time.perf_counter()
    with np.errstate(all="ignore"):
        found = problem.on(replace(problem.rows, stride=stride)).evaluate(start, curvature=True)
    return FirstPass(found, stride, time.perf_counter() - began)
