"""The lasso as a program of scheduled updates, whose rows lie on several workers.

Objective: 1/2 ||y - X w||^2 + penalty ||w||_1, without an intercept. Source: the paper of
`schedule/programs/program.py`, algorithm 2.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuskml.schedule.programs.program import Program

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


class Order(Protocol):
    """Chooses the weights to update next, such as `tuskml.schedule.Prioritised`."""

    def pick(self) -> Places:
        """Their indices."""

    def settle(self, places: Places, change: Floats, distance: Floats) -> None:
        """Reports the weights' changes, and the change of others that makes them active again,
        both as weights of columns of length 1.
        """

    def products(self, places: Places) -> NDArray[np.float32] | None:
        """Products of columns of length 1, (k, k); None: they are not known."""


class Rows:
    """Some rows, x (n, d) and y (n,), and their residuals at the latest weights."""

    def __init__(self, x: Floats, y: Floats) -> None:
        self.x, self.residual = np.asfortranarray(x), np.array(y, np.float64)
        self.weights = np.zeros(x.shape[1])

    def move(self, places: Places, values: Floats) -> None:
        """Moves to weights that are nonzero only at these indices."""
        new = np.zeros_like(self.weights)
        new[places] = values
        moved = np.flatnonzero(new != self.weights)
        self.residual -= self.x[:, moved] @ (new[moved] - self.weights[moved])
        self.weights = new


Job = tuple[int, Places]
"""The number of an iteration, and its weights."""
NEAREST = 0.1
"""The least distance from moving, as a share of the penalty: that of weights that are not 0."""


class Lasso(Program):
    """curvature: the squares of all rows' columns, (d,); weights with curvature 0 stay.

    Workers update weights as if nothing else changed. If the order knows the products of columns,
    `aggregate` corrects for concurrent changes of other weights, in earlier iterations and in this
    one, so that the updates equal sequential ones; approximately if the products are of a sample
    of rows.
    """

    def __init__(self, penalty: float, curvature: Floats, order: Order) -> None:
        self.penalty, self.curvature, self.order = penalty, curvature, order
        self.numbers, self.begun = count(), dict[int, Floats]()

    def schedule(self, A: Floats, D: Sequence[Rows]) -> list[Job]:
        """The same weights for all workers, as each has a part of the rows."""
        picked = self.order.pick()
        if not len(picked):
            return []
        number = next(self.numbers)
        self.begun[number] = A
        return [(number, picked)] * len(D)

    def part(self, S_p: Job, A: Floats) -> tuple[Places, Floats]:
        """The weights that are not 0."""
        support = np.flatnonzero(A)
        return support, A[support]

    def update(self, p: int, S_p: Job, D_p: Rows, A: tuple[Places, Floats]) -> tuple[Job, Floats]:
        """The products of columns with the residuals."""
        D_p.move(*A)
        return S_p, D_p.residual @ D_p.x[:, S_p[1]]

    def aggregate(self, R: Sequence[Any], A: Floats) -> Floats:
        """Soft-thresholds the sums over the workers, for columns of length 1."""
        number, places = R[0][0]
        size = np.sqrt(self.curvature)
        varies = size[places] > 0
        root = np.where(varies, size[places], 1)
        penalty, before = self.penalty / root, root * A[places]
        pull = np.where(varies, sum(product for _, product in R) / root + before, 0)
        was = self.begun.pop(number)
        moved = np.setdiff1d(np.flatnonzero(was != A), places)
        products = self.order.products(np.concatenate([places, moved]))
        if products is None:
            now = soft_threshold(pull, penalty)
        else:
            pull -= products[: len(places), len(places) :] @ (size * (A - was))[moved]
            now = one_by_one(pull, before, penalty, products)
        now[~varies] = 0
        new = A.copy()
        new[places] = now / root
        distance = np.where(now == 0, np.abs(penalty - np.abs(pull)), 0) + NEAREST * penalty
        self.order.settle(places, now - before, distance)
        return new


def soft_threshold(pull: Floats, penalty: Floats) -> Floats:
    """The weights that are least alone."""
    return np.sign(pull) * np.maximum(np.abs(pull) - penalty, 0)


def one_by_one(
    pull: Floats, before: Floats, penalty: Floats, products: NDArray[np.float32]
) -> Floats:
    """Updates each weight after those before it. Changes pull to the value that each then had."""
    now, at = before.copy(), 0
    while at < len(now):
        found = soft_threshold(pull[at:], penalty[at:])
        changed = np.flatnonzero(found != before[at:])
        end = at + int(changed[0]) + 1 if len(changed) else len(now)
        now[at:end] = found[: end - at]
        if len(changed):
            pull[end:] -= products[end : len(now), end - 1] * (now[end - 1] - before[end - 1])
        at = end
    return now
