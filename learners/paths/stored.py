"""Models that select features in a store: fitted in memory, their weights sealed as a version.

A fit keeps several numbers for each feature, so it is in memory. Sparse features with large ids
are fitted by numbers of the ids that occur; what is stored has the ids, and so has the path.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError
from tuskml.kernels import passes
from tuskml.kernels.rows.renumber import LEAST_WIDTH
from tuskml.kernels.rows.vocabulary import numbered
from tuskml.kvstore import StoreRoot
from tuskml.kvstore.roots.numbered import MOST_ID, NumberedRoot
from tuskml.learners.learner import Request
from tuskml.learners.models import Lists, Models
from tuskml.learners.paths.feature_groups import members_of, refuse_groups
from tuskml.learners.paths.features import found_at, names_of, refuse_unknown
from tuskml.learners.paths.options import PathOptions
from tuskml.learners.paths.tasks import PathTask
from tuskml.learners.paths.training import train
from tuskml.learners.stored.values import DTYPE, about, pairs_of, stored

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
        return sealed(group, request, memory, root, width)
    free, blocks = named_features(request, width)
    named = np.unique(np.array([*free, *(one for block in blocks for one in block)], np.int64))
    with numbered(group.copy(), named, memory, passes.cancel_mark()) as rows:
        return by_number(rows.groups, request, memory, NumberedRoot(root, rows.ids), width)


def refuse_last_id(request: Asked, ids: Ids) -> None:
    """DataError for the largest id of all where a path is kept, which counts features from 1."""
    if request.options.penalty is None and len(ids) and ids[-1] == MOST_ID:
        raise DataError(
            f"a group has feature id {MOST_ID}, a path of '{request.task.name}' takes ids up to "
            f"{MOST_ID - 1}, since it counts features from 1: give smaller ids, or option 'lambda'"
        )


def by_number(group: Group, request: Asked, memory: int, root: NumberedRoot, width: int) -> Models:
    """The same of features that are numbers of ids; width: one more than the largest id."""
    free, blocks = named_features(request, width)
    found = numbers_of(free, root.ids)
    own = replace(
        request.options,
        unpenalized=tuple(one + 1 for one in found if one is not None) or None,
        groups=tuple(block_of(one, root.ids) for one in blocks if one) or None,
        feature_names=None,
    )
    numbers = replace(request, options=own, feature_names=None, categories=None)
    return sealed(group, numbers, memory, root, width, request.options)


def sealed(
    group: Group,
    request: Asked,
    memory: int,
    root: StoreRoot,
    width: int,
    asked: PathOptions | None = None,
) -> Models:
    """Trains and seals; asked: the options where those of the request are of numbers."""
    name, ids = request.options.store, root.ids if isinstance(root, NumberedRoot) else None
    assert name is not None
    own = replace(request, options=replace(request.options, store=None))
    (model,) = train(group, own, memory, ids)
    if not np.isfinite(model.loss[0]) or model.status.pool[model.status.code[0]] == "one class":
        return model if ids is None else constant(model, width)
    pairs = pairs_of(model.coef.values, None)
    version = root.publish_pairs(name, pairs, DTYPE, len(model.coef.values), about(model))
    given = {} if asked is None else features_asked(asked)
    return stored(model, version.reference, width, given)


def constant(model: Models, width: int) -> Models:
    """A model without weights, of a group with so many features."""
    return replace(model, coef=Lists.of_rows(np.zeros((1, 1)), np.ones(1, np.int64)),
                   n_features=np.array([width]))  # fmt: skip


def features_asked(options: PathOptions) -> dict[str, Any]:
    """The options that name features, as they were given."""
    given = {name: getattr(options, name) for name in ("unpenalized", "groups")}
    return {name: one for name, one in given.items() if one is not None}


def named_features(request: Asked, width: int) -> tuple[list[int], Sequence[Sequence[int]]]:
    """The ids that options name: without a penalty, and in blocks. Raises OptionError for those
    that rows of this width cannot have."""
    options = request.options
    refuse_unknown("unpenalized", options.unpenalized or (), [width], request)
    refuse_groups([width], request)
    names = names_of(0, request)
    free = [found_at(one, names, width) for one in options.unpenalized or ()]
    blocks = [] if options.groups is None else members_of(0, request, width)
    return [one for one in free if one is not None], blocks


def numbers_of(ids: Sequence[int], known: Ids) -> list[int | None]:
    """The places of ids among those that are known, ascending; None where one is not known."""
    if not len(known):
        return [None] * len(ids)
    places = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    here = known[places] == np.asarray(ids)
    return [int(at) if found else None for at, found in zip(places, here, strict=True)]


def block_of(ids: Sequence[int], known: Ids) -> tuple[int, ...]:
    """A block as places from 1 on. OptionError for an id that does not occur, since the weight of
    the block's penalty would not count it."""
    numbers = numbers_of(ids, known)
    if None in numbers:
        raise OptionError(
            f"option 'groups' has feature {ids[numbers.index(None)] + 1}, which does not occur in "
            "the rows: expected features that occur where ids are above 2147483646"
        )
    return tuple(one + 1 for one in numbers if one is not None)
