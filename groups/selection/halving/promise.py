"""Which candidates are tried on all rows, by how all of them did on few.

As in successive halving (K. Jamieson, A. Talwalkar, Non-stochastic best arm identification and
hyperparameter optimization, AISTATS 2016) all candidates are tried on few rows. That half of them
which is best there is not always the one that is best on all rows: more rows ask for weaker
penalties, and neighbours differ by less than chance. So the others are judged by what more rows
changed for their neighbours: the loss expected of a candidate is the one on few rows, and the mean
of the changes of those that were tried on all rows, weighted by a Gaussian kernel of the steps
between them in the grid (E. Nadaraya, On estimating regression, 1964). The candidates with the
least expected loss are tried next, some at a time.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.selection.tpe import Axes
from tuskml.kernels.passes import Floats

WORK = 0.4
"""Of the rows that all candidates would read, the share that they read, about."""
AT_ONCE = 3
"""Candidates of a group that are tried before it is asked anew which ones promise most."""
MOST_BATCHES = 32
"""Of which there are no more: of many candidates more are tried at once."""
WIDTH = 0.7
"""Of the kernel, in steps of the grid."""
FAR = 1e-12
"""The weight of the farthest candidate."""
Mask = NDArray[np.bool_]


def finalists(candidates: int, share: float) -> int:
    """How many candidates are tried on all rows, where all of them have this share of the rows."""
    if share == 1:
        return candidates
    return max(min(AT_ONCE, candidates // 2), int(WORK * candidates - share * candidates))


def batches(candidates: int, share: float) -> Iterator[int]:
    """How many are tried on all rows at a time."""
    left = finalists(candidates, share)
    some = max(AT_ONCE, -(-left // MOST_BATCHES))
    while left > 0:
        yield min(left, some)
        left -= some


def weights(axes: Axes) -> Floats:
    """What the candidates say of each other, (C, C)."""
    c = axes.at.shape[1]
    steps = np.zeros((c, c))
    for at, choices in zip(axes.at, axes.choices, strict=True):
        apart = np.abs(at[:, None] - at[None, :])
        levels = len(np.unique(at[~np.isnan(at)]))
        own = (apart > 0).astype(float) if choices else apart * (levels - 1)
        steps += np.nan_to_num(own)
    steps /= WIDTH  # in place, as of many candidates this is large
    steps *= -0.5 * steps
    np.exp(steps, out=steps)
    steps += FAR
    return steps


def promising(kernel: Floats, few: Floats, losses: Floats, tried: Mask, n: int) -> Mask:
    """The n candidates that each group tries next, (C, G).

    kernel: their `weights`; few: (C, G), losses on few rows; losses: on all rows, of those that
    were tried, (C, G).
    """
    said = tried & np.isfinite(losses)
    known = np.isfinite(few)
    worst = np.where(known, few, -np.inf).max(axis=0)
    few = np.where(known, few, np.where(np.isfinite(worst), worst, 0.0))
    change = np.where(said, losses, few) - few
    near = kernel @ said
    expected = few + np.divide(kernel @ change, near, where=near > 0, out=np.zeros_like(few))
    return least(np.where(tried, np.inf, expected), n)


def least(values: Floats, n: int) -> Mask:
    """The n least values of each column, the first ones of equals."""
    rank = values.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    return np.asarray((rank < n) & np.isfinite(values))


def rungs(candidates: int, share: float) -> Sequence[tuple[int, float]]:
    """How many candidates train on which share of the rows."""
    if share == 1:
        return [(candidates, 1.0)]
    return [(candidates, share), (finalists(candidates, share), 1.0)]
