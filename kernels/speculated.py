"""Gradient methods on a quadratic model of an objective, for planning."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tuskml.kernels.library import Floats, library, pointer
from tuskml.kernels.structures import Quadratic
from tuskml.kernels.structures import Tridiagonal as Room


class Method(IntEnum):
    """Methods by their numbers in `native/linear/api.h`."""

    QUASI_NEWTON = 0
    SPECTRAL_STEPS = 1
    CONJUGATE_GRADIENTS = 2


@dataclass(frozen=True)
class Tridiagonal:
    """Tridiagonal form of a curvature by k steps of Lanczos' method from a gradient.

    diagonal (k,), beside (k,), the off-diagonal, whose last is 0; basis (k, p), orthonormal: the
    curvature times basis' is about basis' T. size: the gradient's norm; the gradient is size times
    the first vector.
    """

    diagonal: Floats
    beside: Floats
    basis: Floats
    size: float

    def quadrature(self) -> tuple[Floats, Floats]:
        """Eigenvalues (k,), rising, and the gradient's components along their vectors, (k,).

        k is 0 if they were not found.
        """
        values, off_diagonal, first = (
            self.diagonal.copy(),
            self.beside.copy(),
            self.diagonal.copy(),
        )
        arrays = pointer(values), pointer(off_diagonal), pointer(first)
        if not library().tk_quadrature(len(values), *arrays):
            return np.empty(0), np.empty(0)
        order = np.argsort(values)
        return values[order], self.size * first[order]


def lanczos(
    packed: Floats, gradient: Floats, steps: int, scale: Floats | None = None
) -> Tridiagonal:
    """Runs at most `steps` steps of Lanczos' method; none if the gradient is 0.

    packed: a lower triangle row by row, (p(p+1)/2,); gradient: (p,). scale, (p,): of weights u = v
    / scale, for which rows and columns of the curvature, and components of the gradient, are
    multiplied by it.
    """
    if scale is not None:
        scale, gradient = np.ascontiguousarray(scale), gradient * scale
    p = len(gradient)
    diagonal, off_diagonal, basis = np.empty(steps), np.empty(steps), np.empty((steps, p))
    packed, gradient = np.ascontiguousarray(packed), np.ascontiguousarray(gradient)
    room = Room(steps, p, pointer(diagonal), pointer(off_diagonal), pointer(basis))
    k = library().tk_lanczos(pointer(packed), pointer(scale), pointer(gradient), room)
    size = float(np.sqrt(np.square(gradient).sum()))
    return Tridiagonal(diagonal[:k], off_diagonal[:k], basis[:k], size)


def speculate(
    method: Method,
    model: Tridiagonal,
    first_step: float,
    tolerance: float,
    most: int,
) -> tuple[Floats, Floats]:
    """Norms of the gradient and its largest components by weight, (m,) both.

    At the start and after each iteration, until the largest is at most the tolerance; m is at most
    `most`.
    """
    k, p = model.basis.shape
    gradient = np.zeros(k)
    gradient[:1] = model.size
    basis = np.ascontiguousarray(model.basis)
    arrays = model.diagonal, model.beside, gradient, basis
    problem = Quadratic(k, p, *map(pointer, arrays), first_step, tolerance, most)
    return _run(problem, method)


def speculate_apart(
    method: Method,
    eigenvalue: Floats,
    gradient: Floats,
    first_step: float,
    tolerance: float,
    most: int,
) -> Floats:
    """Norms of the gradient (m,), from eigenvalues and the gradient's components along them,
    (k,).
    """
    eigenvalue, gradient = np.ascontiguousarray(eigenvalue), np.ascontiguousarray(gradient)
    k = len(gradient)
    arrays = pointer(eigenvalue), None, pointer(gradient), None
    return _run(Quadratic(k, k, *arrays, first_step, tolerance, most), method)[0]


def _run(model: Quadratic, method: Method) -> tuple[Floats, Floats]:
    norms, largest = np.empty(model.most), np.empty(model.most)
    count = library().tk_speculate(model, method, pointer(norms), pointer(largest))
    return norms[:count], largest[:count]
