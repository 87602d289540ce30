"""Rows of a part that are held out while trees grow (`kernels/parts/dealing.py`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuskml.kernels.parts.dealing import Dealing, dealt
from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.parts.message import Array, packed
from tuskml.kernels.passes import Pass
from tuskml.kernels.rows.cells import Cells


@dataclass(frozen=True)
class Hold:
    """n rows that are held out: those of the first of two folds."""

    dealing: Dealing
    n: int

    @property
    def earlier(self) -> list[list[Array]]:
        """The arrays that each part is told."""
        return self.dealing.earlier

    @property
    def given(self) -> dict[str, int]:
        """What a message says of it, beside the part's own arrays."""
        return {"seed": self.dealing.seed, "until": int(self.dealing.until[0, 0])}


class Apart:
    """The rows of a part, those that are held out apart."""

    def __init__(self, until: int, cells: Cells) -> None:
        self.until, self.cells = until, cells

    def close(self) -> None:
        """Frees them."""
        with self.cells:
            pass


def held_apart(
    rows: Pass, arrays: Sequence[Any], hold: Mapping[str, int] | None, beside: Beside
) -> tuple[Pass, Pass | None]:
    """A part's rows to train on, and those that are held out; None: none are."""
    if hold is None:
        return rows, None
    apart = beside.kept.get("apart")
    if not isinstance(apart, Apart) or apart.until != hold["until"]:
        if apart is not None:
            beside.kept.pop("apart").close()
        until = np.array([[hold["until"]]], np.uint64)
        told = packed({"seed": hold["seed"]}, [*arrays, np.zeros(1), until])
        apart = beside.kept["apart"] = Apart(hold["until"], dealt(rows, told, beside.memory))
    held, kept = (apart.cells.cells[:, fold].copy() for fold in range(2))
    return replace(rows, groups=kept), replace(rows, groups=held)
