"""The lasso as a program of scheduled updates, whose rows lie on several workers.

Objective: 1/2 ||y - X w||^2 + penalty ||w||_1, without an intercept. Source: the paper of
`schedule/programs/program.py`, algorithm 2.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuskml.schedule.programs.program import Program

Floats = NDArray[np.float64]
Places = NDArray[np.intp]


class Order(Protocol):
    """Which weights are updated next, such as `tuskml.schedule.Prioritised`."""

    def pick(self) -> Places:
        """Their places."""
        ...

    def settle(self, places: Places, change: Floats) -> None:
        """By how much they changed."""
        ...


class Rows:
    """Some rows, x (n, d) and y (n,), and their residuals at the weights that came last."""

    def __init__(self, x: Floats, y: Floats) -> None:
        self.x, self.residual = np.asfortranarray(x), np.array(y, np.float64)
        self.weights = np.zeros(x.shape[1])

    def move(self, places: Places, values: Floats) -> None:
        """To weights that are not 0 at these places alone."""
        new = np.zeros_like(self.weights)
        new[places] = values
        moved = np.flatnonzero(new != self.weights)
        self.residual -= self.x[:, moved] @ (new[moved] - self.weights[moved])
        self.weights = new


class Lasso(Program):
    """curvature: the squares of all rows' columns, (d,); a weight whose is 0 stays."""

    def __init__(self, penalty: float, curvature: Floats, order: Order) -> None:
        self.penalty, self.curvature, self.order = penalty, curvature, order

    def schedule(self, A: Floats, D: Sequence[Rows]) -> list[Places]:
        """The same weights for all workers, as each has a part of the rows."""
        picked = self.order.pick()
        return [picked] * len(D) if len(picked) else []

    def part(self, S_p: Places, A: Floats) -> tuple[Places, Floats]:
        """The weights that are not 0."""
        support = np.flatnonzero(A)
        return support, A[support]

    def update(
        self, p: int, S_p: Places, D_p: Rows, A: tuple[Places, Floats]
    ) -> tuple[Places, Floats]:
        """The products of columns with the residuals."""
        D_p.move(*A)
        return S_p, D_p.residual @ D_p.x[:, S_p]

    def aggregate(self, R: Sequence[Any], A: Floats) -> Floats:
        """Soft-thresholds the sums over the workers."""
        places, c = R[0][0], self.curvature[R[0][0]]
        pull = sum(product for _, product in R) + c * A[places]
        size = np.maximum(np.abs(pull) - self.penalty, 0)
        new = A.copy()
        step = np.divide(size, c, out=np.zeros_like(c), where=c > 0)
        new[places] = np.where(pull < 0, -step, step)
        self.order.settle(places, new[places] - A[places])
        return new
