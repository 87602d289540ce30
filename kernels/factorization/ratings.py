"""Biased matrix factorization: the kernels of `kernels/native/factorization`.

Over the ratings r_ui of one group it minimises

    mean of 1/2 (m - r_ui)^2 + l2/2 (|p_u|^2 + |q_i|^2 + b_u^2 + b_i^2),
    m = mu + b_u + b_i + p_u.q_i,

mu the mean rating; without biases, b and mu are 0. The penalty counts a vector as often as it has
ratings, as libmf and Surprise do (Koren, Bell, Volinsky, *Matrix Factorization Techniques for
Recommender Systems*, IEEE Computer 2009, equation 5). Steps are in units of the ratings' standard
deviation, so that one suits every scale.
"""

import ctypes
import math
from dataclasses import dataclass
from typing import Self

from tuskml.kernels import structures
from tuskml.kernels.library import check_code, library
from tuskml.kernels.passes import Pass


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
    ids = structures.RatingIds()
    check_code(library().tk_rating_ids(rows.struct, ids))
    return Ids(ids.n_users, ids.n_items, ids.bad_row, ids.bad_position, float(ids.bad))


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
