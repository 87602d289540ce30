"""Features that lost digits: as 32-bit floats, or in sums whose terms are far from zero."""

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import KINDS, Floats
from tuskml.learners.linear.problem import Problem

EXACT_IN_FLOAT = 2.0**24
"""Up to which 32-bit floats hold every whole number."""
ROUNDING = 1e-4
"""Share of a feature's variance by its rounding, which moves a slope by as much."""
LOST = 1e-3
"""Of the unit of margins, the rounding of a prediction that a person must know of."""


def rounded(problem: Problem) -> NDArray[np.bool_]:
    """Groups with a feature whose 32-bit floats lost much of what it varies by, of shape (G,).

    DuckDB makes a FLOAT[] of `[FLOAT, BIGINT]`. A step u between floats is an error of variance
    u^2 / 12, and such errors in a feature shrink its slope by their share of its variance (Fuller,
    Measurement Error Models, 1987, 1.1).
    """
    if KINDS[problem.rows.groups["kind"][0]] != "dense float32":
        return np.zeros(problem.rows.n_groups, bool)
    center = np.minimum(np.abs(problem.centre), np.finfo(np.float32).max).astype(np.float32)
    error = (np.spacing(center).astype(float) * problem.scale) ** 2 / 12
    lost: NDArray[np.bool_] = np.any((center > EXACT_IN_FLOAT) & (error > ROUNDING), axis=1)
    return lost


def lost_in_sums(problem: Problem, v: Floats) -> NDArray[np.bool_]:
    """Groups whose predictions lose digits, (G,): the terms of w.x + b, of features as they were
    given, are so large that their sum is rounded to steps which are not small.
    """
    each = problem.as_given(v).reshape(len(v), -1, problem.d + 1)
    terms = np.abs(each[:, :, :-1] * problem.centre[:, None, :]).max(axis=2, initial=0.0)
    size = np.maximum(terms, np.abs(each[:, :, -1])).max(axis=1)
    unit = 1.0 if problem.weight_unit is None else problem.weight_unit
    lost: NDArray[np.bool_] = np.isfinite(size) & (np.spacing(size) > LOST * unit)
    return lost
