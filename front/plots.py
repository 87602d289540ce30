"""Pictures of trainings; needs matplotlib, which `pip install 'tuskml[plot]'` brings."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Model = Mapping[str, Any]
FLOOR = 1e-13
"""Relative size of gaps that are rounding."""
MOST_NAMED = 10


def named(models: Any) -> dict[str, Model]:
    """Models by name: of one model, several, or a mapping of them."""
    if isinstance(models, Mapping) and "history" in models:
        return {"": models}
    if isinstance(models, Mapping):
        return {str(name): model for name, model in models.items()}
    if isinstance(models, Iterable):
        return {str(place): model for place, model in enumerate(models, 1)}
    raise TypeError(
        f"models is a {type(models).__name__}, expected a model, a list of models or a mapping"
    )


def gaps(model: Model, optimum: float | None = None) -> NDArray[np.float64]:
    """Objective minus the best that is known, by iteration, up to where only rounding is left."""
    history = np.array(model["history"] or [], float)
    if not len(history):
        return history
    least = float(history.min()) if optimum is None else optimum
    gap = history - least
    small = np.flatnonzero(gap <= FLOOR * max(abs(least), 1e-300))
    return gap[: small[0]] if len(small) else gap


def plot_convergence(
    models: Any,
    ax: "Axes | None" = None,
    *,
    optimum: float | None = None,
    title: str | None = "Convergence",
    xlabel: str = "iteration",
    ylabel: str = "objective − best objective",
    colors: Sequence[Any] | None = None,
) -> "Axes":
    """Draws how far each model's objective was from its best, by iteration, on a log scale.

    models: a model as DuckDB returns it, a list of models, or a mapping from names to models.
    optimum: the best objective, when the models share one; by default each one's own least.
    Returns the Axes; the figure is neither shown nor saved.
    """
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    curves = {name: gaps(model, optimum) for name, model in named(models).items()}
    colors = colors or palette(len(curves))
    for (name, curve), color in zip(curves.items(), colors, strict=False):
        ax.plot(np.arange(len(curve)), curve, color=color, linewidth=1.6, label=name or None,
                marker="o", markersize=3)  # fmt: skip
    ax.set(yscale="log", xlabel=xlabel, ylabel=ylabel)
    if title:
        ax.set_title(title, loc="left", fontweight="bold")
    tidy(ax)
    if any(curves):
        ax.legend(frameon=False, fontsize="small", ncols=1 + (len(curves) > MOST_NAMED))
    return ax


def tidy(ax: "Axes") -> None:
    """Light grid, no box, whole iterations."""
    from matplotlib.ticker import MaxNLocator

    ax.grid(True, axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlim(left=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def palette(n: int) -> list[Any]:
    """n colours that differ as far as possible."""
    import matplotlib as mpl

    if n <= MOST_NAMED:
        return [f"C{k}" for k in range(n)]
    if n <= 20:
        return list(mpl.colormaps["tab20"](np.arange(n)))
    return list(mpl.colormaps["viridis"](np.linspace(0.0, 0.92, n)))
