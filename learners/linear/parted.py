"""Trains a group whose rows lie in parts, each on another worker.

The objective is that of the whole group, and so are the algorithm and the inference: their passes
ask the parts for sums, and add these in a fixed order (`kernels/parts/sharded.py`). What no sum
over rows tells is refused beforehand.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 4.2, algebraic.
"""

import time
from dataclasses import replace

import numpy as np

from tuskml.kernels import passes
from tuskml.kernels.parts.sharded import Parts, ShardedPass, of_parts
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.check import refuse_labels, refuse_together, with_extras, with_link
from tuskml.learners.linear.options import OPTIONS
from tuskml.learners.linear.own.operators import operators_of
from tuskml.learners.linear.planner.planning import first_plan
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.result import Inputs
from tuskml.learners.linear.training import by_classes
from tuskml.learners.models import Models, join_models
from tuskml.learners.options.table import needs_one_place


def whole(request: Request) -> str | None:
    """The reason why a group's rows cannot be split; None if they can."""
    task, options = request.task, request.options
    known = ALGORITHMS.get(options.algorithm)
    if task.own is not None or not (task.smooth or (known is not None and known.noisy)):
        return f"task '{task.name}' needs all rows in one place"
    if task.parameter == "delta" and options.delta is None:
        return f"task '{task.name}' without option 'delta' needs all rows in one place"
    if operators_of(options) or (
        options.algorithm != "auto" and (known is None or not known.by_parts)
    ):
        return f"algorithm '{options.algorithm}' needs all rows in one place"
    return needs_one_place(OPTIONS.by_name, options)


def train_by_parts(parts: Parts, request: Request) -> Models | None:
    """The model of the group; None where it has no usable row.

    `auto` takes the algorithm of the planner's rule, and compares no plans for option `explain`.
    """
    began = time.monotonic()
    refuse_together(request.task, request.options)
    request = replace(request, options=replace(request.options, device="cpu", explain=False))
    groups = of_parts(parts)
    if groups is None:
        return None
    request = with_extras(groups, with_link(request))
    plan, _ = first_plan(groups, request)
    loss, intercept = request.task.loss, request.options.fit_intercept
    rows = ShardedPass(
        groups, loss, None, None, intercept, plan.threads,
        cancel_mark=passes.cancel_mark(), parts=parts, classifies=request.task.classifies,
    )  # fmt: skip
    with np.errstate(all="ignore"):  # values that are not finite are found at the end
        labels = rows.labels()
        refuse_labels(request.task, labels)
        given = Inputs(rows, labels, None, groups["dim"].astype(np.int64))
        models = by_classes(given, plan, request, 0, began, None)
    return models[0] if len(models) == 1 else join_models(models)
