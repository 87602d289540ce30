"""Conformal intervals: how far labels lie from the predictions of models that did not see them.

The distances of the rows held out by folds, sorted, say how far a new label lies from its
prediction: with n of them a new one is at most the k-th smallest with probability k / (n + 1)
(V. Vovk, A. Gammerman and G. Shafer, Algorithmic learning in a random world, 2005). The models of
the folds are not kept: the interval is around the prediction of the model on all rows, which is
the cross-conformal one of stable trainings (R. Barber et al., Predictive inference with the
jackknife+, Annals of statistics, 2021). With one set of held-out rows it is split conformal.
"""

import ctypes
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.groups.selection.held_rows import Groups, HeldRows
from tuskml.groups.selection.metrics import residuals
from tuskml.kernels.passes import Floats
from tuskml.learners.models import Models

FARTHEST, EVEN = 512, 512
"""Distances that a model keeps: the largest ones, and others evenly by their rank."""


class Distances(HeldRows):
    """The distances and weights of held-out rows."""

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
