"""Copies of rows for as long as their group is trained by parts."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import OwnedRows, Pass
from tuskml.kernels.structures import GROUP


def kept(rows: Pass, memory: int) -> OwnedRows:
    """The rows in the order in which they lie; memory: address of the account for the copy."""
    copy = np.zeros(rows.n_groups, GROUP)
    check_code(library().tk_keep(rows.struct, memory, pointer(copy)))
    return OwnedRows(copy)


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
