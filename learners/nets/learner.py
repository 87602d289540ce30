"""Small neural nets as a learner."""

from collections.abc import Iterator, Mapping

import numpy as np

from tuskml.kernels.parts.sharded import Parts
from tuskml.learners.explaining.text import written
from tuskml.learners.learner import Groups, Learner, Request
from tuskml.learners.models import Models
from tuskml.learners.nets import explanation, parted, training
from tuskml.learners.nets.exchange import worker
from tuskml.learners.nets.options import OPTIONS, NetOptions
from tuskml.learners.nets.tables import embeds, tables_of
from tuskml.learners.options.table import OptionTable
from tuskml.learners.tasks import Task, built_in, in_table
from tuskml.schedule.exchange.workers.crew import Member

TASKS = built_in(Task(**in_table("mlp"), features="a list"))


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

    @property
    def weighs(self) -> bool:
        return True

    @property
    def takes_sparse(self) -> bool:
        return False

    def stays_dense(self, options: NetOptions) -> bool:
        return not embeds(options)

    @property
    def classifying(self) -> Mapping[str, str]:
        return {"objective": "logistic"}

    def complexity(self, options: NetOptions) -> float:
        """The units of all hidden layers."""
        return float(sum(options.layers))

    def classifies(self, request: Request[Task, NetOptions]) -> bool:
        return training.classifies(request.options)

    def train(
        self, groups: Groups, request: Request[Task, NetOptions], memory: int
    ) -> Iterator[Models]:
        return training.train(groups, request, memory)

    @property
    def orders(self) -> bool:
        return True

    def whole(self, request: Request[Task, NetOptions]) -> str | None:
        return parted.whole(request)

    def hops(self, request: Request[Task, NetOptions]) -> bool:
        return True

    def train_by_parts(self, parts: Parts, request: Request[Task, NetOptions]) -> Models | None:
        return parted.train_by_parts(parts, request)

    def alone(self, request: Request[Task, NetOptions]) -> str | None:
        return parted.whole(request)

    def train_in_crew(self, member: Member, message: bytes) -> bytes:
        return worker.trained(member, message)

    def explain(
        self, groups: Groups, request: Request[Task, NetOptions], memory: int = 0
    ) -> Iterator[str]:
        training.refuse_rows(groups, request)
        for place, group in enumerate(np.split(groups, len(groups))):
            found = explanation.explain(group, request, memory, tables_of(request, place))
            yield written(found, request.options.format)


LEARNERS = (Nets(),)
