"""A picture of the weights along a path of penalties; `tuskml.plots` has it too."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LABELLED = 10
"""Features with a colour and a name: those of the largest weights at the last penalty."""


def path_weights(
    steps: Sequence[Mapping[str, Any]],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The features that have a weight at some penalty of a path, (d,) indices from 1 on,
    ascending, and their weights (steps, d). Indices may be as large as ids, so others take no
    memory.
    """
    listed = [place for one in steps for place in one["feature"]]
    features = np.unique(np.array(listed, np.int64))
    weights = np.zeros((len(steps), len(features)))
    for row, one in zip(weights, steps, strict=True):
        row[np.searchsorted(features, np.array(one["feature"], np.int64))] = one["weight"]
    return features, weights


def plot_path(model: Any, ax: "Axes | None" = None, *, title: str | None = "Path") -> "Axes":
    """Draws the weights of a model by the penalty, which falls from left to right, and a line at
    the penalty that was chosen.

    model: a `tuskml.Model`, or one as DuckDB returns it, of `lasso`, `elastic_net` or
    `sparse_logistic` with a path. Returns the Axes; the figure is neither shown nor saved. Raises
    DataError for other models.
    """
    import matplotlib.pyplot as plt

    fields: Mapping[str, Any] = model.as_dict() if hasattr(model, "as_dict") else model
    kept = json.loads(fields["trials"] or "{}")
    if "path" not in kept:
        raise DataError("the model has no path, expected one that was trained without 'lambda'")
    steps = kept["path"]
    features, weights = path_weights(steps)
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    penalties = [one["lambda"] for one in steps]
    order = np.argsort(-np.abs(weights[-1]), kind="stable")
    known = fields.get("features")
    names = [known[j - 1] if known else str(j) for j in features.tolist()]
    for place, j in enumerate(order):
        if weights[:, j].any():
            named = place < MOST_LABELLED
            how = {"label": names[j], "color": f"C{place}"} if named else {"color": "0.8"}
            ax.plot(penalties, weights[:, j], zorder=2 if named else 1, **how)
    ax.axvline(penalties[kept["chosen"]], color="0.3", linestyle="--", linewidth=1)
    ax.set(xscale="log", xlabel="lambda (dashed: chosen)", ylabel="weight")
    ax.invert_xaxis()
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize="small", frameon=False)
    if title:
        ax.set_title(title, loc="left", fontweight="bold")
    return ax
