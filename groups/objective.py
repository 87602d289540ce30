"""The objective of a batch in coordinates that condition it, and where its descent starts."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError
from tuskml.groups.own import constant
from tuskml.groups.planning import Request
from tuskml.udas.algorithms import transformed
from tuskml.udas.kernels import Floats, Pass
from tuskml.udas.open_rows import Open
from tuskml.udas.options import Options
from tuskml.udas.plan import Plan
from tuskml.udas.problem import Problem
from tuskml.udas.tasks import Task

MOMENT_ROWS = 4096


def describe(rows: Pass, labels: NDArray[np.void], plan: Plan, request: Request) -> Problem:
    """The objective in coordinates that condition it."""
    options, task = request.options, request.task
    rows = replace(
        rows,
        positive=np.ascontiguousarray(labels["high"]) if task.classifies else None,
        class_weight=class_weights(task, options, labels),
        open=None if task.own is None else Open(task.own),
    )
    frequency = None
    if rows.sparse:
        shift, scale, frequency = describe_sparse(rows, plan, options)
    else:
        shift, deviation = rows.feature_moments(MOMENT_ROWS)
        if not options.fit_intercept:  # nothing could take up the shift
            deviation = np.sqrt(deviation**2 + shift**2)
            shift = np.zeros_like(shift)
        scale = np.where(deviation > 0, 1.0 / np.where(deviation > 0, deviation, 1.0), 0.0)
    size = None
    if task.quadratic:
        size = np.sqrt(labels["variance"] + labels["mean"] ** 2)
    problem = Problem(rows, task, options.l1, options.l2, shift, scale, frequency, size)
    return transformed(problem, plan)


def describe_sparse(
    rows: Pass, plan: Plan, options: Options
) -> tuple[Floats, Floats, Floats | None]:
    """No shift, which would fill the zeros; scales that leave values of at most 1.

    Counting is a pass of its own: it is left out where values are of the size of 1 anyway and no
    penalty asks how often a feature occurs.
    """
    shift = np.zeros((rows.n_groups, rows.n_features))
    counted = options.l1 > 0 or options.l2 > 0 or plan.family == "svrg"
    if not counted and rows.values_near_one():
        return shift, np.ones_like(shift), None
    count, largest = rows.feature_counts()
    scale = np.where(largest > 0, 1.0 / np.where(largest > 0, largest, 1.0), 0.0)
    return shift, scale, np.maximum(count, 1.0) / rows.groups["n_rows"][:, None]


def class_weights(task: Task, options: Options, labels: NDArray[np.void]) -> Floats | None:
    """Weights (G, 2) of the lower and the higher class, None: all 1."""
    if options.class_weight is None or not task.classifies:
        return None
    if options.class_weight == "balanced":
        low, high = class_sizes(labels)
        return np.stack([0.5 * (low + high) / low, 0.5 * (low + high) / high], axis=1)
    return np.tile(np.array(options.class_weight, float), (len(labels), 1))


def class_sizes(labels: NDArray[np.void]) -> tuple[Floats, Floats]:
    """Rows of the lower and of the higher class, each (G,)."""
    high = labels["n_high"].astype(float)
    return labels["n_rows"] - high, high


def start(problem: Problem, labels: NDArray[np.void], options: Options) -> Floats:
    """The warm start, or the best constant."""
    v = np.zeros((problem.n_groups, problem.d + 1))
    if options.warm_start is not None:
        coef = options.warm_start.coef
        if options.warm_start.store is not None:
            raise OptionError(
                f"warm_start is the stored model '{options.warm_start.store}', expected a model "
                "with coefficients, or option 'store' for the new one too"
            )
        if len(coef) != problem.d and not (problem.rows.sparse and len(coef) < problem.d):
            raise DataError(
                f"warm_start has {len(coef)} coefficients, expected {problem.d} as the features"
            )
        v[:, : len(coef)] = coef
        v[:, -1] = options.warm_start.intercept
        return problem.from_caller(v)
    if not options.fit_intercept:
        return v
    if problem.task.quadratic:
        v[:, -1] = labels["mean"]
    elif problem.task.own is not None and not problem.task.classifies:
        v[:, -1] = constant(problem.task, labels["mean"])
    elif "logistic" in (problem.task.name, problem.task.response):
        weight = problem.rows.class_weight
        low, high = class_sizes(labels)
        if weight is not None:
            high, low = high * weight[:, 1], low * weight[:, 0]
        v[:, -1] = np.log(high / low)
    return v
