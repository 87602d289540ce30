"""The curvature times a direction, without the curvature (`native/product.cpp`)."""

import copy

import numpy as np

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Floats
from tuskml.learners.linear.problem import Index, Problem


class Curvature:
    """The operator H = mean(h_i z_i z_i') + the l2 part at weights v (G, p).

    diagonal (G, p): as given, or from the first product on about H's own, 1 where that is 0.
    """

    def __init__(self, part: Problem, v: Floats, diagonal: Floats | None = None) -> None:
        n = int(part.rows.groups["n_rows"].sum())
        self.part = part
        self.offset = part.rows.first_rows
        self.h = None if part.task.quadratic else part.rows.beside(n)
        self.weights = np.ascontiguousarray(part.to_caller(v))
        self.n: Floats | None = None
        self.known = diagonal is not None
        self.diagonal = np.ones_like(v) if diagonal is None else diagonal

    def of(self, which: Index) -> "Curvature":
        """Selects some of the groups; requires an earlier product."""
        assert self.n is not None
        some = copy.copy(self)
        some.part, some.offset = self.part.of(which), self.offset[which]
        some.weights, some.diagonal = self.weights[which], self.diagonal[which]
        some.n = self.n[which]
        return some

    def times(self, u: Floats) -> Floats:
        """H u by group, (G, p). Raises Interrupted."""
        direction = np.ascontiguousarray(self.part.to_caller(u))
        return self.part.smooth_gradient(self._sums(direction), direction)

    def _sums(self, direction: Floats) -> Floats:
        """Means over rows in the caller's coordinates; the first time h and diagonal with them."""
        part, first = self.part, self.n is None
        sums = np.empty_like(direction)
        squares = np.empty((len(sums), part.d + 2)) if first else None
        pointers = (
            pointer(self.weights if first else None),
            pointer(direction),
            pointer(self.offset),
            pointer(self.h),
            pointer(sums),
            pointer(squares),
        )
        check_code(library().tk_curvature_times(part.rows.struct, *pointers))
        if part.rows.meter is not None:
            part.rows.meter.products += 1 / part.rows.stride
        if squares is not None:
            self.n = squares[:, -1:]
            if not self.known:
                self.diagonal = self._diagonal(squares[:, :-1] / self.n)
        sums /= np.asarray(self.n)
        return sums

    def _diagonal(self, squares: Floats) -> Floats:
        part, d = self.part, self.part.d
        if part.rows.sparse:
            squares[:, :d] *= part.scale**2
        if part.l2:
            squares[:, :d] += part.l2 * part.scale**2
        squares[~((squares > 0) & np.isfinite(squares))] = 1.0
        return squares
