"""The report's section on predictions of given rows: curves, and confusion of many classes.

The section on drift says how far columns of new rows are from those of a reference.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tuskml.api.curves import confusion_matrix
from tuskml.api.drift import Drift
from tuskml.report import charts
from tuskml.report.charts import Line
from tuskml.report.pieces import figure, note, number, section, table

Scores = Mapping[str, Mapping[str, Any]]
"""The result of `tuskml.evaluate(..., curves=True)` for each group by name."""
NAMED, LISTED, CLASSES = 6, 200, 20


def predictions(scores: Scores) -> str:
    """Curves of the largest groups, and the metrics of all; '' without any."""
    if not scores:
        return ""
    drawn = sorted(scores, key=lambda name: -scores[name]["n_rows"])[:NAMED]
    parts = [
        figure(drawing, caption)
        for kind, caption in CAPTIONS.items()
        if (drawing := DRAWINGS[kind]([(name, scores[name]) for name in drawn]))
    ]
    if len(scores) > NAMED:
        parts.append(note(f"The curves are of the {NAMED} groups with most rows."))
    marks = charts.legend([(f"series-{k + 1}", name) for k, name in enumerate(drawn)])
    return section(
        "predictions",
        "Predictions",
        marks if len(scores) > 1 else "",
        f'<div class="pair three">{"".join(parts)}</div>' if parts else "",
        metrics_table(scores),
        *(confusion_table(name, scores[name]) for name in drawn),
    )


def confusion_table(name: str, scores: Mapping[str, Any]) -> str:
    """Tabulates how often each label is predicted as each class; '' for two classes or numbers."""
    names, counts = confusion_matrix(scores.get("confusion"))
    if not names:
        return ""
    some = names[:CLASSES]
    rows = [
        [label, *(f"{n:,.0f}" for n in counts[i, : len(some)])] for i, label in enumerate(some)
    ]
    of = f" of {name}" if name else ""
    more = f", the first {CLASSES} of {len(names)} classes" if len(names) > CLASSES else ""
    return table(("label", *some), rows, f"Predicted classes{of}: a row a label{more}")


def metrics_table(scores: Scores) -> str:
    """A line a group, the worst first."""
    columns = [
        name for name, value in next(iter(scores.values())).items() if not isinstance(value, list)
    ]
    by = next(name for name in COMPARABLE if name in columns)
    worst = sorted(scores, key=lambda name: order_of(scores[name][by]))
    rows = [
        [name or "all rows", *(format_value(scores[name][column]) for column in columns)]
        for name in worst[:LISTED]
    ]
    some = f", {LISTED} of {len(scores):,} groups" if len(scores) > LISTED else ""
    caption = f"Metrics of the predictions, the lowest {by} first{some}"
    return table(("group", *columns), rows, caption if len(scores) > 1 else "Metrics")


COMPARABLE = ("auc", "f1_macro", "accuracy", "r2", "n_rows")
"""Metrics that say in which of two groups a model does worse, the best to say so first."""


def order_of(value: float | None) -> tuple[bool, float]:
    """Sorts a metric, groups without a value last."""
    return (value is None, 0.0 if value is None else float(value))


def format_value(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else number(value)


Named = Sequence[tuple[str, Mapping[str, Any]]]


def lines(some: Named, curve: str, x: Any, y: Any) -> list[Line]:
    """A line of each group that has the curve; x and y: arrays from its columns."""
    found = []
    for k, (name, scores) in enumerate(some):
        rows = scores.get(curve)
        if rows:
            columns = {c: np.array([row[c] for row in rows], float) for c in rows[0]}
            style = f"series-{k + 1}"
            title = name or "all rows"
            if np.isfinite(y(columns)).all():
                found.append(Line(x(columns), y(columns), style, title))
    return found


def roc(some: Named) -> str:
    drawn = lines(some, "roc_curve", lambda c: c["fpr"], lambda c: c["tpr"])
    return charts.unit_square(drawn, "false positive rate", "true positive rate")


def precision_recall(some: Named) -> str:
    drawn = lines(some, "precision_recall_curve", lambda c: c["recall"], lambda c: c["precision"])
    return charts.unit_square(drawn, "recall", "precision", diagonal=False)


def calibration(some: Named) -> str:
    drawn = lines(some, "calibration", lambda c: c["mean_p"], lambda c: c["rate"])
    return charts.unit_square(drawn, "mean probability", "share of positive rows")


def gain(some: Named) -> str:
    drawn = lines(
        some,
        "lift",
        lambda c: np.append(0, np.cumsum(c["n"]) / c["n"].sum()),
        lambda c: np.append(0, c["cumulative_gain"]),
    )
    return charts.unit_square(drawn, "share of rows", "share of positive rows")


def deciles(some: Named) -> str:
    """Labels by predictions of numbers; '' of classes."""
    drawn = lines(some, "deciles", lambda c: c["mean_prediction"], lambda c: c["mean_label"])
    if not drawn:
        return ""
    ends = np.concatenate([values for line in drawn for values in (line.x, line.y)])
    both = (float(ends.min()), float(ends.max()))
    return charts.square(drawn, "mean prediction", "mean label", both)


DRAWINGS = {
    "roc": roc,
    "precision": precision_recall,
    "calibration": calibration,
    "gain": gain,
    "deciles": deciles,
}
CAPTIONS = {
    "roc": "ROC: on the dotted line scores say nothing, in the upper left corner all.",
    "precision": "Precision by recall: of the rows with high scores, the share that is positive.",
    "calibration": "Calibration: on the dotted line a probability means what it says.",
    "gain": "Cumulative gain: how many positive rows are among those with the highest scores.",
    "deciles": "Calibration by deciles of the predictions: on the dotted line they are right.",
}


SOME, MUCH = 0.1, 0.25
"""Indices from which a column has drifted somewhat, and much: the usual rule of thumb."""
MOST_LINES = 200
LEAST_WIDTH = 1e-9
"""Bounds that are nearer to each other are one number."""


def drift(found: Sequence[Drift]) -> str:
    """A line a column, the furthest first; '' without any."""
    if not found:
        return ""
    rows = [
        [one.name, verdict(one.psi), number(one.psi), distance(one), *map(share, one.missing)]
        for one in found[:MOST_LINES]
    ]
    head = ("column", "", "PSI", "KS", "NULL in the reference", "NULL in the rows")
    text = (
        "The population stability index (PSI) compares shares of rows in the deciles of the "
        f"reference, or of values that are text: below {SOME} little has changed, above {MUCH} "
        "much. KS is the largest distance between two distributions, or its bounds."
    )
    return section("drift", "Drift", table(head, rows, "Columns by their drift"), note(text))


def verdict(psi: float | None) -> str:
    """An index in words."""
    if psi is None:
        return "–"
    return "✓ little" if psi < SOME else "! some" if psi < MUCH else "✕ much"


def distance(one: Drift) -> str:
    """The largest distance of two distributions, or its bounds."""
    if one.ks_high is None or one.ks is None or one.ks_high - one.ks < LEAST_WIDTH:
        return number(one.ks)
    return f"{number(one.ks)} to {number(one.ks_high)}"


def share(missing: float | None) -> str:
    """A share in percent, or a dash."""
    return "–" if missing is None else f"{missing:.1%}"
