"""Which candidates are tried on all folds, by how all of them did on the first one.

Candidates race over the folds (O. Maron, A. Moore, The racing algorithm: model selection for lazy
learners, 1997): on one fold they train on as many rows as on any other, and are judged by the same
rows, so that what chance adds to one it adds to all. Fewer rows would ask for other options.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.selection.halving.promise import AT_ONCE, WORK, Kernel, promising
from tuskml.kernels.passes import Floats

BATCHES = 3
LEAST_FOLDS = 3
"""With two, the first one alone would be half of the work."""


def finalists(candidates: int, folds: int) -> int:
    """How many candidates of each group are tried on the other folds."""
    first = 1 / folds
    return max(min(AT_ONCE, candidates // 2), int((WORK - first) * candidates / (1 - first)))


def batches(candidates: int, folds: int) -> Iterator[int]:
    """How many are tried on the other folds at a time: those before tell which ones to try."""
    left = finalists(candidates, folds)
    some = -(-left // BATCHES)
    while left > 0:
        yield min(left, some)
        left -= some


def leading(
    kernel: Kernel, first: Floats, losses: Floats, tried: NDArray[np.bool_], n: int
) -> NDArray[np.bool_]:
    """The n candidates, (C, G), that promise most of each group by their losses on the first fold.

    first: these, (C, G); losses: on all folds, of those that were tried. All of a group where that
    fold could judge none.
    """
    found = promising(kernel, first, losses, tried, n)
    return np.asarray(np.where(np.isfinite(first).any(axis=0), found, ~tried))
