"""Pictures of trainings; needs matplotlib, which `pip install 'tuskml[plot]'` brings."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuskml.api.curves import CURVES
from tuskml.errors import DataError
from tuskml.learners.explaining import VERSION, format_seconds
from tuskml.learners.tasks import weighs_features

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tuskml.model.model import Model as TrainedModel

Model = Mapping[str, Any]
Floats = NDArray[np.float64]
FLOOR = 1e-13
"""Relative size of gaps that are rounding."""
MOST_NAMED = 10
MOST_LINEAR = 60
"""Iterations on a linear axis."""
LEGEND = "points: on a sample; lines: fitted\nbars: iterations expected"


def models_by_name(models: Any) -> dict[str, Model]:
    """Models by name: of one model, several, or a mapping of them."""
    if hasattr(models, "as_dict"):
        return {"": models.as_dict()}
    if isinstance(models, Mapping) and "history" in models:
        return {"": models}
    if isinstance(models, Mapping):
        pairs = list(models.items())
    elif isinstance(models, Iterable) and not isinstance(models, str):
        pairs = list(enumerate(models, 1))
    else:
        return {"": fields(models)}
    return {str(name): fields(model) for name, model in pairs if model is not None}


def fields(model: Any) -> Model:
    """The fields of a `tuskml.Model`, or of a model as DuckDB returns it."""
    if hasattr(model, "as_dict"):
        model = model.as_dict()
    if not isinstance(model, Mapping) or "history" not in model:
        raise TypeError(
            f"models is or has a {type(model).__name__}, expected a model, a list of models or a "
            "mapping from names to models"
        )
    return model


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
    """Draws the distance of each model's objective from its best, by iteration, on a log scale.

    models: a `tuskml.Model` or a model as DuckDB returns it, a list of models, or a mapping from
    names to models; None is left out.
    optimum: the best objective if the models share one; by default each model's lowest.
    Returns the Axes; the figure is neither shown nor saved.
    """
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    curves = {name: gaps(model, optimum) for name, model in models_by_name(models).items()}
    colors = colors or palette(len(curves))
    for (name, curve), color in zip(curves.items(), colors, strict=False):
        ax.plot(
            np.arange(len(curve)),
            curve,
            color=color,
            linewidth=1.6,
            label=name or None,
            marker="o",
            markersize=3,
            clip_on=False,
        )
    ax.set(yscale="log", xlabel=xlabel, ylabel=ylabel)
    if title:
        ax.set_title(title, loc="left", fontweight="bold")
    tidy(ax)
    if any(curves):
        ax.legend(frameon=False, fontsize="small", ncols=1 + (len(curves) > MOST_NAMED))
    return ax


def tidy(ax: "Axes", whole: bool = True) -> None:
    """Draws a light grid, no box, and iterations from 0; whole: ticks at whole ones."""
    from matplotlib.ticker import MaxNLocator

    ax.grid(True, axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlim(left=0)
    if whole:
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
    """Draws a model's coefficients by feature, with intervals of 95 % if it has standard errors.

    model: a `tuskml.Model`. most: how many to draw, the largest multiples of their standard errors
    or, without those, the largest; in the order of the features. The intercept is left out.
    Returns the Axes; the figure is neither shown nor saved. Raises DataError if the model has
    other numbers than one coefficient per feature.
    """
    import matplotlib.pyplot as plt

    if model.several or not weighs_features(model.task):
        kind = "of more than two classes" if model.several else f"'{model.task}'"
        raise DataError(f"the model is {kind}, expected one with a coefficient for each feature")
    estimates, errors = np.array(model.weights(), float), standard_errors(model)
    kept = largest(estimates, errors, most)
    n = len(kept)
    if ax is None:
        _, ax = plt.subplots(figsize=(6.4, max(1.6, 0.8 + 0.28 * n)), layout="constrained")
    places = np.arange(n)[::-1]
    names = model.feature_names
    bars = None if errors is None else 1.96 * errors[kept]
    ax.errorbar(
        estimates[kept],
        places,
        xerr=bars,
        fmt="o",
        color=color,
        markersize=4.5,
        elinewidth=1.6,
        capsize=0,
    )
    ax.axvline(0, color="0.5", linewidth=1, zorder=1)
    ax.set_yticks(places, [shorten(names[k]) for k in kept])
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
    """Returns standard errors of coefficients, NaN where one is missing; None if all are."""
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


def shorten(name: str, most: int = 40) -> str:
    """A name, or its beginning and an ellipsis."""
    return name if len(name) <= most else name[: most - 1] + "…"


def within(given: Any, what: str) -> Any:
    """The rows of this name in a result of `evaluate`; other arguments unchanged."""
    return given[what] if isinstance(given, Mapping) and what in given else given


def curves_named(curves: Any, what: str, columns: Sequence[str]) -> dict[str, Floats]:
    """Curves by name as arrays, a column each: of one curve, or a mapping of them.

    A point is a dict, as DuckDB returns it, or a tuple in the order of the columns. What
    `evaluate` returned stands for its curve.
    """
    curves = within(curves, what)
    several = curves.items() if isinstance(curves, Mapping) else [("", curves)]
    found = {}
    for name, given in several:
        points = within(given, what)
        if points is not None and not isinstance(points, Iterable):
            raise ValueError(f"curves is not of {what}: evaluate(..., curves=True) has it")
        rows = [
            [point[c] for c in columns] if isinstance(point, Mapping) else list(point)
            for point in points or ()
        ]
        if any(len(row) != len(columns) for row in rows):
            raise ValueError(f"curves is not of {what}, expected rows of {', '.join(columns)}")
        if rows:
            found[str(name)] = np.array(rows, float).T
    return found


def curve_axes(
    ax: "Axes | None", title: str | None, xlabel: str, ylabel: str, diagonal: bool = True
) -> "Axes":
    """Axes of shares, by default new ones."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(4.8, 4.6), layout="constrained")
    ax.set(xlabel=xlabel, ylabel=ylabel, xlim=(0, 1), ylim=(0, 1))
    if title:
        ax.set_title(title, loc="left", fontweight="bold")
    ax.grid(True, color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    if diagonal:
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle=":")
    return ax


