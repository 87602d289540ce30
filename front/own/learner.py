"""A registered estimator as a learner."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.library import raise_if_cancelled
from tuskml.learners import events
from tuskml.learners.learner import Facts, Groups, Learner, Request, refuse_offsets
from tuskml.learners.models import Models
from tuskml.learners.options.table import OptionTable
from tuskml.learners.tasks import LABELS, Task
from tuskml.own.fitting import Recipe, train_group
from tuskml.own.options import OwnOptions
from tuskml.schedule.budget import look_at_limits


@dataclass(frozen=True)
class OwnTask(Task):
    """The task of a registered estimator."""

    @property
    def labels(self) -> str:
        return LABELS["classes" if self.classifies else "numbers"]

    @property
    def kept(self) -> str:
        return "logistic" if self.classifies else "linear"


class OwnLearner(Learner):
    """Trains each group by an estimator and makes a model of tuskml of it."""

    def __init__(self, recipe: Recipe, options: OptionTable[OwnOptions], weighs: bool) -> None:
        self.recipe, self._options = recipe, options
        self.facts = Facts(
            weighs=weighs, weighs_classes=weighs and recipe.classifies, takes_sparse=False
        )
        task = OwnTask(
            recipe.name,
            f"the loss of {recipe.what}",
            recipe.classifies,
            features="a list",
            weighs_features=False,
        )
        self._tasks = {recipe.name: task}

    @property
    def tasks(self) -> Mapping[str, Task]:
        return self._tasks

    @property
    def options(self) -> OptionTable[OwnOptions]:
        return self._options

    def train(
        self, groups: Groups, request: Request[Task, OwnOptions], memory: int
    ) -> Iterator[Models]:
        refuse_offsets(groups, request.task.name)
        if (groups["kind"] >= 2).any():
            raise DataError(f"features of '{request.task.name}' are a list, got sparse(...)")
        mark = passes.cancel_mark()
        look_at_limits(memory)
        for place in range(len(groups)):
            raise_if_cancelled(mark)
            group = groups[place : place + 1]
            models = train_group(self.recipe, group, request, memory)
            n, steps = int(group["n_rows"][0]), int(models.iterations[0])
            events.tell(events.Event(1, n, steps, float("nan")))
            yield models.renumber(np.array([place]))
