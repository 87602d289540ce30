"""Centres of clusters as a learner."""

from collections.abc import Iterator

import numpy as np

from tuskml.kernels.clusters import MOST_CLUSTERS
from tuskml.learners.clusters import outcome, training
from tuskml.learners.clusters.options import OPTIONS, ClusterOptions
from tuskml.learners.explaining import format_explanation
from tuskml.learners.learner import Facts, Groups, Learner, Request, refuse_offsets
from tuskml.learners.list_size import MOST
from tuskml.learners.models import Models
from tuskml.learners.tasks import Task, built_in, in_table

TASKS = built_in(Task(**in_table("kmeans")))


class Clusters(Learner):
    """Centres of clusters, to which the squared distances of rows are least."""

    tasks = TASKS
    options = OPTIONS
    facts = Facts(
        weighs=True,
        orders=True,
        sizes=(
            ("`clusters` of `kmeans`", f"{MOST_CLUSTERS:,}"),
            ("numbers of a model of `kmeans`, features times `clusters`", f"{MOST:,}"),
        ),
    )

    def train(
        self, groups: Groups, request: Request[Task, ClusterOptions], memory: int
    ) -> Iterator[Models]:
        return training.train(groups, request, memory)

    def explain(
        self, groups: Groups, request: Request[Task, ClusterOptions], memory: int = 0
    ) -> Iterator[str]:
        refuse_offsets(groups, request.task.name)
        training.refuse_wide(groups, training.rules_of(request.options))
        for group in np.split(groups, len(groups)):
            yield format_explanation(outcome.explain(group, request), request.options.format)


LEARNERS = (Clusters(),)
