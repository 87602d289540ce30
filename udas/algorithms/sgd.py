"""Stochastic gradient descent and its parallel forms: an iteration is one epoch.

sgd: a step a row; mgd: a step a batch; hogwild: sgd by several threads on one model without
locks (Niu et al., 2011); hogbatch: mgd in that way (Sallinen et al., 2016). Compute and Update
of each step are fused in the kernels `tk_sgd` and `tk_hogwild`: a step is shorter than a call. The
answer is the mean of the last epoch's iterates (Polyak and Juditsky, 1992) or the last iterate,
whichever has the lower objective, of many rows over a sample.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.udas.algorithms.bgd import curvature_bound
from tuskml.udas.kernels import Epoch, Floats, most_rows
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
TRIAL_EPOCHS = 16
COMPARED_ROWS = 1 << 17
RISING = tuple(4.0**k for k in range(-1, 5))
RUNAWAY = 10.0
"""Times the loss of the epoch before, beyond which threads that share a model have lost their way,
as where a busy machine holds one of them up with a gradient that is long out of date."""
FALLING = tuple(4.0**k for k in range(-2, -7, -1))


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
    """The step (G,) with the lowest loss over a sample, each row's before its update.

    Bottou, Stochastic gradient descent tricks, 2012, section 4.2. The sample is spread over the
    rows, which may be sorted by time, and visited again if it is small. Steps rise, and if that
    never helped fall, by factors of 4 from a quarter of the gradient's Lipschitz step. A sparse
    row tells of few weights: the sample is larger, and the best step is tried doubled and halved.
    A group that stopped gaining is out of the race, whatever its neighbours do.
    """
    wanted = max(TRIAL_ROWS * (4 if problem.rows.sparse else 1), 64 * plan.batch_size)
    most = most_rows(problem.rows.groups)
    stride, epochs = max(1, most // wanted), min(TRIAL_EPOCHS, max(1, wanted // most))
    sample = problem.on(replace(problem.rows, stride=stride))
    unit = 1.0 / curvature_bound(problem)
    best = np.full(problem.n_groups, np.inf)
    chosen = unit / 4

    def better(step: Floats, racing: NDArray[np.bool_]) -> NDArray[np.bool_]:
        v = start.copy()
        for done in range(epochs):
            epoch = epoch_of(sample, plan, step, float(done))
            loss = sample.rows.sgd(epoch, v, None, shared=False)
        won = racing & np.isfinite(v).all(axis=1) & (loss < best)
        best[won], chosen[won] = loss[won], step[won]
        return won

    def race(factors: tuple[float, ...], racing: NDArray[np.bool_]) -> None:
        for factor in factors:
            if not racing.any():
                break
            racing = better(factor * unit, racing)

    everyone = np.ones(problem.n_groups, bool)
    race(RISING, everyone)
    race(FALLING, chosen <= unit / 4)
    if problem.rows.sparse:
        too_long = ~better(2 * chosen, everyone)
        if too_long.any():
            better(chosen / 2, too_long)
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
    """Update: one epoch. A group whose weights overflow, or whose threads ran away from each
    other, takes it back and goes on with a quarter of its step.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.shared = plan.lock_free

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        active = state.active
        before = state.memory["current"][active]
        current = before.copy()
        mean = current if part.rows.sparse else np.empty_like(before)
        step = state.memory["step"][active]
        epoch = epoch_of(part, self.plan, step, float(state.iteration))
        loss = part.rows.sgd(epoch, current, None if mean is current else mean, self.shared)
        bad = ~np.isfinite(current.sum(axis=1) + loss)
        if self.shared:
            known = state.memory.setdefault("epoch loss", np.full(len(state.v), np.inf))
            bad |= loss > RUNAWAY * known[active]
            known[active] = np.where(bad, known[active], loss)
        if bad.any():
            current[bad] = mean[bad] = before[bad]
            state.memory["step"][active[bad]] *= 0.25
        state.memory["current"][active] = current
        state.v[active] = mean
        state.known[active] = False
        if found is None:
            entry = np.full(len(state.v), np.nan)
            n = np.maximum(part.rows.groups["n_rows"], 1)
            entry[active] = loss / n
            if part.l1 or part.l2:
                entry[active] += part.penalty(part.to_caller(mean)[:, :-1])
            state.history.append(entry)


def finish(problem: Problem, state: State) -> None:
    """Leaves the better of the mean and the last iterate as the answer, and its objective.

    Of many rows a sample, spread over all of them, tells which is better: one pass less.
    """
    last = state.memory["current"]
    if not problem.rows.sparse:  # there the mean is the last iterate
        stride = max(1, most_rows(problem.rows.groups) // COMPARED_ROWS)
        sample = problem.on(replace(problem.rows, stride=stride))
        better = sample.objective(last) < sample.objective(state.v)
        state.v[better] = last[better]
    state.objective = problem.objective(state.v)
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
        Tolerance.of(problem, plan),
        Budget(plan.max_iter, deadline),
    )
