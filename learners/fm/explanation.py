"""The expected cost of training a machine, from some timed epochs on a sample."""

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
from tuskml.learners.fm.options import MachineOptions
from tuskml.learners.fm.outcome import plan_of
from tuskml.learners.fm.training import fit, rules_of
from tuskml.learners.learner import Request
from tuskml.learners.tasks import Task
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
