"""Mini-batch gradient descent in Python: Sample chooses the rows of a step and their weights.

It serves custom samplers and losses, which the compiled steps of `epochs.py` cannot. An iteration
is an epoch: as many steps as batches make up the rows of the largest group. The answer is a mean
of all iterates in which the t-th has weight t (Shamir and Zhang, Stochastic gradient descent for
non-smooth optimization, 2013, section 4), or the last iterate, whichever has the lower objective.
"""

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.algorithms.parts.epochs import FALLING, RISING, TRIAL_ROWS, MeanOfEpoch
from tuskml.learners.linear.operators import Operators, Sample, StartAt, State, on_all_rows
from tuskml.learners.linear.problem import Found, Problem, curvature_bound
from tuskml.learners.linear.request import Plan

TRIAL_STEPS = 48


class Uniform:
    """Sample: rows of each group drawn with replacement, all alike."""

    def __init__(self, size: int, random: "np.random.Generator") -> None:
        self.size, self.random = size, random

    def __call__(self, problem: Problem, state: State) -> Problem:
        n = problem.rows.groups["n_rows"]
        drawn = self.random.random((len(n), self.size)) * n[:, None]
        return problem.take(drawn.astype(np.int64))


def first_steps(problem: Problem, plan: Plan, start: Floats) -> Floats:
    """The step (G,) after some of which the objective on a sample is lowest, from short to long.

    Bottou, Stochastic gradient descent tricks, 2012, section 4.2.
    """
    if plan.step != "auto":
        return np.full(problem.n_groups, float(plan.step))
    random = np.random.default_rng([plan.seed, 1])
    state = State.at(start)
    seen = Uniform(TRIAL_ROWS, random)(problem, state)
    batches = [Uniform(plan.batch_size, random)(problem, state) for _ in range(TRIAL_STEPS)]
    unit = 1.0 / curvature_bound(problem)
    best = np.full(problem.n_groups, np.inf)
    chosen = unit / 4
    for factor in (*FALLING[::-1], *RISING):
        v = start.copy()
        with np.errstate(all="ignore"):
            for batch in batches:
                gradient = batch.evaluate(v).gradient
                v = batch.proximal(v - (factor * unit)[:, None] * gradient, factor * unit)
                if not np.isfinite(v).all():
                    break
            reached = seen.objective(np.nan_to_num(v, nan=0.0, posinf=0.0, neginf=0.0))
        won = np.isfinite(v).all(axis=1) & (reached < best)
        best[won], chosen[won] = reached[won], (factor * unit)[won]
        if not won.any() and np.isfinite(best).all():
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
        steps = max(1, -(-int(part.rows.groups["n_rows"].max()) // self.plan.batch_size))
        before, mean = state.current[active], state.v[active]
        objective = np.zeros(len(active))
        for number in range(steps):
            v = state.current[active]
            t = 1 + state.iteration + number / steps
            step = state.step[active] / t ** (self.plan.power / 2)
            drawn = self.sample(part, state)
            there = drawn.evaluate(v)
            v = part.proximal(v - step[:, None] * there.gradient, step)
            state.current[active] = v
            self.made[active] += 1
            share = 2.0 / (1.0 + self.made[active, None])
            mean += share * (v - mean)
            objective += there.objective / steps
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
    sampler = sample or Uniform(plan.batch_size, np.random.default_rng(plan.seed))
    return on_all_rows(
        problem,
        plan,
        deadline,
        StageSteps(plan, start),
        MeanOfEpoch(plan),
        SampledEpoch(plan, sampler),
    )
