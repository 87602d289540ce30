"""Sparse groups with few but large ids: options and paths by numbers of the ids that occur."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels import passes
from tuskml.kernels.charged import Charges
from tuskml.kernels.rows.vocabulary import Vocabulary, number_ids
from tuskml.learners.learner import Request
from tuskml.learners.models import Lists, Models, Strings
from tuskml.learners.paths.feature_groups import members_of, refuse_groups
from tuskml.learners.paths.features import find_feature, names_of, refuse_unknown
from tuskml.learners.paths.options import PathOptions, PathTask

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
