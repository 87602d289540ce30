"""What a stored model says of itself: in the sealed file, and in the line on its plan."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.learners.linear.explaining.plan_text import plan_line
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.stored.estimate import StoreUse
from tuskml.learners.linear.tasks import LinearTask
from tuskml.learners.stored.counters import Counters
from tuskml.learners.stored.progress import Progress
from tuskml.partitioner import IndexMap


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
    estimate: StoreUse | None = None


def metadata_of(
    task: LinearTask, labels: NDArray[np.void], n_rows: int, progress: Progress, objective: float
) -> dict[str, Any]:
    """What the sealed file says of itself: enough to predict by, should the value be lost."""
    low, high = float(labels["low"][0]), float(labels["high"][0])
    return {
        "task": task.name,
        "intercept": progress.model.intercept,
        "classes": [low, high] if task.classifies else None,
        "n_rows": n_rows,
        "loss": objective,
        "epochs": progress.epoch,
    }


def described(plan: Plan, index: IndexMap, unasked: str | None) -> str:
    """One line for the model's `plan`; unasked: why it is in a store that nobody asked for."""
    if index.n_partitions:
        layout = (
            f"KV-VP: {len(index.features)} features in {index.n_partitions} keys, "
            f"others in {index.blocks}"
        )
    else:
        layout = f"KV: features in {index.blocks}"
    why = f", in a store: {unasked}" if unasked else ""
    return f"{plan_line(plan)}, {layout}{why}"
