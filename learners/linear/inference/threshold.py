"""Huber's loss, whose threshold is in units of the label or a multiple of the residuals' scale.

By default it is EFFICIENT times that scale, the median of the absolute residuals over its value
for a standard normal distribution, where the estimator then has 95 % of the efficiency of least
squares (Huber, Robust statistics, 1981, 7.8; as MASS's `rlm` and statsmodels' `RLM` have it).
Weights and threshold are updated in turn, the first weights by least squares. A threshold from the
options is approached from above too: for a narrow one the first weights would have no curvature.

Where more than half of the residuals vanish so does the scale. The threshold then ends at LEAST of
the labels' spread, at which the loss is that of median regression. Where all of them vanish, least
squares has the optimum of each threshold, and no narrow one has to be approached.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats, solve
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.inference.determined import MOST_WEIGHTS
from tuskml.learners.linear.inference.last_steps import polish
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import Plan

EFFICIENT = 1.345
NORMAL = 0.6744897501960817
"""The median of the absolute value of a standard normal variable."""
LEAST = 1e-9
FINEST = 1e-6
"""The least unit in which convergence is measured, as a share of the labels' spread."""
NEARLY_EXACT = 1e-3
"""Residuals of least squares that its tolerance may explain, as a share of the labels' spread."""
ROUNDS = 100
ENOUGH, SETTLED = 0.1, 1e-9
"""The logarithm of the threshold converges to this share of epsilon, or to the second value if
that is larger.
"""
NARROWER = 1 / 3
"""The ratio by which a threshold from the options may be narrower than the one before it."""
WIDEST_STEP = 30.0
"""Times the step to the next estimate, of one that takes its trend into account."""

Again = Callable[[Problem, Floats], State]


def settled(plan: Plan) -> float:
    """The tolerance of the logarithm of an estimated threshold, for a plan."""
    noise = 1.0 if ALGORITHMS[plan.family].stochastic else ENOUGH
    return max(noise * plan.epsilon, SETTLED)


def with_threshold(
    problem: Problem, state: State, delta: float | None, plan: Plan, again: Again
) -> tuple[Problem, State]:
    """The problem with its threshold, and where the descent for it ended.

    state: of least squares; delta: the threshold, None: by the residuals' scale; plan: of the
    descents; again: descends from weights v (G, p).
    """
    least = settled(plan)
    unit = np.ones(problem.n_groups) if problem.weight_unit is None else problem.weight_unit
    if delta is not None:
        return narrowed(problem, state, np.full(len(unit), delta), unit, again)
    again = arriving(again, problem, plan)
    trend = Trend(len(unit))
    before = scaled(problem, state, unit)
    if (before < NEARLY_EXACT * unit).any() and not state.out_of_time:
        state, exact = exactly(problem, state, before, unit, again)  # changes no other group
        before = np.where(exact, LEAST * unit, scaled(problem, state, unit))
        if exact.all():
            problem = at_threshold(problem, before, before, unit)
            state.converged[:] = True
            return problem, state
    for _ in range(ROUNDS):
        problem, state = descended(problem, state, before, unit, again)
        estimate = scaled(problem, state, unit)
        moved = np.abs(np.log(estimate / before)) > least
        if not moved.any() or state.out_of_time:
            break
        before = np.where(moved, np.maximum(trend.next(before, estimate), LEAST * unit), before)
    state.converged &= ~moved
    return problem, state


def exactly(
    problem: Problem, state: State, threshold: Floats, unit: Floats, again: Again
) -> tuple[State, NDArray[np.bool_]]:
    """Least squares at the tolerance of thresholds (G,), and which groups have no residuals
    there.
    """
    near = threshold < NEARLY_EXACT * unit
    ended = again(at_threshold(problem, unit, threshold, unit), state.v)
    ended.v[~near] = state.v[~near]
    ended.iterations = np.where(near, ended.iterations, 0) + state.iterations
    return ended, near & (np.sqrt(2 * np.maximum(ended.objective, 0.0)) <= LEAST * unit)


