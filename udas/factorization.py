"""Biased matrix factorization: the kernels of `udas/native/factorization.cpp`.

Over the ratings r_ui of one group it minimises

    mean of 1/2 (m - r_ui)^2 + l2/2 (|p_u|^2 + |q_i|^2 + b_u^2 + b_i^2),
    m = mu + b_u + b_i + p_u.q_i,

mu the mean rating; without biases, b and mu are 0. The penalty counts a vector as often as it has
ratings, as libmf and Surprise do (Koren, Bell, Volinsky, *Matrix Factorization Techniques for
Recommender Systems*, IEEE Computer 2009, equation 5). Steps are in units of the ratings' standard
deviation, so that one suits every scale.
"""

import ctypes
from dataclasses import dataclass
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from tuskml.udas.kernels import Floats, Pass, _address, _check, library


class _Ids(ctypes.Structure):
    _fields_ = [
        ("n_users", ctypes.c_int64),
        ("n_items", ctypes.c_int64),
        ("bad_row", ctypes.c_int64),
        ("bad_position", ctypes.c_int32),
        ("bad", ctypes.c_double),
    ]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("n_users", ctypes.c_int64),
        ("n_items", ctypes.c_int64),
        ("rank", ctypes.c_int32),
        ("biases", ctypes.c_int32),
        ("l2", ctypes.c_double),
        ("seed", ctypes.c_uint64),
    ]


@dataclass(frozen=True)
class Ids:
    """What ids a group's rows have: `n_users` and `n_items` are 1 + the largest.

    bad_row: the first row, from 1 on, with an id that cannot be one, 0 if there is none;
    bad_position: 1, user, or 2, item; bad: what was given.
    """

    n_users: int
    n_items: int
    bad_row: int
    bad_position: int
    bad: float


def rating_ids(rows: Pass) -> Ids:
    """The ids of the rows of one group."""
    found = _Ids()
    _check(library().tk_rating_ids(ctypes.byref(rows._struct()), ctypes.byref(found)))
    return Ids(found.n_users, found.n_items, found.bad_row, found.bad_position, float(found.bad))


@dataclass(frozen=True)
class Shape:
    """The size of a model and its penalty; a vector has `width` numbers, its bias first."""

    n_users: int
    n_items: int
    rank: int
    biases: bool
    l2: float

    @property
    def width(self) -> int:
        return self.rank + int(self.biases)

    @property
    def numbers(self) -> int:
        """Of the whole model, without mu."""
        return (self.n_users + self.n_items) * self.width


class Factorization:
    """One group's ratings and vectors in training; a context, whose end frees them.

    memory: address of the account that they are charged to, 0 for the heap. All results are the
    same bits for the same ratings, shape and seed, whatever the order of the rows and however
    many threads, unless an epoch is lock-free.
    """

    def __init__(self, rows: Pass, memory: int, shape: Shape, seed: int) -> None:
        self.shape = shape
        self.n = int(rows.groups["n_rows"][0])
        self.threads = rows.threads
        self.cancel_mark = rows.cancel_mark
        self._handle = ctypes.c_void_p()
        spec = _Spec(
            shape.n_users,
            shape.n_items,
            shape.rank,
            shape.biases,
            shape.l2,
            seed & (2**64 - 1),
        )
        code = library().tk_factorization_new(
            ctypes.byref(rows._struct()),
            ctypes.c_void_p(memory),
            ctypes.byref(spec),
            ctypes.byref(self._handle),
        )
        _check(code)

    def __enter__(self) -> "Factorization":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        library().tk_factorization_free(self._handle)
        self._handle = ctypes.c_void_p()

    def start(self) -> None:
        """Puts the vectors back to where they were at first."""
        library().tk_factorization_start(self._handle)

    def keep(self) -> None:
        """Copies the vectors, for `restore`."""
        _check(library().tk_factorization_keep(self._handle))

    def restore(self) -> None:
        """Puts the vectors back to where they were at the last `keep`."""
        library().tk_factorization_restore(self._handle)

    def epoch(self, number: int, step: float, lock_free: bool = False) -> float:
        """Visits each rating once; the mean loss, each before its own update, and penalty."""
        loss, penalty = ctypes.c_double(), ctypes.c_double()
        code = library().tk_factorization_epoch(
            self._handle,
            ctypes.c_int64(number),
            ctypes.c_double(step),
            self.threads,
            int(lock_free),
            ctypes.c_int64(self.cancel_mark),
            ctypes.byref(loss),
            ctypes.byref(penalty),
        )
        _check(code)
        return (loss.value + penalty.value) / self.n

    def objective(self) -> float:
        """The objective at the vectors as they are."""
        loss, penalty = ctypes.c_double(), ctypes.c_double()
        code = library().tk_factorization_objective(
            self._handle,
            self.threads,
            ctypes.c_int64(self.cancel_mark),
            ctypes.byref(loss),
            ctypes.byref(penalty),
        )
        _check(code)
        return (loss.value + penalty.value) / self.n

    def loss(self, rows: Pass) -> float:
        """The mean loss over other rows of one group, their ids within the shape."""
        loss = ctypes.c_double()
        _check(
            library().tk_factorization_loss(
                self._handle, ctypes.byref(rows._struct()), ctypes.byref(loss)
            )
        )
        return loss.value / int(rows.groups["n_rows"][0])

    def vectors(self) -> tuple[float, Floats]:
        """mu, and all vectors (n_users + n_items, width), users first, zeros where never seen."""
        mean = ctypes.c_double()
        shape = self.shape
        coef: NDArray[np.float64] = np.empty((shape.n_users + shape.n_items, shape.width))
        library().tk_factorization_write(self._handle, ctypes.byref(mean), _address(coef))
        return mean.value, coef
