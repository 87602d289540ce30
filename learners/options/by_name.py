"""Options that are for rows with names, as callers see them who list columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuskml.errors import OptionError
from tuskml.learners.options.kinds import CATEGORY, DATE, NAME, ROW, Option, of_features
from tuskml.learners.options.table import SHARED, object_in

DEALING = {
    option.name: option
    for option in (
        Option(
            "fold_by",
            NAME,
            None,
            "the column of rows with names whose equal values are in one fold: it is no feature",
            of_features(ROW),
        ),
        Option(
            "time_by",
            NAME,
            None,
            "the column of rows with names by whose order each fold is predicted from what lies "
            "before it: it is no feature",
            of_features(ROW),
        ),
    )
}
"""Options of a search that name the column by which rows are dealt to folds."""
OF_NAMES = frozenset((ROW, CATEGORY, DATE))
OF_ROWS = [
    option
    for option in (*SHARED.values(), *DEALING.values())
    if any(case.features <= OF_NAMES for case in option.acts)
]
"""Options that act on rows with names alone, at least with some of their values."""
MARKS = ("cluster", *DEALING)
"""Options that name one column, which is no feature and need not be listed among the features."""


@dataclass(frozen=True)
class ByName:
    """The requirements of options on listed columns.

    row: whether they have to be a row with names; marks: by option, a column that it names.
    """

    row: bool = False
    marks: Mapping[str, str] = field(default_factory=dict)


LISTED = ByName()
"""Columns of numbers are a list."""


def needs_names(option: Option, value: Any) -> bool:
    """Returns whether an option acts on rows with names alone, with this value or some of its
    values.
    """
    try:
        option.kind.parse(value)
    except (ValueError, OverflowError):
        several = value if isinstance(value, list) else ()
        always = not any(case.values for case in option.acts)
        return always or any(needs_names(option, one) for one in several)
    cases = [case for case in option.acts if not case.values or value in case.values]
    return bool(cases) and all(case.features <= OF_NAMES for case in cases)


def by_name(options: str) -> ByName:
    """The requirements in the JSON text of options; none, if it is no object of options."""
    try:
        given: Mapping[str, Any] = object_in(options)
    except OptionError:
        return LISTED  # the training reports the error
    row = any(
        needs_names(option, given[option.name]) for option in OF_ROWS if option.name in given
    )
    named = {name: given.get(name) for name in MARKS}
    return ByName(row, {k: one for k, one in named.items() if isinstance(one, str) and one})
