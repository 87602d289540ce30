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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import StoreError
from tuskml.udas.kernels import Floats, Pass
from tuskml.udas.library import check_code, library, pointer

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
        ("keys", ctypes.c_void_p),
        ("access", ctypes.c_void_p),
        ("threads", ctypes.c_int32),
        ("cancel_mark", ctypes.c_int64),
        ("epoch", ctypes.c_int64),
        ("step", ctypes.c_double),
        ("mean", ctypes.c_double),
        ("deviation", ctypes.c_double),
        ("loss", ctypes.c_double),
        ("penalty", ctypes.c_double),
        ("n_vectors", ctypes.c_int64),
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
    check_code(library().tk_rating_ids(ctypes.byref(rows._struct()), ctypes.byref(found)))
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
    def stride(self) -> int:
        """Numbers of a vector where kernels train it: whole lines of 16, zeros behind."""
        return -(-self.width // 16) * 16

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
        check_code(code)

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
        check_code(library().tk_factorization_keep(self._handle))

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
        check_code(code)
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
        check_code(code)
        return (loss.value + penalty.value) / self.n

    def loss(self, rows: Pass) -> float:
        """The mean loss over other rows of one group, their ids within the shape."""
        loss = ctypes.c_double()
        check_code(
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
        library().tk_factorization_write(self._handle, ctypes.byref(mean), pointer(coef))
        return mean.value, coef


@dataclass(frozen=True)
class Visit:
    """What one visit of all ratings found: the objective, vectors that blocks of ratings named,
    keys acquired for them, seconds by phase.

    Seconds are summed over the workers; those to wait for a block are in none of them.
    """

    objective: float
    n_vectors: int
    n_keys: int
    acquire_seconds: float
    train_seconds: float
    release_seconds: float


class StoredFactorization(_Ratings):
    """One group's ratings, their vectors in a store (`kvstore/native/frames.h`) of float32.

    block_bytes: of the vectors that a worker holds at a time, about. `lay_out` says what is in a
    key, and comes before `epoch` and `loss`. Results depend neither on threads nor on keys.

    Vectors lie in the store as kernels train them, `shape.stride` numbers each, in units of the
    ratings' deviation: p and q times its square root, biases times it, are the caller's. Vector
    number r, users from 0 and items from `first_item` on, is in key r // per_key. What was never
    trained is zeros.
    """

    def __init__(self, rows: Pass, memory: int, shape: Shape, seed: int, block_bytes: int) -> None:
        super().__init__(rows, memory, shape, seed, max(1, block_bytes))
        self._keys = ctypes.c_void_p()

    def count_keys(self, per_key: Sequence[int]) -> NDArray[np.int64]:
        """Keys that all blocks together ask for with so many vectors a key; shape of per_key."""
        sizes = np.ascontiguousarray(per_key, np.int32)
        keys = np.zeros(len(sizes), np.int64)
        code = library().tk_factor_count(
            self._handle, pointer(sizes), len(sizes), self.threads,
            ctypes.c_int64(self.cancel_mark), pointer(keys),
        )  # fmt: skip
        check_code(code)
        return keys

    def lay_out(self, per_key: int, key_bytes: int, most_bytes: int) -> None:
        """Vectors of so many ids share a key; 0: each weight has a key of its own (KV), of vector
        r from r * stride on. key_bytes: that a key takes of a worker's memory, most_bytes.
        """
        self._free_keys()
        code = library().tk_factor_keys_new(
            self._handle, per_key, ctypes.c_int64(key_bytes), ctypes.c_int64(most_bytes),
            self.threads, ctypes.c_int64(self.cancel_mark), ctypes.byref(self._keys),
        )  # fmt: skip
        self._check(code)

    def start(self) -> None:
        """The next epoch trains in an empty store, from the vectors' start."""
        library().tk_factor_keys_start(self._keys)

    def resume(self) -> None:
        """The next epoch trains in a store that has the vectors of at least one epoch before."""
        library().tk_factor_keys_resume(self._keys)

    @property
    def first_item(self) -> int:
        """The number of item 0's vector in the store."""
        library().tk_factor_keys_first_item.restype = ctypes.c_int64
        return int(library().tk_factor_keys_first_item(self._keys))

    @property
    def mean(self) -> float:
        """mu of these ratings, the model's intercept."""
        library().tk_factorization_mean.restype = ctypes.c_double
        return float(library().tk_factorization_mean(self._handle))

    @property
    def deviation(self) -> float:
        """The ratings' standard deviation, 1 where it is 0."""
        library().tk_factorization_deviation.restype = ctypes.c_double
        return float(library().tk_factorization_deviation(self._handle))

    def epoch(self, access: int, number: int, step: float) -> Visit:
        """Trains each rating once; the objective has the loss before each one's own update.

        access: address of a tusk_frame_access with as many workers as threads. StoreError where
        the store fails; the epoch is then half done.
        """
        kernel = library().tk_stored_factors_epoch
        return self._visit(kernel, access=access, epoch=number, step=step)

    def loss(self, access: int, mean: float, deviation: float) -> Visit:
        """The objective of these ratings, which may be others than were trained on.

        mean, deviation: of the ratings that were.
        """
        kernel = library().tk_stored_factors_loss
        return self._visit(kernel, access=access, mean=mean, deviation=deviation)

    def _visit(self, kernel: Callable[..., int], **given: float) -> Visit:
        job = _StoredFactors(
            factorization=self._handle,
            keys=self._keys,
            threads=self.threads,
            cancel_mark=self.cancel_mark,
            **given,
        )
        code = kernel(ctypes.byref(job))
        if code in STORE_FAILURES:
            raise StoreError(job.error.decode(errors="replace"))
        self._check(code)
        return Visit(
            (job.loss + job.penalty) / self.n,
            job.n_vectors,
            job.n_keys,
            job.acquire_ns / 1e9,
            job.train_ns / 1e9,
            job.release_ns / 1e9,
        )

    def _check(self, code: int) -> None:
        if code == TOO_LARGE:
            raise MemoryError(
                f"two vectors of {self.shape.width} numbers do not fit into the memory of one "
                "thread: raise option 'cache' or lower 'threads'"
            )
        check_code(code)

    def _free_keys(self) -> None:
        library().tk_factor_keys_free(self._keys)
        self._keys = ctypes.c_void_p()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._free_keys()
        super().__exit__(kind, error, trace)
