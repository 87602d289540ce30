"""Models of groups whose ids were numbered anew: their coefficients in the places of the ids."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels.charged import FLOOR, Charges, memory_use
from tuskml.kernels.rows.renumber import Ids, Renumbered
from tuskml.learners.linear.problem import Index
from tuskml.learners.linear.request import LinearOptions, Request
from tuskml.learners.list_size import bytes_of_lists
from tuskml.learners.models import Lists, Models
from tuskml.learners.options.kinds import WarmStart

NONE = Lists(np.empty(0), np.zeros(2, np.int64))


def apart(places: Index, ids: Mapping[int, Ids], options: LinearOptions) -> Iterator[Index]:
    """Groups whose ids were numbered anew train by themselves where they start at a model."""
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


def restored(
    models: Models, seen: Renumbered, groups: NDArray[np.void], memory: int
) -> Iterator[Models]:
    """The models, each whose group was renumbered by itself and as long as its largest id.

    groups: as they were. Only one long list is in memory at a time, charged to the account, but
    the database keeps those of all groups of a call.
    """
    number = models.group.tolist()
    plain = [place for place, group in enumerate(number) if group not in seen.ids]
    if len(plain) == len(number):
        yield models
        return
    if plain:
        yield models.of(np.array(plain))
    for place, group in enumerate(number):
        if group in seen.ids:
            width = int(groups["dim"][group])
            seen.listed += width
            refuse_too_long(width, len(seen.ids[group]), seen.listed, memory)
            yield _long(models.of(np.array([place])), seen.ids[group], width, Charges(memory))


def refuse_too_long(width: int, occur: int, listed: int, memory: int) -> None:
    """MemoryError where coefficients as lists are more than the account may have.

    width: of one model, of which so many occur; listed: of all models of a call so far.
    """
    size, limit = bytes_of_lists(listed), max(memory_use(memory).budget, FLOOR)
    if size > limit:
        others = "" if listed == width else f" (and models before it {listed - width})"
        raise MemoryError(
            f"the model has {width} coefficients{others}, of which {occur} occur: as a list, and "
            f"its copies, they take {size / 1e6:.0f} MB, and memory_limit is {limit / 1e6:.0f} "
            "MB; expected smaller ids, or option 'store', which keeps those that occur"
        )


def _long(model: Models, ids: Ids, width: int, charges: Charges) -> Models:
    """One model with a coefficient for each id up to the largest; 0 for those that do not occur.

    Standard errors are for models of few features, as which ids up to 65,536 and more never count.
    """
    classes = len(model.classes.values)
    several = classes if classes > 2 else 0  # weights by class, each class's intercept first
    rows, first = max(several, 1), int(several > 0)
    coef = charges.empty(rows * (first + width))
    coef[:] = 0.0
    blocks, known = coef.reshape(rows, first + width), model.coef.values.reshape(rows, -1)
    blocks[:, :first] = known[:, :first]
    blocks[:, first + ids] = known[:, first : first + len(ids)]
    ends = np.array([0, len(coef)], np.int64)
    return replace(
        model,
        coef=Lists(coef, ends),
        std_err=NONE,
        covariance=NONE,
        ratios=NONE,
        n_features=np.array([width], np.int64),
    )
