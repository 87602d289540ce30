"""Which rows each fold of a search holds out, in words: values of a column, or a time."""

import datetime
import math
from collections.abc import Callable, Sequence

import numpy as np

from tuskml.groups.selection.prepared import Prepared
from tuskml.kernels.passes import Floats
from tuskml.kernels.rows import prepare

MOST_VALUES = 20
"""Values of a column that are listed."""
Show = Callable[[float], str]


def identities(part: Prepared, group: int) -> list[str] | None:
    """Of each fold of a group the values that its rows have, or the first and the last one in the
    order of time; None where rows are held out by chance."""
    how, prepared = part.search.dealt, part.seen.prepared
    if how.column is None or prepared is None:
        return None
    kind, *levels = prepared.texts(prepare.MARKS, group)
    show = shown_as(kind, levels)
    found = []
    for out in how.sets:
        marks = np.unique(part.cells.marks(group, out))
        found.append(stretch(marks, show) if how.in_time else listed(marks, show))
    return found


def shown_as(kind: str, levels: Sequence[str]) -> Show:
    """How a number of a column is shown."""
    if kind == "text":
        return lambda mark: levels[int(mark)]
    if kind in ("date", "timestamp"):
        return lambda mark: moment(mark, kind)
    return lambda mark: f"{mark:.17g}" if mark % 1 else f"{mark:.0f}"


def moment(days: float, kind: str) -> str:
    """Days since 1970-01-01 as a date, or a date and a time to the second."""
    if not math.isfinite(days) or abs(days) > 700_000:
        return f"day {days:g}"
    at = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=round(days * 86400))
    return str(at.date() if kind == "date" else at)


def listed(marks: Floats, show: Show) -> str:
    """Some values, in words."""
    texts = [show(mark) for mark in marks[:MOST_VALUES]]
    more = len(marks) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more else "")


def stretch(marks: Floats, show: Show) -> str:
    """The first and the last value."""
    if not len(marks):
        return ""
    first, last = show(marks[0]), show(marks[-1])
    return first if first == last else f"{first} to {last}"
