"""The start of a stored model: its intercept, the weights of a warm start, and its first step."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels import passes
from tuskml.kernels.passes import Pass
from tuskml.kernels.segments import sparse_segments
from tuskml.kernels.stored.training import Model, ScratchFrames, Training, sample_of
from tuskml.kvstore import StoreRoot
from tuskml.learners.linear.check import constant
from tuskml.learners.linear.request import LinearOptions
from tuskml.learners.linear.tasks import LinearTask

DTYPE = "float32"
"""The dtype of stored weights."""


def first_intercept(
    rows: Pass, labels: NDArray[np.void], task: LinearTask, options: LinearOptions
) -> float:
    """The warm start's intercept, or that of the best constant, of one group.

    rows: with their `class_weight`; labels: LABELS (1,).
    """
    if options.warm_start is not None:
        return options.warm_start.intercept
    if not options.fit_intercept:
        return 0.0
    if task.quadratic:
        return float(labels["mean"][0])
    if task.own is not None and not task.classifies:
        return float(constant(task, labels["mean"])[0])
    if "logistic" not in (task.name, task.response):
        return 0.0
    n, high = int(labels["n_rows"][0]), int(labels["n_high"][0])
    weight = np.ones(2) if rows.class_weight is None else rows.class_weight[0]
    return float(np.log(high * weight[1] / ((n - high) * weight[0])))


def with_start(options: LinearOptions, root: StoreRoot) -> LinearOptions:
    """The options with the intercept of the stored model to start from, if it has one.

    Raises OptionError for a stored model that cannot start a linear training of two classes, or
    numbers.
    """
    warm = options.warm_start
    if warm is None or warm.store is None:
        return options
    with root.open(warm.store) as sealed:
        told = sealed.metadata
    several = len(told.get("classes") or ())
    wrong = f" of {several} classes" if several > 2 else ""
    if "rank" in told:
        wrong = f" of task '{told.get('task')}'"
    if wrong:
        raise OptionError(
            f"warm_start is the stored model '{warm.store}'{wrong}, expected one of numbers or of "
            "two classes, or a model whose coefficients lie in no store"
        )
    if not warm.intercept_stored:
        return options
    intercept = float(told.get("intercept") or 0.0)
    return replace(options, warm_start=replace(warm, intercept=intercept))


@dataclass(frozen=True)
class Start:
    """The initial weights of one group's training, and the ids that may have some.

    held: the held-out rows, if any.
    """

    rows: Pass
    held: Pass | None
    options: LinearOptions
    root: StoreRoot | None

    def dimension(self) -> int:
        """Features of all rows, and of the warm start where that has more."""
        seen, warm = int(self.rows.groups["dim"][0]), self.options.warm_start
        if self.held is not None:
            seen = max(seen, int(self.held.groups["dim"][0]))
        if warm is None:
            return seen
        if warm.store is None:
            return max(seen, len(warm.coef))
        assert self.root is not None
        return max(seen, self.root.version(warm.store).dimension)

    def weights(self) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        """Ids and weights of the warm start, in parts."""
        warm = self.options.warm_start
        if warm is not None and warm.store is not None:
            assert self.root is not None
            with self.root.open(warm.store) as source:
                for ids, weights in source.items():
                    passes.raise_if_cancelled(self.rows.cancel_mark)
                    yield ids, weights.astype(DTYPE)
        elif warm is not None:
            yield np.arange(len(warm.coef)), np.array(warm.coef, DTYPE)

    def ids(self) -> Iterator[NDArray[np.int64]]:
        """Ids outside the rows that a warm start may have, in parts."""
        yield from (ids for ids, _ in self.weights())
        if self.held is not None:
            for _, ids in sparse_segments(self.held.groups[0]):
                yield ids.astype(np.int64)


# The first step of a stored model: the best of a geometric race on a sample of the rows.
#
# Bottou, Stochastic gradient descent tricks, 2012, section 4.2; as for sparse rows in memory
# (`first_step` of `algorithms/parts/epochs.py`). A row is judged before it is stepped on, so by
# steps on other rows, unless all rows are in the sample. The trials' weights lie in plain memory.

TRIAL_ROWS = 16_384
TRIAL_ENTRIES = 1 << 17
"""Rows and entries of a sample: never fewer because a cache is small."""
TRIAL_EPOCHS = 16
FACTOR = 4.0
MOST = 6
SMOOTHNESS = {0: 1.0, 1: 0.25, 2: 1.0}


class Trials:
    """Trials on a sample of the rows, drawn before ids become positions of weights."""

    def __init__(self, rows: Pass, start: Start, several: int) -> None:
        self.sample, there = sample_of(rows, TRIAL_ROWS, TRIAL_ENTRIES)
        self.several = several
        self.weights = np.zeros(len(there) * several, np.float32)
        for ids, weights in start.weights():
            at = np.searchsorted(there, ids)
            at[at == len(there)] = 0
            known = there[at] == ids if len(there) else ids < 0
            self.weights[at[known]] = weights[known]

    @contextmanager
    def training(self, like: Training) -> Iterator[tuple[Training, ScratchFrames]]:
        """The training of the sample, with the options of another; once."""
        with (
            self.sample.map_features(self.several) as chunks,
            self.sample.frames(self.several) as frames,
        ):
            yield like.on(chunks, frames.access), frames

    def begin(self, frames: ScratchFrames) -> None:
        """Resets the weights to those of the start."""
        frames.reset()
        frames.weights(0)[: len(self.weights)] = self.weights

    def run(self, like: Training, start: Model, step: float | None) -> tuple[float, float]:
        """The given step, or the one whose epochs over the sample end with the lowest loss; and
        the mean loss at the start, without penalties.
        """
        rows = self.sample.n_rows
        epochs = min(TRIAL_EPOCHS, max(1, TRIAL_ROWS // rows)) if self.sample.whole else 1
        with self.training(like) as (training, frames):
            self.begin(frames)
            begun = training.loss(start).loss / rows
            if step is not None:
                return step, begun

            def loss_of(step: float) -> float:
                self.begin(frames)
                model, loss = start, math.inf
                for epoch in range(epochs):
                    done = training.at(step).epoch(model, float(epoch))
                    model, loss = done.model, done.loss
                return loss if math.isfinite(loss) else math.inf

            return race(loss_of, self.unit()), begun

    def unit(self) -> float:
        """The step of the gradient's Lipschitz constant, about."""
        rows = self.sample.rows
        size = self.sample.square * rows.nonzeros() / self.sample.n_rows + 1.0
        return 1.0 / (SMOOTHNESS[rows.loss] * size)


def penalties_of(start: Start, l1: float, l2: float) -> float:
    """Returns the penalties of the weights that a training starts with."""
    parts = (weights.astype(np.float64) for _, weights in start.weights())
    return sum(float(l2 / 2 * (w**2).sum() + l1 * np.abs(w).sum()) for w in parts)


def race(loss_of: Callable[[float], float], unit: float) -> float:
    """Steps rise by factors of 4 from a quarter of the unit while the loss falls, or fall where
    that never helped; the best is tried doubled and halved.
    """
    best, chosen = loss_of(unit / FACTOR), unit / FACTOR
    for factor in (FACTOR, 1 / FACTOR):
        for _ in range(MOST):
            loss = loss_of(chosen * factor)
            if not loss < best:
                break
            best, chosen = loss, chosen * factor
        if chosen > unit / FACTOR:
            break
    for factor in (2.0, 0.5):
        loss = loss_of(chosen * factor)
        if loss < best:
            return chosen * factor
    return chosen
