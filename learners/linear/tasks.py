"""The tasks of linear models, as data: which loss, and what statistics the result allows.

Losses are functions of the margin m = w.x + b; their formulas, derivatives and curvatures are in
`kernels/native/losses.hpp`, or the user's own (`own/tasks.py`).
"""

import math
from dataclasses import dataclass

from tuskml.kernels.open_rows import OwnLoss
from tuskml.learners.tasks import Task, built_in

RESPONSES = ("identity", "exp", "logistic")
"""What a number is predicted as, of its margin; `udas/scalars/models/model.c` knows them."""


@dataclass(frozen=True, kw_only=True)
class LinearTask(Task):
    """A task whose prediction is a function of the margin m = w.x + b.

    loss: the kernels' number; quadratic, smooth: whether the loss is; own: the user's loss, which
    loss only says the labels of (0: numbers, 1: classes), response: how it predicts, low and
    high: where its labels lie.
    """

    loss: int
    quadratic: bool = False
    smooth: bool = True
    own: OwnLoss | None = None
    response: str | None = None
    low: float = -math.inf
    high: float = math.inf

    @property
    def steepest(self) -> float:
        """The largest curvature of the loss, of one of the user's own about."""
        return 0.25 if "logistic" in (self.name, self.response) else 1.0

    @property
    def curved(self) -> bool:
        """Whether the loss has a curvature."""
        return self.own is None or self.own.curved


LINEAR = built_in(
    LinearTask("linear", "1/2 (m - y)^2", loss=0, quadratic=True, test="t"),
    LinearTask("logistic", "log(1 + exp(-y m))", True, loss=1, test="z"),
    LinearTask("svm", "max(0, 1 - y m)", True, loss=2, smooth=False),
)
OWN: dict[str, LinearTask] = {}
"""The user's."""
