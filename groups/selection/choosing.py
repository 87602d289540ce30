"""The choice of the candidates that are tried next, from the trials so far.

By the tree-structured Parzen estimator (J. Bergstra, R. Bardenet, Y. Bengio, B. Kegl, Algorithms
for hyper-parameter optimization, NIPS 2011, section 4). A group's best trials are good. l(x) and
g(x) are the densities of the good trials and of the others, each the product over options of a
Parzen estimate with the prior as one of its terms. The candidate with the greatest l(x) / g(x) has
the greatest expected improvement, and comes next. An option that only some tasks have counts for
these alone, and the task is a category.

The candidates are draws from the prior that all groups share. So groups that choose alike train in
one call, and a group's choice depends on its own rows and the seed alone. Several are chosen at
once, each as if those before it had turned out badly (D. Ginsbourger, R. Le Riche, L. Carraro,
Kriging is well-suited to parallelize optimization, 2010).

From trials on few rows, or on one fold, candidates are chosen by their neighbours too (`Kernel`).
"""

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.selection.candidates import Candidate
from tuskml.kernels.passes import Floats

Mask = NDArray[np.bool_]
GOOD = 0.15
"""The share of trials that are good (section 4.1 of the paper)."""
FIRST, BATCHES = 0.25, 8
"""The share of trials that are drawn at the beginning, and how often more are chosen then."""
GROUPS_AT_ONCE = 64
"""Groups whose densities are in memory at a time."""
LEAST_POOL, MOST_POOL = 128, 512
"""The number of candidates to choose from, unless even more are to be tried."""


def pool(trials: int) -> int:
    """The number of candidates to draw for `trials` trials per group."""
    return max(2 * trials, min(MOST_POOL, max(LEAST_POOL, 8 * trials)))


@dataclass(frozen=True)
class Axes:
    """The coordinates of the C candidates.

    at: (A, C), of numbers their ranks among all, between 0 and 1, so that the prior is uniform; of
    categories their indices; NaN if a candidate's task has no such option. choices: (A,), the
    number of categories, 0 of numbers.
    """

    at: Floats
    choices: tuple[int, ...]


@dataclass(frozen=True)
class Estimate:
    """The number of candidates that each group tries, and the coordinates of all."""

    trials: int
    axes: Axes

    def counts(self) -> Sequence[int]:
        """The number of candidates that each group tries, one batch after the other."""
        candidates = self.axes.at.shape[1]
        trials = min(self.trials, candidates)
        first = min(trials, max(2, math.ceil(FIRST * trials)))
        rest = np.array_split(np.arange(trials - first), BATCHES)
        return [first, *(len(batch) for batch in rest if len(batch))]


def estimate_of(trials: int, candidates: Sequence[Candidate]) -> Estimate:
    """The estimate that groups choose by."""
    return Estimate(trials, axes_of([(one.task.name, one.shown) for one in candidates]))


