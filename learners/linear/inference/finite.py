"""Models whose numbers do not fit in a double, and the constant models that replace them.

Squares of residuals leave the doubles where labels are beyond about 1e150 or, all of them, below
1e-150, sums do where features are near 1e308, and weights where features hardly vary. Such a group
gets the constant model and a status that says so, and no loss, history or standard errors. Of
other groups the history leaves out what is not finite.
"""

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.objective import TINY, best_constant, label_size
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Problem
from tuskml.learners.models import Lists, Strings
from tuskml.learners.statuses import MEANINGS

STATUSES = tuple(MEANINGS)
OUT_OF_RANGE = STATUSES.index("out of range")


def settle_lost(
    problem: Problem, state: State, labels: NDArray[np.void], weights: Floats
) -> NDArray[np.bool_]:
    """Which groups (G,) have no model in doubles; these get the constant in place, and no loss.

    weights: (G, p), in the caller's units, the intercept last.
    """
    lost = ~(np.isfinite(weights).all(axis=1) & np.isfinite(state.objective))
    if problem.task.quadratic:
        lost |= (labels["low"] != labels["high"]) & (label_size(labels) < TINY)
    if lost.any():
        weights[lost] = 0.0
        if problem.rows.fit_intercept:
            origin = 0.0 if problem.rows.origin is None else problem.rows.origin[:, -1]
            weights[lost, -1] = (constants(problem, labels) + origin)[lost]
        state.converged[lost] = False
        state.objective[lost] = np.nan
    for entry in state.history:
        entry[lost | ~np.isfinite(entry)] = np.nan  # steps that were taken back
    return lost


def constants(problem: Problem, labels: NDArray[np.void]) -> Floats:
    """The best constant (G,), of numbers that do not add up to one the middle, else 0."""
    best = best_constant(problem, labels)
    if problem.task.quadratic:
        best = np.where(np.isfinite(best), best, labels["low"] / 2 + labels["high"] / 2)
    return np.where(np.isfinite(best), best, 0.0)


def with_lost(status: Strings, lost: NDArray[np.bool_]) -> Strings:
    """The statuses, that of lost groups in the place of theirs."""
    return Strings(status.pool, np.where(lost, OUT_OF_RANGE, status.code).astype(np.int32))


def std_err_lists(std_err: Floats, widths: NDArray[np.int64]) -> Lists:
    """A list per group; none if no element has a meaning."""
    known = ~np.isnan(std_err).all(axis=1)
    return Lists.of_rows(std_err, np.where(known, widths + 1, 0))
