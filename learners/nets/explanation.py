"""The expected cost of training nets, from a timed epoch on a sample."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.passes import Pass, row_bytes
from tuskml.learners.explaining import (
    Document,
    document,
    plan_document,
    reason_for_algorithm,
    sole_candidate,
)
from tuskml.learners.learner import Request
from tuskml.learners.nets.options import NetOptions
from tuskml.learners.nets.outcome import plan_of
from tuskml.learners.nets.tables import Tables
from tuskml.learners.nets.training import classifies, fit_in_order, kinds_of, rules_of
from tuskml.learners.tasks import Task
from tuskml.schedule import budget

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
