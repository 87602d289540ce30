"""What a call of `train_model` asks for whose task is a linear model's."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tuskml.errors import nearest
from tuskml.learners import learner
from tuskml.learners.linear.tasks import LinearTask
from tuskml.learners.options.kinds import TIME, Kind, integer, real
from tuskml.learners.options.table import Options

CLASSIC = "classic"
CLUSTERED = "cluster"
"""The covariance that the option `cluster` asks for."""
COVARIANCES = (CLASSIC, "HC0", "HC1", "HC2", "HC3")
"""The values of the option `covariance`."""
SAMPLE = integer(10, 10**7)
EPSILON = real(0, 1, open_low=True)
MEMBERS = {"sample": SAMPLE, "time": TIME, "epsilon": EPSILON}


@dataclass(frozen=True)
class Speculate:
    """sample: rows of a group; time: seconds for all candidates; epsilon: where a trial ends."""

    sample: int = 1000
    time: float = 10.0
    epsilon: float = 0.05


def _speculate(value: Any) -> Speculate:
    if not isinstance(value, dict):
        raise ValueError
    for name, given in value.items():
        if name not in MEMBERS:
            raise ValueError(nearest(name, MEMBERS))
        MEMBERS[name].parse(given)
    return Speculate(**{name: MEMBERS[name].parse(given) for name, given in value.items()})


SPECULATE = Kind(
    'an object such as {"sample": 1000, "time": "10s", "epsilon": 0.05}: rows, a duration and a '
    "number between 0 and 1",
    _speculate,
)


MOST_FREQUENT = "most frequent"


def _reference(value: Any) -> str | dict[str, str]:
    if value == MOST_FREQUENT:
        return MOST_FREQUENT
    if not isinstance(value, dict) or not value:
        raise ValueError
    return {name: _level(name, level) for name, level in value.items()}


def _level(name: str, level: Any) -> str:
    """A level as the text that categories have; numbers and truths are JSON's."""
    if not isinstance(level, str | bool | int | float):
        raise ValueError
    text = level if isinstance(level, str) else json.dumps(level)
    if not name or "\0" in name + text:
        raise ValueError
    return text


REFERENCE = Kind(
    "'most frequent', or an object with a level for each of some categories, such as {\"origin\": "
    '"JFK"}',
    _reference,
)


@dataclass(frozen=True, kw_only=True)
class LinearOptions(Options):
    """The options of a call whose task is a linear model's; None: the algorithm's default."""

    algorithm: str
    converge: str
    step: float | str
    schedule: str | None
    batch_size: int | None
    sampler: str | None
    transform: str
    speculate: Speculate | None
    l1: float
    l2: float
    fit_intercept: bool
    quantile: float
    delta: float | None
    dispersion: float | None
    power: float
    covariance: str
    fit: bool
    likelihood_ratio: bool
    reference: str | dict[str, str] | None

    @property
    def custom(self) -> bool:
        """Whether the algorithm or an operator is a user's own."""
        return any(getattr(self, option) in names for option, names in CUSTOM.items() if names)


CUSTOM: dict[str, Collection[str]] = {}
"""By option, the names of the operators and algorithms that users have registered."""
Request = learner.Request[LinearTask, LinearOptions]
