"""The choice of trainings into a store that keep their weights there during training.

Those on sparse features do, by an algorithm for stores and a loss that its kernels have: their
weights may be larger than memory. All others train in memory, and the store gets the weights at
the end; so do models of more than two classes, unless an option stores them or memory does not
hold them (`multinomial.stored`).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.learners.linear.algorithms import REGISTERED
from tuskml.learners.linear.own.operators import named
from tuskml.learners.linear.request import Request

ALGORITHMS = ("auto", *(one.name for one in REGISTERED if one.stored))
"""The algorithms for stores."""


def in_memory(groups: NDArray[np.void], request: Request) -> bool:
    """Returns whether groups (`passes.GROUP`) train in memory in spite of the option `store`.

    So do those with more than two classes, which only their labels show.
    """
    options = request.options
    dense, task = bool(groups["kind"][0] < 2), request.task
    if task.general and task.own is None:  # a loss that the kernels for stores lack
        return True
    return dense or options.algorithm not in ALGORITHMS or bool(named(options))


def without_store(request: Request) -> Request:
    """The request of the training in memory, for its explanation."""
    options = replace(request.options, store=None)
    if options.warm_start is not None and options.warm_start.store is not None:
        options = replace(options, warm_start=None)  # the explanation does not read the store
    return replace(request, options=options)
