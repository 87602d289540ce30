"""The lasso, the elastic net and logistic regression with an L1 penalty, as learners."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from tuskml.kernels.parts.sharded import Parts
from tuskml.kvstore import StoreRoot
from tuskml.learners.explaining import format_explanation
from tuskml.learners.held_out import HeldOut
from tuskml.learners.learner import ByParts, Facts, Groups, Learner, Request, Stored, Trials
from tuskml.learners.models import Models
from tuskml.learners.options.table import OptionTable, needs_one_place, refuse_one_place
from tuskml.learners.paths import training
from tuskml.learners.paths.explanation import explain
from tuskml.learners.paths.options import (
    ELASTIC_NET,
    LASSO,
    SPARSE_LOGISTIC,
    TASKS,
    Path,
    PathOptions,
    PathTask,
)


class PathTrials(Trials):
    def complexity(self, options: PathOptions) -> float:
        """The stronger the penalty, the simpler the model."""
        return -(options.penalty or 0.0)

    def holds_out(self, options: PathOptions) -> bool:
        return options.holds_out

    def holding_out(
        self, options: PathOptions, how: HeldOut, folds: int | None
    ) -> PathOptions | None:
        """The options of a path that chooses its penalty by the search's folds, instead of its
        own.

        None if both have a number of folds: the search judges it by other rows than its own.
        """
        path = options.path or Path()
        if not options.holds_out or (path.folds is not None and (folds or how.together)):
            return None
        return options if folds is None else replace(options, path=replace(path, folds=folds))


class StoredPaths(Stored):
    def train(
        self,
        group: Groups,
        request: Request[PathTask, PathOptions],
        memory: int,
        root: StoreRoot,
    ) -> Models:
        from tuskml.learners.paths.stored import train_stored  # slow to import

        return train_stored(group, request, memory, root)


BY_PARTS = 2.2
"""Seconds of processors over those in one place: 1.3 to 7.7 for the three tasks on 400,000 rows of
10 and of 60 features, whose iterations are mostly messages."""


class PathsByParts(ByParts):
    """Parts answer sums for the features that a schedule picks."""

    keeps = True
    slowdown = BY_PARTS

    def __init__(self, table: OptionTable[PathOptions]) -> None:
        self.table = table

    def whole(self, request: Request[PathTask, PathOptions]) -> str | None:
        held, others = request.held_out, dict(self.table.by_name)
        if held is not None and held.column is not None:
            name = "time_by" if held.in_time else "fold_by"
            return f"option '{name}' needs all rows in one place"
        if held is not None and held.together:
            return "option 'validation' needs all rows in one place"
        del others["lambda"]  # acts everywhere
        return needs_one_place(others, request.options)

    def waits(self, request: Request[PathTask, PathOptions]) -> bool:
        """True unless a schedule is given: each iteration waits for all parts, and in one place a
        fit is exact sums or few columns.
        """
        return "schedule" not in request.options.given

    def train(self, parts: Parts, request: Request[PathTask, PathOptions]) -> Models | None:
        from tuskml.learners.paths.parted import train_by_parts  # for clusters alone

        return train_by_parts(parts, request)


class Paths(Learner):
    """The learner of a task; table: its options."""

    facts = Facts(weighs=True, weighs_classes=True)
    trials = PathTrials()
    stored = StoredPaths()

    def __init__(self, task: str, table: OptionTable[PathOptions]) -> None:
        self.task, self.table = task, table
        self.by_parts = PathsByParts(table)

    @property
    def tasks(self) -> Mapping[str, PathTask]:
        return TASKS[self.task]

    @property
    def options(self) -> OptionTable[PathOptions]:
        return self.table

    def explain(
        self, groups: Groups, request: Request[PathTask, PathOptions], memory: int = 0
    ) -> Iterator[str]:
        self.refuse_schedule(request)
        for group in np.split(groups, len(groups)):
            yield format_explanation(explain(group, request), request.options.format)

    def train(
        self, groups: Groups, request: Request[PathTask, PathOptions], memory: int
    ) -> Iterator[Models]:
        self.refuse_schedule(request)
        return training.train(groups, request, memory)

    def refuse_schedule(self, request: Request[PathTask, PathOptions]) -> None:
        """Raises OptionError for options of other places."""
        refuse_one_place(self.table.by_name, request.options.given, "all rows are in one place")


LEARNERS = (
    Paths("lasso", LASSO),
    Paths("elastic_net", ELASTIC_NET),
    Paths("sparse_logistic", SPARSE_LOGISTIC),
)