def in_turn(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The candidates reordered, one of each task in turn, so that the first ones are of all
    tasks.
    """
    by_task: dict[str, list[Candidate]] = {}
    for one in candidates:
        by_task.setdefault(one.task.name, []).append(one)
    turns = itertools.zip_longest(*by_task.values())
    return tuple(one for turn in turns for one in turn if one is not None)


def axes_of(candidates: Sequence[tuple[str, str]]) -> Axes:
    """The axes of candidates, each a task with its options that vary as JSON."""
    values: dict[tuple[str, ...], list[tuple[object] | None]] = {}
    for place, (task, shown) in enumerate(candidates):
        own: dict[tuple[str, ...], object] = {("task",): task}
        own |= {(task, name): value for name, value in json.loads(shown).items() if name != "task"}
        for name, value in own.items():
            values.setdefault(name, [None] * len(candidates))[place] = (value,)
    rows = [axis for column in values.values() if (axis := axis_of(column)) is not None]
    at = np.array([one for one, _ in rows]).reshape(len(rows), len(candidates))
    return Axes(at, tuple(choices for _, choices in rows))


def axis_of(column: Sequence[tuple[object] | None]) -> tuple[Floats, int] | None:
    """Coordinates on an axis, and its number of categories; None if all are equal."""
    known = [one[0] for one in column if one is not None]
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in known)
    keys: list[Any] = known if numbers else [json.dumps(one, sort_keys=True) for one in known]
    distinct = sorted(set(keys))
    if len(distinct) < 2:
        return None
    place = {
        key: k / (len(distinct) - 1) if numbers else float(k) for k, key in enumerate(distinct)
    }
    found = iter(keys)
    at = [math.nan if one is None else place[next(found)] for one in column]
    return np.array(at), 0 if numbers else len(distinct)


def next_candidates(axes: Axes, losses: Floats, tried: Mask, n: int) -> Mask:
    """The n candidates that each group tries next, (C, G).

    losses: (C, G), the less the better, not finite where a trial failed; tried: (C, G).
    """
    out = np.zeros(tried.shape, bool)
    for at in range(0, tried.shape[1], GROUPS_AT_ONCE):
        part = slice(at, at + GROUPS_AT_ONCE)
        out[:, part] = _next_candidates(axes, losses[:, part], tried[:, part], n)
    return out


def _next_candidates(axes: Axes, losses: Floats, tried: Mask, n: int) -> Mask:
    good = best(losses, tried)
    width = bandwidth(int(tried.sum(axis=0).max(initial=1)))
    kernels = [kernel(at, k, width) for at, k in zip(axes.at, axes.choices, strict=True)]
    well, badly = Parzen(axes, kernels, good), Parzen(axes, kernels, tried & ~good)
    out, groups = np.zeros(tried.shape, bool), np.arange(tried.shape[1])
    for _ in range(n):
        ratio = np.where(tried | out, -np.inf, (well.logs() - badly.logs()).round(9))
        next_one = ratio.argmax(axis=0)
        left = np.isfinite(ratio[next_one, groups])
        out[next_one[left], groups[left]] = True
        badly.add(next_one)
    return out


def best(losses: Floats, tried: Mask) -> Mask:
    """The good ones of the trials of each group, at least one where one succeeded, (C, G)."""
    known = np.where(tried & np.isfinite(losses), losses, np.inf)
    rank = known.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    most = np.ceil(GOOD * tried.sum(axis=0))
    found: Mask = (rank < most) & np.isfinite(known)
    return found


def bandwidth(trials: int) -> float:
    """The standard deviation of the kernels of numbers, which falls with the trials."""
    return float(np.clip(0.5 * trials**-0.5, 0.02, 0.5))


def kernel(at: Floats, choices: int, width: float) -> Floats:
    """The density (C, C) at each candidate of the kernel around another; 0 where one has none.

    For numbers it is a normal distribution cut off at 0 and 1; for categories 1 for the same one.
    """
    applies = np.isfinite(at)
    x = np.where(applies, at, 0.0)
    if choices:
        found = (x[:, None] == x[None, :]).astype(float)
    else:
        apart = (x[:, None] - x[None, :]) / width
        root = math.sqrt(2)
        inside = [0.5 * (math.erf((1 - u) / width / root) + math.erf(u / width / root)) for u in x]
        found = np.exp(-0.5 * apart**2) / (width * math.sqrt(2 * math.pi) * np.array(inside))
    out: Floats = found * np.outer(applies, applies)
    return out


class Parzen:
    """The densities at C candidates of some trials of G groups, (C, G)."""

    def __init__(self, axes: Axes, kernels: Sequence[Floats], trials: Mask) -> None:
        self.axes, self.kernels = axes, kernels
        self.applies = np.isfinite(axes.at)
        self.shape, weights = trials.shape, trials.astype(float)
        self.sums = [one @ weights for one in kernels]
        self.counts = [own.astype(float) @ weights for own in self.applies]

    def add(self, trial: NDArray[np.intp]) -> None:
        """Adds one more trial of each group, (G,)."""
        for k, (one, own) in enumerate(zip(self.kernels, self.applies, strict=True)):
            self.sums[k] += one[:, trial]
            self.counts[k] += own[trial]

    def logs(self) -> Floats:
        """The logarithm of the density, over the options that a candidate has."""
        total = np.zeros(self.shape)
        for sums, counts, k, own in zip(
            self.sums, self.counts, self.axes.choices, self.applies, strict=True
        ):
            prior = 1 / k if k else 1.0
            total += np.where(own[:, None], np.log((prior + sums) / (1 + counts)), 0.0)
        return total


# The choice of candidates that are tried on all rows, from trials on few.
#
# As in successive halving (K. Jamieson, A. Talwalkar, Non-stochastic best arm identification and
# hyperparameter optimization, AISTATS 2016) all candidates are tried on few rows. The better half
# there does not always have the best on all rows: more rows need weaker penalties, and neighbours
# differ by less than chance. So the others are judged by their neighbours' changes with more rows:
# the expected loss of a candidate is the one on few rows, and the mean of the changes of those
# that were tried on all rows, weighted by a Gaussian kernel of the steps between them in the grid
# (E. Nadaraya, On estimating regression, 1964). The candidates with the least expected loss are
# tried next, some at a time.

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

RACE_BATCHES = 3
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
    some = -(-left // RACE_BATCHES)
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
