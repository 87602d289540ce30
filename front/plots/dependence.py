"""Pictures of which features matter and how; `tuskml.plots` has them too."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuskml.model.dependence import Dependence, Importance
from tuskml.plots.trainings import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PERMUTED = ("in_group", "feature", "importance", "std_dev", "loss")
GAINED = ("feature", "gain", "splits")
DEPENDENCE = ("in_group", "value", "number", "class", "prediction", "n_rows")
MOST_NAMED = 10

Floats = NDArray[np.float64]
Row = Mapping[str, Any]


def plot_importance(
    importance: Any,
    ax: "Axes | None" = None,
    *,
    most: int = 25,
    title: str | None = "Importance",
    xlabel: str | None = None,
    color: Any = "C0",
) -> "Axes":
    """Draws a bar for each feature, the most important one on top.

    importance: a result of `Model.permutation_importance`, or rows of SQL's
    `permutation_importance` (of one group) or `feature_importance`, as dicts or tuples. Whiskers
    are standard deviations. most: how many features to draw. Returns the Axes; the figure is
    neither shown nor saved. Raises ValueError for other rows.
    """
    import matplotlib.pyplot as plt

    names, mean, std, measured = bars_of(importance)
    kept = np.argsort(-mean, kind="stable")[:most]
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, max(1.6, 0.8 + 0.28 * len(kept))), layout="constrained")
    places = np.arange(len(kept))[::-1]
    whiskers = None if std is None else std[kept]
    ax.barh(places, mean[kept], xerr=whiskers, color=color, height=0.7, ecolor="0.3")
    ax.set_yticks(places, [shorten(names[k]) for k in kept])
    ax.set(xlabel=xlabel or measured, ylim=(-0.7, len(kept) - 0.3))
    if title:
        left_out = f", {len(kept)} of {len(names):,}" if len(kept) < len(names) else ""
        ax.set_title(title + left_out, loc="left", fontweight="bold")
    return light(ax, "x")


def plot_dependence(
    dependence: Any,
    ax: "Axes | None" = None,
    *,
    title: str | None = "Partial dependence",
    xlabel: str | None = None,
    ylabel: str = "mean prediction",
) -> "Axes":
    """Draws the mean prediction by the value of a feature: lines over numbers, points over others.

    dependence: a result of `Model.partial_dependence`, rows of SQL's `partial_dependence` as dicts
    or tuples, or a mapping from names to such ones. Groups and classes have a line each. Returns
    the Axes; the figure is neither shown nor saved. Raises ValueError for other rows.
    """
    import matplotlib.pyplot as plt

    curves = curves_of(dependence)
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    numbers = all(isinstance(x, float) for xs, _ in curves.values() for x in xs)
    for name, (x, y) in curves.items():
        style = "-" if numbers else "o"
        ax.plot(x, y, style, linewidth=1.6, markersize=5, label=name or None)
    feature = getattr(dependence, "feature", None)
    ax.set(xlabel=xlabel or feature or "value of the feature", ylabel=ylabel)
    if any(curves):
        ax.legend(frameon=False, fontsize="small", ncols=1 + (len(curves) > MOST_NAMED))
    if title:
        ax.set_title(title, loc="left", fontweight="bold")
    return light(ax, "y")


def bars_of(given: Any) -> tuple[list[str], Floats, Floats | None, str]:
    """Names, numbers (d,), standard deviations (d,) or None, and the axis label."""
    if isinstance(given, Importance):
        return list(given.features), given.mean, given.std, "rise of the loss"
    rows = rows_of(given, (PERMUTED, GAINED), "permutation_importance or feature_importance")
    names = [str(row["feature"]) for row in rows]
    if rows and "gain" in rows[0]:
        return names, column(rows, "gain"), None, "gain of all splits"
    if len({row.get("in_group") for row in rows}) > 1:
        raise ValueError("importance is of several groups, expected the rows of one")
    return names, column(rows, "importance"), column(rows, "std_dev"), "rise of the loss"


def curves_of(given: Any, name: str = "") -> dict[str, tuple[list[Any], Floats]]:
    """Values and means by name."""
    if isinstance(given, Mapping):
        found: dict[str, tuple[list[Any], Floats]] = {}
        for key, one in given.items():
            found |= curves_of(one, str(key))
        return found
    if isinstance(given, Dependence):
        return of_model(given, name)
    rows = rows_of(given, (DEPENDENCE,), "partial_dependence")
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        parts = (name, row.get("in_group"), row.get("class"))
        by_name.setdefault(", ".join(str(part) for part in parts if part), []).append(row)
    return {key: (places(some), column(some, "prediction")) for key, some in by_name.items()}


def of_model(found: Dependence, name: str) -> dict[str, tuple[list[Any], Floats]]:
    """Curves of a model's result, one for each of several classes."""
    numbers = found.values.dtype.kind in "fiu"
    x = [float(one) if numbers else str(one) for one in found.values.tolist()]
    if found.mean.ndim == 1:
        return {name: (x, found.mean)}
    prefix = f"{name}, " if name else ""
    return {f"{prefix}{one}": (x, found.mean[:, k]) for k, one in enumerate(found.classes)}


def rows_of(given: Any, known: Iterable[tuple[str, ...]], what: str) -> list[Row]:
    """Rows as dicts. Raises ValueError for rows that are not of the functions named."""
    rows = given if isinstance(given, list | tuple) else []
    found: list[Row] = []
    for row in rows:
        names = next((names for names in known if fits(row, names)), None)
        if names is None:
            found = []
            break
        found.append(row if isinstance(row, Mapping) else dict(zip(names, row, strict=True)))
    if not found:
        raise ValueError(f"the rows are not of {what}, expected a list of dicts or tuples")
    return found


def fits(row: Any, names: tuple[str, ...]) -> bool:
    """Returns whether a row is one of a table with these columns."""
    if isinstance(row, Mapping):
        return set(names) - {"in_group"} <= row.keys()
    return isinstance(row, list | tuple) and len(row) == len(names)


def column(rows: Sequence[Row], name: str) -> Floats:
    """A column of numbers, (n,); NaN where it is NULL."""
    return np.array([np.nan if row[name] is None else row[name] for row in rows], float)


def places(rows: Sequence[Row]) -> list[Any]:
    """Returns where points stand: numbers if all values are some, otherwise texts."""
    if all(row["number"] is not None for row in rows):
        return [float(row["number"]) for row in rows]
    return [str(row["value"]) for row in rows]


def light(ax: "Axes", axis: Any) -> "Axes":
    """A light grid and no box."""
    ax.grid(True, axis=axis, color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
