"""What a call of `train_model` asks for whose task is a linear model's."""

from dataclasses import dataclass

from tuskml.learners import learner
from tuskml.learners.linear.planner.asked import Speculate
from tuskml.learners.linear.tasks import LinearTask
from tuskml.learners.options.table import Options


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


Request = learner.Request[LinearTask, LinearOptions]
