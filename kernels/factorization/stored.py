"""Matrix factorization with vectors in a store."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import StoreError
from tuskml.kernels import structures
from tuskml.kernels.factorization.ratings import Ratings, Shape
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Pass

STORE_FAILURES, TOO_LARGE = (16, 17), 18


@dataclass(frozen=True)
class Visit:
    """Result of one visit of all ratings.

    The objective, the number of vectors used by blocks of ratings, the number of keys acquired for
    them, and seconds by phase. Seconds are summed over the workers, without the wait for a block.
    """

    objective: float
    n_vectors: int
    n_keys: int
    acquire_seconds: float
    train_seconds: float
    release_seconds: float


class StoredFactorization(Ratings):
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
        """Counts the keys that all blocks request with each number of vectors per key; shape of
        per_key.
        """
        sizes = np.ascontiguousarray(per_key, np.int32)
        keys = np.zeros(len(sizes), np.int64)
        code = library().tk_factor_count(
            self._handle,
            pointer(sizes),
            len(sizes),
            self.threads,
            self.cancel_mark,
            pointer(keys),
        )
        check_code(code)
        return keys

    def lay_out(self, per_key: int, key_bytes: int, most_bytes: int) -> None:
        """Sets the number of ids whose vectors share a key.

        0: each weight has its own key (KV), that of vector r from r * stride on. key_bytes: bytes
        of a worker's memory per key; most_bytes: all of it.
        """
        self._free_keys()
        code = library().tk_factor_keys_new(
            self._handle,
            per_key,
            key_bytes,
            most_bytes,
            self.threads,
            self.cancel_mark,
            ctypes.byref(self._keys),
        )
        self._check(code)

    def start(self) -> None:
        """Makes the next epoch initialise the vectors, in an empty store."""
        library().tk_factor_keys_start(self._keys)

    def resume(self) -> None:
        """Makes the next epoch go on with the vectors of earlier epochs in the store."""
        library().tk_factor_keys_resume(self._keys)

    @property
    def first_item(self) -> int:
        """The number of item 0's vector in the store."""
        return int(library().tk_factor_keys_first_item(self._keys))

    @property
    def mean(self) -> float:
        """Mean mu of these ratings, the model's intercept."""
        return float(library().tk_factorization_mean(self._handle))

    @property
    def deviation(self) -> float:
        """The ratings' standard deviation, 1 where it is 0."""
        return float(library().tk_factorization_deviation(self._handle))

    def epoch(self, access: int, number: int, step: float) -> Visit:
        """Trains each rating once; the objective has the loss before each update.

        access: address of a tusk_frame_access with as many workers as threads. Raises StoreError
        if the store fails; the epoch is then incomplete.
        """
        kernel = library().tk_stored_factors_epoch
        return self._visit(kernel, access=access, epoch=number, step=step)

    def loss(self, access: int, mean: float, deviation: float) -> Visit:
        """Objective of these ratings, which may differ from the training's.

        mean, deviation: those of the training's ratings.
        """
        kernel = library().tk_stored_factors_loss
        return self._visit(kernel, access=access, mean=mean, deviation=deviation)

    def _visit(self, kernel: Callable[..., int], **given: float) -> Visit:
        job = structures.StoredFactors(
            factorization=self._handle,
            keys=self._keys,
            threads=self.threads,
            cancel_mark=self.cancel_mark,
            **given,
        )
        code = kernel(job)
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

    def __exit__(self, *_: object) -> None:
        self._free_keys()
        super().__exit__()
