"""A part of a group's users with their ratings, which blocks of items' vectors visit.

The rows of a part may have any users, so first each user is dealt to a part, and the others send
it their ratings. Then the part keeps the users' vectors between messages, and a reply without an
array says that they are lost, as of `parts/topics.py`.
"""

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import structures
from tuskml.kernels.factorization.ratings import rating_ids
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.parts.message import Array
from tuskml.kernels.passes import Pass
from tuskml.kernels.segments import chunks, labels_of
from tuskml.kernels.structures import KERNELS

KEPT = "factors"
"""Key of the part in the state kept with the rows."""
Given = Mapping[str, Any]
Ratings = list[Any]
"""Users and items, int32, ratings and their weights, None: they have none; (n,) each."""


@KERNELS.structure("tk_part_ratings")
class PartRatings(ctypes.Structure):
    """The C structure `tk_part_ratings`."""


def ratings_of(rows: Pass) -> Ratings:
    """The ratings of a part's rows."""
    group = rows.groups[0]
    pairs = np.concatenate([one.astype(np.int32) for _, one, _ in chunks(group)])
    labels, weights = zip(*labels_of(group), strict=True)
    weight = None if weights[0] is None else np.concatenate(weights)
    return [pairs[:, 0].copy(), pairs[:, 1].copy(), np.concatenate(labels), weight]


def ids(rows: Pass, arrays: list[Any], given: Given) -> list[Array]:
    """The fields of `Ids`."""
    found = rating_ids(rows)
    whole = [found.n_users, found.n_items, found.bad_row, found.bad_position]
    return [np.array(whole), np.array([found.bad])]


def count_ratings(rows: Pass, arrays: list[Any], given: Given) -> list[Array]:
    """The ratings of each user and each item, and the weights of items."""
    user, item, _, weight = ratings_of(rows)
    users = np.bincount(user, minlength=given["users"]).astype(np.uint32)
    items = np.bincount(item, minlength=given["items"])
    return [users, items, np.bincount(item, weight, minlength=given["items"]).astype(np.float64)]


class FactorPart:
    """The ratings and vectors of a part's users.

    owner: the part of each user, (users,); visits: of blocks, -1 before it has all ratings.
    """

    def __init__(self, owner: NDArray[np.int32]) -> None:
        self.owner, self.visits = owner, -1
        self._handle = ctypes.c_void_p()

    def open(self, spec: Any, ratings: PartRatings, memory: int, stride: int) -> None:
        """Copies the ratings, and draws the users' first vectors."""
        arguments = ctypes.byref(ratings), memory or None, ctypes.byref(self._handle)
        check_code(library().tk_factor_part_new(spec, *arguments))
        self.stride, self.width = stride, spec.rank + spec.biases
        self.visits = 0

    def answer(self, rows: Pass, arrays: list[Any], given: Given) -> list[Any]:
        """The reply of a part that has all ratings."""
        if given["what"] == "visit":
            return self.visit(rows, arrays[0], given)
        if given["what"] == "state":
            return [self.state()]
        return self.users() if given["what"] == "users" else self.penalty()

    @property
    def n_users(self) -> int:
        """Returns the number of users."""
        return int(library().tk_factor_part_users(self._handle))

    def visit(self, rows: Pass, vectors: Any, given: Given) -> list[Array]:
        """A step for each rating of a block; returns its vectors and the sum of squared errors."""
        squares = np.zeros(1)
        where = given["block"], given["epoch"], given["step"], rows.cancel_mark
        out = pointer(vectors), len(vectors), pointer(squares)
        check_code(library().tk_factor_part_visit(self._handle, *where, *out))
        self.visits += 1
        return [vectors, squares]

    def state(self) -> NDArray[np.float32]:
        """The users' vectors."""
        out = np.empty((self.n_users, self.stride), np.float32)
        library().tk_factor_part_state(self._handle, 0, pointer(out))
        return out

    def set_state(self, vectors: NDArray[np.float32]) -> None:
        """Sets the users' vectors."""
        library().tk_factor_part_state(self._handle, 1, pointer(vectors))

    def users(self) -> list[Array]:
        """Ids of the users, and their vectors in the caller's units."""
        ids, coef = np.empty(self.n_users, np.int32), np.empty((self.n_users, self.width))
        library().tk_factor_part_write(self._handle, pointer(ids), pointer(coef))
        return [ids, coef]

    def penalty(self) -> list[Array]:
        """The sum of the ratings' penalties for users, (1,)."""
        return [np.array([library().tk_factor_part_penalty(self._handle)])]

    def close(self) -> None:
        """Frees the ratings."""
        library().tk_factor_part_free(self._handle)
        self._handle = ctypes.c_void_p()


def deal(rows: Pass, arrays: list[Any], given: Given, beside: Beside) -> list[Array]:
    """Notes the part of each user."""
    if KEPT in beside.kept:
        beside.kept.pop(KEPT).close()
    beside.kept[KEPT] = FactorPart(arrays[0])
    return [np.zeros(1)]


def answer(rows: Pass, arrays: list[Any], given: Given, beside: Beside) -> list[Any]:
    """The reply of a part whose users are dealt; none if they are not, or other visits came
    before.
    """
    part, what = beside.kept.get(KEPT), given["what"]
    if not isinstance(part, FactorPart):
        return []
    if what == "ratings":
        return ratings_to(rows, part.owner, given["to"])
    if what == "open":
        return open_part(rows, part, arrays, given, beside.memory)
    return part.answer(rows, arrays, given) if part.visits == given["visits"] else []


def ratings_to(rows: Pass, owner: NDArray[np.int32], to: int) -> Ratings:
    """The ratings of the users of one part."""
    found = ratings_of(rows)
    there = owner[found[0]] == to
    return [None if one is None else one[there] for one in found]


def open_part(
    rows: Pass, part: FactorPart, arrays: list[Any], given: Given, memory: int
) -> list[Array]:
    """Opens a part with its own ratings and those of the others in `arrays`. Then its users'
    vectors are random, or those of `arrays`.
    """
    block, place, *others, state = arrays
    own = ratings_to(rows, part.owner, given["part"])
    every: list[Any] = [
        None if a is None else np.concatenate([a, b]) for a, b in zip(own, others, strict=True)
    ]
    user, item, value, weight = every
    if weight is not None:
        weight *= given["scale"]
    held = np.ascontiguousarray(block[item]), np.ascontiguousarray(place[item])
    ratings = PartRatings(
        len(user), pointer(user), *map(pointer, held), pointer(value), pointer(weight),
        given["blocks"], given["mean"], given["deviation"],
    )  # fmt: skip
    part.open(structures.FactorSpec(*given["spec"]), ratings, memory, given["stride"])
    if state is not None:
        part.set_state(state)
    return [np.array([part.n_users])]
