"""The report's section on models of trees: the gain of the splits by each feature."""

from collections.abc import Sequence

import numpy as np

from tuskml.learners.trees.forest import gains_of
from tuskml.model.scoring import Floats
from tuskml.report import charts
from tuskml.report.charts import Span
from tuskml.report.groups import Group, some_of
from tuskml.report.pieces import FEATURES, figure, section

MODELS = 500
"""The most models whose trees are read."""


def importance(groups: Sequence[Group], names: Sequence[str]) -> str:
    """The features that gained most, of many models with their spread; '' without trees.

    names: of the features, for models that do not know them.
    """
    there = [group for group in groups if group.has_trees]
    some = [
        (group.terms(names), shares)
        for group in some_of(there, MODELS)
        if (shares := shares_of(group)).any()
    ]
    if not some:
        return ""
    rows = spans_of(some)
    text = "The share of each feature in what all splits of a model gained in training."
    if len(some) > 1:
        text += (
            f" Medians over {len(some):,} models; whiskers reach from the 10th to the 90th "
            "percentile."
        )
    if len(there) > MODELS:
        text += f" The trees of {MODELS:,} of {len(there):,} models were read."
    label = "; ".join(row.title for row in rows)
    return section("importance", "Importance", figure(charts.spans(rows, label), text))


def shares_of(group: Group) -> Floats:
    """The share of each feature in the total gain, (n_features,)."""
    assert group.model is not None
    gains = gains_of(group.model.coef or [], group.model.n_features)
    return gains / gains.sum() if gains.sum() > 0 else np.zeros(len(gains))


def spans_of(some: Sequence[tuple[Sequence[str], Floats]]) -> list[Span]:
    """The largest shares by name; 0 in models that have no such feature."""
    columns: dict[str, Floats] = {}
    for place, (names, shares) in enumerate(some):
        for name, share in zip(names, shares, strict=True):
            columns.setdefault(name, np.zeros(len(some)))[place] += share
    rows = []
    for name, found in columns.items():
        low, middle, high = np.percentile(found, [10, 50, 90]).tolist()
        title = f"{name} {middle:.1%}" + (
            f", from {low:.1%} to {high:.1%}" if len(found) > 1 else ""
        )
        rows.append(Span(name, middle, low, high, title))
    return sorted(rows, key=lambda row: -row.middle)[:FEATURES]