def draw_curves(ax: "Axes", curves: Mapping[str, tuple[Any, Any]], marker: str) -> "Axes":
    """Lines of x and y by name, with a legend where there are names."""
    for (name, (x, y)), color in zip(curves.items(), palette(len(curves)), strict=True):
        ax.plot(
            x,
            y,
            color=color,
            linewidth=1.6,
            marker=marker,
            markersize=4,
            label=name or None,
            clip_on=False,
        )
    if any(curves):
        ax.legend(frameon=False, fontsize="small", ncols=1 + (len(curves) > MOST_NAMED))
    return ax


def plot_roc(curves: Any, ax: "Axes | None" = None, *, title: str | None = "ROC") -> "Axes":
    """Draws ROC curves: the true positive rate by the false positive rate.

    curves: rows of SQL's `roc_curve`, or a mapping from names to such rows; a None is left out.
    Returns the Axes; the figure is neither shown nor saved.
    """
    found = curves_named(curves, "roc_curve", CURVES["roc_curve"])
    ax = curve_axes(ax, title, "false positive rate", "true positive rate")
    return draw_curves(ax, {name: (fpr, tpr) for name, (_, tpr, fpr) in found.items()}, "")


def plot_precision_recall(
    curves: Any, ax: "Axes | None" = None, *, title: str | None = "Precision and recall"
) -> "Axes":
    """Draws precision by recall, as steps: a point's precision holds back to the recall before.

    curves: rows of SQL's `precision_recall_curve`, or a mapping from names to such rows; a None is
    left out. Returns the Axes; the figure is neither shown nor saved.
    """
    name = "precision_recall_curve"
    found = curves_named(curves, name, CURVES[name])
    ax = curve_axes(ax, title, "recall", "precision", diagonal=False)
    steps = {key: (recall, precision) for key, (_, precision, recall) in found.items()}
    draw_curves(ax, steps, "")
    for line in ax.lines[-len(steps) :] if steps else ():
        line.set_drawstyle("steps")
    return ax


def plot_calibration(
    curves: Any, ax: "Axes | None" = None, *, title: str | None = "Calibration"
) -> "Axes":
    """Draws the observed frequency by predicted probability; correct ones are on the diagonal.

    curves: rows of SQL's `calibration`, or a mapping from names to such rows; a None is left out.
    Returns the Axes; the figure is neither shown nor saved.
    """
    found = curves_named(curves, "calibration", CURVES["calibration"])
    ax = curve_axes(ax, title, "mean probability", "share of positive rows")
    return draw_curves(ax, {name: (rows[3], rows[4]) for name, rows in found.items()}, "o")


