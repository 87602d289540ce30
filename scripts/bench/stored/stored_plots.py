"""The look of the figures on stored models: light, one colour a method, units on every axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"KV": "#c05621", "KV-VP": "#2b6cb0", "in memory": "#4a5568"}
DASHES = ("-", "--", "-.", ":")


def panels(n: int, width: float = 4.2, height: float = 3.2) -> tuple[Figure, list[Axes]]:
    """A row of n axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, n, figsize=(width * n, height), layout="constrained", squeeze=False
    )
    return figure, list(axes[0])


def dress(axes: Axes, title: str, xlabel: str, ylabel: str) -> None:
    """Title, units and a light grid."""
    axes.set_title(title, loc="left", fontweight="bold", fontsize=10)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.grid(True, axis="y", color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def logarithmic(axes: Axes, which: str) -> None:
    """A logarithmic axis, "x" or "y", with plain numbers at 1, 2 and 5 of each power of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 200 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def bars(axes: Axes, groups: Sequence[str], heights: Mapping[str, Sequence[float | None]]) -> None:
    """Bars in each group; None: a missing figure, without a bar."""
    width = 0.8 / max(1, len(heights))
    for place, (name, values) in enumerate(heights.items()):
        left = [k - 0.4 + width * (place + 0.5) for k in range(len(groups))]
        known = [(x, value) for x, value in zip(left, values, strict=True) if value is not None]
        drawn = axes.bar(
            [x for x, _ in known],
            [value for _, value in known],
            width * 0.92,
            label=name,
            color=COLOURS.get(name, "#2b6cb0"),
        )
        axes.bar_label(drawn, fmt=lambda value: f"{value:.3g}", fontsize=7, padding=1)
    axes.margins(y=0.12)
    axes.set_xticks(range(len(groups)), groups)


def sizes(axes: Axes, rows: Sequence[Mapping[str, Any]]) -> None:
    """Seconds of an epoch by the size of the model, with the bound and a training in memory."""
    lines = {"s/epoch": "stored", "bound": "bound", "in memory": "in memory"}
    colours = {"stored": "#2b6cb0", "bound": "#c05621", "in memory": "#4a5568"}
    places = [row["weights/cache"] for row in rows]
    for key, name in lines.items():
        style = "-" if name == "stored" else "--"
        heights = [row[key] for row in rows]
        axes.plot(places, heights, style, marker="o", ms=3.5, label=name, color=colours[name])
    axes.set_xscale("log", base=2)
    axes.set_xticks(places, [f"{place:g}" for place in places])
    logarithmic(axes, "y")
    axes.legend(frameon=False, fontsize="small")


def save(figure: Figure, folder: Path, name: str) -> None:
    """Writes the PNG and says where it is."""
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=150)
    plt.close(figure)
    print(f"wrote {path}")
