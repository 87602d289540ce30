"""Topics of documents as a learner."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tuskml.kernels.parts.sharded import Parts
from tuskml.kernels.passes import Floats
from tuskml.kernels.topics import MOST_TOKENS, MOST_TOPICS
from tuskml.learners.classes import Mask
from tuskml.learners.explaining import format_explanation
from tuskml.learners.learner import ByParts, Facts, Groups, Learner, Request, Trials
from tuskml.learners.models import Models
from tuskml.learners.tasks import Task, built_in, in_table
from tuskml.learners.topics import training
from tuskml.learners.topics.options import GIBBS, ONLINE, OPTIONS, TopicOptions

TASKS = built_in(Task(**in_table("lda"), features="a list of text, or `sparse(ids, counts)`"))


class TopicTrials(Trials):
    def complexity(self, options: TopicOptions) -> float:
        """The number of topics."""
        return float(options.topics)

    def ends_alike(self, request: Request[Task, TopicOptions]) -> bool:
        return False


class TopicsByParts(ByParts):
    """Blocks of words rotate over the parts."""

    keeps = rotates = True

    def whole(self, request: Request[Task, TopicOptions]) -> str | None:
        if request.options.online:
            return f"algorithm '{ONLINE}' needs all rows in one place, expected '{GIBBS}'"
        return None

    def train(self, parts: Parts, request: Request[Task, TopicOptions]) -> Models | None:
        from tuskml.learners.topics import parted  # for clusters alone

        return parted.train_by_parts(parts, request)


class Topics(Learner):
    """Latent Dirichlet allocation."""

    tasks = TASKS
    options = OPTIONS
    facts = Facts(
        orders=True,
        sizes=(
            ("topics of `lda`", f"{MOST_TOPICS:,}"),
            ("tokens of a group of `lda`", f"{MOST_TOKENS:,}"),
        ),
    )
    trials = TopicTrials()
    by_parts = TopicsByParts()

    def usable(self, request: Request[Task, TopicOptions], features: Any, labels: Floats) -> Mask:
        return (
            training.are_counts(features)
            if isinstance(features, tuple)
            else super().usable(request, features, labels)
        )

    def train(
        self, groups: Groups, request: Request[Task, TopicOptions], memory: int
    ) -> Iterator[Models]:
        return training.train(groups, request, memory)

    def explain(
        self, groups: Groups, request: Request[Task, TopicOptions], memory: int = 0
    ) -> Iterator[str]:
        training.refuse_rows(groups, request.task.name)
        for group in np.split(groups, len(groups)):
            found = training.explain(group, request)
            yield format_explanation(found, request.options.format)


LEARNERS = (Topics(),)
