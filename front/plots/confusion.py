"""A picture of how often each label is predicted as each class; `tuskml.plots` has it too."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tuskml.api.curves import confusion_matrix
from tuskml.plots.trainings import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST = 16
"""Characters of a class's name."""
MOST_WRITTEN = 20
"""Classes whose counts are written into a picture."""


def plot_confusion(
    cells: Any, ax: "Axes | None" = None, *, title: str | None = "Confusion"
) -> "Axes":
    """Draws the counts of each label by predicted class, each row shaded by its shares.

    cells: rows of SQL's `confusion`, or a result of `evaluate` that has them; with weights these
    are shown. Returns the Axes; the figure is neither shown nor saved. Raises ValueError for other
    rows.
    """
    import matplotlib.pyplot as plt

    found = isinstance(cells, Mapping) and "confusion" in cells
    names, counts = confusion_matrix(cells["confusion"] if found else cells)
    if ax is None:
        _, ax = plt.subplots(figsize=(4.8, 4.6), layout="constrained")
    total = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    shown = [shorten(name, LONGEST) for name in names]
    ax.set(xlabel="predicted", ylabel="label")
    ax.set_xticks(range(len(names)), shown, rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(names)), shown)
    for (i, j), count in np.ndenumerate(counts) if len(names) <= MOST_WRITTEN else ():
        color = "white" if shares[i, j] > 0.5 else "black"
        ax.text(j, i, f"{count:g}", ha="center", va="center", color=color, fontsize="small")
    if title:
        ax.set_title(title, loc="left", fontweight="bold")
    return ax
