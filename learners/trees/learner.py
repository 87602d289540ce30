"""Boosted trees as a learner."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tuskml.kernels.parts.sharded import Parts
from tuskml.kernels.passes import Floats
from tuskml.kernels.rows.prepare import KnownLevels
from tuskml.kernels.trees.boosting import are_levels
from tuskml.learners.classes import LabelRange, Mask
from tuskml.learners.learner import (
    CATEGORIES_NUMBERED,
    NONE_NUMBERED,
    ByParts,
    Encoding,
    Facts,
    Groups,
    Learner,
    Request,
    Trials,
)
from tuskml.learners.models import Models
from tuskml.learners.options.table import OptionTable, needs_one_place
from tuskml.learners.tasks import Task, built_in, in_table
from tuskml.learners.trees import training
from tuskml.learners.trees.forest import OBJECTIVES
from tuskml.learners.trees.options import (
    FOREST_OPTIONS,
    NO_LIMIT,
    OPTIONS,
    TreeOptions,
    classifies,
)
from tuskml.learners.trees.warm_start import TreesBefore
from tuskml.udas.tasks import TASK_TABLE

TASKS = built_in(Task(**in_table("gbdt"), features="a list"))
FORESTS = built_in(Task(**in_table("random_forest"), features="a list"))
OF_TREES = TASKS | FORESTS
"""The tasks whose models are trees."""
BY_PARTS = 2.2
"""Seconds of processors over those in one place, without reading: what parts add is that trees are
added to margins row by row, and histograms of each part."""


class LevelsAsNumbers(Encoding):
    """A category is one feature, the number of its level, unless options say otherwise."""

    def numbers_levels(self, options: TreeOptions) -> int:
        native = options.category_encoding == "native" and not options.interactions
        return CATEGORIES_NUMBERED if native else NONE_NUMBERED

    def levels_to_keep(self, options: TreeOptions) -> Sequence[KnownLevels]:
        start = options.warm_start
        categories = start.categories if isinstance(start, TreesBefore) else ()
        return [one.known for one in categories if self.numbers_levels(options)]

    def stays_dense(self, options: TreeOptions) -> bool:
        return True


class TreeTrials(Trials):
    def complexity(self, options: TreeOptions) -> float:
        """The total number of leaves of all trees."""
        return float(options.trees * options.num_leaves)


class TreesByParts(ByParts):
    """Parts answer histograms."""

    keeps = True
    slowdown = BY_PARTS
    gains = False

    def whole(self, request: Request[Task, TreeOptions]) -> str | None:
        if request.options.objective == "huber" and request.options.delta is None:
            return "objective 'huber' without option 'delta' needs all rows in one place"
        if request.options.class_weight is not None:
            return f"option 'class_weight' of '{request.task.name}' needs all rows in one place"
        table = OPTIONS if request.task.name == "gbdt" else FOREST_OPTIONS
        return needs_one_place(table.by_name, request.options)

    def train(self, parts: Parts, request: Request[Task, TreeOptions]) -> Models | None:
        from tuskml.learners.trees import parted  # for clusters alone

        return parted.train_by_parts(parts, request)

    def exchanges(
        self,
        request: Request[Task, TreeOptions],
        iterations: int,
        coefficients: int,
        n_features: int,
        rows: int,
    ) -> tuple[int, float]:
        from tuskml.learners.trees import parted

        return parted.exchanges(request.options, iterations, n_features)


class ForestsByParts(TreesByParts):
    def hops(self, request: Request[Task, TreeOptions]) -> bool:
        """True without a limit of leaves, as most of a tree then grows on one worker."""
        return request.options.num_leaves == NO_LIMIT

    def exchanges(
        self,
        request: Request[Task, TreeOptions],
        iterations: int,
        coefficients: int,
        n_features: int,
        rows: int,
    ) -> tuple[int, float]:
        from tuskml.learners.trees import parted

        return parted.exchanges_of_forest(request.options, iterations, n_features, rows)


class Trees(Learner):
    """Gradient boosting of trees over histograms."""

    tasks = TASKS
    options: OptionTable[Any] = OPTIONS
    facts = Facts(
        weighs=True,
        weighs_classes=True,
        takes_sparse=False,
        classifying={"objective": "logistic"},
        sizes=(("rows of a group of boosted trees", f"{training.MOST_ROWS:,}"),),
    )
    encoding = LevelsAsNumbers()
    trials = TreeTrials()
    by_parts: ByParts = TreesByParts()

    def metric(self, request: Request[Task, TreeOptions]) -> str:
        """The metric of the task with the objective's name."""
        named = TASK_TABLE.get(request.options.objective)
        return (named and named.metric) or super().metric(request)

    def classifies(self, request: Request[Task, TreeOptions]) -> bool:
        return classifies(request.options)

    def label_range(self, request: Request[Task, TreeOptions]) -> LabelRange | None:
        return OBJECTIVES[request.options.objective].allowed or super().label_range(request)

    def names_numbers(self, request: Request[Task, TreeOptions]) -> bool:
        return bool(request.options.categorical)

    def usable(self, request: Request[Task, TreeOptions], features: Any, labels: Floats) -> Mask:
        found = super().usable(request, features, labels)
        listed = request.options.categorical
        if not listed or max(listed) > features.shape[1]:
            return found
        return found & are_levels(features[:, [place - 1 for place in listed]])

    def train(
        self, groups: Groups, request: Request[Task, TreeOptions], memory: int
    ) -> Iterator[Models]:
        return training.train(groups, request, memory)

    def explain(
        self, groups: Groups, request: Request[Task, TreeOptions], memory: int = 0
    ) -> Iterator[str]:
        from tuskml.learners.explaining import format_explanation
        from tuskml.learners.trees import explanation

        training.refuse_rows(groups, request.task.name)
        for group in np.split(groups, len(groups)):
            yield format_explanation(
                explanation.explain(group, request, memory), request.options.format
            )


class Forests(Trees):
    """Random forests, whose trees are those of gradient boosting on constant margins."""

    tasks = FORESTS
    options = FOREST_OPTIONS
    facts = Facts(
        weighs=True,
        weighs_classes=True,
        takes_sparse=False,
        classifying={"objective": "gini"},
    )
    by_parts = ForestsByParts()


LEARNERS = (Trees(), Forests())
