"""Copies of rows that a part keeps while their group is trained, whole or dealt to folds."""

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
    """A resource."""

    def close(self) -> None:
        """Frees the resource."""


@dataclass
class Beside:
    """State that a part keeps with its rows, for as long as these; memory: address of the
    account; words: what the ids of its documents are (`rows/words.py`), None: ids.
    """

    memory: int = 0
    words: tuple[bytes, NDArray[np.int64]] | None = None
    kept: dict[str, Closing] = field(default_factory=dict)

    def close(self) -> None:
        """Frees all of it."""
        for one in self.kept.values():
            one.close()
        self.kept.clear()


class PartRows:
    """Usable rows of a part of a group.

    groups: one group (GROUP), None: there is none; cells: the same rows by folds, None: they are
    not dealt; memory: address of the account for copies; beside: state computed from them; told:
    for rows that had names, their preparation (`Told.arrays`); remarks: on them, as JSON.
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
        """Rows of some folds, (1,), or all; valid until the next call."""
        if self.cells is None:
            assert folds is None or self.groups is None
            return self.groups
        return self.cells.link(range(self.cells.folds) if folds is None else folds)


def copy_rows(rows: Pass, memory: int) -> OwnedRows:
    """Copies the rows in their order; memory: address of the account for the copy."""
    copy = np.zeros(rows.n_groups, GROUP)
    check_code(library().tk_keep(rows.struct, memory, pointer(copy)))
    return OwnedRows(copy)
