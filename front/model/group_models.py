"""Models by group: the mapping that `tuskml.train` returns with `group_by`."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

from tuskml.errors import DataError
from tuskml.lazy import lazy_function
from tuskml.model.card import CARD
from tuskml.model.execution import Execution
from tuskml.model.model import Model
from tuskml.model.summary import html_row, number
from tuskml.text.table import table

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes


MOST_ROWS = 60
WIDE = 160
"""Characters that a printed row of `Models` may have."""
Group = tuple[Any, "Model | None"]
Value = TypeVar("Value")
BY_TEXT = "group by their text, CAST(key AS VARCHAR) AS name"


def as_key(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values of grouping keys as a dict's key. Raises DataError if one cannot be: a list, JSON, or
    an interval, whose months Python does not know.
    """
    for value in values:
        if isinstance(value, timedelta) or not is_hashable(value):
            raise DataError(
                f"group_by has values of type {type(value).__qualname__}, which cannot be keys of "
                f"models in Python: {BY_TEXT}"
            )
    return values


def is_hashable(value: Any) -> bool:
    """Returns whether a dict can have the value as a key."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def by_own_key(groups: Iterable[tuple[tuple[Any, ...], Value]]) -> dict[tuple[Any, ...], Value]:
    """What groups have, by their keys. Raises DataError where Python has one value for the keys of
    two groups, as for times that differ by nanoseconds.
    """
    found: dict[tuple[Any, ...], Value] = {}
    for values, item in groups:
        key = as_key(values)
        if key in found:
            shown = ", ".join(map(str, key))
            raise DataError(f"group_by has different keys that are all {shown} here: {BY_TEXT}")
        found[key] = item
    return found


class Models(dict[Any, "Model | None"]):
    """A dict of models by key, or by a tuple of keys if there are several.

    None for a group without a usable row. group_by: the columns or SQL expressions of the keys.
    execution: of a training with executor, what ran, and with the option explain the estimates.
    """

    execution: Execution | None = None

    def __init__(self, models: Iterable[Group] = (), group_by: Sequence[str] = ()) -> None:
        super().__init__(models)
        self.group_by = tuple(group_by)

    def __missing__(self, key: Any) -> "Model | None":
        groups = ", ".join(map(repr, list(self)[:12])) + (", ..." if len(self) > 12 else "")
        raise KeyError(f"there is no group {key!r}: the groups are {groups}")

    def plot_convergence(self, ax: "Axes | None" = None, **look: Any) -> "Axes":
        """Draws a curve per model; look: as for `tuskml.plots.plot_convergence`."""
        known = {key: model for key, model in self.items() if model is not None}
        axes: Axes = lazy_function("plot_convergence")(known, ax, **look)
        return axes

    def to_frame(self) -> "pandas.DataFrame":
        """A pandas frame with a row per group: its keys, `model_card`'s columns and the model."""
        try:
            import pandas as pd
        except ImportError as error:
            raise DataError("to_frame makes a frame of pandas: pip install pandas") from error
        rows = [[*keys_of(key), *card_of(model).values(), model] for key, model in self.items()]
        return pd.DataFrame(rows, columns=[*self._key_names(), *CARD, "model"])

    def _key_names(self) -> list[str]:
        """The names of the keys, by their places where they are unknown."""
        width = len(keys_of(next(iter(self), "")))
        if len(self.group_by) == width:
            return list(self.group_by)
        return ["group"] if width == 1 else [f"group_{place}" for place in range(1, width + 1)]

    def __repr__(self) -> str:
        shown = list(self.items())[:MOST_ROWS]
        names = [*self._key_names(), *CARD]
        rows = [[*keys_of(key), *card_of(model).values()] for key, model in shown]
        hidden = f"\n  and {len(self) - len(shown):,} more" if len(self) > len(shown) else ""
        return table(names, rows, width=WIDE) + hidden

    def _repr_html_(self) -> str:
        head = [", ".join(self.group_by) or "group", "status", "rows", "loss", "effects"]
        shown = list(self.items())[:MOST_ROWS]
        rows = [html_row("th", head, 2), *(html_row("td", cells(*group), 2) for group in shown)]
        if len(self) > len(shown):
            hidden = escape(f"and {len(self) - len(shown):,} more")
            rows.append(f'<tr><td colspan="{len(head)}">{hidden}</td></tr>')
        return f"<table>{''.join(rows)}</table>"


def keys_of(key: Any) -> tuple[Any, ...]:
    """The values of a group's keys."""
    return key if isinstance(key, tuple) else (key,)


def card_of(model: "Model | None") -> dict[str, Any]:
    """A group's `model_card`."""
    if model is not None:
        return model.card()
    nothing: dict[str, Any] = dict.fromkeys(CARD)
    nothing.update(status="no usable row", n_rows=0)
    return nothing


def cells(key: Any, model: "Model | None") -> list[str]:
    """A group's row."""
    card = card_of(model)
    name = ", ".join(map(str, keys_of(key)))
    loss = number(card["loss"] if model is None else model.loss)
    return [name, card["status"], f"{card['n_rows']:,}", loss, card["effects"] or ""]
