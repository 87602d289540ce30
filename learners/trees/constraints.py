"""Constraints of trees: bounds of bins, monotone signs, and which features are split together."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, nearest
from tuskml.kernels.passes import Floats
from tuskml.kernels.trees.boosting import MOST_BINS, MOST_SETS
from tuskml.learners.learner import Request
from tuskml.learners.options.kinds import Kind

Bounds = tuple[float, ...] | None
"""The bin bounds of one feature, rising; None: each group computes its own."""


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
        for some, other in by_bounds(places, chosen):
            yield from by_sets(some, other)


def by_bounds(
    places: NDArray[np.intp], request: Request[Any, Any]
) -> Iterator[tuple[NDArray[np.intp], Request[Any, Any]]]:
    """Yields parts of some groups whose features have the same bounds, and a request that lists
    these.

    places: indices of these groups in the request. One part if bounds are not by name. Raises
    DataError for a name that no group has, or for features without names.
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


def list_bounds(
    bounds: tuple[Bounds, ...] | BoundsByName | None,
    width: int,
    by_level: NDArray[np.uint8] | None,
) -> tuple[Floats, NDArray[np.int64]] | None:
    """Bounds in the kernels' form, of a request from `by_bounds`.

    width: the number of features; by_level: (G, d), 1 where a feature is a category. Raises
    DataError for another number of lists and for bounds of a category.
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


# The option `monotone`: a sign for each feature, as a list or by the features' names.

MOST_SHOWN = 12
"""Names of features that a sentence lists."""


@dataclass(frozen=True)
class ByName:
    """Signs of some features; those of the others are 0."""

    signs: tuple[tuple[str, int], ...]


def _sign(value: Any) -> int:
    if isinstance(value, bool) or value not in (-1, 0, 1):
        raise ValueError
    return int(value)


def _signs(value: Any) -> tuple[int, ...] | ByName:
    if not value or not isinstance(value, list | dict):
        raise ValueError
    if isinstance(value, dict):
        return ByName(tuple((name, _sign(sign)) for name, sign in value.items()))
    return tuple(map(_sign, value))


SIGNS = Kind(
    "a list with 1, 0 or -1 for each feature, such as [1, 0, -1], or such signs by name, "
    'such as {"age": 1}',
    _signs,
)


def list_signs(monotone: tuple[int, ...] | ByName | None) -> tuple[int, ...] | None:
    """Signs of all features, of a request from `by_signs`."""
    assert not isinstance(monotone, ByName)
    return monotone


def refuse_signed(by_level: NDArray[np.uint8] | None, signs: tuple[int, ...] | None) -> None:
    """Raises DataError for a sign of a category; by_level: (G, d), 1 where a feature is one."""
    if by_level is None or not signs or len(signs) != by_level.shape[1]:
        return
    both = np.flatnonzero(by_level.any(axis=0) & (np.array(signs) != 0))
    if len(both):
        raise DataError(
            f"option 'monotone' has a sign for feature {int(both[0]) + 1}, which is a category: "
            "its levels have no order, leave it out or give it 0"
        )


def by_signs(
    groups: NDArray[np.void], request: Request[Any, Any]
) -> Iterator[tuple[NDArray[np.intp], Request[Any, Any]]]:
    """Yields indices of groups whose features have the same signs, and a request that lists these.

    One part with all groups if signs are not by name. Raises DataError for a name that no group
    has, or for features without names.
    """
    wanted = request.options.monotone
    if not isinstance(wanted, ByName):
        yield np.arange(len(groups)), request
        return
    if request.feature_names is None:
        raise DataError(
            f"option 'monotone' names '{wanted.signs[0][0]}', but features are a list without "
            "names: expected a list of signs, or option 'feature_names'"
        )
    names = [request.feature_names(place) for place in range(len(groups))]
    refuse_unknown("monotone", [name for name, _ in wanted.signs], names)
    found = signs_of(wanted, names)
    for signs in dict.fromkeys(found):
        places = np.array([i for i, one in enumerate(found) if one == signs], np.intp)
        yield places, replace(request, options=replace(request.options, monotone=signs))


def signs_of(wanted: ByName, names: list[tuple[str, ...]]) -> list[tuple[int, ...]]:
    """The signs of the features of each group."""
    by_name = dict(wanted.signs)
    known = {each: tuple(by_name.get(name, 0) for name in each) for each in set(names)}
    return [known[each] for each in names]


# The option `interaction_constraints`: sets of features that the splits on the way to a leaf may
# use together, as in LightGBM and XGBoost. A feature that is in no set is in one of its own.

Sets = tuple[tuple[str | int, ...], ...]
"""Features by name or place, the first being 1."""


def _sets(value: Any) -> Sets:
    given = value if isinstance(value, list) else []
    if not 0 < len(given) <= MOST_SETS or not all(isinstance(one, list) and one for one in given):
        raise ValueError
    for one in (one for each in given for one in each):
        if not isinstance(one, str) and (type(one) is not int or one < 1):
            raise ValueError
    return tuple(map(tuple, given))


SETS = Kind(
    f"up to {MOST_SETS} lists of features by name, or by place, the first being 1, such as "
    '[[1, 2], [2, 3]] or [["age", "income"]]',
    _sets,
)


def by_sets(
    places: NDArray[np.intp], request: Request[Any, Any]
) -> Iterator[tuple[NDArray[np.intp], Request[Any, Any]]]:
    """Yields parts of some groups whose features have the same names, and a request whose sets
    have places.

    places: indices of these groups in the request. One part if sets are by place. Raises DataError
    for a name that no group has, or for features without names.
    """
    wanted: Sets = request.options.interaction_constraints or ()
    called = [one for each in wanted for one in each if isinstance(one, str)]
    if not called:
        yield places, request
        return
    if request.feature_names is None:
        raise DataError(
            f"option 'interaction_constraints' names '{called[0]}', but features are a list "
            "without names: expected places of features, or option 'feature_names'"
        )
    names = [request.feature_names(int(place)) for place in places]
    refuse_unknown("interaction_constraints", called, names)
    for each in dict.fromkeys(names):
        part = places[[one == each for one in names]]
        at = {name: place for place, name in enumerate(each, 1)}
        found = tuple(
            tuple(at.get(one, 0) if isinstance(one, str) else one for one in some)
            for some in wanted
        )
        chosen = replace(request.options, interaction_constraints=found)
        yield part, replace(request, options=chosen)


def together_of(wanted: Sets | None, width: int) -> NDArray[np.uint64] | None:
    """The bits of the sets that each feature is in, (d,), of a request from `by_sets`, where 0 is
    the place of a feature that a group lacks. Raises DataError for a place beyond the width.
    """
    if not wanted:
        return None
    found = np.zeros(width, np.uint64)
    for bit, some in enumerate(wanted):
        for place in some:
            assert isinstance(place, int)
            if place > width:
                raise DataError(
                    f"option 'interaction_constraints' lists feature {place} and rows have "
                    f"{width} features, expected places from 1 to {width}"
                )
            if place:
                found[place - 1] |= np.uint64(1 << bit)
    return found


def refuse_unknown(option: str, wanted: list[str], names: list[tuple[str, ...]]) -> None:
    """Raises DataError for a name that no group has."""
    known = list(dict.fromkeys(name for each in set(names) for name in each))
    for name in wanted:
        if name not in known:
            shown = ", ".join(known[:MOST_SHOWN]) + (", ..." if len(known) > MOST_SHOWN else "")
            raise DataError(
                f"option '{option}' names '{name}', which no feature is called: they are "
                f"{shown}{nearest(name, known)}"
            )
