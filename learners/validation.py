"""Early stopping, as all learners have it: how many rows are held out, and for how long."""

import numpy as np
from numpy.typing import NDArray

PATIENCE = 5
"""Iterations without a gain, after which a training ends."""


def held_out_counts(n_rows: NDArray[np.int64], fraction: float) -> NDArray[np.int64]:
    """How many rows of each group to hold out; at least one row stays."""
    return np.minimum((n_rows * fraction).astype(np.int64), n_rows - 1)
