"""The result of training a stored linear model, and its metadata."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kvstore import ModelStore
from tuskml.learners.linear.request import Plan
from tuskml.learners.linear.result import plan_line
from tuskml.learners.linear.stored.estimate import StoreUse
from tuskml.learners.linear.tasks import LinearTask
from tuskml.learners.stored.progress import Counters, Progress


class Diverged(Exception):
    """Weights or losses are not finite: the step was too long."""


class AboveStart(Diverged):
    """The last training ended above the objective of its start.

    status: of the model that the start is; history: mean losses of the epochs.
    """

    def __init__(self, status: str, history: list[float]) -> None:
        super().__init__()
        self.status, self.history = status, history


@dataclass(frozen=True)
class Trained:
    """A model whose weights are in a sealed version, `reference`. step: the chosen one."""

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
    estimate: StoreUse | None = None


def refuse_infinite(store: ModelStore) -> None:
    """Raises Diverged if weights are not finite: losses may be, as that of the hinge is for
    NaN.
    """
    for _, _, weights in store.scan():
        if not np.isfinite(weights).all():
            raise Diverged


def metadata_of(
    task: LinearTask, labels: NDArray[np.void], n_rows: int, progress: Progress, objective: float
) -> dict[str, Any]:
    """The metadata of the sealed file; it suffices to predict if the model's value is lost."""
    low, high = float(labels["low"][0]), float(labels["high"][0])
    return {
        "task": task.name,
        "intercept": progress.model.intercept,
        "classes": [low, high] if task.classifies else None,
        "n_rows": n_rows,
        "loss": objective,
        "epochs": progress.epoch,
    }


def told(plan: Plan, where: str, unasked: str | None) -> str:
    """One line for the model's `plan`.

    where: the layout of the weights; unasked: why the model is in a store without the option.
    """
    why = f", in a store: {unasked}" if unasked else ""
    return f"{plan_line(plan)}, {where}{why}"