def plot_lift(
    curves: Any, ax: "Axes | None" = None, *, title: str | None = "Cumulative gain"
) -> "Axes":
    """Draws the share of all positive rows that the rows with the highest scores hold.

    curves: rows of SQL's `lift`, or a mapping from names to such rows; a None is left out.
    Returns the Axes; the figure is neither shown nor saved.
    """
    found = curves_named(curves, "lift", CURVES["lift"])
    ax = curve_axes(ax, title, "share of rows, highest scores first", "share of positive rows")
    gains = {}
    for name, (_, n, *_, gain) in found.items():
        gains[name] = (np.append(0, np.cumsum(n) / n.sum()), np.append(0, gain))
    return draw_curves(ax, gains, "o")


def explanation_of(given: Any) -> Mapping[str, Any]:
    """The explanation as data: of an explanation, its JSON text, or an explained model."""
    found = given
    if isinstance(found, Mapping) and "plan" in found and "explanation" not in found:
        found = found["plan"]  # a model value as DuckDB returns it
    found = getattr(found, "plan", found)
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except json.JSONDecodeError:
            found = None
    if not isinstance(found, Mapping) or found.get("explanation") != VERSION:
        raise ValueError(
            f"explanation is {str(given)[:60]!r}, expected what explain_training(..., "
            '\'{"format": "json"}\') returns, or a model trained with '
            '{"explain": true, "format": "json"}'
        )
    return found


def plot_plan(
    explanation: Any,
    ax: "Axes | None" = None,
    *,
    title: str | None = None,
    xlabel: str = "iteration",
    ylabel: str | None = None,
) -> "Axes":
    """Draws the errors of candidates on a sample, and the curves fitted to them.

    explanation: the result of `explain_training` with `"format": "json"`, as text or parsed, or a
    model that was trained with `{"explain": true, "format": "json"}`. Points are measured errors,
    lines the fitted curves down to the tolerance; the chosen plan is drawn bold. A candidate that
    was not tried is a bar at the tolerance, which shows its estimated iterations. Returns the
    Axes; the figure is neither shown nor saved.
    """
    import matplotlib.pyplot as plt
    from matplotlib.ticker import StrMethodFormatter

    found = explanation_of(explanation)
    possible = [one for one in found["candidates"] if one["refusal"] is None]
    if not possible or not found["plan"]["epsilon"]:
        raise ValueError(
            f"the plan of this {found['task']} training had one candidate, or no tolerance: "
            "there is nothing to draw"
        )
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    plan = found["plan"]
    far = max(one["iterations"]["high"] for one in possible) > MOST_LINEAR
    ax.set(xscale="symlog" if far else "linear", yscale="log", xlabel=xlabel)
    ax.set_ylabel(ylabel or f"{plan['converge']} criterion")
    for one, color in zip(possible, palette(len(possible)), strict=True):
        draw_candidate(ax, one, plan["epsilon"], color)
    label = f"tolerance {plan['epsilon']:g}"
    ax.axhline(plan["epsilon"], color="0.4", linewidth=0.8, linestyle=":", label=label)
    headline = title if title is not None else f"{found['task']}: {plan['algorithm']} is chosen"
    ax.set_title(headline, loc="left", fontweight="bold")
    tidy(ax, whole=not far)
    if far:
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    ax.legend(frameon=False, fontsize="small", title=LEGEND, title_fontsize="small")
    return ax


def draw_candidate(ax: "Axes", one: Mapping[str, Any], epsilon: float, color: Any) -> None:
    """Measured points and their curve, or where the candidate is estimated to arrive."""
    chosen = one["chosen"]
    strong = {"color": color, "alpha": 1.0 if chosen else 0.6, "zorder": 3 if chosen else 2}
    ends, seconds = one["iterations"], one["seconds"]["point"]
    label = f"{one['algorithm']}, {format_seconds(seconds)}" + (", chosen" if chosen else "")
    tried = one["tried"]
    if tried is not None:
        places, errors = np.array(tried["curve"], float).T
        ax.plot(places, errors, linewidth=2.6 if chosen else 1.2, label=label, **strong)
        measured = tried["errors"]
        ax.plot(np.arange(len(measured)), measured, "o", markersize=5 if chosen else 3, **strong)
        label = ""
    ax.plot(
        [ends["low"], ends["high"]],
        [epsilon, epsilon],
        "|-",
        markersize=9,
        linewidth=2.2 if chosen else 1.0,
        label=label or None,
        **strong,
    )
    ax.plot([ends["point"]], [epsilon], "D", markersize=6 if chosen else 4, **strong)
