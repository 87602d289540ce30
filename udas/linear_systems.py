"""The linear systems of Newton's iterations: small, one a group, solved together."""

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.udas.library import Floats, Triangles, library, pointer


@dataclass(frozen=True)
class Solution:
    """step and inverse_diagonal are (G, p), rank and pivot (G,); see `tk_solve`."""

    step: Floats
    rank: NDArray[np.int64]
    pivot: Floats
    inverse_diagonal: Floats | None


def solve(hessian: Triangles, gradient: Floats, threads: int, inverse: bool = False) -> Solution:
    """Solves hessian @ step = gradient for each group; hessian is (G, p(p+1)/2), packed."""
    if not isinstance(hessian, np.ndarray) and not inverse:
        solution: Solution = hessian.solve(gradient)
        return solution
    hessian = np.asarray(hessian)
    n, p = gradient.shape
    hessian, gradient = np.ascontiguousarray(hessian), np.ascontiguousarray(gradient)
    step = np.empty((n, p))
    rank = np.empty(n, np.int64)
    pivot = np.empty(n)
    diagonal = np.empty((n, p)) if inverse else None
    library().tk_solve(
        ctypes.c_int64(n),
        ctypes.c_int64(p),
        pointer(hessian),
        ctypes.c_int64(hessian.shape[1]),
        pointer(gradient),
        pointer(step),
        pointer(rank),
        pointer(pivot),
        pointer(diagonal),
        threads,
    )
    return Solution(step, rank, pivot, diagonal)
