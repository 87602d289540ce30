"""Factorization machines as a learner."""

from collections.abc import Iterator

import numpy as np

from tuskml.learners.explaining import format_explanation
from tuskml.learners.fm import explanation, training
from tuskml.learners.fm.options import MOST_RANK, OPTIONS, MachineOptions
from tuskml.learners.learner import Facts, Groups, Learner, Request, Trials
from tuskml.learners.list_size import MOST
from tuskml.learners.models import Models
from tuskml.learners.tasks import Task, built_in, in_table

TASKS = built_in(Task(**in_table("fm")))


class MachineTrials(Trials):
    def complexity(self, options: MachineOptions) -> float:
        """The numbers of a feature."""
        return float(options.rank)

    def ends_alike(self, request: Request[Task, MachineOptions]) -> bool:
        return False


class Machines(Learner):
    """Factorization machines, trained by a step per row."""

    tasks = TASKS
    options = OPTIONS
    facts = Facts(
        weighs=True,
        weighs_classes=True,
        orders=True,
        classifying={"objective": "logistic"},
        sizes=(
            ("numbers of a model of `fm`, features times (1 + `rank`)", f"{MOST:,}"),
            ("`rank` of `fm`", f"{MOST_RANK}"),
        ),
    )
    trials = MachineTrials()

    def classifies(self, request: Request[Task, MachineOptions]) -> bool:
        return request.options.classifies

    def train(
        self, groups: Groups, request: Request[Task, MachineOptions], memory: int
    ) -> Iterator[Models]:
        return training.train(groups, request, memory)

    def explain(
        self, groups: Groups, request: Request[Task, MachineOptions], memory: int = 0
    ) -> Iterator[str]:
        training.refuse_rows(groups, request)
        for group in np.split(groups, len(groups)):
            found = explanation.explain(group, request, memory)
            yield format_explanation(found, request.options.format)


LEARNERS = (Machines(),)
