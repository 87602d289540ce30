"""How far the training of a stored model is: what a checkpoint keeps beside the weights."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import StoreError
from tuskml.kernels.passes import Pass
from tuskml.kernels.stored.training import Model
from tuskml.learners.tasks import Task

Facts = dict[str, Any]


def facts_of(task: Task, rows: Pass, labels: NDArray[np.void]) -> Facts:
    """What distinguishes a training's rows and task from another's, in any order of the rows."""
    return {
        "task": task.name,
        "n_rows": int(rows.groups["n_rows"][0]),
        "n_entries": rows.nonzeros(),
        "n_features": int(rows.groups["dim"][0]),
        "n_high": int(labels["n_high"][0]) if task.classifies else 0,
    }


def refuse_others(record: Facts, facts: Facts, told: Callable[[Facts], str]) -> None:
    """StoreError where the record of a checkpoint is of other facts; told: in words."""
    if record.get("of") != facts:
        raise StoreError(
            f"the interrupted training was of {told(record.get('of', {}))}, this one is of "
            f"{told(facts)}: give it the rows and the task it had, or leave out 'resume'"
        )


def _told(facts: Facts) -> str:
    told = (
        f"task '{facts.get('task')}' over {facts.get('n_rows')} rows with "
        f"{facts.get('n_entries')} entries of {facts.get('n_features')} features"
    )
    return told + (f", {facts['n_high']} of the higher class" if facts.get("n_high") else "")


@dataclass
class Progress:
    """step: of the first epoch; dimension: features of the model, those of a warm start too.

    continued: the weights began as those of a warm start, so there may be some that no row names.
    begun: the objective that the training began with, about; None: unknown.
    """

    step: float
    dimension: int
    continued: bool = False
    epoch: int = 0
    history: list[float] = field(default_factory=list)
    model: Model = field(default_factory=Model)
    begun: float | None = None

    def again(self, step: float) -> "Progress":
        """The same beginning with another step."""
        return replace(self, step=step, history=list(self.history))

    def as_record(self, facts: Facts) -> Facts:
        """For a checkpoint's metadata."""
        return asdict(self) | {"of": facts}

    @classmethod
    def from_record(cls, record: Facts, facts: Facts) -> "Progress":
        """What `as_record` gave; StoreError where it was of other rows or another task."""
        refuse_others(record, facts, _told)
        kept = {name: value for name, value in record.items() if name not in ("of", "model")}
        return cls(**kept, model=Model(**record["model"]))
