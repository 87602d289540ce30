"""The tasks of linear models, as data: their losses, and the statistics of their models.

Losses are functions of the margin m = w.x + b; their formulas, derivatives and curvatures are in
`kernels/native/linear/losses.hpp` and `links.hpp`, or custom (`own/tasks.py`).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from tuskml.kernels.open_rows import OwnLoss
from tuskml.kernels.structures import KERNELS
from tuskml.learners.tasks import Task, built_in, in_table
from tuskml.udas.tasks import TASK_TABLE

RESPONSES = ("identity", "exp", "logistic")
"""The functions from margins to predictions of numbers; `udas/scalars/models/model.c` knows them.
"""
BY_ROW = {
    f"{family}_{link}"
    for family, links in {
        "gaussian": ("log", "inverse"),
        "poisson": ("identity", "sqrt"),
        "gamma": ("identity", "inverse"),
        "inverse_gaussian": ("log", "identity", "inverse", "inverse_squared"),
    }.items()
    for link in links
} | {"probit", "cloglog"}
"""The losses of `kernels/native/linear/links.hpp`."""
FAMILIES = {"linear": "gaussian"}
"""The families of tasks whose names are others."""
LINKS = {
    "linear": ("identity", "log", "inverse"),
    "logistic": ("logit", "probit", "cloglog"),
    "poisson": ("log", "identity", "sqrt"),
    "gamma": ("log", "identity", "inverse"),
    "inverse_gaussian": ("log", "identity", "inverse", "inverse_squared"),
}
"""The links that tasks have, the usual one first."""
BY_LINK = {
    "log": "exp",
    "inverse": "inverse",
    "sqrt": "square",
    "inverse_squared": "inverse_root",
    "probit": "probit",
    "cloglog": "cloglog",
}
"""The functions from margins to means by other links than the identity."""


@dataclass(frozen=True, kw_only=True)
class LinearTask(Task):
    """A task whose prediction is a function of the margin m = w.x + b.

    loss: the kernels' number; quadratic, smooth: whether the loss is; own: a custom loss, whose
    `loss` only says its labels (0: numbers, 1: classes), response: how it predicts, low and high:
    the range of labels. multinomial: whether there may be more than two classes; least: what
    labels must be, in words; parameter: the option that parametrizes the loss; expected: the
    kernels' number of a loss whose curvature is the expected one, for standard errors; offset:
    whether margins have a part that each row knows; link: of the mean, None: the usual one.
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
    link: str | None = None

    @property
    def general(self) -> bool:
        """Returns whether the stochastic kernels and the GPU lack the loss."""
        return self.own is not None or self.loss > HINGE or self.offset

    @property
    def is_hinge(self) -> bool:
        """Returns whether the loss is the hinge itself."""
        return self.own is None and self.loss == HINGE

    @property
    def straight(self) -> bool:
        """Returns whether the loss is of straight pieces, as an interior-point method needs it."""
        return self.is_hinge or (self.own is None and self.parameter == "quantile")

    @property
    def moves_on(self) -> bool:
        """As in `Task`."""
        return self.smooth and not self.quadratic

    @property
    def of_label(self) -> bool:
        """Returns whether margins are in units of the label."""
        plain = self.link is None and self.response in (None, "identity")
        return plain and not self.classifies

    @property
    def own_residuals(self) -> bool:
        """Returns whether Pearson's residuals are not the derivatives of the loss, but those that
        the kernel has with the parameter 1.
        """
        return self.link is not None or self.name == "inverse_gaussian"

    @property
    def flat(self) -> bool:
        """Returns whether the loss slopes where it has no curvature: there Newton's step has no
        length.
        """
        return not self.smooth or self.parameter == "delta"

    @property
    def counts(self) -> bool:
        """Returns whether labels are counts or amounts: those of 0 have no likeliest margin."""
        usual = self.own is None and self.link is None
        return usual and self.least in (COUNTS, AMOUNTS)

    @property
    def saturates(self) -> bool:
        """Returns whether the loss has no slope far out on one side, where rows do not matter."""
        return self.classifies or self.counts

    @property
    def has_ratios(self) -> bool:
        """As in `Task`; `udas/scalars/ratio.c` knows them."""
        likelihood = self.own is None and self.link is None and self.test is not None
        return likelihood and (self.response == "exp" or self.name == "logistic")

    @property
    def steepest(self) -> float:
        """The largest curvature of the loss; approximate if it is unbounded or custom."""
        logistic = self.link is None and "logistic" in (self.name, self.response)
        return 0.25 if logistic else 1.0

    @property
    def has_curvature(self) -> bool:
        """Returns whether the loss has a curvature."""
        return self.own is None or self.own.curved


def build_task(name: str, loss: str, expected: str | None = None, **more: Any) -> LinearTask:
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
    """The number of a loss in `losses.hpp` or `links.hpp` of `kernels/native/linear`."""
    linked = loss in BY_ROW
    return KERNELS.constant(f"{'LinkedKind' if linked else 'LossKind'}.{loss}")


def with_link(task: LinearTask, link: str | None) -> LinearTask:
    """The task with a link that it has, None: the usual one."""
    if link is None or link == LINKS[task.name][0]:
        return task
    family = FAMILIES.get(task.name, task.name)
    loss = number_of(link if task.classifies else f"{family}_{link}")
    return replace(
        task,
        loss=loss,
        expected=loss,
        quadratic=False,
        link=link,
        response=BY_LINK.get(link, "identity"),
    )


HINGE = number_of("hinge")
"""The last of the losses that the stochastic kernels, the GPU and stores have."""
COUNTS, POSITIVE = "of at least 0, since it is of counts", "greater than 0"
AMOUNTS = "of at least 0"
LINEAR = built_in(
    build_task("linear", "squared", quadratic=True),
    build_task("logistic", "logistic"),
    build_task("svm", "hinge", smooth=False),
    build_task("squared_hinge", "squared_hinge"),
    build_task("poisson", "poisson", low=0.0, least=COUNTS),
    build_task(
        "negative_binomial",
        "negative_binomial",
        "expected_negative_binomial",
        low=0.0,
        least=COUNTS,
        parameter="dispersion",
    ),
    build_task("gamma", "gamma", "expected_gamma", low=0.0, least=POSITIVE),
    build_task(
        "tweedie", "tweedie", "expected_tweedie", low=0.0, least=AMOUNTS, parameter="power"
    ),
    build_task(
        "inverse_gaussian",
        "inverse_gaussian_log",
        "inverse_gaussian_log",
        low=0.0,
        least=POSITIVE,
    ),
    build_task("huber", "huber", "squared", parameter="delta"),
    build_task("quantile", "pinball", parameter="quantile", smooth=False),
)
OWN: dict[str, LinearTask] = {}
"""The user's."""
