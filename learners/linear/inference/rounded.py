"""Features that lost digits because they are 32-bit floats."""

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import KINDS
from tuskml.learners.linear.problem import Problem

EXACT_IN_FLOAT = 2.0**24
"""Up to which 32-bit floats hold every whole number."""
ROUNDING = 1e-4
"""Share of a feature's variance by its rounding, which moves a slope by as much."""


def rounded(problem: Problem) -> NDArray[np.bool_]:
    """Groups with a feature whose 32-bit floats lost much of what it varies by, of shape (G,).

    DuckDB makes a FLOAT[] of `[FLOAT, BIGINT]`. A step u between floats is an error of variance
    u^2 / 12, and such errors in a feature shrink its slope by their share of its variance (Fuller,
    Measurement Error Models, 1987, 1.1).
    """
    if KINDS[problem.rows.groups["kind"][0]] != "dense float32":
        return np.zeros(problem.rows.n_groups, bool)
    center = np.minimum(np.abs(problem.shift), np.finfo(np.float32).max).astype(np.float32)
    error = (np.spacing(center).astype(float) * problem.scale) ** 2 / 12
    lost: NDArray[np.bool_] = np.any((center > EXACT_IN_FLOAT) & (error > ROUNDING), axis=1)
    return lost
