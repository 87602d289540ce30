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

from dataclasses import replace

import numpy as np

from tuskml.kernels.passes import Floats, solve
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.inference.determined import MOST_WEIGHTS
from tuskml.learners.linear.inference.last_steps import polish
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Index, Problem
from tuskml.learners.linear.request import Plan
from tuskml.learners.linear.turns import Again, Counts, Turns

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


def threshold_tolerance(plan: Plan) -> float:
    """The tolerance of the logarithm of an estimated threshold, for a plan."""
    noise = 1.0 if ALGORITHMS[plan.family].stochastic else ENOUGH
    return max(noise * plan.epsilon, SETTLED)


def with_threshold(
    problem: Problem, state: State, delta: float | None, plan: Plan, turns: Turns
) -> tuple[Problem, State]:
    """The problem with its threshold, and where the descent for it ended.

    state: of least squares; delta: the threshold, None: by the residuals' scale; plan: of the
    descents. A group whose threshold has settled stays as it is.
    """
    least = threshold_tolerance(plan)
    unit = np.ones(problem.n_groups) if problem.weight_unit is None else problem.weight_unit
    if delta is not None:
        return narrow_threshold(problem, state, np.full(len(unit), delta), unit, turns)
    turns = replace(turns, again=arriving(turns.again, plan))
    before, trend = scale_threshold(problem, state, unit), Trend(len(unit))
    moving = np.arange(len(unit))
    near = np.flatnonzero(before < NEARLY_EXACT * unit)
    if len(near) and not state.out_of_time:
        exact = exactly(problem, state, near, before, unit, turns)
        before[near] = scale_threshold(problem, state, unit)[near]
        before[exact], state.converged[exact] = LEAST * unit[exact], True
        moving = np.setdiff1d(moving, exact)
    problem = at_threshold(problem, before, before, unit)
    for _ in range(ROUNDS if len(moving) else 0):
        turns.descend(problem, state, moving)
        estimate = np.where(np.isin(np.arange(len(unit)), moving), 0, before)
        estimate[moving] = scale_threshold(problem.of(moving), state, unit, moving)
        moved = np.abs(np.log(estimate / before))[moving] > least
        short = turns.cut_short(state, moving)
        state.converged[moving[moved]] = False  # unless it goes on and then settles
        rough = moving[short]
        trend.forget(rough)
        going = (moved | short) & (turns.left(state)[moving] > 0)
        moving = moving[going]
        if not len(moving) or state.out_of_time:
            break
        after = np.maximum(trend.next(before, estimate), LEAST * unit)
        trend.forget(rough)
        before = before.copy()
        before[moving] = after[moving]
        problem = at_threshold(problem, before, before, unit)
    return problem, state


def exactly(
    problem: Problem, state: State, near: Index, threshold: Floats, unit: Floats, turns: Turns
) -> Index:
    """Goes on to least squares at the tolerance of thresholds (G,) in the groups `near`; returns
    those that have no residuals there.
    """
    turns.descend(at_threshold(problem, unit, threshold, unit), state, near)
    left = np.sqrt(2 * np.maximum(state.objective[near], 0.0))
    return np.asarray(near[left <= LEAST * unit[near]])


def arriving(again: Again, plan: Plan) -> Again:
    """Descents that end by Newton's step: the error that a tolerance of gradients leaves along
    flat directions moves the median residual by far more.
    """
    if ALGORITHMS[plan.family].stochastic:
        return again

    def arrive(at: Problem, v: Floats, most: Counts) -> State:
        state = again(at, v, most)
        which = np.flatnonzero(state.converged)
        wanted = not at.l1 and at.d < MOST_WEIGHTS and state.hessian is None
        if wanted and len(which) and not state.out_of_time:
            part = at.of(which)
            found = part.evaluate(state.v[which], curvature=True)
            hessian = np.asarray(found.hessian)
            polish(at, state, which, solve(hessian, found.gradient, plan.threads).step)
        return state

    return arrive


def narrow_threshold(
    problem: Problem, state: State, delta: Floats, unit: Floats, turns: Turns
) -> tuple[Problem, State]:
    """Trains with thresholds delta (G,), approached from that of least squares.

    A group that has hardly any iteration left goes on to its own at once.
    """
    with np.errstate(invalid="ignore"):
        wide = np.sqrt(2 * np.maximum(state.objective, 0.0))
    now = np.maximum(np.where(np.isfinite(wide), wide, delta), delta)
    moving = np.arange(len(now))
    while True:
        problem = at_threshold(problem, now, now, unit)
        last = now[moving] <= delta[moving]
        turns.descend(problem, state, moving[last], last=True)
        turns.descend(problem, state, moving[~last])
        moving = moving[~last]
        if state.out_of_time or not len(moving):
            break
        few, narrower = turns.left(state)[moving] <= 1, now[moving] * NARROWER
        now = now.copy()
        now[moving] = np.where(few, delta[moving], np.maximum(narrower, delta[moving]))
    state.converged &= now <= delta
    return problem, state


def at_threshold(problem: Problem, threshold: Floats, least: Floats, unit: Floats) -> Problem:
    """The problem with a threshold (G,); its convergence is measured in units of `least` (G,)."""
    parameter = np.stack([threshold, np.ones(len(threshold))], axis=1)
    finer = np.clip(least, FINEST * unit, unit)
    at = replace(problem.rows, parameter=parameter)
    return replace(problem.on(at), weight_unit=finer, gradient_unit=finer)


def scale_threshold(
    problem: Problem, state: State, unit: Floats, which: Index | slice = slice(None)
) -> Floats:
    """The thresholds (G,) by the residuals' scale; which: the groups of the state that the problem
    has.
    """
    median = problem.rows.median_residual(problem.to_caller(state.v[which]))
    found = EFFICIENT / NORMAL * median
    own = unit[which]
    return np.where(np.isfinite(found), np.maximum(found, LEAST * own), own)


class Trend:
    """The next thresholds (G,) on the way to a fixed point of their estimates.

    The secant method, whose steps follow the estimate, at most WIDEST_STEP times as far, and
    bisect rather than leave the range between thresholds known to be too low and too high. All is
    of logarithms.
    """

    def __init__(self, n: int) -> None:
        self.at, self.off = np.full(n, np.nan), np.full(n, np.nan)
        self.low, self.high = np.full(n, -np.inf), np.full(n, np.inf)

    def forget(self, which: Index) -> None:
        """Forgets thresholds at which a descent did not arrive: their estimates are too rough."""
        for one, nothing in ((self.at, np.nan), (self.off, np.nan), (self.low, -np.inf)):
            one[which] = nothing
        self.high[which] = np.inf

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
