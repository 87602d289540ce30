"""The options of the task `fm`, with its defaults, and the numbers that its model keeps."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuskml.kernels.fm import ALGORITHMS
from tuskml.kernels.passes import Floats
from tuskml.learners.options.kinds import Option, choice, integer, real, with_option
from tuskml.learners.options.other_names import objective_hint
from tuskml.learners.options.table import Options, OptionTable

# A machine is a list of numbers, which a model's field `coef` has (`udas/scalars/fm/fm.c`): d, the
# number of its features; k, the length of their vectors; and then of each feature its weight and
# its vector. The intercept is a field of its own.

HEAD = 2
"""Numbers before those of the features."""


def write_head(coef: Floats, rank: int) -> Floats:
    """Writes the head of the coefficients and returns them."""
    coef[:HEAD] = (len(coef) - HEAD) // (rank + 1), rank
    return coef


def machine_in(coef: Sequence[float]) -> tuple[Floats, Floats]:
    """The weights (d,) and the vectors (d, k); raises ValueError unless the list is a machine."""
    table = np.asarray(coef, np.float64)
    d, k = (int(one) for one in table[:HEAD])
    numbers = table[HEAD:].reshape(d, k + 1)
    return numbers[:, 0], numbers[:, 1:]


OBJECTIVES = ("squared", "logistic")
MOST_RANK = 256
USUAL_RATES = {"adagrad": 0.05, "sgd": 0.01}
"""The default learning rate of each algorithm."""
USUAL_ENTRIES = 50.0
"""Features of a row that are not 0, on average, above which these rates fall in proportion."""


@dataclass(frozen=True, kw_only=True)
class MachineOptions(Options):
    """The options of a call whose task is `fm`."""

    objective: str
    rank: int
    algorithm: str
    learning_rate: float | None
    l2: float
    l2_factors: float
    init: float
    patience: int

    @property
    def epochs(self) -> int:
        """The most epochs."""
        return self.max_iter or 1

    @property
    def rate(self) -> float:
        """The learning rate of the first epoch."""
        return self.learning_rate or USUAL_RATES[self.algorithm]

    @property
    def classifies(self) -> bool:
        """Returns whether labels are classes."""
        return self.objective == "logistic"


OPTIONS = OptionTable(
    MachineOptions,
    (
        Option(
            "objective",
            choice(*OBJECTIVES, elsewhere=objective_hint),
            "squared",
            "the loss that the machine lowers; logistic: labels are two classes",
        ),
        Option("rank", integer(1, MOST_RANK), 8, "the length of a feature's vector"),
        Option(
            "algorithm",
            choice(*ALGORITHMS),
            "adagrad",
            "AdaGrad, or gradient descent whose rate falls with the root of the epoch",
        ),
        Option("max_iter", integer(1, 1_000_000), 10, "the epochs"),
        Option(
            "learning_rate",
            real(0, open_low=True),
            None,
            "the length of steps; default: 0.05 with `adagrad`, 0.01 with `sgd`, in groups whose "
            f"rows have n > {USUAL_ENTRIES:.0f} features that are not 0, on average, times "
            f"{USUAL_ENTRIES:.0f} / n",
        ),
        Option(
            "l2",
            real(0),
            0.0,
            "the penalty of a feature's weight, times the share of rows that have the feature",
        ),
        Option("l2_factors", real(0), 0.0, "the same of its vector"),
        Option("init", real(0), 0.01, "the standard deviation of the first vectors"),
        Option(
            "patience",
            integer(1, 1_000_000),
            1,
            "the epochs without a lower held-out loss after which training ends",
            with_option("validation"),
        ),
        *("time", "class_weight", "threads", "seed", "deterministic", "validation", "classes"),
        "format",
    ),
)
