"""The losses that trees lower, one row each: the values of option `objective`."""

from dataclasses import dataclass

from tuskml.kernels.trees.boosting import (
    GAMMA,
    GINI,
    HUBER,
    LOGISTIC,
    POISSON,
    QUANTILE,
    SQUARED,
    TWEEDIE,
)
from tuskml.learners.classes import LabelRange, counts
from tuskml.udas.tasks import TASK_TABLE


@dataclass(frozen=True)
class Objective:
    """A loss of trees.

    number: the kernels', in `tk_objective`; formula: the loss of a row, of its margin m and its
    label y; shape: the option that is the loss' parameter; allowed: the labels that the loss has,
    None: all; by_gradients: whether leaves are means of gradients, and not quantiles; averaged:
    whether it is of random forests alone.
    """

    number: int
    formula: str
    shape: str | None = None
    allowed: LabelRange | None = None
    by_gradients: bool = True
    averaged: bool = False


OBJECTIVES = {
    "squared": Objective(SQUARED, "1/2 (m - y)^2"),
    "logistic": Objective(LOGISTIC, "log(1 + exp(-y m))"),
    "poisson": Objective(POISSON, "exp(m) - y m", allowed=counts("objective 'poisson'")),
    "gamma": Objective(
        GAMMA,
        "y exp(-m) + m",
        allowed=LabelRange("objective 'gamma' needs a label greater than 0", low=0.0, above=True),
    ),
    "tweedie": Objective(
        TWEEDIE,
        "exp((2 - p) m) / (2 - p) + y exp((1 - p) m) / (p - 1), p = power",
        "power",
        LabelRange("objective 'tweedie' needs a label of at least 0", low=0.0),
    ),
    "quantile": Objective(
        QUANTILE,
        "max(t (y - m), (t - 1) (y - m)), t = quantile",
        "quantile",
        by_gradients=False,
    ),
    "huber": Objective(
        HUBER,
        "1/2 r^2 up to |r| = delta and delta (|r| - delta / 2) beyond, r = m - y",
        "delta",
    ),
    "gini": Objective(GINI, "1/2 (m - [y is the class])^2", averaged=True),
}
"""By name, those of linear tasks by the task's."""
BOOSTED = tuple(name for name, one in OBJECTIVES.items() if not one.averaged)
"""The objectives of boosted trees."""


def response_of(objective: str) -> str:
    """What predicts a number from the margin: `exp`, or `identity`."""
    row = TASK_TABLE.get(objective)
    return row.response if row else "identity"
