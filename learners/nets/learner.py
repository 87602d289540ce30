"""Small neural nets as a learner."""

from collections.abc import Iterator

import numpy as np

from tuskml.kernels.parts.sharded import Parts
from tuskml.learners.explaining import format_explanation
from tuskml.learners.learner import (
    ByParts,
    Crew,
    Encoding,
    Facts,
    Groups,
    Learner,
    Request,
    Trials,
)
from tuskml.learners.models import Models
from tuskml.learners.nets import explanation, parted, training
from tuskml.learners.nets.exchange import worker
from tuskml.learners.nets.options import OPTIONS, NetOptions
from tuskml.learners.nets.tables import embeds, tables_of
from tuskml.learners.tasks import Task, built_in, in_table
from tuskml.schedule.exchange.workers.crew import Member

TASKS = built_in(Task(**in_table("mlp"), features="a list"))


class NetEncoding(Encoding):
    def stays_dense(self, options: NetOptions) -> bool:
        return not embeds(options)


class NetTrials(Trials):
    def complexity(self, options: NetOptions) -> float:
        """The units of all hidden layers."""
        return float(sum(options.layers))


class NetsByParts(ByParts):
    """The net goes from part to part."""

    def whole(self, request: Request[Task, NetOptions]) -> str | None:
        return parted.whole(request)

    def hops(self, request: Request[Task, NetOptions]) -> bool:
        return True

    def train(self, parts: Parts, request: Request[Task, NetOptions]) -> Models | None:
        return parted.train_by_parts(parts, request)


class NetCrew(Crew):
    """Each worker takes a part of every batch."""

    def alone(self, request: Request[Task, NetOptions]) -> str | None:
        return parted.whole(request)

    def train(self, member: Member, message: bytes) -> bytes:
        return worker.train_member(member, message)


class Nets(Learner):
    """Dense neural nets, trained by steps over batches."""

    tasks = TASKS
    options = OPTIONS
    facts = Facts(
        weighs=True,
        takes_sparse=False,
        orders=True,
        classifying={"objective": "logistic"},
        sizes=(
            ("rows of a group of `mlp`", f"{training.MOST_ROWS:,}"),
            ("weights of a net", f"{training.MOST_WEIGHTS:,}"),
            ("classes of a net", f"{training.MOST_CLASSES:,}"),
        ),
    )
    encoding = NetEncoding()
    trials = NetTrials()
    by_parts = NetsByParts()
    crew = NetCrew()

    def classifies(self, request: Request[Task, NetOptions]) -> bool:
        return training.classifies(request.options)

    def train(
        self, groups: Groups, request: Request[Task, NetOptions], memory: int
    ) -> Iterator[Models]:
        return training.train(groups, request, memory)

    def explain(
        self, groups: Groups, request: Request[Task, NetOptions], memory: int = 0
    ) -> Iterator[str]:
        training.refuse_rows(groups, request)
        for place, group in enumerate(np.split(groups, len(groups))):
            found = explanation.explain(group, request, memory, tables_of(request, place))
            yield format_explanation(found, request.options.format)


LEARNERS = (Nets(),)
