"""Options that are for rows with names, as callers see them who list columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuskml.errors import OptionError
from tuskml.learners.options.table import object_in

COLUMNS = ("categories", "interactions", "text", "cluster")
"""Options that name columns of rows."""
GAPS = ("impute", "level", "error")
"""Values of `missing` that lists do not have: those skip or keep a NULL."""


@dataclass(frozen=True)
class ByName:
    """What options ask of listed columns.

    row: whether they have to be a row with names; cluster: a column that belongs in it, or None.
    """

    row: bool = False
    cluster: str | None = None


LISTED = ByName()
"""Columns of numbers are a list."""


def by_name(options: str) -> ByName:
    """What the JSON text of options asks; nothing, where it is no object of options."""
    try:
        given: Mapping[str, Any] = object_in(options)
    except OptionError:
        return LISTED  # the training says what is wrong
    row = any(name in given for name in COLUMNS) or given.get("missing") in GAPS
    cluster = given.get("cluster")
    return ByName(row, cluster if isinstance(cluster, str) and cluster else None)