def arriving(again: Again, problem: Problem, plan: Plan) -> Again:
    """Descents that end by Newton's step: the error that a tolerance of gradients leaves along
    flat directions moves the median residual by far more.
    """
    if problem.l1 or problem.d >= MOST_WEIGHTS or ALGORITHMS[plan.family].stochastic:
        return again

    def arrived(at: Problem, v: Floats) -> State:
        state = again(at, v)
        which = np.flatnonzero(state.converged)
        if state.hessian is None and len(which) and not state.out_of_time:
            part = at.of(which)
            found = part.evaluate(state.v[which], curvature=True)
            hessian = np.asarray(found.hessian)
            polish(at, state, which, solve(hessian, found.gradient, plan.threads).step)
        return state

    return arrived


def narrowed(
    problem: Problem, state: State, delta: Floats, unit: Floats, again: Again
) -> tuple[Problem, State]:
    """Trains with thresholds delta (G,), approached from that of least squares."""
    with np.errstate(invalid="ignore"):
        wide = np.sqrt(2 * np.maximum(state.objective, 0.0))
    now = np.maximum(np.where(np.isfinite(wide), wide, delta), delta)
    while True:
        problem, state = descended(problem, state, now, unit, again)
        if state.out_of_time or (now <= delta).all():
            break
        now = np.maximum(NARROWER * now, delta)
    state.converged &= now <= delta
    return problem, state


def descended(
    problem: Problem, state: State, threshold: Floats, unit: Floats, again: Again
) -> tuple[Problem, State]:
    """The problem with a threshold (G,), and where a descent from the state ends."""
    problem = at_threshold(problem, threshold, threshold, unit)
    iterations = state.iterations
    state = again(problem, state.v)
    state.iterations += iterations
    return problem, state


def at_threshold(problem: Problem, threshold: Floats, least: Floats, unit: Floats) -> Problem:
    """The problem with a threshold (G,); its convergence is measured in units of `least` (G,)."""
    parameter = np.stack([threshold, np.ones(len(threshold))], axis=1)
    finer = np.clip(least, FINEST * unit, unit)
    at = replace(problem.rows, parameter=parameter)
    return replace(problem.on(at), weight_unit=finer, gradient_unit=finer)


def scaled(problem: Problem, state: State, unit: Floats) -> Floats:
    """The threshold by the residuals' scale, (G,)."""
    median = problem.rows.median_residual(problem.to_caller(state.v))
    found = EFFICIENT / NORMAL * median
    return np.where(np.isfinite(found), np.maximum(found, LEAST * unit), unit)


class Trend:
    """The next thresholds (G,) on the way to a fixed point of their estimates.

    The secant method, whose steps follow the estimate, at most WIDEST_STEP times as far, and
    bisect rather than leave the range between thresholds known to be too low and too high. All is
    of logarithms.
    """

    def __init__(self, n: int) -> None:
        self.at, self.off = np.full(n, np.nan), np.full(n, np.nan)
        self.low, self.high = np.full(n, -np.inf), np.full(n, np.inf)

    def next(self, threshold: Floats, estimate: Floats) -> Floats:
        """The thresholds to try next."""
        at, off = np.log(threshold), np.log(estimate / threshold)
        self.low = np.where(off > 0, at, self.low)
        self.high = np.where(off < 0, at, self.high)
        wrong = np.abs(off) > WIDEST_STEP * (self.high - self.low)  # rounding decided a side
        self.low[wrong], self.high[wrong] = -np.inf, np.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (off - self.off) / (at - self.at)
            times = np.clip(-1 / slope, 1 / WIDEST_STEP, WIDEST_STEP)
        self.at, self.off = at, off
        there = at + off * np.where(np.isfinite(times) & (slope < 0), times, 1.0)
        inside = (there > self.low) & (there < self.high)
        with np.errstate(invalid="ignore"):
            middle = (self.low + self.high) / 2
        outside = np.where(np.isfinite(middle), middle, at + off)
        return np.asarray(np.exp(np.where(inside, there, outside)))
