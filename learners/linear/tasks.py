"""The tasks of linear models, as data: which loss, and what statistics the result allows.

Losses are functions of the margin m = w.x + b; their formulas, derivatives and curvatures are in
`kernels/native/losses.hpp`, or the user's own (`own/tasks.py`).
"""

import math
from dataclasses import dataclass
from typing import Any

from tuskml.kernels.open_rows import OwnLoss
from tuskml.learners.tasks import Task, built_in, in_table
from tuskml.udas.tasks import TASK_TABLE

RESPONSES = ("identity", "exp", "logistic")
"""What a number is predicted as, of its margin; `udas/scalars/models/model.c` knows them."""


@dataclass(frozen=True, kw_only=True)
class LinearTask(Task):
    """A task whose prediction is a function of the margin m = w.x + b.

    loss: the kernels' number; quadratic, smooth: whether the loss is; own: the user's loss, which
    loss only says the labels of (0: numbers, 1: classes), response: how it predicts, low and
    high: where its labels lie. multinomial: whether there may be more than two classes; least:
    what labels must be, in words; parameter: the option that the loss has a parameter by;
    expected: the kernels' number of a loss whose curvature is the expected one, by which standard
    errors are computed.
    """

    loss: int
    quadratic: bool = False
    smooth: bool = True
    own: OwnLoss | None = None
    response: str | None = None
    low: float = -math.inf
    high: float = math.inf
    multinomial: bool = False
    least: str | None = None
    parameter: str | None = None
    expected: int | None = None

    @property
    def general(self) -> bool:
        """Whether the loss is none of those that the stochastic kernels and the GPU have."""
        return self.own is not None or self.loss > HINGE

    @property
    def hinged(self) -> bool:
        """Whether the loss is the hinge itself."""
        return self.own is None and self.loss == HINGE

    @property
    def moves_on(self) -> bool:
        """As of `Task`."""
        return self.smooth and not self.quadratic

    @property
    def of_label(self) -> bool:
        """Whether margins are in units of the label."""
        return not self.classifies and self.response in (None, "identity")

    @property
    def flat(self) -> bool:
        """Whether the loss slopes where it has no curvature: there Newton's step has no length."""
        return not self.smooth or self.parameter == "delta"

    @property
    def counts(self) -> bool:
        """Whether labels are counts or amounts: those of 0 have no likeliest margin."""
        return self.own is None and self.least in (COUNTS, AMOUNTS)

    @property
    def has_ratios(self) -> bool:
        """As of `Task`; `udas/scalars/ratio.c` knows them."""
        likelihood = self.own is None and self.test is not None
        return likelihood and (self.response == "exp" or self.name == "logistic")

    @property
    def steepest(self) -> float:
        """The largest curvature of the loss; about, where it has no bound or is the user's own."""
        return 0.25 if "logistic" in (self.name, self.response) else 1.0

    @property
    def curved(self) -> bool:
        """Whether the loss has a curvature."""
        return self.own is None or self.own.curved


def built(name: str, **more: Any) -> LinearTask:
    """A task of the table; more: the members that only linear models have."""
    row = TASK_TABLE[name]
    response = None if row.response == "identity" else row.response
    several = row.labels == "classes"
    return LinearTask(**in_table(name), response=response, multinomial=several, **more)


HINGE = 2
"""The last of the losses that the stochastic kernels, the GPU and stores have."""
COUNTS, POSITIVE = "of at least 0, since it is of counts", "greater than 0"
AMOUNTS = "of at least 0"
LINEAR = built_in(
    built("linear", loss=0, quadratic=True),
    built("logistic", loss=1, also=("multinomial",)),
    built("svm", loss=HINGE, smooth=False),
    built("squared_hinge", loss=8),
    built("poisson", loss=3, low=0.0, least=COUNTS),
    built("negative_binomial", loss=5, expected=10, low=0.0, least=COUNTS, parameter="dispersion"),
    built("gamma", loss=4, expected=9, low=0.0, least=POSITIVE),
    built("tweedie", loss=11, expected=12, low=0.0, least=AMOUNTS, parameter="power"),
    built("huber", loss=6, expected=0, parameter="delta"),
    built("quantile", loss=7, parameter="quantile", smooth=False),
)
OWN: dict[str, LinearTask] = {}
"""The user's."""
