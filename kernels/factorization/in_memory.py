"""Matrix factorization whose ratings and vectors are both in memory."""

import ctypes
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.factorization.ratings import Ratings, Shape
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Floats, Pass


class Factorization(Ratings):
    """One group's ratings and vectors in training, both in memory.

    All results have the same bits for the same ratings, shape and seed, whatever the order of the
    rows and the number of threads, unless an epoch is lock-free.
    """

    def __init__(self, rows: Pass, memory: int, shape: Shape, seed: int) -> None:
        super().__init__(rows, memory, shape, seed)

    def start(self) -> None:
        """Resets the vectors to their first values."""
        library().tk_factorization_start(self._handle)

    def keep(self) -> None:
        """Copies the vectors, for `restore`."""
        check_code(library().tk_factorization_keep(self._handle))

    def restore(self) -> None:
        """Resets the vectors to their values at the last `keep`."""
        library().tk_factorization_restore(self._handle)

    def epoch(self, number: int, step: float, lock_free: bool = False) -> float:
        """Trains each rating once. Returns the mean of losses before each update, plus penalty."""
        kernel = library().tk_factorization_epoch
        return self._mean(kernel, number, step, self.threads, int(lock_free))

    def solve(self, relax: float = 1.0) -> float:
        """One iteration of alternating least squares. Returns the objective after it.

        It finds the users' best vectors for the items' and then the items' for the users', 16
        numbers of a vector at a time. relax: a factor of each step, from 1 to below 2. Several
        such iterations get further when users and items depend on each other.
        """
        return self._mean(library().tk_factorization_solve, relax, self.threads)

    def objective(self) -> float:
        """The objective at the current vectors."""
        return self._mean(library().tk_factorization_objective, self.threads)

    def _mean(self, kernel: Callable[..., int], *arguments: float) -> float:
        """Mean per rating of the losses and penalties that a kernel sums up."""
        sums = (ctypes.c_double * 2)()
        check_code(kernel(self._handle, *arguments, self.cancel_mark, ctypes.byref(sums)))
        loss, penalty = sums
        return float((loss + penalty) / self.n)

    def loss(self, rows: Pass) -> float:
        """The weighted mean loss over other rows of one group, whose ids lie within the shape."""
        loss = ctypes.c_double()
        out = ctypes.byref(loss)
        check_code(library().tk_factorization_loss(self._handle, rows.struct, out))
        return loss.value / float(rows.weight[0])

    def vectors(self) -> tuple[float, Floats]:
        """mu and all vectors (n_users + n_items, width), users first; zeros for unrated ids."""
        mean = ctypes.c_double()
        shape = self.shape
        coef: NDArray[np.float64] = np.empty((shape.n_users + shape.n_items, shape.width))
        library().tk_factorization_write(self._handle, ctypes.byref(mean), pointer(coef))
        return mean.value, coef
