"""Stored models that train in memory: any algorithm's weights, sealed as a version at the end.

Dense rows have at most one weight for each of a row's values, so a model of them fits wherever its
rows do. There a store is where the model is kept, not where it is trained: the objective, the
algorithms and the weights, to the bit, are those of a training without the option `store`.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError
from tuskml.kernels import passes
from tuskml.kernels.rows.renumber import Ids, renumber
from tuskml.kvstore import StoreRoot
from tuskml.learners.linear.algorithms import REGISTERED, STORED
from tuskml.learners.linear.own.operators import operators_of
from tuskml.learners.linear.renumbered import own_request
from tuskml.learners.linear.request import LinearOptions, Request
from tuskml.learners.linear.training import train_in_parts
from tuskml.learners.models import Models
from tuskml.learners.options.kinds import WarmStart
from tuskml.learners.stored.progress import DTYPE, about, model_value, pairs_of

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
    return dense or options.algorithm not in ALGORITHMS or bool(operators_of(options))


def without_store(request: Request) -> Request:
    """The request of the training in memory, for its explanation."""
    options = replace(request.options, store=None)
    if options.warm_start is not None and options.warm_start.store is not None:
        options = replace(options, warm_start=None)  # the explanation does not read the store
    return replace(request, options=options)


MOST_START = 1 << 24
"""Weights of a stored model that a training in memory can start from."""


def train_in_memory(
    groups: NDArray[np.void], request: Request, memory: int, root: StoreRoot, many: bool = False
) -> Models:
    """Trains one group (`passes.GROUP`) and seals its weights; many: it has over two classes.

    A group of one class has a constant model, which is a value and not stored. Raises DataError,
    OptionError, StoreError, and MemoryError where the training needs more than it may have.
    """
    options = request.options
    if options.resume:
        raise OptionError(
            "option 'resume' is for trainings on sparse features by an algorithm for stores: "
            "this one trains in memory, and an interrupted one leaves nothing to go on with"
        )
    assert options.store is not None
    with renumber(groups, memory, passes.cancel_mark(), bool(request.options.validation)) as seen:
        ids, width = seen.ids.get(0), int(groups["dim"][0])
        start = load_start(options, ids, width, root)
        own = replace(request, options=replace(start, store=None))
        if start is options:
            own = own_request(own, ids, width)
        try:
            (model,) = train_in_parts(seen.groups, np.zeros(1, np.intp), own, memory)
        except MemoryError as error:
            raise no_room(error, groups, options, many) from None
        if model.status.pool[model.status.code[0]] == "one class":
            return replace(model, n_features=groups["dim"].astype(np.int64))
        weights, places, dimension = lay_out_weights(model, ids, width)
        pairs = pairs_of(weights, places)
        given = DTYPE, dimension, about(model), continued_model(options)
        n = len(model.classes.values)
        several = n if n > 2 else 1
        version = root.publish_pairs(options.store, pairs, *given, several=several)
    return model_value(model, version.reference, width)


def no_room(
    error: MemoryError, groups: NDArray[np.void], options: LinearOptions, many: bool
) -> MemoryError:
    """The error for weights that do not fit into memory, with the options that could store
    them.
    """
    if groups["kind"][0] < 2:  # dense rows take more than their weights
        return error
    what = "a model of more than two classes" if many else f"algorithm '{options.algorithm}'"
    instead = f"give algorithm '{STORED.name}'" if many else "leave 'algorithm' out"
    return MemoryError(
        f"no memory for the training: {what} trains in memory, also with option 'store'; "
        f"raise memory_limit, or {instead}, so that the weights may lie on disk"
    )


def load_start(
    options: LinearOptions, ids: Ids | None, width: int, root: StoreRoot
) -> LinearOptions:
    """The options with the weights of a stored model to start from, of these ids alone.

    They are as they were where they start at no stored model.
    """
    start = options.warm_start
    if start is None or start.store is None:
        return options
    with root.open(start.store) as sealed:
        if sealed.dimension > width:
            raise DataError(
                f"warm_start has {sealed.dimension} coefficients, expected {width} as the features"
            )
        n = sealed.dimension if ids is None else len(ids)
        if n > MOST_START:
            raise OptionError(
                f"warm_start has {n} weights, expected at most {MOST_START} in a training in "
                "memory, or no 'algorithm' with option 'store'"
            )
        coef = sealed.weights(np.arange(n) if ids is None else ids.astype(np.int64))
    weights = tuple(np.asarray(coef, float).tolist())
    return replace(options, warm_start=WarmStart(weights, start.intercept))


def lay_out_weights(
    model: Models, ids: Ids | None, width: int
) -> tuple[NDArray[np.float64], NDArray[np.integer] | None, int]:
    """The weights of a model, the ids in the store that are theirs, and how many there may be.

    Of K > 2 classes, weight k of feature i has id (i + 1) K + k, and the intercepts have the ids
    below K, so that a row finds those of a feature side by side.
    """
    n = len(model.classes.values)
    if n <= 2:
        return model.coef.values, ids, width
    weights = np.ascontiguousarray(model.coef.values.reshape(n, -1).T)
    places: NDArray[np.int64] | None = None
    if ids is not None:
        features = np.concatenate(([0], ids.astype(np.int64) + 1))
        places = (features[:, None] * n + np.arange(n)).ravel()
    return weights.ravel(), places, (width + 1) * n


def continued_model(options: LinearOptions) -> str | None:
    """The stored model that the training began with."""
    return None if options.warm_start is None else options.warm_start.store
