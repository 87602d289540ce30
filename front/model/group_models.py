"""Models by group: the mapping that `tuskml.train` returns with `group_by`."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from tuskml.errors import DataError
from tuskml.lazy import lazy_function
from tuskml.model.execution import Execution
from tuskml.model.model import Model
from tuskml.model.summary import html_row, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_ROWS = 60
Group = tuple[Any, "Model | None"]


def as_key(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values of grouping keys as a dict's key. Raises DataError if one cannot be: a list, JSON."""
    for value in values:
        try:
            hash(value)
        except TypeError:
            raise DataError(
                f"group_by has values of type {type(value).__qualname__}, which no dict has as "
                "keys: group by their text, CAST(key AS VARCHAR) AS name"
            ) from None
    return values


class Models(dict[Any, "Model | None"]):
    """A dict of models by key, or by a tuple of keys if there are several.

    None for a group without a usable row. group_by: the columns or SQL expressions of the keys.
    execution: the estimates of a training with executor and the option explain.
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

    def _repr_html_(self) -> str:
        head = [", ".join(self.group_by) or "group", "status", "rows", "loss", "iterations"]
        shown = list(self.items())[:MOST_ROWS]
        rows = [html_row("th", head, 2), *(html_row("td", cells(*group), 2) for group in shown)]
        if len(self) > len(shown):
            hidden = escape(f"and {len(self) - len(shown):,} more")
            rows.append(f'<tr><td colspan="{len(head)}">{hidden}</td></tr>')
        return f"<table>{''.join(rows)}</table>"


def cells(key: Any, model: "Model | None") -> list[str]:
    """A group's row."""
    name = ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)
    if model is None:
        return [name, "no usable row", "0", "", ""]
    return [name, model.status, f"{model.n_rows:,}", number(model.loss), f"{model.iterations:,}"]
