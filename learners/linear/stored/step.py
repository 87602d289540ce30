"""The first step of a stored model: the best of a geometric race on a sample of the rows.

Bottou, Stochastic gradient descent tricks, 2012, section 4.2; as for sparse rows in memory
(`first_step` of `algorithms/parts/epochs.py`). A row is judged before it is stepped on, so by
steps on other rows, unless all rows are in the sample. The trials' weights lie in plain memory.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from tuskml.kernels.passes import Pass
from tuskml.kernels.stored.sample import sample_of
from tuskml.kernels.stored.training import Model, ScratchFrames, Training
from tuskml.learners.linear.stored.start import Start

TRIAL_ROWS = 16_384
TRIAL_ENTRIES = 1 << 17
"""Rows and entries of a sample: never fewer because a cache is small."""
TRIAL_EPOCHS = 16
FACTOR = 4.0
MOST = 6
SMOOTHNESS = {0: 1.0, 1: 0.25, 2: 1.0}


class Trials:
    """Trials on a sample of the rows, which is taken before these get the places of weights."""

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
            self.sample.mapped(self.several) as chunks,
            self.sample.frames(self.several) as frames,
        ):
            yield like.on(chunks, frames.access), frames

    def begin(self, frames: ScratchFrames) -> None:
        """The weights become those of the start."""
        frames.reset()
        frames.weights(0)[: len(self.weights)] = self.weights

    def run(self, like: Training, start: Model, step: float | None) -> tuple[float, float]:
        """The step given, or whose epochs over the sample end with the lowest loss; and the mean
        loss at the start, without penalties."""
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
    """Of the weights that a training starts with."""
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
