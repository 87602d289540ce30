"""State by row of an interior-point method for the hinge, and its kernels.

They are in `native/hinge/interior.cpp`; the curvature is in `native/linear/curvature.cpp`.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import structures
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.structures import INTERIOR_GROUP

KINDS = (*[np.float64] * 7, np.int8)
"""Types of the state of a row: alpha, slack, excess, affine, move, slope, curvature, sign."""
AFFINE, CORRECTED, DUAL_LOW, DUAL_HIGH = range(4)
"""`tk_interior_mode` of `native/hinge/api.h`."""


@dataclass(frozen=True)
class Interior:
    """Variables of G groups, `tk_interior` in `native/hinge/api.h`.

    arrays: one item per row, group g's from offset[g] on; weight: weights of the rows, None: 1.
    groups: INTERIOR_GROUP of shape (G,). `of` shares the arrays by row and copies `groups`.
    """

    offset: NDArray[np.int64]
    arrays: tuple[NDArray[np.generic], ...]
    weight: Floats | None
    groups: NDArray[np.void]

    @classmethod
    def of_rows(
        cls, rows: Pass, weights: Floats, tilt: Floats | float = 0.0, beside: Floats | float = 1.0
    ) -> "Interior":
        """Initial state from weights (G, p) in the caller's units; tilt, beside: (G,)."""
        n = int(rows.groups["n_rows"].sum())
        arrays = tuple(rows.beside(n, kind) for kind in KINDS)
        weight = rows.beside(n) if rows.weighted else None
        interior = cls(rows.first_rows, arrays, weight, np.zeros(rows.n_groups, INTERIOR_GROUP))
        interior.groups["tilt"], interior.groups["beside"] = tilt, beside
        weights = np.ascontiguousarray(weights)
        interior._call("start", rows, pointer(weights))
        return interior

    def of(self, which: NDArray[np.intp]) -> "Interior":
        """The state of some of the groups, in ascending order; itself for all of them."""
        if len(which) == len(self.offset):
            return self
        return replace(self, offset=self.offset[which], groups=self.groups[which])

    @cached_property
    def struct(self) -> structures.Interior:
        """The structure that kernels read and write. It is created once, because the arrays do not
        move.
        """
        places = map(pointer, self.arrays)
        return structures.Interior(
            pointer(self.offset), *places, pointer(self.weight), pointer(self.groups)
        )

    def _call(self, name: str, rows: Pass, *arguments: object) -> None:
        kernel = getattr(library(), f"tk_interior_{name}")
        check_code(kernel(rows.struct, self.struct, *arguments))

    def curvature(self, rows: Pass, shift: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Right side, like that of `Pass.gradient`, and triangles, of the system for the step."""
        self._call("slopes", rows, AFFINE)
        p = rows.p
        out = np.empty((rows.n_groups, p + 2 + p * (p + 1) // 2))
        self._call("curvature", rows, pointer(shift), pointer(scale), pointer(out))
        return out[:, : p + 2], out[:, p + 2 :]

    def gradient(self, rows: Pass, mode: int) -> Floats:
        """Right side by mode, or the sums of the dual variables by class."""
        self._call("slopes", rows, mode)
        out = np.empty((rows.n_groups, rows.p + 2))
        self._call("gradient", rows, pointer(out))
        return out

    def aim(self, rows: Pass, weights: Floats, mode: int) -> None:
        """Stores a change of the weights (G, p), and in `groups` the length of the step."""
        weights = np.ascontiguousarray(weights)
        self._call("aim", rows, pointer(weights), mode)

    def move(self, rows: Pass) -> None:
        """Moves all variables by `step` of `groups` along the corrected change."""
        self._call("move", rows)
