"""The plan for more than two classes: Newton's method, or L-BFGS first and Newton's after it.

Iterations of Newton's method hardly depend on the condition of the rows, those of L-BFGS do. An
iteration's cost is known, of both; how many L-BFGS takes is not. So where ten of Newton's cost no
more than a hundred of L-BFGS, these are the plan. Elsewhere L-BFGS may take as long as they would:
groups that it leaves behind go on by Newton's method. A training then takes at most about twice
the better one's time, as in any search for the end of two lines of unknown length.

Costs are counted per row, from the number of classes and of entries alone, so that the plan is the
same on every machine and in any company.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError, one_of
from tuskml.kernels.passes import Pass
from tuskml.kernels.softmax import classes_of
from tuskml.learners.linear.algorithms import ALGORITHMS, FIRST_CHOICE, LAST_CHOICE
from tuskml.learners.linear.algorithms.parts.batch import Beginning
from tuskml.learners.linear.descent import Timing, descend
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.planner.candidates import choose
from tuskml.learners.linear.planner.curves import Statistics
from tuskml.learners.linear.planner.planning import statistics
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import LinearOptions, Plan, Request

MOST_CLASSES = 1000
MOST_WEIGHTS = 2048
"""Weights of all classes, in systems of equations."""
NEWTON_ITERATIONS, FEW_ITERATIONS = 10, 100
"""Usual iterations of Newton's method, and those of L-BFGS that it may cost to be the plan."""
CLASS_COST, ENTRY_COST = 44.0, 0.4
"""Nanoseconds of a gradient, per row and class and for each entry of its row."""
PAIR_COST, PRODUCT_COST = 8.0, 0.3
"""The same of a curvature, per row and pair of classes and for each product of two entries. Fitted
to 3 to 50 classes of 2 to 40 features, dense and sparse (2026-11-30, an AMD EPYC).
"""
MOST_ENTRIES = 64
"""Entries of a sparse row that deterministic plans count: those of other groups do not matter."""


def refuse(options: LinearOptions) -> None:
    """Raises OptionError if options are for two classes."""
    known = ALGORITHMS.get(options.algorithm)
    able = ["auto", *(name for name, one in ALGORITHMS.items() if one.multinomial)]
    if options.algorithm != "auto" and (known is None or not known.multinomial):
        raise OptionError(
            f"algorithm '{options.algorithm}' is not available with more than two classes, "
            f"expected {one_of(able)}"
        )
    for name, given in (
        ("sampler", options.sampler is not None),
        ("device", options.device == "gpu"),
    ):
        if given:
            raise OptionError(f"option '{name}' is not available with more than two classes")


def plan_of_classes(rows: Pass, request: Request) -> Plan:
    """The plan of a group with more than two classes, for explanations."""
    refuse(request.options)
    _, _, (size,) = classes_of(rows, MOST_CLASSES)
    return plan_of(rows, request, size)


def plan_of(rows: Pass, request: Request, classes: int) -> Plan:
    """The plan that groups with equally many classes begin with."""
    options, seen = request.options, statistics(rows.groups)
    weights = classes * (rows.n_features + 1)
    name = options.algorithm
    if name == "auto":
        solved = weights <= MOST_WEIGHTS and not options.l1
        solved &= iterations_before(seen, options, classes) <= FEW_ITERATIONS
        name = (FIRST_CHOICE if solved else LAST_CHOICE).name
    if name == FIRST_CHOICE.name and weights > MOST_WEIGHTS:
        raise OptionError(
            f"algorithm '{name}' is not available with {weights:,} weights of all classes, "
            f"expected at most {MOST_WEIGHTS:,}, or '{LAST_CHOICE.name}'"
        )
    plan = choose(request.task, options, seen, only=name)
    if next_plan(plan, rows, request, classes) is None:
        return replace(plan, reason=f"{classes} classes")
    first = min(plan.max_iter, iterations_before(seen, options, classes))
    why = f"{classes} classes; {FIRST_CHOICE.name} goes on after {first} iterations"
    return replace(plan, max_iter=first, reason=why)


def next_plan(plan: Plan, rows: Pass, request: Request, classes: int) -> Plan | None:
    """The plan for groups that the first one has not brought to the end, None if that is all."""
    options, weights = request.options, classes * (rows.n_features + 1)
    fixed = options.algorithm != "auto" or options.max_iter or options.validation
    solved = weights <= MOST_WEIGHTS and not options.l1
    if fixed or not solved or plan.family == FIRST_CHOICE.name:
        return None
    after = f"after {plan.max_iter:,} iterations of {plan.algorithm}"
    found = choose(request.task, options, statistics(rows.groups), only=FIRST_CHOICE.name)
    return replace(found, sample_stride=1, after=after)


def iterations_before(seen: Statistics, options: LinearOptions, classes: int) -> int:
    """Iterations of L-BFGS that take as long as Newton's method usually does."""
    entries = float(seen.n_features)
    if seen.sparse:
        most = MOST_ENTRIES if options.keeps_order else seen.entries / max(seen.rows, 1)
        entries = min(entries, most)
    p, pairs = entries + 1, classes * (classes + 1) / 2
    gradient = classes * (CLASS_COST + ENTRY_COST * p)
    curvature = pairs * (PAIR_COST + PRODUCT_COST * p * (p + 1) / 2)
    return round(NEWTON_ITERATIONS * (1 + curvature / gradient))


def go_on(problem: Problem, state: State, plan: Plan, deadline: float | None) -> NDArray[np.bool_]:
    """Continues groups of a state that have not converged by a plan; returns which did, (G,)."""
    late = ~state.converged & np.isfinite(state.objective)
    which = np.flatnonzero(late)
    if state.out_of_time or not len(which):
        return np.zeros(problem.n_groups, bool)
    part = problem.of(which)
    ended = descend(part, Beginning(state.v[which]), None, plan, deadline, Timing())
    for name in ("v", "objective", "violation", "known", "running", "converged", "diverged"):
        getattr(state, name)[which] = getattr(ended, name)
    state.iterations[which] += ended.iterations
    for objective in ended.history:
        state.history.append(np.full(problem.n_groups, np.nan))
        state.history[-1][which] = objective
    state.out_of_time = ended.out_of_time
    state.current = state.hessian = state.found = None  # of the plan before
    return late
