"""Models of groups with renumbered ids: their coefficients at the original ids."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels.library import Charges
from tuskml.kernels.rows.renumber import Ids, Renumbering
from tuskml.learners.linear.problem import Index
from tuskml.learners.linear.request import LinearOptions, Request
from tuskml.learners.list_size import refuse_too_long
from tuskml.learners.models import Lists, Models
from tuskml.learners.options.kinds import WarmStart

TOGETHER = 1 << 18
"""Coefficients of models that are widened together."""


def apart(places: Index, ids: Mapping[int, Ids], options: LinearOptions) -> Iterator[Index]:
    """Groups that train by themselves: their ids have new numbers, and they start at a model."""
    start = options.warm_start
    if start is None or start.store is not None or not ids:
        yield places
        return
    plain = np.array([place not in ids for place in places.tolist()])
    if plain.any():
        yield places[plain]
    for place in places[~plain]:
        yield np.array([place])


def own_request(request: Request, ids: Ids | None, width: int) -> Request:
    """The request with the coefficients to start from of a renumbered group, None: as it is."""
    if ids is None:
        return request
    return replace(request, options=own_start(request.options, ids, width))


def own_start(options: LinearOptions, ids: Ids, width: int) -> LinearOptions:
    """The options with the coefficients to start from of these ids alone.

    width: features of the group before. Raises DataError for more coefficients.
    """
    start = options.warm_start
    if start is None or start.store is not None:
        return options
    rows, first = max(start.several, 1), int(start.several > 0)
    coef = np.array(start.coef)
    blocks = coef.reshape(rows, -1) if len(coef) % rows == 0 else coef[None]
    own = blocks.shape[1] - first
    if own > width:
        raise DataError(f"warm_start has {own} coefficients, expected {width} as the features")
    known = ids[: int(np.searchsorted(ids, own))]
    kept = np.hstack([blocks[:, :first], blocks[:, first + known]]).ravel().tolist()
    begin = WarmStart(tuple(kept), start.intercept, None, start.classes)
    return replace(options, warm_start=begin)


def restore_ids(
    models: Models, seen: Renumbering, groups: NDArray[np.void], memory: int
) -> Iterator[Models]:
    """Widens the models of renumbered groups to their largest id.

    groups: the original ones. The long lists are charged to the account; few of them are made at a
    time, but the database keeps those of all groups of a call.
    """
    number = models.group.tolist()
    wide = [place for place, group in enumerate(number) if group in seen.ids]
    if not wide:
        yield models
        return
    if len(wide) < len(number):
        yield models.of(np.setdiff1d(np.arange(len(number)), wide))
    for some in together(models, wide, seen, groups, memory):
        yield _long(models.of(some), seen, groups, Charges(memory))


def together(
    models: Models, wide: list[int], seen: Renumbering, groups: NDArray[np.void], memory: int
) -> Iterator[NDArray[np.intp]]:
    """Yields indices of models that are widened together. Raises MemoryError if the account cannot
    hold their lists and those before them.
    """
    part: list[int] = []
    numbers = 0
    for place in wide:
        group = int(models.group[place])
        own = blocks_of(models, place) * int(groups["dim"][group])
        seen.listed += own
        refuse_too_long(own, len(seen.ids[group]), seen.listed, memory)
        if part and numbers + own > TOGETHER:
            yield np.array(part)
            part, numbers = [], 0
        part.append(place)
        numbers += own
    yield np.array(part)


def blocks_of(models: Models, place: int) -> int:
    """The number of coefficients of a feature in a model: one per class if there are many."""
    return several(int(np.diff(models.classes.offsets[place : place + 2])[0]))


def several(classes: int) -> int:
    """The number of lists of weights in a model of `classes` classes."""
    return classes if classes > 2 else 1


def _long(models: Models, seen: Renumbering, groups: NDArray[np.void], charges: Charges) -> Models:
    """The models with a coefficient for each id up to the largest; 0 for those that do not occur.

    Standard errors are for models of few features, as which such ids never count.
    """
    n = len(models.group)
    widths = groups["dim"][models.group].astype(np.int64)
    rows = np.array([blocks_of(models, place) for place in range(n)], np.int64)
    first = (rows > 1).astype(np.int64)  # weights by class, each class's intercept first
    ends = np.concatenate([[0], np.cumsum(rows * (first + widths))])
    coef = charges.empty(int(ends[-1]))
    coef[:] = 0.0
    for place, group in enumerate(models.group.tolist()):
        ids, k, begin = seen.ids[group], rows[place], first[place]
        known = models.coef.values[slice(*models.coef.offsets[place : place + 2])].reshape(k, -1)
        blocks = coef[ends[place] : ends[place + 1]].reshape(k, -1)
        blocks[:, :begin] = known[:, :begin]
        blocks[:, begin + ids] = known[:, begin : begin + len(ids)]
    none = Lists.none(n)
    return replace(
        models,
        coef=Lists(coef, ends),
        std_err=none,
        covariance=none,
        ratios=none,
        spread=none,
        n_features=widths,
    )
