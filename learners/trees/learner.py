"""Boosted trees as a learner."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tuskml.learners.explaining.explanation import document
from tuskml.learners.explaining.text import written
from tuskml.learners.learner import Groups, Learner, Request
from tuskml.learners.models import Models
from tuskml.learners.options.table import OptionTable
from tuskml.learners.tasks import Task, built_in
from tuskml.learners.trees import training
from tuskml.learners.trees.forest_options import FOREST_OPTIONS
from tuskml.learners.trees.options import OPTIONS, TreeOptions

FORMULAS = {
    "squared": "1/2 (m - y)^2",
    "logistic": "log(1 + exp(-y m))",
    "poisson": "exp(m) - y m",
    "quantile": "max(t (y - m), (t - 1) (y - m)), t = quantile",
    "gini": "1/2 (m - [y is the class])^2",
    "huber": "1/2 r^2 up to |r| = delta and delta (|r| - delta / 2) beyond, r = m - y",
}
TASKS = built_in(
    Task(
        "gbdt",
        "by option `objective` that of `linear`, `logistic`, `poisson`, `quantile` or `huber`",
        features="a list",
        weighs_features=False,
        classes_by_option=True,
    )
)


FORESTS = built_in(
    Task(
        "random_forest",
        "by option `objective` 1/2 (m - y)^2 or, for classes, Gini's impurity",
        features="a list",
        weighs_features=False,
        classes_by_option=True,
    )
)
OF_TREES = TASKS | FORESTS
"""The tasks whose models are trees."""


class Trees(Learner):
    """Gradient boosting of trees over histograms."""

    @property
    def tasks(self) -> Mapping[str, Task]:
        return TASKS

    @property
    def options(self) -> OptionTable[TreeOptions]:
        return OPTIONS

    @property
    def sizes(self) -> tuple[tuple[str, str], ...]:
        return (("rows of a group of boosted trees", f"{training.MOST_ROWS:,}"),)

    @property
    def weighs(self) -> bool:
        return True

    @property
    def takes_sparse(self) -> bool:
        return False

    def classifies(self, request: Request[Task, TreeOptions]) -> bool:
        return training.classifies(request.options)

    def numbers_levels(self, options: TreeOptions) -> bool:
        return options.category_encoding == "native" and not options.interactions

    def train(
        self, groups: Groups, request: Request[Task, TreeOptions], memory: int
    ) -> Iterator[Models]:
        return training.train(groups, request, memory)

    def explain(
        self, groups: Groups, request: Request[Task, TreeOptions], memory: int = 0
    ) -> Iterator[str]:
        options = request.options
        training.refuse_rows(groups, request.task.name)
        for group in np.split(groups, len(groups)):
            formula = f"mean {FORMULAS[options.objective]}, m = b + the sum of the trees"
            how = plan(options, request.task.name)
            found = document(group, request.task.name, formula, request.reading, plan=how)
            yield written(found, options.format)


class Forests(Trees):
    """Random forests, whose trees are those of gradient boosting on constant margins."""

    @property
    def tasks(self) -> Mapping[str, Task]:
        return FORESTS

    @property
    def options(self) -> OptionTable[Any]:
        return FOREST_OPTIONS

    @property
    def sizes(self) -> tuple[tuple[str, str], ...]:
        return ()


def plan(options: TreeOptions, task: str) -> dict[str, object]:
    """How the trees grow."""
    return {
        "algorithm": task,
        "description": training.plan_of(options),
        "because": "trees have one algorithm",
        "order": "rows as they come, which changes no bit",
        "threads": options.threads,
        "max_iter": options.trees,
        "epsilon": 0.0,
        "converge": "loss",
        "time": None,
    }
