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
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import StoreError
from tuskml.udas.kernels import Floats, Pass
from tuskml.udas.library import _address, _check, library

STORE_FAILURES, TOO_LARGE = (16, 17), 18


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
        ("block_bytes", ctypes.c_int64),
    ]


class _StoredFactors(ctypes.Structure):
    _fields_ = [
        ("factorization", ctypes.c_void_p),
        ("access", ctypes.c_void_p),
        ("key_a_weight", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("cancel_mark", ctypes.c_int64),
        ("epoch", ctypes.c_int64),
        ("step", ctypes.c_double),
        ("mean", ctypes.c_double),
        ("loss", ctypes.c_double),
        ("penalty", ctypes.c_double),
        ("n_keys", ctypes.c_int64),
        ("acquire_ns", ctypes.c_int64),
        ("train_ns", ctypes.c_int64),
        ("release_ns", ctypes.c_int64),
        ("error", ctypes.c_char * 512),
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


class _Ratings:
    """One group's ratings in blocks; a context, whose end frees them.

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
        spec = _Spec(
            shape.n_users,
            shape.n_items,
            shape.rank,
            shape.biases,
            shape.l2,
            seed & (2**64 - 1),
            block_bytes,
        )
        code = library().tk_factorization_new(
            ctypes.byref(rows._struct()),
            ctypes.c_void_p(memory),
            ctypes.byref(spec),
            ctypes.byref(self._handle),
        )
        _check(code)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        library().tk_factorization_free(self._handle)
        self._handle = ctypes.c_void_p()


class Factorization(_Ratings):
    """One group's ratings and vectors in training, both in memory.

    All results are the same bits for the same ratings, shape and seed, whatever the order of the
    rows and however many threads, unless an epoch is lock-free.
    """

    def __init__(self, rows: Pass, memory: int, shape: Shape, seed: int) -> None:
        super().__init__(rows, memory, shape, seed)

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


@dataclass(frozen=True)
class Visit:
    """What one visit of all ratings found: the objective, keys acquired, seconds by phase.

    Seconds are summed over the workers; those to wait for a block are in none of them.
    """

    objective: float
    n_keys: int
    acquire_seconds: float
    train_seconds: float
    release_seconds: float


class StoredFactorization(_Ratings):
    """One group's ratings, their vectors in a store (`kvstore/native/frames.h`).

    access: address of a tusk_frame_access with as many workers as rows.threads; key_a_weight: each
    weight has a key of its own (KV), else each vector has (KV-VP: `IndexMap.by_rule(width)`);
    block_bytes: of the vectors that a worker holds at a time, about. Vectors are in the caller's
    units; those that were never trained are zeros. Results do not depend on threads.
    """

    def __init__(
        self, rows: Pass, memory: int, shape: Shape, seed: int, *, access: int,
        key_a_weight: bool, block_bytes: int,
    ) -> None:  # fmt: skip
        super().__init__(rows, memory, shape, seed, max(1, block_bytes))
        self.access = access
        self.key_a_weight = key_a_weight

    @property
    def mean(self) -> float:
        """mu of these ratings, the model's intercept."""
        library().tk_factorization_mean.restype = ctypes.c_double
        return float(library().tk_factorization_mean(self._handle))

    def epoch(self, number: int, step: float) -> Visit:
        """Trains each rating once; the objective is the mean loss before each one's own update.

        StoreError where the store fails; the epoch is then half done.
        """
        return self._visit(library().tk_stored_factors_epoch, epoch=number, step=step)

    def loss(self, mean: float) -> Visit:
        """The objective of these ratings, which may be others than were trained on.

        mean: mu of the ratings that were.
        """
        return self._visit(library().tk_stored_factors_loss, mean=mean)

    def _visit(self, kernel: Callable[..., int], **given: float) -> Visit:
        job = _StoredFactors(
            factorization=self._handle,
            access=self.access,
            key_a_weight=self.key_a_weight,
            threads=self.threads,
            cancel_mark=self.cancel_mark,
            **given,
        )
        code = kernel(ctypes.byref(job))
        if code in STORE_FAILURES:
            raise StoreError(job.error.decode(errors="replace"))
        if code == TOO_LARGE:
            raise MemoryError(
                f"two vectors of {self.shape.width} numbers do not fit into the memory of one "
                "thread: raise option 'cache' or lower 'threads'"
            )
        _check(code)
        return Visit(
            (job.loss + job.penalty) / self.n,
            job.n_keys,
            job.acquire_ns / 1e9,
            job.train_ns / 1e9,
            job.release_ns / 1e9,
        )
