"""Numbers of held-out rows that models keep, by models that were trained without these rows."""

import ctypes
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.groups.selection.metrics import residuals
from tuskml.kernels.passes import Floats
from tuskml.learners.models import Lists, Models, Strings, with_members

Groups = NDArray[np.void]


@dataclass(frozen=True)
class HeldRows(ABC):
    """Two numbers of each held-out row, (rows, 2), by group and fold."""

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
