"""Biased matrix factorization: the kernels of `kernels/native/factorization`.

Over the ratings r_ui of one group it minimises

    mean of 1/2 (m - r_ui)^2 + l2/2 (|p_u|^2 + |q_i|^2 + b_u^2 + b_i^2),
    m = mu + b_u + b_i + p_u.q_i,

mu the mean rating; without biases, b and mu are 0. The penalty counts a vector as often as it has
ratings, as libmf and Surprise do (Koren, Bell, Volinsky, *Matrix Factorization Techniques for
Recommender Systems*, IEEE Computer 2009, equation 5). Steps are in units of the ratings' standard
deviation, so that one suits every scale.

Here ratings and vectors are both in memory.

The second objective is that of implicit feedback (`kernels/native/factorization/implicit`). A pair
of a user u and an item i with feedback r_ui >= 0, such as the number of plays, has the preference
p_ui = 1 if r_ui > 0 and else 0, and the confidence c_ui = 1 + alpha r_ui. Over all pairs of users
and items with rows it minimises

    sum of c_ui (p_ui - x_u.y_i)^2 + l2 (sum of |x_u|^2 + sum of |y_i|^2),

divided by twice the sum of the confidences (Hu, Koren, Volinsky, *Collaborative Filtering for
Implicit Feedback Datasets*, ICDM 2008, equation 3).
"""

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import structures
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.parts.sharded import ShardedPass
from tuskml.kernels.passes import Floats, Pass


@dataclass(frozen=True)
class Ids:
    """Ids in a group's rows: `n_users` and `n_items` are 1 + the largest.

    bad_row: the first row, from 1 on, with an invalid id, 0 if there is none; bad_position: 1,
    user, or 2, item; bad: the invalid value.
    """

    n_users: int
    n_items: int
    bad_row: int
    bad_position: int
    bad: float


def rating_ids(rows: Pass) -> Ids:
    """The ids of the rows of one group."""
    if isinstance(rows, ShardedPass):
        return merge_ids(rows.ask("rating_ids"))
    ids = structures.RatingIds()
    check_code(library().tk_rating_ids(rows.struct, ids))
    return Ids(ids.n_users, ids.n_items, ids.bad_row, ids.bad_position, float(ids.bad))


def merge_ids(replies: Sequence[Sequence[Any]]) -> Ids:
    """The ids of all parts, or of the first one with an invalid id."""
    each = [
        Ids(int(users), int(items), int(row), int(position), float(bad[0]))
        for (users, items, row, position), bad in replies
    ]
    wrong = next((one for one in each if one.bad_row), None)
    most = max(one.n_users for one in each), max(one.n_items for one in each)
    return wrong or Ids(*most, 0, 0, 0.0)


@dataclass(frozen=True)
class Shape:
    """The size of a model and its penalty; a vector has `width` numbers, its bias first.

    l2_factors: the weight of the penalty of p and q; NaN: l2, as of biases.
    """

    n_users: int
    n_items: int
    rank: int
    biases: bool
    l2: float
    l2_factors: float = math.nan

    def __post_init__(self) -> None:
        if math.isnan(self.l2_factors):
            object.__setattr__(self, "l2_factors", self.l2)

    @property
    def width(self) -> int:
        return self.rank + int(self.biases)

    @property
    def stride(self) -> int:
        """Floats of a vector in training: padded with zeros to whole lines of 16."""
        return -(-self.width // 16) * 16

    @property
    def numbers(self) -> int:
        """Count of numbers of the whole model, without mu."""
        return (self.n_users + self.n_items) * self.width


class Ratings:
    """One group's ratings in blocks. A context manager: its end frees them.

    memory: address of the account that they are charged to, 0 for the heap.
    """

    def __init__(
        self, rows: Pass, memory: int, shape: Shape, seed: int, block_bytes: int = 0
    ) -> None:
        self.shape = shape
        self.n = int(rows.groups["n_rows"][0])
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
            block_bytes,
        )
        code = library().tk_factorization_new(
            rows.struct,
            memory,
            spec,
            ctypes.byref(self._handle),
        )
        check_code(code)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        library().tk_factorization_free(self._handle)
        self._handle = ctypes.c_void_p()


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
