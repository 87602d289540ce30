"""Matrix factorization of implicit feedback: `kernels/native/factorization/implicit`.

A pair of a user u and an item i with feedback r_ui >= 0, such as the number of plays, has the
preference p_ui = 1 if r_ui > 0 and else 0, and the confidence c_ui = 1 + alpha r_ui. Over all
pairs of users and items with rows it minimises

    sum of c_ui (p_ui - x_u.y_i)^2 + l2 (sum of |x_u|^2 + sum of |y_i|^2),

divided by twice the sum of the confidences (Hu, Koren, Volinsky, *Collaborative Filtering for
Implicit Feedback Datasets*, ICDM 2008, equation 3).
"""

import ctypes
from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import structures
from tuskml.kernels.factorization.ratings import Shape
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Floats, Pass


def feedback_outside(rows: Pass, most: float) -> tuple[int, float] | None:
    """Number, from 1, of the first row whose label is not in [0, `most`], and the label."""
    row, label = ctypes.c_int64(), ctypes.c_double()
    function = library().tk_feedback_outside
    check_code(function(rows.struct, most, ctypes.byref(row), ctypes.byref(label)))
    return (row.value, label.value) if row.value else None


class Interactions:
    """One group's feedback and vectors in training. A context manager: its end frees them.

    All results have the same bits for the same rows, shape and seed, whatever the order of the
    rows and the number of threads. memory: address of the account that they are charged to, 0 for
    the heap.
    """

    def __init__(self, rows: Pass, memory: int, shape: Shape, alpha: float, seed: int) -> None:
        self.shape = shape
        self.threads = rows.threads
        self.cancel_mark = rows.cancel_mark
        self._handle = ctypes.c_void_p()
        spec = structures.FactorSpec(
            shape.n_users,
            shape.n_items,
            shape.rank,
            shape.biases,
            shape.l2,
            shape.l2_factors,
            seed & (2**64 - 1),
            0,
            alpha,
        )
        code = library().tk_interactions_new(rows.struct, memory, spec, ctypes.byref(self._handle))
        check_code(code)
        self.n_pairs = int(library().tk_interactions_pairs(self._handle))
        """Number of pairs with feedback above 0."""
        self.confidence = float(library().tk_interactions_confidence(self._handle))
        """The sum of the confidences of all pairs."""

    def start(self) -> None:
        """Resets the vectors to their first values."""
        library().tk_interactions_start(self._handle)

    def solve(self, cg_steps: int) -> float:
        """One iteration of alternating least squares. Returns the objective after it.

        It solves for the users' vectors with the items' fixed, and then for the items'. cg_steps:
        steps of conjugate gradient for each vector, or 0 for Cholesky's factorization.
        """
        return self._mean(library().tk_interactions_solve, cg_steps)

    def objective(self) -> float:
        """The objective at the current vectors."""
        return self._mean(library().tk_interactions_objective)

    def rank(self, epoch: int, step: float) -> float:
        """One epoch of Bayesian personalised ranking (Rendle and others, UAI 2009), of a shape
        with biases. Returns the mean loss of its triples, each before its step."""
        loss = ctypes.c_double()
        out = ctypes.byref(loss)
        kernel = library().tk_interactions_rank
        check_code(kernel(self._handle, epoch, step, self.threads, self.cancel_mark, out))
        return loss.value

    def _mean(self, kernel: Callable[..., int], *arguments: int) -> float:
        total = ctypes.c_double()
        out = ctypes.byref(total)
        check_code(kernel(self._handle, *arguments, self.threads, self.cancel_mark, out))
        return total.value / (2 * self.confidence)

    def vectors(self) -> Floats:
        """All vectors (n_users + n_items, width), users first; zeros for ids without rows."""
        shape = self.shape
        coef: NDArray[np.float64] = np.empty((shape.n_users + shape.n_items, shape.width))
        library().tk_interactions_write(self._handle, pointer(coef))
        return coef

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        library().tk_interactions_free(self._handle)
        self._handle = ctypes.c_void_p()
