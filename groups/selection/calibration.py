"""Calibrated probabilities: which share of held-out rows with a margin is of the higher class.

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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import RowsError
from tuskml.groups.selection.held_rows import Groups, HeldRows
from tuskml.groups.selection.metrics import margins
from tuskml.kernels.passes import Floats
from tuskml.learners.models import Models

METHODS = ("platt", "isotonic")
STEPS = 100
"""The most steps of Newton's method, which needs a few."""


@dataclass(frozen=True)
class Margins(HeldRows):
    """The margins of held-out rows and their weights, negative for the lower class."""

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
