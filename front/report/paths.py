"""Paths of penalties: of each group the weights by penalty, and which penalty was chosen."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from tuskml.plots.path import path_weights
from tuskml.report import charts
from tuskml.report.charts import Line
from tuskml.report.groups import Group, some_of
from tuskml.report.pieces import feature, figure, note, number, section, table

GROUPS, FEATURES = 100, 30
"""The most groups shown, and features of each: those of the largest weights."""


def paths(groups: Sequence[Group], names: Sequence[str]) -> str:
    """The section; nothing where no model has a path. names: of features, for models without."""
    found = [group for group in groups if path_of(group)]
    if not found:
        return ""
    some = some_of(found, GROUPS)
    text = (
        f"{len(some):,} of {len(found):,} groups are shown: up to half of them need attention, "
        "the others are the largest."
    )
    pages = "".join(of_group(group, names) for group in some)
    return section("paths", "Paths", note(text) if len(some) < len(found) else "", pages)


def path_of(group: Group) -> list[dict[str, Any]]:
    """The results of each penalty of a group, the largest first."""
    kept = group.model.trials if group.model is not None else None
    return list(kept["path"]) if kept and "path" in kept else []


def of_group(group: Group, names: Sequence[str]) -> str:
    """A group's weights by penalty and the penalties to know, which open by a click."""
    assert group.model is not None
    assert group.model.trials is not None
    path, chosen = path_of(group), int(group.model.trials["chosen"])
    taken = path[chosen]
    known = group.model.features or names
    words = f"{group.name}: lambda {number(taken['lambda'])}, {len(taken['feature'])} features"
    return (
        f"<details><summary>{escape(words)}</summary>"
        + drawing(group, path, known)
        + table(
            ("penalty", "lambda", "features", "held-out loss", "standard error"),
            [[what, *row_of(path[place])] for what, place in places(path, chosen)],
            f"Penalties of {group.name}, of {len(path)}",
        )
        + "</details>"
    )


def places(path: Sequence[dict[str, Any]], chosen: int) -> list[tuple[str, int]]:
    """The penalties to know: the ends, the chosen one, and the best of held-out rows."""
    held = [np.inf if one["held_out"] is None else one["held_out"] for one in path]
    found = [("largest", 0), ("chosen", chosen)]
    if np.isfinite(held).any():
        found.append(("least held-out loss", int(np.argmin(held))))
    return [*found, ("last", len(path) - 1)]


def row_of(step: dict[str, Any]) -> list[str]:
    """A penalty's line of the table."""
    numbers = (number(step[name]) for name in ("held_out", "held_out_error"))
    return [number(step["lambda"]), f"{len(step['feature']):,}", *numbers]


def drawing(group: Group, path: Sequence[dict[str, Any]], names: Sequence[str]) -> str:
    """The weights, from the largest penalty on."""
    features, weights = path_weights(path)
    below = np.log10([path[0]["lambda"] / one["lambda"] for one in path])
    order = np.argsort(-np.abs(weights[-1]), kind="stable")[:FEATURES]
    lines = [
        Line(
            below,
            weights[:, j],
            "many series-2",
            f"{feature(int(features[j]) - 1, names)}: {weights[-1, j]:.4g}",
        )
        for j in order[::-1]
        if weights[:, j].any()
    ]
    if not lines or not below[-1] > 0:
        return note("All weights are 0, or there is one penalty.")
    label = f"weights of {len(lines)} features of {group.name} by penalty"
    across = "powers of ten below the largest penalty"
    text = (
        "The weights of the features; a tooltip has the name and the weight at the last penalty."
    )
    return figure(charts.falling(lines, label, across, ".2g"), text)
