"""Which trainings into a store keep their weights there while they train.

Those on sparse features do, by an algorithm for stores: their weights may be larger than memory.
All others train in memory, and the store gets the weights at the end.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError, one_of
from tuskml.learners.linear.algorithms import REGISTERED
from tuskml.learners.linear.own.operators import named
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.tasks import LINEAR, LinearTask

ALGORITHMS = ("auto", *(one.name for one in REGISTERED if one.stored))
"""Those for stores."""


def refuse_general(task: LinearTask) -> None:
    """A store keeps one weight for each feature, for the losses that its kernels have."""
    if task.general and task.own is None:
        able = (name for name, one in LINEAR.items() if not one.general)
        raise OptionError(
            f"task '{task.name}' is not available with option 'store', expected {one_of(able)}"
        )


def refuse_many(task: LinearTask, labels: NDArray[np.void]) -> None:
    """DataError where the labels (LABELS) of one group are of more than two classes."""
    seen = labels[0]
    if task.multinomial and seen["third_row"]:
        raise DataError(
            f"label is {seen['third']:g} in row {seen['third_row']}, after {seen['low']:g} and "
            f"{seen['high']:g}; with option 'store' a '{task.name}' model has two classes, since "
            "it keeps one weight for each feature: train one for each class, with label = class, "
            "or leave out 'store'"
        )


def in_memory(groups: NDArray[np.void], request: Request) -> bool:
    """Whether groups (`passes.GROUP`) train in memory though option `store` is given."""
    options = request.options
    dense = bool(groups["kind"][0] < 2)
    return dense or options.algorithm not in ALGORITHMS or bool(named(options))


def without_store(request: Request) -> Request:
    """The request of the training in memory, for its explanation."""
    options = replace(request.options, store=None)
    if options.warm_start is not None and options.warm_start.store is not None:
        options = replace(options, warm_start=None)  # the explanation does not read the store
    return replace(request, options=options)
