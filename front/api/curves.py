"""Curves of predictions as rows by group: the SQL tables of metrics, and deciles of numbers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.databases.database import Database, Row
from tuskml.model.answers import Answers

CURVES: Mapping[str, tuple[str, ...]] = {
    "roc_curve": ("threshold", "tpr", "fpr"),
    "precision_recall_curve": ("threshold", "precision", "recall"),
    "calibration": ("bin", "lower", "upper", "mean_p", "rate", "n"),
    "confusion": ("label", "predicted", "n"),
    "lift": ("decile", "n", "positives", "rate", "lift", "cumulative_gain"),
}
"""The columns of each, the first of which orders the rows."""
RANKED = ("roc_curve", "precision_recall_curve")
"""Curves by falling threshold."""
Floats = NDArray[np.float64]
Points = list[dict[str, Any]]


def curve_names(answers: Answers, several: bool = False) -> tuple[str, ...]:
    """The curves of models that predict so; none of numbers. several: more than two classes."""
    if several:
        return ("confusion",)
    if answers.has_probabilities:
        return (*RANKED, "calibration", "lift")
    return (*RANKED, "lift") if answers.classifies else ()


def confusion_matrix(cells: Any) -> tuple[list[str], Floats]:
    """The classes in order, and how often each label (a row) is predicted as each of them.

    cells: rows of SQL's `confusion`, dicts or tuples; with weights the numbers are these.
    """
    columns = CURVES["confusion"]
    rows = [
        tuple(cell.get(c) for c in (*columns, "weight")) if isinstance(cell, Mapping) else cell
        for cell in cells or ()
    ]
    if any(len(row) not in (3, 4) or not isinstance(row[0], str) for row in rows):
        raise ValueError(f"cells is not of confusion, expected rows of {', '.join(columns)}")
    counts = {row[:2]: row[2] if row[3:] in ((), (None,)) else row[3] for row in map(tuple, rows)}
    names = sorted({name for pair in counts for name in pair}, key=class_order)
    found = [[float(counts.get((label, other), 0)) for other in names] for label in names]
    return names, np.array(found, float).reshape(len(names), len(names))


def class_order(name: str) -> tuple[bool, float, str]:
    """Sorts classes that are numbers as such, and others after them by name."""
    try:
        return False, float(name), name
    except ValueError:
        return True, 0.0, name


def fetch_curve(
    database: Database, name: str, arguments: str, relation: str, keys: Sequence[str]
) -> dict[tuple[Any, ...], Points]:
    """A curve of each group of the relation, by key; a group without one is left out.

    arguments: SQL over the relation's columns; keys: columns of it.
    """
    columns = CURVES[name]
    if name == "confusion" and arguments.endswith("tusk_w"):
        columns = (*columns, "weight")
    beside = "".join(f"{key}, " for key in keys)
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    curves = (
        f"SELECT {beside}unnest({database.function(name)}({arguments})) AS tusk_row "
        f"FROM ({relation}) AS scored{grouped}"
    )
    shown = ", ".join(f'(tusk_row)."{column}"' for column in columns)
    rows = database.fetch(f"SELECT {beside}{shown} FROM ({curves}) AS curves")
    found = points_by_key(rows, len(keys), columns)
    for points in found.values():
        points.sort(key=lambda point: point[columns[0]], reverse=name in RANKED)
    return found


def points_by_key(
    rows: Sequence[Row], n_keys: int, columns: Sequence[str]
) -> dict[tuple[Any, ...], Points]:
    """Rows as points by their first values, the keys, in the order of the rows."""
    found: dict[tuple[Any, ...], Points] = {}
    for row in rows:
        point = dict(zip(columns, row[n_keys:], strict=True))
        found.setdefault(tuple(row[:n_keys]), []).append(point)
    return found


DECILES = ("decile", "mean_prediction", "mean_label", "n")


def fetch_deciles(
    database: Database, relation: str, keys: Sequence[str], weighed: bool
) -> dict[tuple[Any, ...], Points]:
    """The mean label by tenths of each group's rows, from the lowest predictions on, by key.

    relation: a query with tusk_y, tusk_c, the keys and, if weighed, tusk_w.
    """
    beside = "".join(f"{key}, " for key in keys)
    by = f"PARTITION BY {', '.join(keys)} " if keys else ""
    weight = "tusk_w" if weighed else "1"
    positive = " AND tusk_w > 0" if weighed else ""
    order = "tusk_c, tusk_y, tusk_w" if weighed else "tusk_c, tusk_y"
    cut = (
        f"SELECT {beside}tusk_y, tusk_c, {weight} AS tusk_w, "
        f"ntile(10) OVER ({by}ORDER BY {order}) AS decile FROM ({relation}) AS scored "
        f"WHERE tusk_y IS NOT NULL AND tusk_c IS NOT NULL{positive}"
    )
    means = ", ".join(f"sum(tusk_w * {of}) / sum(tusk_w)" for of in ("tusk_c", "tusk_y"))
    grouped = ", ".join([*keys, "decile"])
    query = (
        f"SELECT {beside}decile, {means}, count(*) FROM ({cut}) AS cut "
        f"GROUP BY {grouped} ORDER BY {grouped}"
    )
    return points_by_key(database.fetch(query), len(keys), DECILES)
