"""What comes of the training of a stored linear model."""

from dataclasses import dataclass

import numpy as np

from tuskml.kvstore import ModelStore
from tuskml.learners.stored.counters import Counters


class Diverged(Exception):
    """Weights or losses are not finite: the step was too long."""


@dataclass(frozen=True)
class Trained:
    """A model whose weights lie in a sealed version, `reference`. step: the one that was found."""

    reference: str
    dimension: int
    intercept: float
    objective: float
    history: list[float]
    epochs: int
    converged: bool
    status: str
    step: float
    description: str
    counters: Counters


def refuse_infinite(store: ModelStore) -> None:
    """Diverged where weights are not finite: losses may be, as that of the hinge is for NaN."""
    for _, _, weights in store.scan():
        if not np.isfinite(weights).all():
            raise Diverged
