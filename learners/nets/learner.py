"""Small neural nets as a learner.

The expected cost of a training is that of a timed epoch on a sample.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.parts.sharded import Parts
from tuskml.kernels.passes import Pass, row_bytes
from tuskml.learners.explaining import (
    Document,
    document,
    format_explanation,
    plan_document,
    reason_for_algorithm,
    sole_candidate,
)
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
from tuskml.learners.nets import parted, training
from tuskml.learners.nets.exchange import worker
from tuskml.learners.nets.layers import Tables, embeds, tables_of
from tuskml.learners.nets.options import OPTIONS, NetOptions
from tuskml.learners.nets.outcome import plan_of
from tuskml.learners.nets.training import classifies, fit_in_order, kinds_of, rules_of
from tuskml.learners.tasks import Task, built_in, in_table
from tuskml.schedule import budget
from tuskml.schedule.exchange.workers.crew import Member

FORMULAS = {
    "squared": "1/2 (m - y)^2",
    "logistic": "log(1 + exp(-y m)), of several classes log sum_k exp(m_k) - m_y",
}
SAMPLE = 30_000_000
"""Rows times weights of the sample: some milliseconds."""


def explain(
    group: NDArray[np.void], request: Request[Task, NetOptions], memory: int, tables: Tables = ()
) -> Document:
    """Explains the training of one group, with its expected seconds and memory."""
    options = request.options
    return document(
        group,
        request.task.name,
        f"mean {FORMULAS[options.objective]}, m the output of the net",
        request.reading,
        plan=plan_document(
            options,
            plan_of(options),
            reason_for_algorithm(options),
            "a seeded shuffle of each epoch, which the rows' order does not change",
            options.epochs,
        ),
        candidates=[candidate(group, request, memory, tables)],
    )


def candidate(
    group: NDArray[np.void], request: Request[Task, NetOptions], memory: int, tables: Tables
) -> dict[str, Any]:
    """The one plan as `explain_training` lists candidates."""
    options = request.options
    each = measure_epoch(group, request, memory, tables)
    most = float(options.epochs)
    least = min(options.patience + 1.0, most) if options.validation else most
    rules = rules_of(options, 0, 1, tables)
    needed = rules.bytes(int(group["n_rows"][0]), int(group["dim"][0])) + row_bytes(group)
    return sole_candidate(options.algorithm, least, most, 0.0, each, needed)


def measure_epoch(
    group: NDArray[np.void], request: Request[Task, NetOptions], memory: int, tables: Tables
) -> float:
    """Seconds of an epoch of one group: those of a sample, times the rows beyond it."""
    options = request.options
    threads, mark = budget.threads(options.threads), passes.cancel_mark()
    rows = Pass(group, int(classifies(options)), threads=threads, cancel_mark=mark)
    labels = rows.labels()
    alike = replace(next(kinds_of(rows, labels, request)), tables=tables)
    outputs = 1 if alike.classes is None else alike.classes.shape[1]
    weights = rules_of(options, alike.loss, outputs, tables).weights(rows.n_features)
    n = int(group["n_rows"][0])
    taken = min(n, max(SAMPLE // weights, 2 * options.batch_size))
    once = replace(options, max_iter=1, validation=0.0)
    times = []
    for _ in range(2):  # the first warms up
        began = time.perf_counter()
        fit_in_order(rows.head(taken), labels, alike, once, memory)
        times.append(time.perf_counter() - began)
    return min(times) * n / taken


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
            found = explain(group, request, memory, tables_of(request, place))
            yield format_explanation(found, request.options.format)


LEARNERS = (Nets(),)
