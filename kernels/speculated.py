"""Methods that follow gradients, run on a quadratic model of an objective: for planning."""

from enum import IntEnum

import numpy as np

from tuskml.kernels.library import Floats, library, pointer
from tuskml.kernels.structures import Quadratic


class Method(IntEnum):
    """The methods by their numbers in `native/linear/api.h`."""

    QUASI_NEWTON = 0
    SPECTRAL_STEPS = 1
    CONJUGATE_GRADIENTS = 2


def quadrature(
    packed: Floats, gradient: Floats, steps: int, scale: Floats | None = None
) -> tuple[Floats, Floats]:
    """Eigenvalues (k,), rising, and the gradient's components along their vectors, (k,).

    packed: a lower triangle row by row, (p(p+1)/2,); gradient: (p,); k is at most `steps`, and 0
    where there is no gradient. scale, (p,): of weights u = v / scale, for which the curvature has
    its rows and columns multiplied by it, and the gradient its components.
    """
    if scale is not None:
        scale, gradient = np.ascontiguousarray(scale), gradient * scale
    values, along = np.empty(steps), np.empty(steps)
    packed, gradient = np.ascontiguousarray(packed), np.ascontiguousarray(gradient)
    given = pointer(packed), pointer(scale), pointer(gradient), len(gradient), steps
    k = library().tk_quadrature(*given, pointer(values), pointer(along))
    order = np.argsort(values[:k])
    return values[:k][order], along[:k][order]


def speculate(
    method: Method,
    eigenvalue: Floats,
    gradient: Floats,
    first_step: float,
    tolerance: float,
    most: int,
) -> Floats:
    """The gradient's norms (m,), at the start and after each iteration, until the tolerance.

    eigenvalue and gradient are (k,), in the coordinates of the eigenvectors; m is at most `most`.
    """
    errors = np.empty(most)
    eigenvalue, gradient = np.ascontiguousarray(eigenvalue), np.ascontiguousarray(gradient)
    model = Quadratic(
        len(gradient), pointer(eigenvalue), pointer(gradient), first_step, tolerance, most
    )
    return errors[: library().tk_speculate(model, method, pointer(errors))]
