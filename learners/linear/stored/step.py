"""Steps of a stored training, their pace, and when rows that are held out end it."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from tuskml.kernels.passes import Pass
from tuskml.kernels.stored.sample import sample_of
from tuskml.kernels.stored.training import Model, ScratchFrames, Training
from tuskml.learners.linear.stored.start import Start
from tuskml.learners.validation import PATIENCE

LEAST_GAIN = 1e-6
"""The decrease that counts as better, as a share of the best loss so far."""


@dataclass
class HeldOut:
    """The held-out rows of one group, in chunks of the same store.

    training: of these rows, with the frames of the other rows' training; best: their lowest mean
    loss so far, without penalties; since: epochs without a gain.
    """

    training: Training
    n_rows: int
    best: float = math.inf
    since: int = 0
    passes: int = field(default=0, init=False)

    @property
    def stopped(self) -> bool:
        """Returns whether the training ends, at the weights that did best."""
        return self.since >= PATIENCE

    def improves(self, model: Model) -> bool:
        """Returns whether a model's loss is the lowest so far."""
        loss = self.training.loss(model).loss / self.n_rows
        self.passes += 1
        better = loss < self.best * (1 - LEAST_GAIN)
        self.since = 0 if better else self.since + 1
        self.best = loss if better else self.best
        return better


# The number of threads for the epochs of a stored model: all, or one where that is faster.
#
# If all weights fit into a core's cache, threads that write to the same lines may be slower
# together than one alone (Niu, Recht, Re, Wright, Hogwild!, NIPS 2011, section 6, reports the same
# for dense data). Short epochs are tried both ways, as no rule holds on every machine: by one
# thread, by all, and once more by one if all were faster, as the first epoch starts with empty
# caches. So where threads obstruct each other, only one epoch is slower for the trial.

MOST_ENTRIES = 1 << 24
"""Entries of the rows up to which an epoch is tried on one thread, so that trials cost little."""
LONGEST = 0.25
"""Seconds of an epoch on one thread beyond which no other trial follows."""
LEAST_EPOCHS = 8
"""The fewest epochs of a training for which the faster way is worth trials."""
LEAST_ALONE = 2
"""Epochs by one thread before all threads are said to be faster."""


class Pace:
    """The threads of the next epoch, by the seconds of those before."""

    def __init__(self, most: int, epochs: int, entries: int = 0) -> None:
        """most: threads, 1 at least; epochs: that the training may take; entries: of its rows."""
        self.most = most
        self._seconds: dict[int, list[float]] = {most: [], 1: []}
        tried = most > 1 and epochs >= LEAST_EPOCHS and entries <= MOST_ENTRIES
        self._chosen = None if tried else most

    @property
    def threads(self) -> int:
        """Number of threads of the next epoch."""
        if self._chosen is not None:
            return self._chosen
        return self.most if len(self._seconds[1]) > len(self._seconds[self.most]) else 1

    @property
    def told(self) -> str:
        """Describes the pace for the model's `plan`."""
        alone = self.most > 1 and self._chosen == 1
        return f", by 1 of {self.most} threads, which is faster" if alone else ""

    def took(self, seconds: float) -> None:
        """Records the seconds of an epoch on `threads`."""
        if self._chosen is not None:
            return
        self._seconds[self.threads].append(seconds)
        alone, together = self._seconds[1], self._seconds[self.most]
        if min(alone) > LONGEST:
            self._chosen = self.most
        elif together:
            faster = min(together) < min(alone)
            if not faster or len(alone) == LEAST_ALONE:
                self._chosen = self.most if faster else 1


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
            self.sample.mapped(self.several) as chunks,
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
