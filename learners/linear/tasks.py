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
    def labels(self) -> str:
        """As of `Task`."""
        return "two classes or more" if self.multinomial else super().labels

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
        """Whether labels are counts."""
        return self.own is None and self.least == COUNTS

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


HINGE = 2
"""The last of the losses that the stochastic kernels, the GPU and stores have."""
COUNTS, POSITIVE = "of at least 0, since it is of counts", "greater than 0"
LINEAR = built_in(
    LinearTask("linear", "1/2 (m - y)^2", loss=0, quadratic=True, test="t"),
    LinearTask(
        *("logistic", "log(1 + exp(-y m))", True),
        loss=1,
        test="z",
        multinomial=True,
        also=("multinomial",),
    ),
    LinearTask("svm", "max(0, 1 - y m)", True, loss=HINGE, smooth=False, metric="accuracy"),
    LinearTask("squared_hinge", "max(0, 1 - y m)^2", True, loss=8, metric="accuracy"),
    LinearTask(
        *("poisson", "exp(m) - y m"),
        loss=3,
        response="exp",
        low=0.0,
        least=COUNTS,
        test="z",
        metric="poisson_deviance",
    ),
    LinearTask(
        *("negative_binomial", "(y + 1/a) log(1 + a exp(m)) - y m"),
        loss=5,
        response="exp",
        low=0.0,
        least=COUNTS,
        parameter="dispersion",
        expected=10,
        test="z",
        metric="poisson_deviance",
    ),
    LinearTask(
        *("gamma", "y exp(-m) + m"),
        loss=4,
        response="exp",
        low=0.0,
        least=POSITIVE,
        expected=9,
        test="t",
        metric="gamma_deviance",
    ),
    LinearTask(
        "huber",
        "r^2/2 of r = m - y up to |r| = delta, then delta (|r| - delta/2)",
        loss=6,
        parameter="delta",
        expected=0,
        test="z",
        metric="mae",
    ),
    LinearTask(
        "quantile",
        "max(q (y - m), (q - 1) (y - m))",
        loss=7,
        parameter="quantile",
        smooth=False,
        metric="pinball",
    ),
)
OWN: dict[str, LinearTask] = {}
"""The user's."""
