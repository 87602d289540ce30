"""The options of neural nets, with their defaults."""

from dataclasses import dataclass
from typing import Any

from tuskml.kernels.nets.structures import MOST_HIDDEN
from tuskml.kernels.nets.training import ACTIVATIONS, ALGORITHMS, SCHEDULES
from tuskml.learners.options.kinds import (
    BOOLEAN,
    CATEGORY,
    Acts,
    Beside,
    Kind,
    Option,
    choice,
    integer,
    of_features,
    real,
    with_option,
)
from tuskml.learners.options.other_names import objective_hint
from tuskml.learners.options.table import Options, OptionTable

OBJECTIVES = ("squared", "logistic")
MOST_UNITS = 65_536
"""The most units of a hidden layer."""
USUAL_RATES = {"adam": 0.001, "sgd": 0.01}
"""The default learning rate of each algorithm."""


@dataclass(frozen=True, kw_only=True)
class NetOptions(Options):
    """The options of a call whose task is `mlp`."""

    objective: str
    layers: tuple[int, ...]
    activation: str
    algorithm: str
    batch_size: int
    learning_rate: float | None
    schedule: str
    decay: float
    decay_epochs: int
    momentum: float
    weight_decay: float
    dropout: float
    patience: int
    embedding: int | None
    sparse_embeddings: bool | None

    @property
    def epochs(self) -> int:
        """The most epochs."""
        return self.max_iter or 1

    @property
    def rate(self) -> float:
        """The learning rate of the first epoch."""
        return self.learning_rate or USUAL_RATES[self.algorithm]


def _layers(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_HIDDEN:
        raise ValueError
    return tuple(integer(1, MOST_UNITS).parse(units) for units in value)


LAYERS = Kind(
    f"a list of 1 to {MOST_HIDDEN} whole numbers from 1 to {MOST_UNITS}, such as [64, 32]", _layers
)
OPTIONS = OptionTable(
    NetOptions,
    (
        Option(
            "objective",
            choice(*OBJECTIVES, elsewhere=objective_hint),
            "squared",
            "the loss that the net lowers; logistic: labels are two classes or more",
        ),
        Option("layers", LAYERS, (64, 32), "the units of each hidden layer"),
        Option(
            "activation",
            choice(*ACTIVATIONS),
            "relu",
            "a hidden unit's output for its sum z: max(0, z), tanh z, or z times the normal "
            "distribution at z",
        ),
        Option(
            "algorithm",
            choice(*ALGORITHMS),
            "adam",
            "Adam, or gradient descent with `momentum`",
        ),
        Option("max_iter", integer(1, 1_000_000), 100, "the epochs"),
        Option("batch_size", integer(1, 65_536), 32, "the rows of a step"),
        Option(
            "learning_rate",
            real(0, open_low=True),
            None,
            "the length of steps; default: 0.001 with `adam`, 0.01 with `sgd`",
        ),
        Option(
            "schedule",
            choice(*SCHEDULES),
            "constant",
            "the learning rate stays, falls along half a cosine wave towards 0, or by the "
            "factor `decay` after each `decay_epochs`",
        ),
        Option(
            "decay",
            real(0, open_low=True),
            0.1,
            "the factor of the schedule",
            with_option("schedule", "step"),
        ),
        Option(
            "decay_epochs",
            integer(1, 1_000_000),
            30,
            "the epochs of the schedule",
            with_option("schedule", "step"),
        ),
        Option(
            "momentum",
            real(0, 1),
            0.9,
            "the share of the last step in the next one",
            with_option("algorithm", "sgd"),
        ),
        Option(
            "weight_decay",
            real(0),
            0.0,
            "the share of each weight, times the learning rate, that a step takes away; not of "
            "biases",
        ),
        Option("dropout", real(0, 1), 0.0, "the probability that a step leaves a hidden unit out"),
        Option(
            "patience",
            integer(1, 1_000_000),
            10,
            "the epochs without a lower held-out loss after which training ends",
            with_option("validation"),
        ),
        Option(
            "embedding",
            integer(0, 1024),
            None,
            "the length of a level's vector; 0: each level is an input; default: min(50, "
            "round(1.6 n^0.56)) for n levels",
            of_features(CATEGORY),
        ),
        Option(
            "sparse_embeddings",
            BOOLEAN,
            None,
            "whether a step changes the vectors of its batch's levels alone; default: true from"
            " 1,000,000 numbers of vectors on",
            (Acts(frozenset((CATEGORY,)), (Beside("embedding", but=(0,)),)),),
        ),
        *("time", "class_weight", "threads", "seed", "validation", "classes", "warm_start"),
        *("device", "format"),
    ),
)
"""The defaults of Adam are those of its paper."""
