"""State by row of the solvers of the hinge, and their kernels (`native/hinge`)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import structures
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.speculated import Method
from tuskml.kernels.structures import DUAL_GROUP, INTERIOR_GROUP
from tuskml.kernels.structures import CornerTrial as Given

DUAL_KINDS = (np.float64, np.float64, np.float64, np.int32, np.int8)
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
        alpha, norm, margin, order, sign = (rows.beside(n, kind) for kind in DUAL_KINDS)
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
            rows.beside(n) if rows.has_weights else None,
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


# An interior-point method; its curvature is in `native/linear/curvature.cpp`.

INTERIOR_KINDS = (*[np.float64] * 7, np.int8)
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
        arrays = tuple(rows.beside(n, kind) for kind in INTERIOR_KINDS)
        weight = rows.beside(n) if rows.has_weights else None
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


# Trial training on a few rows, in one call, for planning (`native/hinge/tried.cpp`).


@dataclass(frozen=True)
class Corner:
    """The problem: n dense rows of d features, in coordinates of variance 1.

    z: (d, n) float32; sign: (n,), the class, -1 or 1; l2: (d,), the penalty of each weight, None:
    none; corners: widths of the smoothed corner, the last one final; weight_unit: unit of the
    first step of L-BFGS; most: limit on iterations.
    """

    z: NDArray[np.float32]
    sign: Floats
    l2: Floats | None
    corners: Sequence[float]
    epsilon: float
    weight_unit: float
    fit_intercept: bool
    most: int

    def try_from(self, method: Method, v: Floats, seconds: float) -> tuple[int, bool]:
        """Number of iterations from v (d + 1,), and whether they reached the optimum.

        seconds: limit on the processor time.
        """
        result, _ = self._run(method, v, seconds)
        return abs(result), result > 0

    def weights(self, method: Method, v: Floats, seconds: float) -> Floats:
        """Returns the final weights, (d + 1,), the intercept last."""
        return self._run(method, v, seconds)[1]

    def _run(self, method: Method, v: Floats, seconds: float) -> tuple[int, Floats]:
        d, n = self.z.shape
        z, sign = np.ascontiguousarray(self.z, np.float32), np.ascontiguousarray(self.sign)
        l2 = None if self.l2 is None else np.ascontiguousarray(self.l2)
        corners, weights = np.array(self.corners, float), np.array(v, float)
        rows = pointer(z), pointer(sign), pointer(l2)
        ends = self.epsilon, self.weight_unit, self.fit_intercept, self.most, seconds
        problem = Given(n, d + 1, *rows, pointer(corners), len(corners), *ends)
        return int(library().tk_try_hinge(problem, method, pointer(weights))), weights
