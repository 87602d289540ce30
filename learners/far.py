"""Features that lie far from zero for what they vary by."""

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Pass

SAMPLE = 4096
"""Rows that tell, of each group."""


def far_from_zero(rows: Pass, most: float) -> NDArray[np.bool_]:
    """Groups with a feature that all rows have, as dense ones do, whose mean is beyond so many
    deviations, (G,)."""
    if rows.sparse:
        return np.asarray(rows.far_means(most).any(axis=1))
    mean, deviation = rows.feature_moments(SAMPLE)
    with np.errstate(over="ignore"):
        far = (deviation > 0) & (np.abs(mean) > most * deviation)
    return np.asarray(far.any(axis=1))
