"""Shared by stochastic gradient descent and its parallel forms: an iteration is one epoch.

A step takes one row or a batch, by one thread or by several on one model. Compute and Update of
each step are fused in the kernels `tk_sgd` and `tk_hogwild`: a step is shorter than a call. The
answer is the mean of the last epoch's iterates (Polyak and Juditsky, 1992) or the last iterate,
whichever has the lower objective, estimated on a sample if rows are many. For sparse rows, unless
threads share a model, the mean is of the second half of the epoch that `max_iter` makes the last.

Samplers of ML4all's plans draw each sample anew, from all rows or from partitions: Kaoudi et al.,
A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD 2017, section 6.2 and figure 5:
with shuffled partitions, which an epoch otherwise goes through, these are the paper's samplers for
packed rows. Each draws the samples of a whole epoch at once, as many as make up the rows of the
group in the mean; the kernel then steps once a sample, in this order.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.epochs import EpochSample
from tuskml.kernels.passes import Epoch, Floats, most_rows
from tuskml.kernels.segments import dense_row_bytes
from tuskml.learners.linear.algorithms.parts.algorithm import Algorithm
from tuskml.learners.linear.operators import Operators, StartAt, State, on_all_rows
from tuskml.learners.linear.planner.cost import LOSS_ALONE, TYPICAL, Cost, Costs
from tuskml.learners.linear.planner.curves import Interval, Question
from tuskml.learners.linear.problem import Found, Problem, curvature_bound
from tuskml.learners.linear.request import Plan

PARTITION_BYTES = 2 << 20
"""Bytes of a partition of packed rows, which is spilled or read as a whole (`rowblock/memory.c`).
"""
SPARSE_PARTITION_ROWS = 1 << 14
LARGE = 0.25
"""Share of the rows, from which on a sample is drawn by itself."""

Counts = NDArray[np.int64]
Sizes = NDArray[np.int32]


def bernoulli(problem: Problem, size: int, random: "np.random.Generator") -> EpochSample:
    """Draws each row of a group independently, with a probability for which `size` are expected.

    Rows of a sample come in their order, each at most once. Their number is binomial, so it is
    drawn first and then the rows: the same distribution as a coin for each row. An empty sample is
    drawn again, as a step needs a row.
    """
    found = [draw_bernoulli(int(n), size, random) for n in problem.rows.groups["n_rows"]]
    return EpochSample.of([rows for rows, _ in found], [sizes for _, sizes in found])


def draw_bernoulli(n: int, size: int, random: "np.random.Generator") -> tuple[Counts, Sizes]:
    """Row numbers of the Bernoulli samples of an epoch over n rows, and the samples' sizes."""
    share = min(1.0, size / n)
    sizes = random.binomial(n, share, max(1, -(-n // size)))
    while not sizes.all():
        sizes[sizes == 0] = random.binomial(n, share, int((sizes == 0).sum()))
    if share > LARGE:
        each = [np.sort(random.choice(n, k, replace=False, shuffle=False)) for k in sizes]
        return np.concatenate(each), sizes.astype(np.int32)
    sample = np.repeat(np.arange(len(sizes)), sizes)
    rows = random.integers(n, size=len(sample))
    while True:
        rows = rows[np.lexsort((rows, sample))]
        again = (rows[1:] == rows[:-1]) & (sample[1:] == sample[:-1])
        if not again.any():
            return rows, sizes.astype(np.int32)
        rows[1:][again] = random.integers(n, size=int(again.sum()))


def random_partition(problem: Problem, size: int, random: "np.random.Generator") -> EpochSample:
    """Draws a partition at random for each row, and then any of its rows.

    Partitions are even pieces of a group's rows, of about PARTITION_BYTES. Rows may repeat.
    """
    each = partition_rows(problem)
    return EpochSample.of(
        [in_partitions(int(n), each, random) for n in problem.rows.groups["n_rows"]]
    )


def in_partitions(n: int, each: int, random: "np.random.Generator") -> Counts:
    """Row numbers of an epoch over n rows, whose partitions have about `each` rows."""
    partitions = max(1, round(n / each))
    chosen = random.integers(partitions, size=n)
    return random.integers(n * chosen // partitions, n * (chosen + 1) // partitions)


def partition_rows(problem: Problem) -> int:
    """Rows of a partition."""
    groups = problem.rows.groups
    if problem.rows.sparse:
        return SPARSE_PARTITION_ROWS
    return max(1, PARTITION_BYTES // dense_row_bytes(problem.d, int(groups["kind"][0])))


DRAWN: dict[str, Callable[[Problem, int, "np.random.Generator"], EpochSample]] = {
    "random-partition": random_partition,
    "bernoulli": bernoulli,
}
"""The samplers by their names in the option `sampler`: they draw an epoch's samples, of about a
given number of rows of each group."""
EAGER = "bernoulli"
"""The sampler that draws from all rows, which must all have been evaluated before."""


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
            loss = sample.step_rows.sgd(epoch, v, None, shared=False)
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
            state.step = first_step(problem, self.plan, self.start)
        else:
            state.step = np.full(problem.n_groups, float(self.plan.step))
        state.current = self.start.copy()
        return state


class MeanOfEpoch:
    """Compute: the objective at the mean iterate, where the tolerance asks for it."""

    def __init__(self, plan: Plan) -> None:
        self.wanted = plan.epsilon > 0

    def __call__(self, part: Problem, state: State) -> Found | None:
        return part.evaluate(state.v[state.active]) if self.wanted else None


class RunEpoch:
    """Update: one epoch. A group whose weights overflow, or whose threads ran away from each
    other, undoes it and continues with a quarter of its step.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.shared = plan.lock_free
        self.sampler = DRAWN.get(plan.sampler or "")
        self.random = np.random.default_rng(plan.seed)
        self.loss: Floats | None = None  # of each group's last epoch, where threads share models

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        active = state.active
        assert state.current is not None
        before = state.current[active]
        current = before.copy()
        late = state.ends_next(self.plan.max_iter) & (part.rows.sparse and not self.shared)
        mean = current if part.rows.sparse and not late.any() else np.empty_like(before)
        step = state.step[active]
        epoch = epoch_of(part, self.plan, step, float(state.iteration))
        if self.sampler is not None:
            drawn = self.sampler(part, self.plan.batch_size, self.random)
            epoch = replace(epoch, drawn=drawn)
        loss = part.step_rows.sgd(epoch, current, None if mean is current else mean, self.shared)
        bad = ~np.isfinite(current.sum(axis=1) + loss)
        if self.shared:
            if self.loss is None:
                self.loss = np.full(len(state.v), np.inf)
            known = self.loss
            bad |= loss > RUNAWAY * known[active]
            known[active] = np.where(bad, known[active], loss)
        if bad.any():
            current[bad] = mean[bad] = before[bad]
            state.step[active[bad]] *= 0.25
        if late.any():
            mean[~late] = current[~late]
            keep_better(part.of(np.flatnonzero(late)), mean, current, late)
        state.current[active] = current
        state.v[active] = mean
        state.known[active] = False
        if found is None:
            entry = np.full(len(state.v), np.nan)
            n = np.maximum(part.rows.groups["n_rows"], 1)
            entry[active] = loss / n
            if part.l1 or part.l2:
                entry[active] += part.penalty_at(mean)
            state.history.append(entry)


def keep_better(
    part: Problem, v: Floats, other: Floats, some: NDArray[np.bool_] | slice = slice(None)
) -> None:
    """Replaces weights v (G, p) by others of a lower objective; of many rows a sample tells.

    some: the groups that part has.
    """
    stride = max(1, most_rows(part.rows.groups) // COMPARED_ROWS)
    sample = part.on(replace(part.rows, stride=stride))
    better = sample.objective(other[some]) < sample.objective(v[some])
    v[some] = np.where(better[:, None], other[some], v[some])


def finish(problem: Problem, state: State) -> None:
    """Leaves the better of the mean and the last iterate as the answer, and its objective.

    Where rows are many, a sample spread over all of them tells which is better: one pass less.
    """
    last = state.current
    assert last is not None
    if not problem.rows.sparse:  # there the last epoch compared them, if it computed a mean at all
        keep_better(problem, state.v, last)
    state.objective = problem.objective(state.v)
    state.known[:] = True


STEPS, STEPS_A_DECADE = 3e4, 9.0
"""Steps to 0.01, and how many times more a decade further takes."""
TRIALS = {"dense": 4.0, "sparse": 7.0}
"""Steps that are tried, of nine; each takes TRIAL_EPOCHS epochs of a sample at most."""
TINY_STEP = 1e-6
"""A step that leaves weights unchanged, for timing an epoch."""


class EpochAlgorithm(Algorithm):
    """The base of descriptors whose iteration is an epoch of steps.

    one_thread: the calibration's name of the epoch where one thread trains a group; of_sgd: epochs
    relative to single-row steps by one thread.
    """

    stochastic = True
    noisy = True
    stepped = True
    own_losses = False
    calibrated = True
    by_parts = True
    one_thread: str
    of_sgd = 1.0

    def operators(
        self, problem: Problem, plan: Plan, start: Floats, deadline: float | None
    ) -> Operators:
        """Rows were put in the sampler's order when they were shuffled, so Sample reads all."""
        return on_all_rows(
            problem, plan, deadline, StageEpochs(plan, start), MeanOfEpoch(plan), RunEpoch(plan)
        )

    def cost(
        self, costs: Costs, plan: Plan, iterations: float = TYPICAL, on_sample: float = 0.0
    ) -> Cost:
        gradient, measured = costs.rows_pass("gradient"), self.measuring_seconds(costs, plan)
        epoch = costs.rows_pass(
            self.name if plan.lock_free else self.one_thread, alone=not plan.lock_free
        )
        last = LOSS_ALONE * gradient * (1 if costs.question.seen.sparse else 2)
        return Cost(
            costs.common() + self.trials(costs, plan) + measured,
            epoch + measured + costs.on_weights(),
            last + costs.inference(fresh=0.0),
            0.0,
            self.memory(costs),
        )

    def measuring_seconds(self, costs: Costs, plan: Plan) -> float:
        """Seconds an iteration of measuring how far it is: none where no tolerance asks."""
        return costs.rows_pass("gradient") if plan.epsilon > 0 else 0.0

    @property
    def trial_epoch(self) -> str:
        """The epoch by which steps are tried."""
        return self.one_thread

    def trials(self, costs: Costs, plan: Plan) -> float:
        """Seconds of trying steps on samples of the rows (`first_step`)."""
        if plan.step != "auto":
            return 0.0
        seen = costs.question.seen
        wanted = max(TRIAL_ROWS * (4 if seen.sparse else 1), 64 * plan.batch_size)
        most = max(seen.most_rows, 1)
        stride, epochs = max(1, most // wanted), min(TRIAL_EPOCHS, max(1, wanted // most))
        each = costs.rows_pass(self.trial_epoch, alone=True) / stride + 0.5 * costs.on_weights()
        return TRIALS["sparse" if seen.sparse else "dense"] * epochs * each

    def usual(self, question: Question, k: float) -> Interval:
        """Epochs for a fixed number of steps, whatever the rows; at least one."""
        point = STEPS * STEPS_A_DECADE ** (k - 2) / question.rows_of_one
        found = Interval.around(max(1.0, 0.15 * point), max(1.0, point), max(3.0, 10 * point))
        return found.scale(self.of_sgd)

    def one_epoch(self, problem: Problem, plan: Plan, v: Floats) -> Callable[[], object]:
        epoch = epoch_of(problem, plan, np.full(1, TINY_STEP), 0.0)
        mean = None if problem.rows.sparse else np.empty_like(v)
        return lambda: problem.rows.sgd(epoch, v.copy(), mean, self.lock_free)
