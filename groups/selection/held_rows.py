"""What models keep of held-out rows, as predicted by models that did not see these."""

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
        """Adds those of the rows held (GROUP), one set for each of the models."""
        found = self.numbers(models, held, library, threads)
        for group, part in zip(groups.tolist(), found, strict=True):
            self.by_group[group].append(part)

    def kept(self, group: int) -> Floats:
        """The field `spread` of a group's model; empty without held-out rows."""
        parts = self.by_group.get(group)
        return self.spread(np.concatenate(parts)) if parts else np.empty(0)

    @abstractmethod
    def numbers(
        self, models: Models, held: Groups, library: ctypes.CDLL, threads: int
    ) -> list[Floats]:
        """The numbers of the rows of each model's group. Raises OptionError for models that have
        none.
        """

    @abstractmethod
    def spread(self, rows: Floats) -> Floats:
        """What the model keeps of all rows of its group, (rows, 2)."""

    @property
    @abstractmethod
    def member(self) -> str:
        """The option of these models, as a member of a JSON object."""


def with_held_rows(models: Models, kept: HeldRows | None) -> Models:
    """The models, which keep what is known of their groups' held-out rows."""
    if kept is None:
        return models
    pool = tuple(with_members(text, f"{{{kept.member}}}") for text in models.options.pool)
    spread = Lists.of_parts([kept.kept(group) for group in models.group.tolist()])
    return replace(models, spread=spread, options=Strings(pool, models.options.code))
