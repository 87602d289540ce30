"""What dual coordinate descent keeps for each row, and its kernels (`native/dual.cpp`)."""

import ctypes
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.udas.kernels import Floats, Pass
from tuskml.udas.library import check_code, library, pointer

GROUP = np.dtype(
    [
        ("n_rows", np.int64),
        ("in_use", np.int64),
        ("rho", np.float64),
        ("centre", np.float64),
        ("most", np.float64),
        ("least", np.float64),
        ("random", np.uint64),
        ("objective", np.float64),
        ("bound", np.float64),
        ("intercept", np.float64),
        ("gained", np.float64),
    ]
)
KINDS = (np.float64, np.float64, np.float64, np.int32, np.int8)
"""Of what is kept for a row: alpha, norm, margin, order, sign."""
ROW_BYTES = sum(np.dtype(kind).itemsize for kind in KINDS)


class _Dual(ctypes.Structure):
    _fields_ = [
        ("l2", ctypes.c_double),
        ("tolerance", ctypes.c_double),
        ("shift", ctypes.c_void_p),
        ("offset", ctypes.c_void_p),
        ("alpha", ctypes.c_void_p),
        ("norm", ctypes.c_void_p),
        ("margin", ctypes.c_void_p),
        ("order", ctypes.c_void_p),
        ("sign", ctypes.c_void_p),
        ("groups", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class Dual:
    """The dual variables of G groups and what goes with them, `tk_dual` in `native/api.h`.

    Rows' arrays have a group's from offset[g] on; groups: GROUP of shape (G,). Of some of the
    groups the rows' arrays are the same memory, `groups` is a copy.
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
    groups: NDArray[np.void]

    @classmethod
    def of_rows(
        cls, rows: Pass, shift: Floats, l2: float, tolerance: float, seed: int, centre: Floats
    ) -> "Dual":
        """All dual variables 0; centre: where the intercepts (G,) start. Raises Interrupted."""
        n = int(rows.groups["n_rows"].sum())
        groups = np.zeros(rows.n_groups, GROUP)
        groups["random"] = seed
        groups["centre"] = centre
        alpha, norm, margin, order, sign = (rows.beside(n, kind) for kind in KINDS)
        made = cls(
            l2,
            tolerance,
            np.ascontiguousarray(shift),
            rows.first_rows,
            alpha,
            norm,
            margin,
            order,
            sign,
            groups,
        )
        check_code(
            library().tk_dual_start(ctypes.byref(rows._struct()), ctypes.byref(made._struct()))
        )
        return made

    def of(self, which: NDArray[np.intp]) -> "Dual":
        """The same for some of the groups."""
        return replace(
            self,
            shift=self.shift[which],
            offset=self.offset[which],
            groups=self.groups[which],
        )

    def _struct(self) -> _Dual:
        return _Dual(
            self.l2,
            self.tolerance,
            pointer(self.shift),
            pointer(self.offset),
            pointer(self.alpha),
            pointer(self.norm),
            pointer(self.margin),
            pointer(self.order),
            pointer(self.sign),
            pointer(self.groups),
        )

    def epoch(self, rows: Pass, weights: Floats) -> None:
        """As many coordinates as there are rows; weights (G, p) of x - shift are updated.

        Fills gained of `groups`.
        """
        pointers = ctypes.byref(rows._struct()), ctypes.byref(self._struct())
        check_code(library().tk_dual_epoch(*pointers, pointer(weights)))

    def check(self, rows: Pass, weights: Floats) -> None:
        """Fills objective, bound and intercept of `groups`."""
        pointers = ctypes.byref(rows._struct()), ctypes.byref(self._struct())
        check_code(library().tk_dual_check(*pointers, pointer(weights)))
