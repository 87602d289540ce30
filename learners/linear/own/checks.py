"""What the trainer does for tasks of the user's own."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OperatorError, RowsError
from tuskml.kernels.passes import Floats
from tuskml.learners.labels import Allowed
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import LinearOptions
from tuskml.learners.linear.tasks import POSITIVE, LinearTask

LEAST_MEAN = 1e-9
"""Of labels, where a logarithm is taken."""


def allowed_by(task: LinearTask) -> Allowed | None:
    """Which labels a task of numbers has; None where it has all."""
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
    """RowsError for labels of parts, or of a stream, that the task does not have."""
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
