"""The request of a call of `train_model` whose task is a linear model's."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tuskml.errors import nearest
from tuskml.learners import learner
from tuskml.learners.linear.tasks import LinearTask
from tuskml.learners.options.kinds import POWERS, TIME, Kind, integer, level_text, real
from tuskml.learners.options.table import Options

CLASSIC = "classic"
CLUSTERED = "cluster"
"""The covariance that the option `cluster` asks for."""
COVARIANCES = (CLASSIC, "HC0", "HC1", "HC2", "HC3")
"""The values of the option `covariance`."""
FREQUENCY, ANALYTIC, SURVEY = "frequency", "analytic", "sampling"
WEIGHT_KINDS = (FREQUENCY, ANALYTIC, SURVEY)
"""The values of the option `weight_kind`; `covariance` of a problem may be SURVEY too."""
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
    return {name: level_text(name, level) for name, level in value.items()}


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
    link: str | None
    weight_kind: str
    proportions: bool
    firth: bool
    covariance: str
    fit: bool
    likelihood_ratio: bool
    intervals: str | None
    reference: str | dict[str, str] | None

    @property
    def shares(self) -> bool:
        """Returns whether rows are of both classes in part (`shares.py`)."""
        return self.proportions or self.firth

    @property
    def custom(self) -> bool:
        """Returns whether the algorithm or an operator is a custom one."""
        return any(getattr(self, option) in names for option, names in CUSTOM.items() if names)


ROUTES, KV_VP = "routes", "kv-vp"
"""Methods of trainings whose weights lie in a store."""
CUSTOM: dict[str, Collection[str]] = {}
"""The names of registered operators and algorithms, by option."""
Request = learner.Request[LinearTask, LinearOptions]


# How one batch of groups is trained: the planner's answer and the algorithms' settings.


@dataclass(frozen=True)
class Plan:
    """All choices of a training; the optimizer makes those that the options leave open.

    canonical: rows are first put in an order that depends on their content alone; shuffle: each
    epoch visits partitions of the rows in random order; lock_free: threads update one shared
    model; smoothing: corners of the hinge to pass through, the last one final ((0.0,): none);
    sample_stride: train on every k-th chunk of rows first (1: no such start); reason: why this
    plan, in words; estimated: iterations and seconds, if any; unmet: the option that leaves too
    little for epsilon, if one does; device: the name of the GPU that trains; base: the built-in
    algorithm of a custom one; sampler, transform: custom ones, if any.
    """

    algorithm: str
    max_iter: int
    epsilon: float
    converge: str
    step: float | str
    schedule: str
    batch_size: int
    canonical: bool
    shuffle: bool
    lock_free: bool
    seed: int
    threads: int
    smoothing: tuple[float, ...]
    sample_stride: int
    reason: str
    estimated: tuple[float, float] | None = None
    unmet: str | None = None
    device: str | None = None
    base: str | None = None
    sampler: str | None = None
    transform: str | None = None
    after: str | None = None

    @property
    def is_plain(self) -> bool:
        """Returns whether all of its operators are built in."""
        return self.base is None and not self.own_parts()

    @property
    def family(self) -> str:
        """The built-in algorithm that this is or is based on."""
        return self.base or self.algorithm

    @property
    def power(self) -> int:
        """The kernels' number for the schedule: the step shrinks with t^(power/2)."""
        return round(2 * POWERS[self.schedule])

    def own_parts(self) -> list[tuple[str, str]]:
        """The custom operators that options name."""
        given = {"sampler": self.sampler, "transform": self.transform}
        if self.converge not in ("gradient", "weights", "loss"):
            given["converge"] = self.converge
        return [(kind, name) for kind, name in given.items() if name is not None]
