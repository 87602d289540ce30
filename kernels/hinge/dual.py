"""State by row of dual coordinate descent, and its kernels (`native/hinge/dual.cpp`)."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import structures
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.structures import DUAL_GROUP

KINDS = (np.float64, np.float64, np.float64, np.int32, np.int8)
"""Types of the state of a row: alpha, norm, margin, order, sign."""


@dataclass(frozen=True)
class Dual:
    """Dual variables and other state by row of G groups, `tk_dual` in `native/hinge/api.h`.

    The arrays by row hold group g's rows from offset[g] on. groups: DUAL_GROUP of shape (G,). `of`
    shares the arrays by row and copies `groups`.
    """

    l2: float
    tolerance: float
    shift: Floats
    offset: NDArray[np.int64]
    alpha: Floats
    norm: Floats
    margin: Floats
    order: NDArray[np.int32]
    sign: NDArray[np.int8]
    weight: Floats | None
    groups: NDArray[np.void]

    @classmethod
    def of_rows(
        cls, rows: Pass, shift: Floats, l2: float, tolerance: float, seed: int, centre: Floats
    ) -> "Dual":
        """Sets all dual variables to 0. centre: the first intercepts (G,). Raises Interrupted."""
        n = int(rows.groups["n_rows"].sum())
        groups = np.zeros(rows.n_groups, DUAL_GROUP)
        groups["random"] = seed
        groups["centre"] = centre
        alpha, norm, margin, order, sign = (rows.beside(n, kind) for kind in KINDS)
        dual = cls(
            l2,
            tolerance,
            np.ascontiguousarray(shift),
            rows.first_rows,
            alpha,
            norm,
            margin,
            order,
            sign,
            rows.beside(n) if rows.weighted else None,
            groups,
        )
        check_code(library().tk_dual_start(rows.struct, dual.struct))
        return dual

    def of(self, which: NDArray[np.intp]) -> "Dual":
        """The state of some of the groups."""
        return replace(
            self,
            shift=self.shift[which],
            offset=self.offset[which],
            groups=self.groups[which],
        )

    @cached_property
    def struct(self) -> structures.Dual:
        """The structure that kernels read and write. It is created once, because the arrays do not
        move.
        """
        return structures.Dual(
            self.l2,
            self.tolerance,
            pointer(self.shift),
            pointer(self.offset),
            pointer(self.alpha),
            pointer(self.norm),
            pointer(self.margin),
            pointer(self.order),
            pointer(self.sign),
            pointer(self.weight),
            pointer(self.groups),
        )

    def epoch(self, rows: Pass, weights: Floats) -> None:
        """Updates as many coordinates as there are rows, and the weights (G, p) of x - shift.

        Sets gained of `groups`.
        """
        check_code(library().tk_dual_epoch(rows.struct, self.struct, pointer(weights)))

    def check(self, rows: Pass, weights: Floats) -> None:
        """Sets objective, bound and intercept of `groups`."""
        check_code(library().tk_dual_check(rows.struct, self.struct, pointer(weights)))
