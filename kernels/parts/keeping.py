"""Copies of rows for as long as their group is trained by parts, whole or dealt to folds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import OwnedRows, Pass
from tuskml.kernels.rows.cells import Cells
from tuskml.kernels.structures import GROUP


class Closing(Protocol):
    """What is to be freed."""

    def close(self) -> None:
        """Frees it."""
        ...


@dataclass
class Beside:
    """What a part keeps beside its rows, for as long as these; memory: address of the account."""

    memory: int = 0
    kept: dict[str, Closing] = field(default_factory=dict)

    def close(self) -> None:
        """Frees all of it."""
        for one in self.kept.values():
            one.close()
        self.kept.clear()


class PartRows:
    """The usable rows of a part of a group.

    groups: one group (GROUP), None: there is none; cells: the same rows by folds, None: they are
    not dealt; memory: address of the account for copies; beside: what was computed of them; told:
    of rows that had names, what they became (`Told.arrays`); remarks: on them, as JSON.
    """

    def __init__(
        self,
        groups: NDArray[np.void] | None,
        cells: Cells | None = None,
        memory: int = 0,
    ) -> None:
        self.groups, self.cells, self.beside = groups, cells, Beside(memory)
        self.told: list[NDArray[Any]] = []
        self.remarks: Mapping[str, Any] | None = None

    def of(self, folds: Sequence[int] | None) -> NDArray[np.void] | None:
        """The rows of some folds, (1,), or all; they are valid until the next call."""
        if self.cells is None:
            assert folds is None or self.groups is None
            return self.groups
        return self.cells.linked(range(self.cells.folds) if folds is None else folds)


def kept(rows: Pass, memory: int) -> OwnedRows:
    """The rows in the order in which they lie; memory: address of the account for the copy."""
    copy = np.zeros(rows.n_groups, GROUP)
    check_code(library().tk_keep(rows.struct, memory, pointer(copy)))
    return OwnedRows(copy)
