"""Small neural nets as a learner."""

from collections.abc import Iterator, Mapping

import numpy as np

from tuskml.learners.explaining.explanation import document
from tuskml.learners.explaining.text import written
from tuskml.learners.learner import Groups, Learner, Request
from tuskml.learners.models import Models
from tuskml.learners.nets import training
from tuskml.learners.nets.options import OPTIONS, NetOptions
from tuskml.learners.nets.outcome import plan_of
from tuskml.learners.options.table import OptionTable
from tuskml.learners.tasks import Task, built_in

FORMULAS = {
    "squared": "1/2 (m - y)^2",
    "logistic": "log(1 + exp(-y m)), of several classes log sum_k exp(m_k) - m_y",
}
TASKS = built_in(
    Task(
        "mlp",
        "`1/2 (m - y)^2`, or `log(1 + exp(-y m))` by option `objective`",
        features="a list",
        weighs_features=False,
        classes_by_option=True,
    )
)


class Nets(Learner):
    """Dense neural nets, trained by steps over batches."""

    @property
    def tasks(self) -> Mapping[str, Task]:
        return TASKS

    @property
    def options(self) -> OptionTable[NetOptions]:
        return OPTIONS

    @property
    def sizes(self) -> tuple[tuple[str, str], ...]:
        return (
            ("rows of a group of `mlp`", f"{training.MOST_ROWS:,}"),
            ("weights of a net", f"{training.MOST_WEIGHTS:,}"),
            ("classes of a net", f"{training.MOST_CLASSES:,}"),
        )

    def classifies(self, request: Request[Task, NetOptions]) -> bool:
        return training.classifies(request.options)

    def train(
        self, groups: Groups, request: Request[Task, NetOptions], memory: int
    ) -> Iterator[Models]:
        return training.train(groups, request, memory)

    def explain(
        self, groups: Groups, request: Request[Task, NetOptions], memory: int = 0
    ) -> Iterator[str]:
        options = request.options
        training.refuse_rows(groups)
        for group in np.split(groups, len(groups)):
            formula = f"mean {FORMULAS[options.objective]}, m the output of the net"
            found = document(
                group, request.task.name, formula, request.reading, plan=plan(options)
            )
            yield written(found, options.format)


def plan(options: NetOptions) -> dict[str, object]:
    """How the nets are trained."""
    return {
        "algorithm": options.algorithm,
        "description": plan_of(options),
        "because": "the option `algorithm` says so, or its default",
        "order": "a seeded shuffle of each epoch, which the rows' order does not change",
        "threads": options.threads,
        "max_iter": options.epochs,
        "epsilon": 0.0,
        "converge": "loss",
        "time": None,
    }
