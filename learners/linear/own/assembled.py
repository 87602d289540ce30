"""The operators of a plan: those of its algorithm, with custom ones in their places.

Mini-batch gradient descent in Python, whose Sample chooses the rows of a step and their weights,
serves custom samplers and losses, which the compiled steps of `epochs.py` cannot. An iteration
is an epoch: as many steps of a group as batches make up its rows. All groups draw by the same
numbers, which are those of the epoch: so neighbours change no bit. The answer is a mean of all
iterates in which the t-th has weight t (Shamir and Zhang, Stochastic gradient descent for
non-smooth optimization, 2013, section 4), or the last iterate, whichever has the lower objective.
"""

from dataclasses import replace

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.algorithms.parts.epochs import FALLING, RISING, TRIAL_ROWS, MeanOfEpoch
from tuskml.learners.linear.operators import Operators, Sample, StartAt, State, on_all_rows
from tuskml.learners.linear.own.operators import (
    Setting,
    custom_operators,
    make_operator,
    steps_in_python,
)
from tuskml.learners.linear.problem import Found, Problem, curvature_bound
from tuskml.learners.linear.request import Plan

TRIAL_STEPS = 48


class Uniform:
    """Sample: rows of each group drawn with replacement, all alike."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed = size, seed
        self.iteration = -1

    def __call__(self, problem: Problem, state: State) -> Problem:
        if state.iteration != self.iteration:
            self.iteration = state.iteration
            self.random = np.random.default_rng([self.seed, self.iteration])
        return drawn_by(problem, self.random.random(self.size))


def drawn_by(problem: Problem, numbers: Floats) -> Problem:
    """Rows of each group at these shares of them."""
    places = numbers * problem.rows.groups["n_rows"][:, None]
    return problem.take(places.astype(np.int64))


def first_steps(problem: Problem, plan: Plan, start: Floats) -> Floats:
    """The step (G,) after some of which the objective on a sample is lowest, from short to long.

    Bottou, Stochastic gradient descent tricks, 2012, section 4.2.
    """
    if plan.step != "auto":
        return np.full(problem.n_groups, float(plan.step))
    random = np.random.default_rng([plan.seed, 1])
    seen = drawn_by(problem, random.random(TRIAL_ROWS))
    batches = [drawn_by(problem, random.random(plan.batch_size)) for _ in range(TRIAL_STEPS)]
    unit = 1.0 / curvature_bound(problem)
    best = np.full(problem.n_groups, np.inf)
    chosen, racing = unit / 4, np.ones(problem.n_groups, bool)
    for factor in (*FALLING[::-1], *RISING):
        v = start.copy()
        with np.errstate(all="ignore"):
            for batch in batches:
                gradient = batch.evaluate(v).gradient
                v = batch.proximal(v - (factor * unit)[:, None] * gradient, factor * unit)
                if not np.isfinite(v).all(axis=1).any():
                    break
            reached = seen.objective(np.nan_to_num(v, nan=0.0, posinf=0.0, neginf=0.0))
        won = racing & np.isfinite(v).all(axis=1) & (reached < best)
        best[won], chosen[won] = reached[won], (factor * unit)[won]
        racing = won | ~np.isfinite(best)
        if not racing.any():
            break
    return chosen


class StageSteps:
    """Stage: the starting point, and the first step."""

    def __init__(self, plan: Plan, start: Floats) -> None:
        self.plan, self.start = plan, start

    def __call__(self, problem: Problem) -> State:
        state = StartAt(self.start)(problem)
        state.step = first_steps(problem, self.plan, self.start)
        state.current = self.start.copy()
        return state


class SampledEpoch:
    """Update: one epoch of steps, each on the rows that the sample takes.

    A group whose weights overflow starts the epoch over with a quarter of its step.
    """

    def __init__(self, plan: Plan, sample: Sample) -> None:
        self.plan, self.sample = plan, sample
        self.made: Floats | None = None  # steps by group, in the mean of which v is

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        active = state.active
        if self.made is None:
            self.made = np.zeros(len(state.v))
        assert state.current is not None
        steps = np.maximum(1, -(-part.rows.groups["n_rows"] // self.plan.batch_size))
        before, mean = state.current[active], state.v[active]
        objective = np.zeros(len(active))
        for number in range(int(steps.max(initial=0))):
            going = number < steps
            some, v = active[going], state.current[active]
            t = 1 + state.iteration + number / steps
            step = state.step[active] / t ** (self.plan.power / 2)
            drawn = self.sample(part, state)
            there = drawn.evaluate(v)
            v = part.proximal(v - step[:, None] * there.gradient, step)[going]
            state.current[some] = v
            self.made[some] += 1
            share = 2.0 / (1.0 + self.made[some, None])
            mean[going] += share * (v - mean[going])
            objective[going] += (there.objective / steps)[going]
        bad = ~np.isfinite(mean.sum(axis=1) + objective)
        if bad.any():
            mean[bad] = before[bad]
            self.made[active[bad]] = 0
            state.current[active[bad]] = before[bad]
            state.step[active[bad]] *= 0.25
        state.v[active] = mean
        state.known[active] = False
        if found is None:
            entry = np.full(len(state.v), np.nan)
            entry[active] = objective
            state.history.append(entry)


def operators(
    problem: Problem,
    plan: Plan,
    start: Floats,
    deadline: float | None,
    sample: Sample | None = None,
) -> Operators:
    """Mini-batch gradient descent as a choice of operators; samples uniformly by default."""
    sampler = sample or Uniform(plan.batch_size, plan.seed)
    return on_all_rows(
        problem,
        plan,
        deadline,
        StageSteps(plan, start),
        MeanOfEpoch(plan),
        SampledEpoch(plan, sampler),
    )


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
        found = operators(problem, plan, start, deadline)
        if "sample" in own:
            uniform = Uniform(plan.batch_size, plan.seed)
            setting = Setting(problem, plan, start, deadline, uniform, random)
            update = SampledEpoch(plan, make_operator(own["sample"], setting, "sample"))
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
