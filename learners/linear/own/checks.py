"""What the trainer does for tasks of the user's own."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OperatorError
from tuskml.kernels.passes import Floats
from tuskml.learners.classes import row_of
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import LinearOptions
from tuskml.learners.linear.tasks import LinearTask

LEAST_MEAN = 1e-9
"""Of labels, where a logarithm is taken."""


def refuse_labels(task: LinearTask, labels: NDArray[np.void]) -> None:
    """Labels lie where the task says."""
    if not task.general or task.classifies:
        return
    bad = np.flatnonzero(labels["third_row"])
    if len(bad):
        seen = labels[bad[0]]
        raise DataError(
            f"label is {seen['third']:g} in {row_of(seen)} of a group, '{task.name}' "
            f"needs a label {task.least}"
        )
    low, high = float(labels["low"].min()), float(labels["high"].max())
    if low >= task.low and high <= task.high:
        return
    allowed = f"at least {task.low:g}" if task.high == math.inf else f"at most {task.high:g}"
    if math.isfinite(task.low) and math.isfinite(task.high):
        allowed = f"between {task.low:g} and {task.high:g}"
    raise DataError(
        f"label is {low if low < task.low else high:g}, '{task.name}' needs labels of {allowed}"
    )


def constant(task: LinearTask, mean: Floats) -> Floats:
    """The margin whose response is the mean of numbers."""
    if task.response == "exp":
        return np.asarray(np.log(np.maximum(mean, LEAST_MEAN)))
    if task.response == "logistic":
        share = np.clip(mean, LEAST_MEAN, 1 - LEAST_MEAN)
        return np.asarray(np.log(share / (1 - share)))
    return mean


def refuse_lost(problem: Problem, state: State) -> None:
    """A loss of the user's own is a number where the weights end."""
    lost = state.objective[~np.isfinite(state.objective)]
    if problem.task.own is not None and len(lost):
        raise OperatorError(
            f"task '{problem.task.name}': the mean loss is {lost[0]:g}, expected a finite number"
        )


def loss_of_one_class(task: LinearTask, margin: Floats) -> Floats:
    """The loss of a constant margin of the positive class, if it has a certain one 0."""
    if task.own is None or task.own.loss is None:
        return np.zeros(len(margin))
    found = task.own.answer("loss", task.own.loss, margin, np.ones(len(margin)))
    return np.array(np.broadcast_to(found, margin.shape))


def task_members(task: LinearTask, options: LinearOptions) -> dict[str, Any]:
    """What the options of a model say of its task: the parameter, and how the user's predicts."""
    if task.own is not None:
        return {"response": task.response}
    given = None if task.parameter is None else getattr(options, task.parameter)
    return {} if given is None else {str(task.parameter): given}
