"""The tasks of linear models, as data: their losses, and the statistics of their models.

Losses are functions of the margin m = w.x + b; their formulas, derivatives and curvatures are in
`kernels/native/losses.hpp`, or custom (`own/tasks.py`).
"""

import math
from dataclasses import dataclass
from typing import Any

from tuskml.kernels.open_rows import OwnLoss
from tuskml.kernels.structures import KERNELS
from tuskml.learners.tasks import Task, built_in, in_table
from tuskml.udas.tasks import TASK_TABLE

RESPONSES = ("identity", "exp", "logistic")
"""The functions from margins to predictions of numbers; `udas/scalars/models/model.c` knows them.
"""


@dataclass(frozen=True, kw_only=True)
class LinearTask(Task):
    """A task whose prediction is a function of the margin m = w.x + b.

    loss: the kernels' number; quadratic, smooth: whether the loss is; own: a custom loss, whose
    `loss` only says its labels (0: numbers, 1: classes), response: how it predicts, low and high:
    the range of labels. multinomial: whether there may be more than two classes; least: what
    labels must be, in words; parameter: the option that parametrizes the loss; expected: the
    kernels' number of a loss whose curvature is the expected one, for standard errors; offset:
    whether margins have a part that each row knows.
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
    offset: bool = False

    @property
    def general(self) -> bool:
        """Returns whether the stochastic kernels and the GPU lack the loss."""
        return self.own is not None or self.loss > HINGE or self.offset

    @property
    def hinged(self) -> bool:
        """Returns whether the loss is the hinge itself."""
        return self.own is None and self.loss == HINGE

    @property
    def moves_on(self) -> bool:
        """As in `Task`."""
        return self.smooth and not self.quadratic

    @property
    def of_label(self) -> bool:
        """Returns whether margins are in units of the label."""
        return not self.classifies and self.response in (None, "identity")

    @property
    def flat(self) -> bool:
        """Returns whether the loss slopes where it has no curvature: there Newton's step has no
        length.
        """
        return not self.smooth or self.parameter == "delta"

    @property
    def counts(self) -> bool:
        """Returns whether labels are counts or amounts: those of 0 have no likeliest margin."""
        return self.own is None and self.least in (COUNTS, AMOUNTS)

    @property
    def has_ratios(self) -> bool:
        """As in `Task`; `udas/scalars/ratio.c` knows them."""
        likelihood = self.own is None and self.test is not None
        return likelihood and (self.response == "exp" or self.name == "logistic")

    @property
    def steepest(self) -> float:
        """The largest curvature of the loss; approximate if it is unbounded or custom."""
        return 0.25 if "logistic" in (self.name, self.response) else 1.0

    @property
    def curved(self) -> bool:
        """Returns whether the loss has a curvature."""
        return self.own is None or self.own.curved


def built(name: str, loss: str, expected: str | None = None, **more: Any) -> LinearTask:
    """A task of the table; loss, expected: the kernels' names of its loss and of that with the
    expected curvature; more: other members that only linear models have."""
    row = TASK_TABLE[name]
    return LinearTask(
        **in_table(name),
        loss=number_of(loss),
        expected=None if expected is None else number_of(expected),
        response=None if row.response == "identity" else row.response,
        multinomial=row.labels == "classes",
        **more,
    )


def number_of(loss: str) -> int:
    """The number of a loss in `kernels/native/linear/losses.hpp`."""
    return KERNELS.constant(f"LossKind.{loss}")


HINGE = number_of("hinge")
"""The last of the losses that the stochastic kernels, the GPU and stores have."""
COUNTS, POSITIVE = "of at least 0, since it is of counts", "greater than 0"
AMOUNTS = "of at least 0"
LINEAR = built_in(
    built("linear", "squared", quadratic=True),
    built("logistic", "logistic"),
    built("svm", "hinge", smooth=False),
    built("squared_hinge", "squared_hinge"),
    built("poisson", "poisson", low=0.0, least=COUNTS),
    built(
        "negative_binomial",
        "negative_binomial",
        "expected_negative_binomial",
        low=0.0,
        least=COUNTS,
        parameter="dispersion",
    ),
    built("gamma", "gamma", "expected_gamma", low=0.0, least=POSITIVE),
    built("tweedie", "tweedie", "expected_tweedie", low=0.0, least=AMOUNTS, parameter="power"),
    built("huber", "huber", "squared", parameter="delta"),
    built("quantile", "pinball", parameter="quantile", smooth=False),
)
OWN: dict[str, LinearTask] = {}
"""The user's."""
