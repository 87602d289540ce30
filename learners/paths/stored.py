"""Models that select features in a store: fitted in memory, their weights sealed as a version.

A fit keeps several numbers for each feature, so it is in memory. Sparse features with large ids
are fitted by numbers of the ids that occur; the stored model and the path have the ids.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels.rows.renumber import LEAST_WIDTH
from tuskml.kvstore import StoreRoot
from tuskml.kvstore.numbered import MOST_ID, NumberedRoot
from tuskml.learners.learner import Request
from tuskml.learners.models import Lists, Models
from tuskml.learners.paths.feature_groups import (
    copy_group,
    features_asked,
    of_numbers,
    refuse_named,
)
from tuskml.learners.paths.options import PathOptions, PathTask
from tuskml.learners.paths.training import train_groups
from tuskml.learners.stored.progress import DTYPE, about, model_value, pairs_of

Asked = Request[PathTask, PathOptions]
Group = NDArray[np.void]
Ids = NDArray[np.int64]


def train_stored(group: Group, request: Asked, memory: int, root: StoreRoot) -> Models:
    """Trains one group (`passes.GROUP`), whose features are numbers if the root's are, and seals
    its weights.

    A constant model is a value and not stored. Raises DataError, OptionError, StoreError,
    Interrupted and MemoryError.
    """
    width = int(group["dim"][0])
    if isinstance(root, NumberedRoot):
        refuse_last_id(request, root.ids)
        return by_number(group, request, memory, root, min(root.dimension, MOST_ID))
    if group["kind"][0] < 2 or width <= LEAST_WIDTH:
        return train_sealed(group, request, memory, root, width)
    refuse_named(request, width)
    with copy_group(group, request, memory) as rows:
        return by_number(rows.groups, request, memory, NumberedRoot(root, rows.ids), width)


def refuse_last_id(request: Asked, ids: Ids) -> None:
    """Raises DataError for the largest id of all where a path is kept, which counts features
    from 1.
    """
    if request.options.penalty is None and len(ids) and ids[-1] == MOST_ID:
        raise DataError(
            f"a group has feature id {MOST_ID}, a path of '{request.task.name}' takes ids up to "
            f"{MOST_ID - 1}, since it counts features from 1: give smaller ids, or option 'lambda'"
        )


def by_number(group: Group, request: Asked, memory: int, root: NumberedRoot, width: int) -> Models:
    """Trains and seals with renumbered features; width: one more than the largest id."""
    refuse_named(request, width)
    numbers = of_numbers(request, root.ids, width)
    return train_sealed(group, numbers, memory, root, width, request.options)


def train_sealed(
    group: Group,
    request: Asked,
    memory: int,
    root: StoreRoot,
    width: int,
    asked: PathOptions | None = None,
) -> Models:
    """Trains and seals; asked: the original options if those of the request have numbers."""
    name, ids = request.options.store, root.ids if isinstance(root, NumberedRoot) else None
    assert name is not None
    own = replace(request, options=replace(request.options, store=None))
    (model,) = train_groups(group, own, memory, ids)
    if not np.isfinite(model.loss[0]) or model.status.pool[model.status.code[0]] == "one class":
        return model if ids is None else constant(model, width)
    pairs = pairs_of(model.coef.values, None)
    version = root.publish_pairs(name, pairs, DTYPE, len(model.coef.values), about(model))
    given = {} if asked is None else features_asked(asked)
    return model_value(model, version.reference, width, given)


def constant(model: Models, width: int) -> Models:
    """A model without weights, of a group with `width` features."""
    return replace(
        model,
        coef=Lists.of_rows(np.zeros((1, 1)), np.ones(1, np.int64)),
        n_features=np.array([width]),
    )
