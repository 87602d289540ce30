"""The option `bounds`: bins that all groups share, for each feature or by the features' names."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels.passes import Floats
from tuskml.kernels.trees.boosting import MOST_BINS
from tuskml.learners.learner import Request
from tuskml.learners.options.kinds import Kind
from tuskml.learners.trees.signs import by_signs, refuse_unknown

Bounds = tuple[float, ...] | None
"""Of one feature, rising; None: each group finds its own."""


@dataclass(frozen=True)
class BoundsByName:
    """Bounds of some features; the others have None."""

    bounds: tuple[tuple[str, Bounds], ...]


def _of_feature(value: Any) -> Bounds:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) >= MOST_BINS:
        raise ValueError
    if any(isinstance(one, bool) or not isinstance(one, int | float) for one in value):
        raise ValueError
    numbers = tuple(map(float, value))
    rising = all(low < high for low, high in pairwise(numbers))
    if not rising or not all(map(math.isfinite, numbers)):
        raise ValueError
    return numbers


def _bounds(value: Any) -> tuple[Bounds, ...] | BoundsByName:
    if not value or not isinstance(value, list | dict):
        raise ValueError
    if isinstance(value, dict):
        return BoundsByName(tuple((name, _of_feature(one)) for name, one in value.items()))
    return tuple(map(_of_feature, value))


BOUNDS = Kind(
    f"a list with a rising list of up to {MOST_BINS - 1} numbers or null for each feature, such "
    'as [[0.5, 1.5], null], or such lists by name, such as {"age": [30, 60]}',
    _bounds,
)


def without_names(
    groups: NDArray[np.void], request: Request[Any, Any]
) -> Iterator[tuple[NDArray[np.intp], Request[Any, Any]]]:
    """Places of groups whose features are alike, and a request without options by their names."""
    for places, chosen in by_signs(groups, request):
        yield from by_bounds(places, chosen)


def by_bounds(
    places: NDArray[np.intp], request: Request[Any, Any]
) -> Iterator[tuple[NDArray[np.intp], Request[Any, Any]]]:
    """Parts of some groups whose features have the same bounds, and a request that lists these.

    places: of these groups in the request. One part where bounds are not given by name. DataError
    for a name that no group has, or for features without names.
    """
    wanted = request.options.bounds
    if not isinstance(wanted, BoundsByName):
        yield places, request
        return
    if request.feature_names is None:
        raise DataError(
            f"option 'bounds' names '{wanted.bounds[0][0]}', but features are a list without "
            "names: expected a list of bounds, or option 'feature_names'"
        )
    names = [request.feature_names(int(place)) for place in places]
    refuse_unknown("bounds", [name for name, _ in wanted.bounds], names)
    by_name = dict(wanted.bounds)
    for each in dict.fromkeys(names):
        part = places[[one == each for one in names]]
        listed = tuple(by_name.get(name) for name in each)
        yield part, replace(request, options=replace(request.options, bounds=listed))


def listed_bounds(
    bounds: tuple[Bounds, ...] | BoundsByName | None,
    width: int,
    by_level: NDArray[np.uint8] | None,
) -> tuple[Floats, NDArray[np.int64]] | None:
    """Bounds as the kernels have them, of a request that `by_bounds` has made.

    width: the number of features; by_level: (G, d), 1 where a feature is a category. DataError
    for another number of lists and for bounds of a category.
    """
    if bounds is None:
        return None
    assert not isinstance(bounds, BoundsByName)
    if len(bounds) != width:
        raise DataError(
            f"option 'bounds' has {len(bounds)} lists and rows have {width} features, expected a "
            "list or null for each"
        )
    given = np.array([one is not None for one in bounds])
    levelled = given & False if by_level is None else given & by_level.any(axis=0)
    both = np.flatnonzero(levelled)
    if len(both):
        raise DataError(
            f"option 'bounds' has a list for feature {int(both[0]) + 1}, which is a category: its "
            "levels have no order, leave the feature out or give it null"
        )
    parts = [(math.nan,) if one is None else one for one in bounds]
    start = np.concatenate([[0], np.cumsum([len(one) for one in parts])]).astype(np.int64)
    return np.array([number for one in parts for number in one] or [math.nan]), start
