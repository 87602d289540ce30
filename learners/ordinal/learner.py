"""Ordinal regression as a learner."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tuskml.learners.explaining import format_explanation
from tuskml.learners.learner import (
    ALL_LEVELS,
    BUT_REFERENCE,
    Encoding,
    Facts,
    Groups,
    Learner,
    Request,
    Trials,
)
from tuskml.learners.models import Models
from tuskml.learners.ordinal import outcome, training
from tuskml.learners.ordinal.options import OPTIONS, OrdinalOptions
from tuskml.learners.tasks import Task, built_in, in_table

DESCRIBING = ("covariance", "cluster", "weight_kind", "fit")
"""Options that describe a model and change no prediction."""
TASKS = built_in(Task(**in_table("ordinal")))


class OrdinalEncoding(Encoding):
    orders_labels = True

    def levels(self, options: OrdinalOptions) -> int:
        """Without a penalty, a category's levels and the thresholds would determine each other."""
        return ALL_LEVELS if options.l2 else BUT_REFERENCE


class OrdinalTrials(Trials):
    def complexity(self, options: OrdinalOptions) -> float:
        """The stronger the penalty, the simpler the model."""
        return -options.l2

    def predicting(self, request: Request[Task, OrdinalOptions]) -> OrdinalOptions:
        plain = {name: OPTIONS.by_name[name].default for name in DESCRIBING}
        given = request.options.given - plain.keys()
        return replace(request.options, **plain, given=given)


class OrdinalModels(Learner):
    """Cumulative link models, trained by Newton's method."""

    tasks = TASKS
    options = OPTIONS
    facts = Facts(
        weighs=True,
        sizes=(
            ("levels of `ordinal`", f"{training.MOST_LEVELS:,}"),
            ("thresholds and coefficients of `ordinal`", f"{training.MOST_WEIGHTS:,}"),
        ),
    )
    encoding = OrdinalEncoding()
    trials = OrdinalTrials()

    def train(
        self, groups: Groups, request: Request[Task, OrdinalOptions], memory: int
    ) -> Iterator[Models]:
        return training.train(groups, request, memory)

    def explain(
        self, groups: Groups, request: Request[Task, OrdinalOptions], memory: int = 0
    ) -> Iterator[str]:
        for group in np.split(groups, len(groups)):
            yield format_explanation(outcome.explain(group, request), request.options.format)


LEARNERS = (OrdinalModels(),)
