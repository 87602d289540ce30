"""Pictures of trainings; needs matplotlib, which `pip install 'tuskml[plot]'` brings."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tuskml.model import Model as TrainedModel

Model = Mapping[str, Any]
FLOOR = 1e-13
"""Relative size of gaps that are rounding."""
MOST_NAMED = 10


def named(models: Any) -> dict[str, Model]:
    """Models by name: of one model, several, or a mapping of them."""
    if hasattr(models, "as_dict"):
        return {"": models.as_dict()}
    if isinstance(models, Mapping) and "history" in models:
        return {"": models}
    if isinstance(models, Mapping):
        return {str(name): fields(model) for name, model in models.items()}
    if isinstance(models, Iterable):
        return {str(place): fields(model) for place, model in enumerate(models, 1)}
    raise TypeError(
        f"models is a {type(models).__name__}, expected a model, a list of models or a mapping"
    )


def fields(model: Any) -> Model:
    """The fields of a `tuskml.Model`, or of a model as DuckDB returns it."""
    return model.as_dict() if hasattr(model, "as_dict") else model  # type: ignore[no-any-return]


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

    models: a `tuskml.Model` or a model as DuckDB returns it, a list of models, or a mapping from
    names to models.
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


def plot_coefficients(
    model: "TrainedModel",
    ax: "Axes | None" = None,
    *,
    most: int = 25,
    title: str | None = "Coefficients",
    xlabel: str = "coefficient",
    color: Any = "C0",
) -> "Axes":
    """Draws a model's coefficients beside their features, with intervals of 95 % where it has
    standard errors.

    model: a `tuskml.Model`. most: how many to draw, the largest multiples of their standard
    errors or, without those, the largest; in the order of the features. The intercept is left out.
    Returns the Axes; the figure is neither shown nor saved.
    """
    import matplotlib.pyplot as plt

    estimates, errors = np.array(model.weights(), float), standard_errors(model)
    kept = largest(estimates, errors, most)
    n = len(kept)
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, max(1.6, 0.8 + 0.28 * n)), layout="constrained")
    places = np.arange(n)[::-1]
    names = model.feature_names
    bars = None if errors is None else 1.96 * errors[kept]
    ax.errorbar(estimates[kept], places, xerr=bars, fmt="o", color=color, markersize=4.5,
                elinewidth=1.6, capsize=0)  # fmt: skip
    ax.axvline(0, color="0.5", linewidth=1, zorder=1)
    ax.set_yticks(places, [shortened(names[k]) for k in kept])
    ax.set(xlabel=xlabel + ("" if bars is None else ", 95 % interval"), ylim=(-0.7, n - 0.3))
    if title:
        left_out = f", {n} of {len(estimates):,}" if n < len(estimates) else ""
        ax.set_title(title + left_out, loc="left", fontweight="bold")
    ax.grid(True, axis="x", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def standard_errors(model: "TrainedModel") -> NDArray[np.float64] | None:
    """Of the coefficients, NaN where there is none; None without any."""
    if model.std_err is None:
        return None
    errors = np.array([np.nan if e is None else e for e in model.std_err[1:]], float)
    return errors if np.isfinite(errors).any() else None


def largest(
    estimates: NDArray[np.float64], errors: NDArray[np.float64] | None, most: int
) -> NDArray[np.intp]:
    """Places of the coefficients that matter most, in their order."""
    size = np.abs(estimates)
    if errors is not None:
        size = np.divide(size, errors, out=np.zeros_like(size), where=errors > 0)
    return np.sort(np.argsort(-size, kind="stable")[:most])


def shortened(name: str, most: int = 40) -> str:
    """A name, or its beginning and an ellipsis."""
    return name if len(name) <= most else name[: most - 1] + "…"
