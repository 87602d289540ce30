"""The features that options name: by index, name or category, or by numbers of large ids.

Features of the option `groups` enter a model together. In sparse groups with few but large ids,
options and paths have numbers of the ids that occur.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError, nearest
from tuskml.kernels import passes
from tuskml.kernels.library import Charges
from tuskml.kernels.passes import Pass
from tuskml.kernels.rows.vocabulary import Vocabulary, number_ids
from tuskml.learners.learner import Request
from tuskml.learners.models import Lists, Models, Strings
from tuskml.learners.paths.options import CATEGORIES, PathOptions, PathTask


def names_of(place: int, request: Request[Any, Any]) -> Sequence[str]:
    """The names of the features of a group, by its index; none if they have none."""
    if request.feature_names is not None:
        return request.feature_names(place)
    return request.options.feature_names or ()


def find_feature(one: int | str, names: Sequence[str], width: int) -> int | None:
    """The index, from 0 on, of a feature given by its index from 1 on or by its name; None if a
    group has no such feature.
    """
    if isinstance(one, str):
        return names.index(one) if one in names else None
    return one - 1 if one <= width else None


def refuse_unknown(
    option: str,
    given: Sequence[int | str],
    widths: Sequence[int],
    request: Request[Any, Any],
    more: Sequence[str] = (),
) -> None:
    """Raises OptionError for features of an option that no group has. widths: of the groups;
    more: other names that the option takes.
    """
    every = {tuple(names_of(place, request)): None for place in range(len(widths))}
    names = tuple(dict.fromkeys([*more, *(name for each in every for name in each)]))
    width = max(widths)
    for one in given:
        if isinstance(one, str) and one not in names:
            known = (
                f"expected one of {', '.join(names[:20])}"
                if names
                else "and features have no names"
            )
            hint = nearest(one, names) if names else ""
            raise OptionError(f"option '{option}' has '{one}', {known}{hint}")
        if not isinstance(one, str) and one > width:
            raise OptionError(
                f"option '{option}' has {one}, expected places from 1 to {width}, the number of "
                "features"
            )


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


Asked = Request[PathTask, PathOptions]
Ids = NDArray[np.int64]


def copy_group(group: NDArray[np.void], request: Asked, memory: int, place: int = 0) -> Vocabulary:
    """A copy of a group, GROUP (1,), whose features are numbered: ids that occur, and those that
    options name. place: the group's index in the request.
    """
    free, blocks = option_features(request, int(group["dim"][0]), place)
    named = np.unique(np.array([*free, *(one for block in blocks for one in block)], np.int64))
    hashes = request.options.holds_out
    return number_ids(group.copy(), named, memory, passes.cancel_mark(), hashes)


def of_numbers(request: Asked, ids: Ids, width: int, place: int = 0) -> Asked:
    """The request with features as numbers of these ids; width: one more than the largest id."""
    free, blocks = option_features(request, width, place)
    found = numbers_of(free, ids)
    own = replace(
        request.options,
        unpenalized=tuple(one + 1 for one in found if one is not None) or None,
        groups=tuple(block_of(one, ids) for one in blocks if one) or None,
        feature_names=None,
    )
    return replace(request, options=own, feature_names=None, categories=None)


def spread(model: Models, ids: Ids, width: int, asked: PathOptions, memory: int) -> Models:
    """Widens a model of numbers to a coefficient for each id below the width, with the original
    options.
    """
    coef = Charges(memory).empty(width)
    coef[:] = 0.0
    coef[ids] = model.coef.values
    options = json.loads(model.options.pool[model.options.code[0]]) | features_asked(asked)
    return replace(
        model,
        coef=Lists(coef, np.array([0, width], np.int64)),
        n_features=np.array([width], np.int64),
        options=Strings.same(json.dumps(options, separators=(",", ":")), 1),
    )


def option_features(
    request: Asked, width: int, place: int = 0
) -> tuple[list[int], Sequence[Sequence[int]]]:
    """The ids that options name: without a penalty, and in blocks. Raises OptionError for ids
    beyond this width. place: the group's index in the request.
    """
    options = request.options
    names = names_of(place, request)
    free = [find_feature(one, names, width) for one in options.unpenalized or ()]
    blocks = [] if options.groups is None else members_of(place, request, width)
    return [one for one in free if one is not None], blocks


def refuse_named(request: Asked, width: int) -> None:
    """Raises OptionError for features of options that rows of this width cannot have."""
    refuse_unknown("unpenalized", request.options.unpenalized or (), [width], request)
    refuse_groups([width], request)


def numbers_of(ids: Sequence[int], known: Ids) -> list[int | None]:
    """The indices of ids among the known ones, ascending; None where one is not known."""
    if not len(known):
        return [None] * len(ids)
    places = np.minimum(np.searchsorted(known, ids), len(known) - 1)
    here = known[places] == np.asarray(ids)
    return [int(at) if found else None for at, found in zip(places, here, strict=True)]


def block_of(ids: Sequence[int], known: Ids) -> tuple[int, ...]:
    """A block as indices from 1 on. Raises OptionError for an id that does not occur, since the
    weight of the block's penalty would not count it.
    """
    numbers = numbers_of(ids, known)
    if None in numbers:
        raise OptionError(
            f"option 'groups' has feature {ids[numbers.index(None)] + 1}, which does not occur in "
            "the rows: expected features that occur where ids are above 2147483646"
        )
    return tuple(one + 1 for one in numbers if one is not None)


def features_asked(options: PathOptions) -> dict[str, Any]:
    """The options that name features, in their original form."""
    given = {name: getattr(options, name) for name in ("unpenalized", "groups")}
    return {name: one for name, one in given.items() if one is not None}
