"""Stochastic gradient descent and its parallel forms: an iteration is one epoch.

sgd: a step a row; mgd: a step a batch; hogwild: sgd by several threads on one model without
locks (Niu et al., 2011); hogbatch: mgd in that way (Sallinen et al., 2016). Compute and Update
of each step are fused in the kernels `tk_sgd` and `tk_hogwild`: a step is shorter than a call. The
answer is the mean of the last epoch's iterates (Polyak and Juditsky, 1992) or the last iterate,
whichever has the lower objective.
"""

import numpy as np

from tuskml.udas.algorithms.bgd import curvature_bound
from tuskml.udas.kernels import Epoch, Floats
from tuskml.udas.operators import (
    Budget,
    Operators,
    StartAt,
    State,
    Tolerance,
    all_rows,
    as_given,
)
from tuskml.udas.plan import Plan
from tuskml.udas.problem import Found, Problem

TRIAL_ROWS = 4096
TRIAL_FACTORS = tuple(4.0**k for k in range(-4, 5))
SHARED = ("hogwild", "hogbatch")


def epoch_of(part: Problem, plan: Plan, step: Floats, done: float) -> Epoch:
    """The kernels' settings for one epoch of the groups in part."""
    return Epoch(
        plan.batch_size,
        plan.power,
        done,
        part.l1,
        part.l2,
        np.ascontiguousarray(step),
        part.shift,
        part.scale,
        part.frequency,
        plan.seed,
        plan.shuffle,
    )


def first_step(problem: Problem, plan: Plan, start: Floats) -> Floats:
    """The step (G,) with the lowest objective after one epoch over a sample of the rows.

    Bottou, Stochastic gradient descent tricks, 2012, section 4.2. Deterministic: the sample is
    the first rows of the training order.
    """
    sample = problem.on(problem.rows.head(max(TRIAL_ROWS, 64 * plan.batch_size)))
    best = np.full(problem.n_groups, np.inf)
    chosen = np.full(problem.n_groups, 1.0 / curvature_bound(problem))
    for factor in TRIAL_FACTORS:
        step = np.full(problem.n_groups, factor / curvature_bound(problem))
        v = start.copy()
        sample.rows.sgd(epoch_of(sample, plan, step, 0.0), v, None, shared=False)
        finite = np.isfinite(v).all(axis=1)
        objective = sample.evaluate(np.where(finite[:, None], v, 0.0)).objective
        better = finite & (objective < best)
        best[better], chosen[better] = objective[better], step[better]
    return chosen


class StageEpochs:
    """Stage: the starting point, and the first step."""

    def __init__(self, plan: Plan, start: Floats) -> None:
        self.plan, self.start = plan, start

    def __call__(self, problem: Problem) -> State:
        state = StartAt(self.start)(problem)
        if self.plan.step == "auto":
            state.memory["step"] = first_step(problem, self.plan, self.start)
        else:
            state.memory["step"] = np.full(problem.n_groups, float(self.plan.step))
        state.memory["current"] = self.start.copy()
        return state


class MeanOfEpoch:
    """Compute: the objective at the mean iterate, where the tolerance asks for it."""

    def __init__(self, plan: Plan) -> None:
        self.wanted = plan.epsilon > 0

    def __call__(self, part: Problem, state: State) -> Found | None:
        return part.evaluate(state.v[state.active]) if self.wanted else None


class RunEpoch:
    """Update: one epoch. A group whose weights overflow starts over with a quarter of its step."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.shared = plan.algorithm in SHARED and plan.threads > 1

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        active = state.active
        before = state.memory["current"][active]
        current, mean = before.copy(), np.empty_like(before)
        step = state.memory["step"][active]
        epoch = epoch_of(part, self.plan, step, float(state.iteration))
        loss = part.rows.sgd(epoch, current, mean, self.shared)
        bad = ~(np.isfinite(current).all(axis=1) & np.isfinite(loss))
        if bad.any():
            current[bad] = mean[bad] = before[bad]
            state.memory["step"][active[bad]] *= 0.25
        state.memory["current"][active] = current
        state.v[active] = mean
        state.known[active] = False
        if found is None:
            entry = np.full(len(state.v), np.nan)
            n = np.maximum(part.rows.groups["n_rows"], 1)
            entry[active] = loss / n + part.penalty(part.to_caller(mean)[:, :-1])
            state.history.append(entry)


def finish(problem: Problem, state: State) -> None:
    """Leaves the better of the mean and the last iterate as the answer, and its objective."""
    last = state.memory["current"]
    mean_found, last_found = problem.evaluate(state.v), problem.evaluate(last)
    better = last_found.objective < mean_found.objective
    mean_found.put(np.flatnonzero(better), last_found.of(better))
    state.v[better] = last[better]
    state.objective, state.violation = mean_found.objective, mean_found.violation
    state.known[:] = True


def operators(problem: Problem, plan: Plan, start: Floats, deadline: float | None) -> Operators:
    """Stochastic gradient descent as a choice of operators.

    Rows were put in the sampler's order when they were shuffled, so Sample reads all of them.
    """
    return Operators(
        as_given,
        StageEpochs(plan, start),
        all_rows,
        MeanOfEpoch(plan),
        RunEpoch(plan),
        Tolerance(plan.converge, plan.epsilon),
        Budget(plan.max_iter, deadline),
    )
