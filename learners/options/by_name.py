"""Options that are for rows with names, as callers see them who list columns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuskml.errors import OptionError
from tuskml.learners.options.table import object_in

COLUMNS = ("categories", "interactions", "text", "cluster", "fold_by", "time_by")
"""Options that name columns of rows."""
MARKS = ("cluster", "fold_by", "time_by")
"""Those that name one column, which is no feature and need not be listed among the features."""
GAPS = ("impute", "level", "error")
"""Values of `missing` that lists do not have: those skip or keep a NULL."""


@dataclass(frozen=True)
class ByName:
    """What options ask of listed columns.

    row: whether they have to be a row with names; marks: by option, a column that belongs in it.
    """

    row: bool = False
    marks: Mapping[str, str] = field(default_factory=dict)


LISTED = ByName()
"""Columns of numbers are a list."""


def by_name(options: str) -> ByName:
    """What the JSON text of options asks; nothing, where it is no object of options."""
    try:
        given: Mapping[str, Any] = object_in(options)
    except OptionError:
        return LISTED  # the training says what is wrong
    row = any(name in given for name in COLUMNS) or given.get("missing") in GAPS
    named = {name: given.get(name) for name in MARKS}
    return ByName(row, {k: one for k, one in named.items() if isinstance(one, str) and one})
