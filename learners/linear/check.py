"""Checks of a linear training: labels, weights, offsets and combinations of options."""

import math

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OperatorError, OptionError, RowsError, one_of
from tuskml.kernels.passes import Floats
from tuskml.kernels.structures import OFFSETS, WEIGHTS
from tuskml.learners.classes import Allowed
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.algorithms.parts.drawn import DRAWN
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.own.operators import base_of, refuse_sampler
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import LinearOptions, Request
from tuskml.learners.linear.tasks import LINEAR, POSITIVE, LinearTask

LEAST_MEAN = 1e-9
"""Least mean of labels whose logarithm is taken."""


def allowed_by(task: LinearTask) -> Allowed | None:
    """The labels that a task of numbers allows; None if all."""
    if not task.general or (task.low, task.high) == (-math.inf, math.inf):
        return None
    if task.least is not None:
        says = f"'{task.name}' needs a label {task.least}"
        return Allowed(says, task.low, task.high, above=task.least == POSITIVE)
    between = f"at least {task.low:g}" if task.high == math.inf else f"at most {task.high:g}"
    if math.isfinite(task.low) and math.isfinite(task.high):
        between = f"between {task.low:g} and {task.high:g}"
    return Allowed(f"'{task.name}' needs labels of {between}", task.low, task.high)


def refuse_labels(task: LinearTask, labels: NDArray[np.void]) -> None:
    """Raises RowsError for labels of parts, or of a stream, that the task does not have."""
    allowed = None if task.classifies else allowed_by(task)
    if allowed is None:
        return
    for end in (labels["low"], labels["high"]):
        bad = end[~allowed.holds(end)]
        if len(bad):
            raise RowsError(allowed.refusal(float(bad[0])))


def constant(task: LinearTask, mean: Floats) -> Floats:
    """The margin whose response is the mean of numbers."""
    if task.response == "exp":
        return np.asarray(np.log(np.where(mean > 0, mean, LEAST_MEAN)))
    if task.response == "logistic":
        share = np.clip(mean, LEAST_MEAN, 1 - LEAST_MEAN)
        return np.asarray(np.log(share / (1 - share)))
    return mean


def refuse_lost(problem: Problem, state: State) -> None:
    """Raises OperatorError if a custom loss is not finite at the final weights."""
    lost = state.objective[~np.isfinite(state.objective)]
    if problem.task.own is not None and len(lost):
        raise OperatorError(
            f"task '{problem.task.name}': the mean loss is {lost[0]:g}, expected a finite number"
        )


# Rows with weights and offsets: the trainings that accept them, and their meaning.
#
# The weighted objective is sum(w_i loss_i) / sum(w_i) + the penalty, so that a weight of 2 equals
# the row twice, also in standard errors (frequency weights, McCullagh and Nelder, Generalized
# linear models, 1989, 2.2). An offset is added to a row's margin: for counts it is the logarithm
# of the exposure (the same, 6.3).


def refuse_extras(groups: NDArray[np.void], request: Request) -> None:
    """Raises OptionError if rows (passes.GROUP) have weights or offsets that a request cannot
    take.
    """
    if not (groups["extras"] & (WEIGHTS | OFFSETS)).any():
        return
    task, options = request.task, request.options
    if (groups["extras"] & OFFSETS).any() and not takes_offsets(task):
        able = [name for name, one in LINEAR.items() if takes_offsets(one)]
        raise OptionError(
            f"offset is not available with task '{task.name}', expected {one_of(able)}"
        )
    if options.custom:
        raise OptionError("weight is not available with an operator of your own")


def takes_offsets(task: LinearTask) -> bool:
    """Returns whether the logarithm of the mean is the margin."""
    return task.own is None and task.response == "exp"


def refuse_together(task: LinearTask, options: LinearOptions) -> None:
    """Raises an error if algorithm, task and sampler cannot go together."""
    if options.custom or options.sampler in DRAWN:
        refuse_sampler(options)
    if options.sampler in DRAWN and task.general:
        raise OptionError(
            f"sampler '{options.sampler}' is not available with task '{task.name}', whose steps "
            "are not compiled, expected 'shuffled-partition' or a sampler of your own"
        )
    algorithm = options.algorithm
    known = ALGORITHMS.get(base_of(algorithm) if options.custom else algorithm)
    reason = None if known is None else known.refusal(task)
    if reason is not None:
        possible = ["auto", *(name for name, one in ALGORITHMS.items() if not one.refusal(task))]
        raise OptionError(
            f"algorithm '{algorithm}' is not available with task '{task.name}', {reason}, "
            f"expected {one_of(possible)}"
        )


def many_classes(
    task: LinearTask, options: LinearOptions, labels: NDArray[np.void]
) -> NDArray[np.bool_]:
    """Tests which groups (G,) have more than two classes and a task that allows them."""
    if not task.multinomial or options.classes is not None:
        return np.zeros(len(labels), bool)
    return np.asarray(labels["third_row"] > 0)
