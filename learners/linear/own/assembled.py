"""The operators of a plan: those of its algorithm, with custom ones in their places."""

from dataclasses import replace

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.algorithms.parts import sampled
from tuskml.learners.linear.operators import Operators
from tuskml.learners.linear.own.operators import (
    Setting,
    custom_operators,
    make_operator,
    steps_in_python,
)
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import Plan


def operators_of(problem: Problem, plan: Plan, start: Floats, deadline: float | None) -> Operators:
    """The operators of a plan: those of its algorithm, with custom ones in their places.

    A custom transform has already been applied to the problem (`transform_problem`).
    """
    own = custom_operators(plan)
    build = ALGORITHMS[plan.family].operators
    if not own and not problem.task.general:
        return build(problem, plan, start, deadline)
    random = np.random.default_rng(plan.seed)
    if steps_in_python(plan.algorithm, plan.sampler, problem.task.general):
        found = sampled.operators(problem, plan, start, deadline)
        if "sample" in own:
            uniform = sampled.Uniform(plan.batch_size, plan.seed)
            setting = Setting(problem, plan, start, deadline, uniform, random)
            update = sampled.SampledEpoch(plan, make_operator(own["sample"], setting, "sample"))
            found = replace(found, update=update)
    else:
        found = build(problem, plan, start, deadline)
    for kind, what in own.items():
        if kind not in ("transform", "sample"):
            built_in = getattr(found, kind)
            setting = Setting(problem, plan, start, deadline, built_in, random)
            found = replace(found, **{kind: make_operator(what, setting, kind)})
    return found


def transform_problem(problem: Problem, plan: Plan) -> Problem:
    """The problem in the coordinates of the plan's custom transform, if it has one."""
    what = custom_operators(plan).get("transform")
    if what is None:
        return problem
    random = np.random.default_rng(plan.seed)
    start = np.zeros((problem.n_groups, problem.d + 1))
    setting = Setting(problem, plan, start, None, lambda same: same, random)
    changed: Problem = make_operator(what, setting, "transform")(problem)
    return changed
