"""Which candidates are tried on all folds, by how all of them did on the first one.

Candidates race over the folds (O. Maron, A. Moore, The racing algorithm: model selection for lazy
learners, 1997): on one fold they train on as many rows as on any other, and are judged by the same
rows, so that what chance adds to one it adds to all. Fewer rows would ask for other options.
"""

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.selection.halving.promise import AT_ONCE, WORK, least
from tuskml.kernels.passes import Floats

LEAST_FOLDS = 3
"""With two, the first one alone would be half of the work."""


def finalists(candidates: int, folds: int) -> int:
    """How many candidates of each group are tried on the other folds."""
    first = 1 / folds
    return max(min(AT_ONCE, candidates // 2), int((WORK - first) * candidates / (1 - first)))


def leading(losses: Floats, folds: int) -> NDArray[np.bool_]:
    """Those candidates, (C, G), by their losses on the first fold, (C, G).

    All of a group where that fold could judge none.
    """
    found = least(losses, finalists(len(losses), folds))
    return np.asarray(found | ~np.isfinite(losses).any(axis=0))
