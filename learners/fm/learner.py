"""Factorization machines as a learner.

The expected cost of a training is that of some timed epochs on a sample.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.passes import Pass, row_bytes
from tuskml.learners.explaining import (
    Document,
    document,
    format_explanation,
    plan_document,
    reason_for_algorithm,
    sole_candidate,
)
from tuskml.learners.fm import training
from tuskml.learners.fm.options import MOST_RANK, OPTIONS, MachineOptions
from tuskml.learners.fm.training import fit, plan_of, rules_of
from tuskml.learners.learner import Facts, Groups, Learner, Request, Trials
from tuskml.learners.list_size import MOST
from tuskml.learners.models import Models
from tuskml.learners.tasks import Task, built_in, in_table
from tuskml.schedule import budget

FORMULAS = {"squared": "1/2 (m - y)^2", "logistic": "log(1 + exp(-y m))"}
SAMPLE = 100_000
"""Rows of the sample."""


def explain(
    group: NDArray[np.void], request: Request[Task, MachineOptions], memory: int
) -> Document:
    """Explains the training of one group, with its expected seconds and memory."""
    options = request.options
    return document(
        group,
        request.task.name,
        f"mean {FORMULAS[options.objective]}, m = b + sum_i w_i x_i + sum_i<j <v_i, v_j> x_i x_j",
        request.reading,
        plan=plan_document(
            options,
            plan_of(options),
            reason_for_algorithm(options),
            "by a seeded hash of the rows' content, in pieces shuffled for each epoch",
            options.epochs,
        ),
        candidates=[candidate(group, request, memory)],
    )


def candidate(
    group: NDArray[np.void], request: Request[Task, MachineOptions], memory: int
) -> dict[str, Any]:
    """The one plan as `explain_training` lists candidates."""
    options = request.options
    each, most = measure_epoch(group, request, memory), float(options.epochs)
    least = min(options.patience + 1.0, most) if options.validation else most
    machine = rules_of(options).bytes(int(group["dim"][0])) * (2 if options.validation else 1)
    return sole_candidate(options.algorithm, least, most, 0.0, each, machine + row_bytes(group))


def measure_epoch(
    group: NDArray[np.void], request: Request[Task, MachineOptions], memory: int
) -> float:
    """Seconds of an epoch of one group: those of a sample, times the rows beyond it.

    A training of three epochs takes longer than one of a single epoch by two epochs.
    """
    options, mark = request.options, passes.cancel_mark()
    rows = Pass(group, threads=budget.threads(options.threads), cancel_mark=mark)
    labels, n = rows.labels(), int(group["n_rows"][0])
    taken, none = min(n, SAMPLE), np.zeros(1, np.bool_)
    times = []
    for epochs in (1, 1, 3):  # the first warms up
        once = replace(options, max_iter=epochs, validation=0.0)
        began = time.perf_counter()
        fit(rows.head(taken), labels, none, replace(request, options=once), memory)
        times.append(time.perf_counter() - began)
    return max(times[2] - times[1], 1e-9) / 2 * n / taken


TASKS = built_in(Task(**in_table("fm")))


class MachineTrials(Trials):
    def complexity(self, options: MachineOptions) -> float:
        """The numbers of a feature."""
        return float(options.rank)

    def ends_alike(self, request: Request[Task, MachineOptions]) -> bool:
        return False


class Machines(Learner):
    """Factorization machines, trained by a step per row."""

    tasks = TASKS
    options = OPTIONS
    facts = Facts(
        weighs=True,
        weighs_classes=True,
        orders=True,
        classifying={"objective": "logistic"},
        sizes=(
            ("numbers of a model of `fm`, features times (1 + `rank`)", f"{MOST:,}"),
            ("`rank` of `fm`", f"{MOST_RANK}"),
        ),
    )
    trials = MachineTrials()

    def classifies(self, request: Request[Task, MachineOptions]) -> bool:
        return request.options.classifies

    def train(
        self, groups: Groups, request: Request[Task, MachineOptions], memory: int
    ) -> Iterator[Models]:
        return training.train(groups, request, memory)

    def explain(
        self, groups: Groups, request: Request[Task, MachineOptions], memory: int = 0
    ) -> Iterator[str]:
        training.refuse_rows(groups, request)
        for group in np.split(groups, len(groups)):
            found = explain(group, request, memory)
            yield format_explanation(found, request.options.format)


LEARNERS = (Machines(),)
