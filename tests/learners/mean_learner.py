"""The smallest learner: the mean of each group's labels, for tests of the house."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tuskml.kernels.passes import Pass
from tuskml.learners.learner import Groups, Learner, Request
from tuskml.learners.models import Lists, Models
from tuskml.learners.options.kinds import Option, real
from tuskml.learners.options.table import Options, OptionTable
from tuskml.learners.tasks import Task

TASK = Task("mean", "1/2 (m - y)^2")
IN_FORCE = '{"tuskml":1,"response":"identity"}'
"""How the scorer of numbers reads these models."""


@dataclass(frozen=True, kw_only=True)
class MeanOptions(Options):
    """prior: rows with label 0 that each group has beside its own."""

    prior: float


OPTIONS = OptionTable(
    MeanOptions,
    (Option("prior", real(0), 0.0, "rows with label 0 beside the group's own"), "format"),
)


class Mean(Learner):
    """Predicts the mean of the labels, whatever the features are."""

    @property
    def tasks(self) -> Mapping[str, Task]:
        return {TASK.name: TASK}

    @property
    def options(self) -> OptionTable[MeanOptions]:
        return OPTIONS

    def train(
        self, groups: Groups, request: Request[Task, MeanOptions], memory: int
    ) -> Iterator[Models]:
        labels = Pass(groups, 0, None, None, True, 1).labels()
        widths = np.maximum(groups["dim"].astype(np.int64), 1)
        n = groups["n_rows"]
        yield Models.build(
            groups,
            TASK.name,
            coef=Lists.of_rows(np.zeros((len(groups), int(widths.max()))), widths),
            intercept=labels["mean"] * n / (n + request.options.prior),
            loss=labels["variance"] / 2,
            converged=np.ones(len(groups), np.uint8),
            status="ok",
            plan="one pass",
            options=IN_FORCE,
        )
