"""What an interior-point method keeps for each row of the hinge, and its kernels.

They are in `native/interior.cpp`, but for the curvature, which is in `native/curvature.cpp`.
"""

import ctypes
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.udas.kernels import Floats, Pass
from tuskml.udas.library import check_code, library, pointer

GROUP = np.dtype(
    [
        ("n_rows", np.int64),
        ("target", np.float64),
        ("step", np.float64),
        ("product", np.float64),
        ("loss", np.float64),
        ("total", np.float64),
    ]
)
KINDS = (*[np.float64] * 7, np.int8)
"""Of what is kept for a row: alpha, slack, excess, affine, move, slope, curvature, sign."""
ROW_BYTES = sum(np.dtype(kind).itemsize for kind in KINDS)
AFFINE, CORRECTED, DUAL_LOW, DUAL_HIGH = range(4)
"""`tk_interior_mode` of `native/api.h`."""


class _Interior(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p)
        for name in (
            "offset",
            "alpha",
            "slack",
            "excess",
            "affine",
            "move",
            "slope",
            "curvature",
            "sign",
            "groups",
        )
    ]


@dataclass(frozen=True)
class Interior:
    """The variables of G groups, `tk_interior` in `native/api.h`.

    arrays: with an item a row, a group's from offset[g] on, and their places; groups: GROUP of
    shape (G,). Of some of the groups the rows' arrays are the same memory, `groups` is a copy.
    """

    offset: NDArray[np.int64]
    arrays: tuple[NDArray[np.generic], ...]
    places: tuple[ctypes.c_void_p | None, ...]
    groups: NDArray[np.void]

    @classmethod
    def of_rows(cls, rows: Pass, weights: Floats) -> "Interior":
        """Where a training starts from weights (G, p) in the caller's units."""
        n = int(rows.groups["n_rows"].sum())
        arrays = tuple(rows.beside(n, kind) for kind in KINDS)
        places = tuple(pointer(array) for array in arrays)
        made = cls(rows.first_rows, arrays, places, np.zeros(rows.n_groups, GROUP))
        made._call("start", rows, pointer(np.ascontiguousarray(weights)))
        return made

    def of(self, which: NDArray[np.intp]) -> "Interior":
        """The same for some of the groups."""
        return replace(self, offset=self.offset[which], groups=self.groups[which])

    def _call(self, name: str, rows: Pass, *arguments: object) -> None:
        struct = _Interior(pointer(self.offset), *self.places, pointer(self.groups))
        kernel = getattr(library(), f"tk_interior_{name}")
        check_code(kernel(ctypes.byref(rows._struct()), ctypes.byref(struct), *arguments))

    def curvature(self, rows: Pass, shift: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Right side like `Pass.gradient`, and triangles, of the step to the optimum itself."""
        self._call("slopes", rows, AFFINE)
        p = rows.p
        out = np.empty((rows.n_groups, p + 2 + p * (p + 1) // 2))
        self._call("curvature", rows, pointer(shift), pointer(scale), pointer(out))
        return out[:, : p + 2], out[:, p + 2 :]

    def gradient(self, rows: Pass, mode: int) -> Floats:
        """Right side by mode, or what the dual variables of a class sum up to."""
        self._call("slopes", rows, mode)
        out = np.empty((rows.n_groups, rows.p + 2))
        self._call("gradient", rows, pointer(out))
        return out

    def aim(self, rows: Pass, weights: Floats, mode: int) -> None:
        """Notes a change of the weights (G, p), and in `groups` how far to follow it."""
        self._call("aim", rows, pointer(np.ascontiguousarray(weights)), mode)

    def move(self, rows: Pass) -> None:
        """Moves all variables by `step` of `groups` along the corrected change."""
        self._call("move", rows)
