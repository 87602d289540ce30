"""Runs candidates on a sample of the rows, under a time budget, and keeps the errors they show.

After ML4all, section 5 (Algorithm 1). The sample is every k-th chunk of the rows, where they
lie. Of a batch of many groups a few stand for all: those with most rows.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OperatorError
from tuskml.kernels.passes import Floats
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.descent import to_the_gap
from tuskml.learners.linear.operators import State, Tolerance, run
from tuskml.learners.linear.own.assembled import operators_of
from tuskml.learners.linear.own.operators import steps_in_python
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.planner.asked import Speculate
from tuskml.learners.linear.planner.choice import SAMPLE_AT_LEAST, Candidate, Speculated
from tuskml.learners.linear.problem import Found, Index, Problem
from tuskml.optimizer.curves import Curve, fit

STAND_INS = 4
"""Groups that are tried of a batch of many."""
MOST_ITERATIONS = 200
LEAST_ERROR = 1e-300
FIRST_SHARE = 0.7
"""Of the time that is left, for a candidate that others follow."""
SHARE, LEAST_SECONDS = 0.05, 0.002
"""Of the training that is planned; of however short a one so many seconds."""


def budget(expected: float) -> float:
    """Seconds that planning a training of so many may take."""
    return max(SHARE * expected, LEAST_SECONDS)


@dataclass
class Errors:
    """Converge: notes the criterion's worst value by iteration, and judges as the tolerance does.

    floor: the smoothing of the hinge's corner, below which no error is.
    """

    within: Tolerance
    floor: float
    found: list[float]

    def __call__(self, state: State, active: Index, found: Found | None) -> NDArray[np.bool_]:
        measured = self.within.measured(state, active, found)
        if measured is None:
            return np.zeros(len(active), bool)
        if len(active):
            self.found.append(max(float(np.max(measured)), self.floor))
        return np.asarray(measured <= self.within.epsilon)


def stand_ins(problem: Problem, start: Floats) -> tuple[Problem, Floats]:
    """The largest groups of a batch."""
    if problem.n_groups <= STAND_INS:
        return problem, start
    which = np.sort(np.argsort(problem.rows.groups["n_rows"], kind="stable")[-STAND_INS:])
    return problem.of(which), start[which]


def sample_stride(problem: Problem, wanted: float, asked: Speculate | None) -> int:
    """Every k-th chunk: the sample is about that share of the rows, and large enough.

    asked: what the option says, about so many rows in whole chunks.
    """
    rows = int(problem.rows.groups["n_rows"].max())
    if asked is not None:
        return max(1, rows // asked.sample)
    least = (
        max(SAMPLE_AT_LEAST, 4 * (problem.d + 1)) if not problem.rows.sparse else SAMPLE_AT_LEAST
    )
    return int(max(1, min(1 / max(wanted, 1e-3), rows // least, 64)))


def speculate(
    problem: Problem,
    start: Floats,
    candidates: Sequence[Candidate],
    seconds: float,
    asked: Speculate | None = None,
) -> dict[str, Speculated]:
    """What each of the candidates did; those that time did not suffice for are left out.

    seconds: for all of them. What one leaves over is the next ones'. asked: the option.
    """
    problem, start = stand_ins(problem, start)
    end = time.monotonic() + seconds
    tried = [one for one in candidates if affordable(one, seconds)]
    known: dict[str, Speculated] = {}
    for place, one in enumerate(tried):
        now = time.monotonic()
        share = (end - now) * (1.0 if place == len(tried) - 1 else FIRST_SHARE)
        if share <= 0:
            break
        passes = max(one.iterations.point, 4.0)
        wanted = share / (max(one.cost.iteration, 1e-9) * passes)
        stride = sample_stride(problem, wanted, asked)
        if not problem.task.smooth and proves_end(one.plan):
            if asked is None and one.iterations.low * one.cost.iteration / stride > share:
                continue  # its end is all that tells, and would not be reached
            found = tried_to_the_gap(problem, start, one.plan, stride, now + share)
            if found is not None:  # it takes so long, and the others are worth a part of that
                known[one.plan.algorithm] = found
                takes = one.cost.total(len(found.curve.errors))
                end = min(end, time.monotonic() + budget(takes))
            continue
        try:
            errors = trial(problem, start, looser(one.plan, asked), stride, now + share)
        except OperatorError:
            if one.plan.base is None:
                raise
            continue  # nobody has asked for this algorithm of the user's own
        curve = fit(errors)
        if curve is None and one.plan.base is not None:
            curve = arrived(errors, one.plan.epsilon)
        if curve is not None:
            known[one.plan.algorithm] = Speculated(curve, 1.0 / stride)
    return known


def looser(plan: Plan, asked: Speculate | None) -> Plan:
    """The plan to the tolerance of the option, from which on its errors are extrapolated."""
    return plan if asked is None else replace(plan, epsilon=max(plan.epsilon, asked.epsilon))


def proves_end(plan: Plan) -> bool:
    """Whether a training of the hinge ends by a gap, and its trial has to."""
    return len(plan.smoothing) > 1 or ALGORITHMS[plan.family].proves_gap


def tried_to_the_gap(
    problem: Problem, start: Floats, plan: Plan, stride: int, deadline: float
) -> Speculated | None:
    """How many iterations a sample takes to the hinge's optimum; None where time does not suffice.

    Nothing is extrapolated: a few iterations on a smoothed corner do not tell how many follow.
    """
    within = replace(plan, sample_stride=1, threads=problem.rows.threads)
    sample = problem.on(replace(problem.rows, stride=stride))
    state = to_the_gap(sample, start, within, deadline)
    if state is None:
        return None
    errors = (*(1.0,) * max(int(state.iterations.max()), 1), LEAST_ERROR)
    return Speculated(Curve("linear", errors, (0.0, 0.0), 1.0, 0.0, 0.0), 1.0 / stride)


def arrived(errors: list[float], epsilon: float) -> Curve | None:
    """Of an algorithm that was done before a curve could be fitted; nothing is extrapolated."""
    if not errors or not errors[-1] <= epsilon:
        return None
    return Curve("linear", tuple(errors), (0.0, 0.0), 1.0, 0.0, 0.0)


def affordable(one: Candidate, seconds: float) -> bool:
    """Whether a few iterations on the smallest sample, and steps tried before them, leave time."""
    epochs = ALGORITHMS[one.plan.family].stochastic
    return 4 * one.cost.iteration / 64 < seconds and not (epochs and one.cost.setup > seconds / 4)


def trial(
    problem: Problem, start: Floats, plan: Plan, stride: int, deadline: float
) -> list[float]:
    """The errors of one plan on every stride-th chunk of the rows."""
    errors: list[float] = []
    v = start
    settings = replace(
        plan, sample_stride=1, max_iter=MOST_ITERATIONS, threads=problem.rows.threads
    )
    if ALGORITHMS[plan.family].noisy:
        settings = replace(settings, max_iter=min(plan.max_iter, 8))
    in_python = steps_in_python(plan.algorithm, plan.sampler, problem.task.general)
    for smoothing in plan.smoothing:
        rows = replace(problem.rows, stride=stride, smoothing=smoothing)
        if in_python:  # its samples are of whatever rows there are
            rows = problem.rows.head(max(1, int(problem.rows.groups["n_rows"].max()) // stride))
        part = problem.on(replace(rows, deadline=deadline))
        operators = operators_of(part, settings, v, deadline)
        watched = Errors(Tolerance.of(part, settings), smoothing, errors)
        state = run(part, replace(operators, converge=watched))
        if state.out_of_time:
            break
        v = state.v
    return errors
