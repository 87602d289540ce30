"""The first step of a stored model: the best of a geometric race on a few chunks of rows.

Bottou, Stochastic gradient descent tricks, 2012, section 4.2; as for rows in memory
(`udas.algorithms.sgd.first_step`), but on payloads of plain memory, so that trials leave the store
as it is.
"""

import math
from collections.abc import Callable

import numpy as np

from tuskml.udas.segments import sparse_values
from tuskml.udas.stored import Model, ScratchFrames, Training

TRIAL_ROWS = 16_384
TRIAL_EPOCHS = 16
TRIAL_WEIGHTS = 1 << 25
MOMENT_VALUES = 1 << 16
FACTOR = 4.0
MOST = 6
SMOOTHNESS = {0: 1.0, 1: 0.25, 2: 1.0}


def first_step(training: Training, start: Model) -> float:
    """The step whose epochs over a sample end with the lowest loss."""
    chunks = training.chunks
    which = sample_of([(chunk.rows, chunk.weights) for chunk in chunks])
    rows = sum(chunks[int(number)].rows for number in which)
    entries = sum(chunks[int(number)].entries for number in which)
    epochs = min(TRIAL_EPOCHS, max(1, TRIAL_ROWS // max(1, rows)))
    square = mean_square(chunks.rows.groups[0])
    unit = 1.0 / (SMOOTHNESS[chunks.rows.loss] * (square * entries / max(1, rows) + 1.0))
    with ScratchFrames(*chunks.keys(which)) as scratch:

        def loss_of(step: float) -> float:
            scratch.reset()
            model, loss = start, math.inf
            for epoch in range(epochs):
                done = training.of(which, scratch.access, step).epoch(model, float(epoch))
                model, loss = done.model, done.loss
            return loss if math.isfinite(loss) else math.inf

        return race(loss_of, unit)


def mean_square(group: np.void) -> float:
    """Of the values of a group's first rows."""
    first = next(values for values in sparse_values(group) if len(values))
    return float(np.mean(np.square(first[:MOMENT_VALUES], dtype=np.float64)))


def sample_of(sizes: list[tuple[int, int]]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Numbers of chunks spread evenly that have about TRIAL_ROWS rows, one at least; sizes: rows
    and weights of each.
    """
    rows, weights = (sum(column) for column in zip(*sizes, strict=True))
    n = len(sizes)
    wanted = min(n * TRIAL_ROWS / max(1, rows), n * TRIAL_WEIGHTS / max(1, weights))
    count = int(min(n, max(1, math.ceil(wanted))))
    return np.unique(np.linspace(0, n - 1, count).round().astype(np.int64))


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
