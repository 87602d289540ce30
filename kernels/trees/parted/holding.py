"""Rows of a part that are held out while trees grow (`kernels/parts/dealing.py`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuskml.kernels.parts.dealing import Dealing, dealt
from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.parts.message import Array, pack_message
from tuskml.kernels.passes import Pass
from tuskml.kernels.rows.cells import Cells


@dataclass(frozen=True)
class Hold:
    """n held-out rows: those of the first of two folds."""

    dealing: Dealing
    n: int

    @property
    def earlier(self) -> list[list[Array]]:
        """Arrays for each part."""
        return self.dealing.earlier

    @property
    def arguments(self) -> dict[str, int]:
        """Arguments of a message, besides the part's own arrays."""
        return {"seed": self.dealing.seed, "until": int(self.dealing.until[0, 0])}


class Apart:
    """The rows of a part, separated into training and held-out rows."""

    def __init__(self, until: int, cells: Cells) -> None:
        self.until, self.cells = until, cells

    def close(self) -> None:
        """Frees them."""
        with self.cells:
            pass


def split_held_out(
    rows: Pass, arrays: Sequence[Any], hold: Mapping[str, int] | None, beside: Beside
) -> tuple[Pass, Pass | None]:
    """Separates a part's rows into training and held-out ones; None if none are held out."""
    if hold is None:
        return rows, None
    apart = beside.kept.get("apart")
    if not isinstance(apart, Apart) or apart.until != hold["until"]:
        if apart is not None:
            beside.kept.pop("apart").close()
        until = np.array([[hold["until"]]], np.uint64)
        message = pack_message({"seed": hold["seed"]}, [*arrays, np.zeros(1), until])
        apart = beside.kept["apart"] = Apart(hold["until"], dealt(rows, message, beside.memory))
    held, trained = (apart.cells.cells[:, fold].copy() for fold in range(2))
    return replace(rows, groups=trained), replace(rows, groups=held)
