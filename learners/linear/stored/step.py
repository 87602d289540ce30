"""The first step of a stored model: the best of a geometric race on a few chunks of rows.

Bottou, Stochastic gradient descent tricks, 2012, section 4.2; as for rows in memory
(`first_step` of `algorithms/parts/epochs.py`), but on payloads of plain memory, so that trials
leave the store as it is.
"""

import math
from collections.abc import Callable

import numpy as np

from tuskml.kernels.segments import sparse_values
from tuskml.kernels.stored.chunks import Chunk
from tuskml.kernels.stored.training import Model, ScratchFrames, Training

TRIAL_ROWS = 16_384
TRIAL_EPOCHS = 16
FRAME_BYTES, WEIGHT_BYTES = 128, 4
MOMENT_VALUES = 1 << 16
FACTOR = 4.0
MOST = 6
SMOOTHNESS = {0: 1.0, 1: 0.25, 2: 1.0}


def first_step(training: Training, start: Model, most_bytes: int) -> float:
    """The step whose epochs over a sample, of payloads of so many bytes, end with the lowest
    loss.
    """
    chunks = training.chunks
    which = sample_of([(chunk.rows, bytes_of(chunk)) for chunk in chunks], most_bytes)
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
    """Of the values of a group's first rows; 1 where there are none."""
    first = next((values for values in sparse_values(group) if len(values)), np.ones(1))
    return float(np.mean(np.square(first[:MOMENT_VALUES], dtype=np.float64)))


def bytes_of(chunk: Chunk) -> int:
    """Of memory for its payloads."""
    return chunk.weights * WEIGHT_BYTES + len(chunk.keys) * FRAME_BYTES


def sample_of(
    sizes: list[tuple[int, int]], most_bytes: int
) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Numbers of chunks spread evenly that have about TRIAL_ROWS rows or most_bytes, one at least;
    sizes: rows and bytes of each.
    """
    rows, size = (sum(column) for column in zip(*sizes, strict=True))
    n = len(sizes)
    count = min(math.ceil(n * TRIAL_ROWS / max(1, rows)), n * most_bytes // max(1, size), n)
    count = max(1, count)
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
