"""Numbers of held-out rows that models keep, by models that were trained without these rows."""

import ctypes
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

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

    def kept(self, group: int) -> Floats:
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
    spread = Lists.of_parts([kept.kept(group) for group in models.group.tolist()])
    return replace(models, spread=spread, options=Strings(pool, models.options.code))
