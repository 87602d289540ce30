"""Rows with weights and offsets: which trainings take them, and what they make of them.

The weighted objective is sum(w_i loss_i) / sum(w_i) + the penalty, so that a weight of 2 equals
the row twice, also in standard errors (frequency weights, McCullagh and Nelder, Generalized linear
models, 1989, 2.2). An offset is added to a row's margin: of counts it is the logarithm of the
exposure (the same, 6.3).
"""

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError, one_of
from tuskml.kernels.structures import OFFSETS, WEIGHTS
from tuskml.learners.linear.algorithms.parts.drawn import DRAWN
from tuskml.learners.linear.own.operators import ALGORITHMS, named
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.tasks import LINEAR, LinearTask


def refuse_extras(groups: NDArray[np.void], request: Request) -> None:
    """OptionError where rows (passes.GROUP) have weights or offsets that a request cannot take."""
    if not (groups["extras"] & (WEIGHTS | OFFSETS)).any():
        return
    task, options = request.task, request.options
    if (groups["extras"] & OFFSETS).any() and not takes_offsets(task):
        able = [name for name, one in LINEAR.items() if takes_offsets(one)]
        raise OptionError(
            f"offset is not available with task '{task.name}', expected {one_of(able)}"
        )
    if set(named(options).values()) - DRAWN.keys() or options.algorithm in ALGORITHMS:
        raise OptionError("weight is not available with an operator of your own")


def takes_offsets(task: LinearTask) -> bool:
    """Whether the logarithm of the mean is the margin."""
    return task.own is None and task.response == "exp"
