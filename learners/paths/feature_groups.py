"""Features that enter a model together: the option `groups`, by index, name or category."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels.passes import Pass
from tuskml.learners.learner import Request
from tuskml.learners.paths.features import find_feature, names_of, refuse_unknown
from tuskml.learners.paths.options import CATEGORIES

Request_ = Request[Any, Any]


def blocks_of(rows: Pass, places: NDArray[np.intp], request: Request_) -> NDArray[np.int32] | None:
    """The block of each feature, (G, d), single features having their own; None: all are single.
    places: indices of the groups in the request.
    """
    if request.options.groups is None:
        return None
    found = np.tile(np.arange(rows.n_features, dtype=np.int32), (rows.n_groups, 1))
    for group, place in enumerate(places.tolist()):
        for members in members_of(place, request, rows.n_features):
            found[group, members] = min(members, default=0)
    return found


def members_of(place: int, request: Request_, width: int) -> list[list[int]]:
    """The features of each block that a group has, from 0 on."""
    given = request.options.groups
    if given == CATEGORIES:
        return [list(one) for one in ranges_of(place, request)]
    categories = {k: one for k, one in request.features_by_category(place).items() if one}
    names = names_of(place, request)
    return [
        [at for one in block for at in places_of(one, names, categories, width)] for block in given
    ]


def ranges_of(place: int, request: Request_) -> list[range]:
    """The features of each category of a group."""
    if request.categories is None:
        return []
    return [range(first, first + count) for first, count in request.categories(place) if count]


def places_of(
    one: int | str, names: Sequence[str], categories: dict[str, range], width: int
) -> Sequence[int]:
    """The features, from 0 on, that an index from 1 on, a name, or the name of a category stands
    for.
    """
    if one in categories:
        return categories[str(one)]
    at = find_feature(one, names, width)
    return [] if at is None else [at]


def refuse_groups(widths: Sequence[int], request: Request_) -> None:
    """Raises OptionError for features that no group has, that are in two blocks or that have
    no penalty, and for categories where there are none. widths: of the groups.
    """
    given = request.options.groups
    if given is None:
        return
    places = range(len(widths))
    if given == CATEGORIES:
        if not any(ranges_of(place, request) for place in places):
            raise OptionError(
                "option 'groups' is 'categories', and the rows have none: expected rows with "
                "names of which some are categories, or lists of features"
            )
    else:
        known = {name for place in places for name in request.features_by_category(place)}
        features = [one for block in given for one in block if one not in known]
        refuse_unknown("groups", features, widths, request, sorted(known))
    for place, width in enumerate(widths):
        refuse_shared(place, request, width)


def refuse_shared(place: int, request: Request_, width: int) -> None:
    """Raises OptionError for a feature of a group that is in two blocks, or in one and
    unpenalised.
    """
    names, options = names_of(place, request), request.options
    seen: set[int] = set()
    free = {find_feature(one, names, width) for one in options.unpenalized or ()}
    for block in members_of(place, request, width):
        for at in block:
            name = f"'{names[at]}'" if names else f"{at + 1}"
            if at in seen:
                raise OptionError(f"option 'groups' has feature {name} twice, expected it once")
            if at in free:
                raise OptionError(
                    f"feature {name} is in both options 'groups' and 'unpenalized', expected it "
                    "in one of them"
                )
            seen.add(at)
