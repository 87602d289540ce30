"""Numbers of held-out rows that models keep, by models that were trained without these rows.

They calibrate probabilities: which share of held-out rows with a margin is of the higher class.
Rows are held out by folds. The model on all rows gets one map from margins to probabilities, by
the margins of models that did not see the row:

* Platt's: 1 / (1 + exp(-(a m + b))), a and b of least log loss against targets that keep a
  distance from 0 and 1 (J. Platt, Probabilistic outputs for support vector machines, 1999), by
  Newton's steps (H.-T. Lin, C.-J. Lin and R. Weng, A note on Platt's probabilistic outputs,
  Machine learning, 2007).
* Isotonic regression, the rising function of least squared error, with straight lines between its
  steps (B. Zadrozny and C. Elkan, Transforming classifier scores into accurate multiclass
  probability estimates, KDD 2002).
"""

import ctypes
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError, RowsError
from tuskml.groups.selection.metrics import margins, residuals
from tuskml.kernels.passes import Floats
from tuskml.learners.models import Lists, Models, Strings, with_members

Groups = NDArray[np.void]


@dataclass(frozen=True)
class HeldRows(ABC):
    """Two numbers of each held-out row, (rows, 2), by group and fold."""

    option: ClassVar[str]
    """The option by which models keep them."""
    by_group: dict[int, list[Floats]] = field(default_factory=lambda: defaultdict(list))

    def put(
        self,
        groups: NDArray[np.intp],
        models: Models,
        held: Groups,
        library: ctypes.CDLL,
        threads: int,
    ) -> None:
        """Adds the numbers of the rows held (GROUP), one set for each of the models. Raises the
        errors of `refuse`.
        """
        self.refuse(groups, models)
        found = self.numbers(models, held, library, threads)
        for group, part in zip(groups.tolist(), found, strict=True):
            self.by_group[group].append(part)

    def spread_of(self, group: int) -> Floats:
        """The field `spread` of a group's model; empty without held-out rows."""
        parts = self.by_group.get(group)
        return self.spread(np.concatenate(parts)) if parts else np.empty(0)

    @abstractmethod
    def refuse(self, groups: NDArray[np.intp], models: Models) -> None:
        """Raises OptionError for models whose rows have no such numbers, or RowsError, which names
        their groups.
        """

    @abstractmethod
    def numbers(
        self, models: Models, held: Groups, library: ctypes.CDLL, threads: int
    ) -> list[Floats]:
        """The numbers of the rows of each model's group, (rows, 2)."""

    @abstractmethod
    def spread(self, rows: Floats) -> Floats:
        """The summary that a model keeps, of the numbers of all held-out rows of its group."""

    @property
    @abstractmethod
    def member(self) -> str:
        """The option of these models, as a member of a JSON object."""


def with_held_rows(models: Models, kept: HeldRows | None) -> Models:
    """The models with the summaries of their groups' held-out rows in the field `spread`."""
    if kept is None:
        return models
    pool = tuple(with_members(text, f"{{{kept.member}}}") for text in models.options.pool)
    spread = Lists.of_parts([kept.spread_of(group) for group in models.group.tolist()])
    return replace(models, spread=spread, options=Strings(pool, models.options.code))


# Conformal intervals: how far labels lie from the predictions of models that did not see them.
#
# The distances of the rows held out by folds, sorted, say how far a new label lies from its
# prediction: with n of them a new one is at most the k-th smallest with probability k / (n + 1)
# (V. Vovk, A. Gammerman and G. Shafer, Algorithmic learning in a random world, 2005). The models
# of the folds are not kept: the interval is around the prediction of the model on all rows, which
# is the cross-conformal one of stable trainings (R. Barber et al., Predictive inference with the
# jackknife+, Annals of statistics, 2021). With one set of held-out rows it is split conformal.

FARTHEST, EVEN = 512, 512
"""Distances that a model keeps: the largest ones, and others evenly by their rank."""


class Distances(HeldRows):
    """The distances and weights of held-out rows."""

    option = "conformal"
    member: ClassVar[str] = '"conformal":true'

    def refuse(self, groups: NDArray[np.intp], models: Models) -> None:
        if (models.class_names.code >= 0).any():
            raise OptionError(
                "option 'conformal' is about predictions of numbers, and the model predicts "
                "classes: expected labels that are numbers"
            )

    def numbers(
        self, models: Models, held: Groups, library: ctypes.CDLL, threads: int
    ) -> list[Floats]:
        return residuals(library, models, held, threads)

    def spread(self, rows: Floats) -> Floats:
        return levels(rows)


