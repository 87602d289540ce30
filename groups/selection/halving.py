"""The choice of candidates that are tried on all rows, from trials on few.

As in successive halving (K. Jamieson, A. Talwalkar, Non-stochastic best arm identification and
hyperparameter optimization, AISTATS 2016) all candidates are tried on few rows. The better half
there does not always have the best on all rows: more rows need weaker penalties, and neighbours
differ by less than chance. So the others are judged by their neighbours' changes with more rows:
the expected loss of a candidate is the one on few rows, and the mean of the changes of those that
were tried on all rows, weighted by a Gaussian kernel of the steps between them in the grid (E.
Nadaraya, On estimating regression, 1964). The candidates with the least expected loss are tried
next, some at a time.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.selection.tpe import Axes
from tuskml.kernels.passes import Floats

WORK = 0.4
"""The share of all candidates' rows that a search reads, about."""
AT_ONCE = 3
"""Candidates of a group that are tried before the next ones are chosen."""
MOST_BATCHES = 32
"""The most batches: of many candidates more are tried at once."""
WIDTH = 0.7
"""The width of the kernel, in steps of the grid."""
BLOCK = 1 << 24
"""Bytes of the weights that are in memory at a time."""
FAR = 1e-12
"""The weight of the farthest candidate."""
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]


def finalists(candidates: int, share: float) -> int:
    """The number of candidates tried on all rows, if all of them have this share of the rows."""
    if share == 1:
        return candidates
    return max(min(AT_ONCE, candidates // 2), int(WORK * candidates - share * candidates))


def batches(candidates: int, share: float) -> Iterator[int]:
    """Yields the number of candidates tried on all rows at a time."""
    left = finalists(candidates, share)
    some = max(AT_ONCE, -(-left // MOST_BATCHES))
    while left > 0:
        yield min(left, some)
        left -= some


class Kernel:
    """The similarity of candidates, (C, C); a block of its rows is in memory at a time."""

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.levels = [len(np.unique(at[~np.isnan(at)])) for at in axes.at]

    def sums(self, by: Places, values: Floats) -> Floats:
        """The product of the rows of some candidates with their values, (C, k)."""
        c = self.axes.at.shape[1]
        out = np.empty((c, values.shape[1]))
        at_a_time = max(1, BLOCK // (8 * max(len(by), 1)))
        for first in range(0, c, at_a_time):
            some = np.arange(first, min(first + at_a_time, c))
            out[some] = self._weights(some, by) @ values
        return out

    def _weights(self, of: Places, by: Places) -> Floats:
        steps = np.zeros((len(of), len(by)))
        for at, choices, levels in zip(self.axes.at, self.axes.choices, self.levels, strict=True):
            apart = np.abs(at[of, None] - at[None, by])
            own = (apart > 0).astype(float) if choices else apart * (levels - 1)
            steps += np.nan_to_num(own)
        return np.exp(-0.5 * (steps / WIDTH) ** 2) + FAR


def promising(kernel: Kernel, few: Floats, losses: Floats, tried: Mask, n: int) -> Mask:
    """The n candidates that each group tries next, (C, G).

    few: (C, G), losses on few rows; losses: on all rows, of those that were tried, (C, G).
    """
    said = tried & np.isfinite(losses)
    known = np.isfinite(few)
    worst = np.where(known, few, -np.inf).max(axis=0)
    few = np.where(known, few, np.where(np.isfinite(worst), worst, 0.0))
    by = np.flatnonzero(said.any(axis=1))
    change = np.where(said[by], losses[by] - few[by], 0.0)
    near, moved = np.split(kernel.sums(by, np.hstack([said[by], change])), 2, axis=1)
    expected = few + np.divide(moved, near, where=near > 0, out=np.zeros_like(few))
    return least(np.where(tried, np.inf, expected), n)


def least(values: Floats, n: int) -> Mask:
    """The n least values of each column, the first ones of equals."""
    rank = values.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    return np.asarray((rank < n) & np.isfinite(values))


def rungs(candidates: int, share: float) -> Sequence[tuple[int, float]]:
    """The number of candidates by the share of the rows that they train on."""
    if share == 1:
        return [(candidates, 1.0)]
    return [(candidates, share), (finalists(candidates, share), 1.0)]


# The choice of candidates that are tried on all folds, from the first one.
#
# Candidates race over the folds (O. Maron, A. Moore, The racing algorithm: model selection for
# lazy learners, 1997): on one fold they train on as many rows as on any other, and are judged by
# the same rows, so that chance affects all alike. Fewer rows would favour other options.

BATCHES = 3
LEAST_FOLDS = 3
"""With two folds, the first one alone would be half of the work."""


def race_finalists(candidates: int, folds: int) -> int:
    """The number of candidates of each group that are tried on the other folds."""
    first = 1 / folds
    return max(min(AT_ONCE, candidates // 2), int((WORK - first) * candidates / (1 - first)))


def race_batches(candidates: int, folds: int) -> Iterator[int]:
    """Yields the number of candidates tried on the other folds at a time, chosen by those
    before.
    """
    left = race_finalists(candidates, folds)
    some = -(-left // BATCHES)
    while left > 0:
        yield min(left, some)
        left -= some


def leading(
    kernel: Kernel, first: Floats, losses: Floats, tried: NDArray[np.bool_], n: int
) -> NDArray[np.bool_]:
    """The n most promising candidates of each group, (C, G), by their losses on the first fold.

    first: these, (C, G); losses: on all folds, of those that were tried. All candidates of a group
    where that fold could judge none.
    """
    found = promising(kernel, first, losses, tried, n)
    return np.asarray(np.where(np.isfinite(first).any(axis=0), found, ~tried))
