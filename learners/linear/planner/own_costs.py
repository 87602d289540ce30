"""What passes and iterations of the user's own take: measured on some of the rows.

The constants of `optimizer/constants.py` are of tuskml's own kernels. Here a task of the user's
own, and each of their algorithms, is run for a moment on the first rows of the largest groups, at
two sizes, and a straight line through both tells what all rows take.
"""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tuskml.errors import OperatorError
from tuskml.kernels.passes import Floats
from tuskml.learners.linear.algorithms import ALGORITHMS as BUILT_IN
from tuskml.learners.linear.estimates.costs import Costs
from tuskml.learners.linear.estimates.question import Measured, Question
from tuskml.learners.linear.operators import Budget, run
from tuskml.learners.linear.own.assembled import operators_of
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.planner.choice import assess
from tuskml.learners.linear.planner.space import CURVATURE, by_trial, candidate, families, unable
from tuskml.learners.linear.problem import Problem
from tuskml.optimizer import constants

FEW, MORE = 2048, 8192
"""Rows of a group."""
MOST_GROUPS = 4
FAR = 20.0
"""Times the seconds of the best plan, as they are computed, beyond which a plan is not timed."""


def measured(problem: Problem, start: Floats, question: Question) -> Question:
    """The question with what things of the user's own take; the same where there are none.

    What must be reproducible is not measured.
    """
    own_task = question.task.general
    names = [name for name in by_trial(question) if may_run(question, name)]
    if question.measured or question.options.ordered or not (names or own_task):
        return question
    largest = np.argsort(problem.rows.groups["n_rows"], kind="stable")[-MOST_GROUPS:]
    which = np.sort(largest)
    some, begin = problem.of(which), start[which]
    found = {name: timed_plan(some, begin, question, name) for name in names}
    if own_task:
        found["pass gradient"] = timed_pass(some, begin, question, curvature=False)
        timed = replace(question, measured=found)
        if any(may_win(timed, name) for name in families(question) if begins_curved(name)):
            found[CURVATURE] = timed_pass(some, begin, question, curvature=True)
    return replace(question, measured=found)


def begins_curved(name: str) -> bool:
    """Whether an algorithm is tuskml's own and begins by a pass for the curvature."""
    return name in BUILT_IN and BUILT_IN[name].begins_by_curvature


def may_run(question: Question, name: str) -> bool:
    """Whether an algorithm could be chosen, were its time known; else nothing of it is timed.

    Its memory counts too: a trial of what does not fit would end the training.
    """
    plan = candidate(question, name)
    algorithm = BUILT_IN[plan.family]
    memory = algorithm.memory(Costs(question, constants.of_host()))
    return algorithm.refusal(question.task) is None and unable(question, plan, memory) is None


def may_win(question: Question, name: str) -> bool:
    """The same, and by the kernels' own constants it takes no more than FAR times the least."""
    if not may_run(question, name):
        return False
    known = assess(question, constants.of_host())
    able = {one.plan.algorithm: one for one in known if one.refusal is None}
    least = min((one.expected for one in able.values()), default=0.0)
    return name not in able or able[name].expected <= FAR * least


def timed_pass(problem: Problem, start: Floats, question: Question, curvature: bool) -> Measured:
    """A pass over all rows."""

    def once(part: Problem) -> tuple[float, float]:
        part.evaluate(start, curvature)  # the first one has memory to get
        began = time.perf_counter()
        part.evaluate(start, curvature)
        return 0.0, time.perf_counter() - began

    try:
        return extrapolated(problem, question, once)
    except MemoryError:
        if not curvature:
            raise
        return Measured(0.0, 0.0, "its curvature did not fit into memory")


def timed_plan(problem: Problem, start: Floats, question: Question, name: str) -> Measured:
    """An algorithm's iteration, and what it does before the first; or how it failed."""
    plan = candidate(question, name)

    def once(part: Problem) -> tuple[float, float]:
        setup = timed_run(part, plan, start, 0)
        return setup, max(timed_run(part, plan, start, 2) - setup, 0.0) / 2

    try:
        return extrapolated(problem, question, once)
    except (OperatorError, MemoryError) as error:
        return Measured(0.0, 0.0, f"it failed on a sample: {error}")


def timed_run(problem: Problem, plan: Plan, start: Floats, iterations: int) -> float:
    """Seconds of some iterations, whatever its own rules of stopping say."""
    began = time.perf_counter()
    operators = operators_of(problem, plan, start, None)
    run(problem, replace(operators, loop=Budget(iterations)))
    return time.perf_counter() - began


def extrapolated(
    problem: Problem, question: Question, once: Callable[[Problem], tuple[float, float]]
) -> Measured:
    """Setup and iteration of all rows, from a few and from more of the rows at hand."""
    seen: list[tuple[int, float, float]] = []
    for rows in (FEW, MORE):
        part = problem.on(problem.rows.head(rows))
        n = int(part.rows.groups["n_rows"].sum())
        if seen and n == seen[0][0]:
            break
        seen.append((n, *once(part)))
    total = max(question.seen.rows, seen[-1][0])

    def at_all_rows(column: int) -> float:
        n, last = seen[-1][0], seen[-1][column]
        if len(seen) == 1:
            return last * total / n
        slope = max(last - seen[0][column], 0.0) / (n - seen[0][0])
        return last + slope * (total - n)

    return Measured(at_all_rows(1), max(at_all_rows(2), 1e-7), None)
