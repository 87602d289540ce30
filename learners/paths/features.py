"""The features that options name, by index or by name."""

from collections.abc import Sequence
from typing import Any

from tuskml.errors import OptionError, nearest
from tuskml.learners.learner import Request


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
