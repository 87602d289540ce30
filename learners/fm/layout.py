"""A factorization machine as the list of numbers that a model's field `coef` has
(`udas/scalars/fm/fm.c`).

They are d, the number of its features; k, the length of their vectors; and then of each feature
its weight and its vector. The intercept is a field of its own.
"""

from collections.abc import Sequence

import numpy as np

from tuskml.kernels.passes import Floats

HEAD = 2
"""Numbers before those of the features."""


def write_head(coef: Floats, rank: int) -> Floats:
    """Writes the head of the coefficients and returns them."""
    coef[:HEAD] = (len(coef) - HEAD) // (rank + 1), rank
    return coef


def machine_in(coef: Sequence[float]) -> tuple[Floats, Floats]:
    """The weights (d,) and the vectors (d, k); raises ValueError unless the list is a machine."""
    table = np.asarray(coef, np.float64)
    d, k = (int(one) for one in table[:HEAD])
    numbers = table[HEAD:].reshape(d, k + 1)
    return numbers[:, 0], numbers[:, 1:]
