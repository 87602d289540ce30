"""The linear systems of Newton's iterations: small, one per group, solved together."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import Floats, Triangles, check_code, library, pointer
from tuskml.kernels.structures import System


@dataclass(frozen=True)
class Solution:
    """step and inverse_diagonal are (G, p), rank and pivot (G,); see `tk_system`."""

    step: Floats
    rank: NDArray[np.int64]
    pivot: Floats
    inverse_diagonal: Floats | None


def solve(
    hessian: Triangles,
    gradient: Floats,
    threads: int,
    inverse: bool = False,
    *,
    cancel_mark: int = -1,
    deadline: float | None = None,
) -> Solution:
    """Solves hessian @ step = gradient for each group; hessian is (G, p(p+1)/2), packed.

    Raises Interrupted, and OutOfTime where the deadline passes.
    """
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
    system = System(
        n,
        p,
        pointer(hessian),
        hessian.shape[1],
        pointer(gradient),
        pointer(step),
        pointer(rank),
        pointer(pivot),
        pointer(diagonal),
        threads,
        cancel_mark,
        deadline or 0.0,
    )
    check_code(library().tk_solve(system))
    return Solution(step, rank, pivot, diagonal)
