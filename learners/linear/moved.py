"""Rows that lie far from zero, beside what they vary by, are trained on as copies near it.

A margin w.x + b of such features is a small difference of large numbers, and so is a residual of
such labels: their rounding would hide what the model is to tell. A constant that is taken off
features and labels changes the intercept alone, so the model of the copies is one of the rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.structures import OFFSETS
from tuskml.learners.linear.own.operators import ALGORITHMS as OWN_ALGORITHMS
from tuskml.learners.linear.own.operators import named
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import LinearOptions

FAR = 1e4
"""Times what they vary by, from where on rows are moved."""
FAR_SPARSE = 10.0
"""The same of features of sparse rows, which nothing else centres."""


def origins(
    problem: Problem,
    labels: NDArray[np.void],
    options: LinearOptions,
    held: NDArray[np.void] | None = None,
) -> Floats | None:
    """What to take off features and labels, (G, d + 1), 0 where they are near; None: nothing.

    Of sparse rows, also of those held out, a feature is moved that occurs in all: zeros stay.
    """
    rows, task = problem.rows, problem.task
    own = task.own is not None or bool(named(options)) or options.algorithm in OWN_ALGORITHMS
    if type(rows) is not Pass or not options.fit_intercept or own:
        return None
    found = np.zeros((problem.n_groups, problem.d + 1))
    if rows.sparse:
        found[:] = as_stored(far_means(rows, held), rows)
    else:
        far = np.abs(problem.shift) * problem.scale > FAR
        found[:, :-1] = np.where(far, as_stored(problem.shift, rows), 0.0)
    if task.of_label and not (rows.groups["extras"] & OFFSETS).any():
        mean, deviation = labels["mean"], np.sqrt(labels["variance"])
        far = (np.abs(mean) > FAR * deviation) & (labels["low"] < labels["high"])
        found[:, -1] = np.where(far, mean, 0.0)
    found[~np.isfinite(found)] = 0.0
    return found if found.any() else None


def far_means(rows: Pass, held: NDArray[np.void] | None = None) -> Floats:
    """What to take off the features of sparse rows, (G, d + 1), the last one 0."""
    means = rows.far_means(FAR_SPARSE)
    if held is None or not means.any():
        return means
    some = np.flatnonzero(held["n_rows"])
    if len(some):
        means[some] *= replace(rows, groups=held[some]).far_means(0.0) != 0
    return means


def as_stored(shift: Floats, rows: Pass) -> Floats:
    """Numbers of the rows' own precision: near them, differences of the rows are exact."""
    if rows.groups["kind"][0] & 1:
        return shift
    most = float(np.finfo(np.float32).max)
    return np.asarray(np.clip(shift, -most, most).astype(np.float32), np.float64)


@contextmanager
def moved(
    rows: Pass, held: NDArray[np.void] | None, origin: Floats
) -> Iterator[tuple[Pass, NDArray[np.void] | None]]:
    """Copies of the rows, and of those held out, less an origin; freed when the context ends."""
    memory = 0 if rows.charges is None else rows.charges.memory
    with rows.moved(memory, origin) as groups:
        near = replace(rows, groups=groups, origin=origin)
        if held is None:
            yield near, None
            return
        with replace(rows, groups=held).moved(memory, origin) as out:
            yield near, out