def levels(rows: Floats) -> Floats:
    """Rising levels and the distance for each of them, from distances and weights (rows, 2)."""
    rows = rows[rows[:, 1] > 0]
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    reached = np.cumsum(rows[:, 1])
    n = len(rows)
    if not n:
        return np.empty(0)
    even = np.linspace(0, n - 1, EVEN).round().astype(np.intp)
    some = np.unique(np.concatenate([even, np.arange(max(n - FARTHEST, 0), n)]))
    some = some if n > FARTHEST + EVEN else np.arange(n)
    return np.concatenate([reached[some] / (reached[-1] + 1), rows[some, 0]])


METHODS = ("platt", "isotonic")
STEPS = 100
"""The most steps of Newton's method, which needs a few."""


@dataclass(frozen=True)
class Margins(HeldRows):
    """The margins of held-out rows and their weights, negative for the lower class."""

    option = "calibration"
    method: str = METHODS[0]

    @property
    def member(self) -> str:
        return f'"calibration":"{self.method}"'

    def refuse(self, groups: NDArray[np.intp], models: Models) -> None:
        classes = np.diff(models.classes.offsets)
        found = {
            int(groups[place]): f"option 'calibration' is about two classes, the labels are of "
            f"{classes[place]}: expected labels of two classes"
            for place in np.flatnonzero(classes > 2).tolist()
        }
        if found:
            raise RowsError(next(iter(found.values())), found)

    def numbers(
        self, models: Models, held: Groups, library: ctypes.CDLL, threads: int
    ) -> list[Floats]:
        return margins(library, models, held, threads)

    def spread(self, rows: Floats) -> Floats:
        margin, weight = rows[rows[:, 1] != 0].T
        high, weight = weight > 0, np.abs(weight)
        if not len(margin):
            return np.empty(0)
        fit = sigmoid if self.method == "platt" else steps
        return fit(margin, high, weight)


def sigmoid(margin: Floats, high: NDArray[np.bool_], weight: Floats) -> Floats:
    """Slope and intercept of Platt's sigmoid, (2,), of margins (n,) and which rows are of the
    higher class.
    """
    above, below = weight[high].sum(), weight[~high].sum()
    target = np.where(high, (above + 1) / (above + 2), 1 / (below + 2))
    centre, unit = np.average(margin, weights=weight), margin.std() or 1.0
    x = np.column_stack([(margin - centre) / unit, np.ones(len(margin))])
    at = np.array([0.0, np.log((above + 1) / (below + 1))])
    loss = log_loss(x @ at, target, weight)
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-(x @ at)))
        gradient = x.T @ (weight * (p - target))
        curvature = (x.T * (weight * p * (1 - p))) @ x
        curvature[np.diag_indices(2)] += 1e-12 * np.trace(curvature)
        step, shorter = np.linalg.solve(curvature, gradient), 1.0
        while (lower := log_loss(x @ (at - shorter * step), target, weight)) > loss:
            shorter /= 2
            if shorter < 1e-10:
                break
        else:
            at, gain, loss = at - shorter * step, loss - lower, lower
            if gain > 1e-15 * abs(loss):
                continue
        break
    slope = at[0] / unit
    return np.array([slope, at[1] - slope * centre])


def log_loss(margin: Floats, target: Floats, weight: Floats) -> float:
    """The sum over rows of weight (log(1 + exp(m)) - target m)."""
    return float(weight @ (np.logaddexp(0, margin) - target * margin))


def steps(margin: Floats, high: NDArray[np.bool_], weight: Floats) -> Floats:
    """The margins of the knots of isotonic regression, rising, and then their probabilities."""
    x, place = np.unique(margin, return_inverse=True)
    size = np.bincount(place, weights=weight)
    share = np.bincount(place, weights=weight * high) / size
    first = np.arange(len(x))  # of each block of equal probability
    while (falls := np.diff(share) <= 0).any():
        begin = np.flatnonzero(np.concatenate([[True], ~falls]))
        merged = np.add.reduceat(size, begin)
        share = np.add.reduceat(size * share, begin) / merged
        size, first = merged, first[begin]
    last = np.append(first[1:], len(x)) - 1
    knots = np.unique(np.concatenate([first, last]))
    return np.concatenate([x[knots], share[np.searchsorted(first, knots, side="right") - 1]])
