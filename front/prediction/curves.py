"""Curves of a classifier's predictions: the SQL tables of metrics, as rows by group."""

from collections.abc import Mapping, Sequence
from typing import Any

from tuskml.databases.database import Database
from tuskml.model.scoring import Answers

CURVES: Mapping[str, tuple[str, ...]] = {
    "roc_curve": ("threshold", "tpr", "fpr"),
    "calibration": ("bin", "lower", "upper", "mean_p", "rate", "n"),
    "confusion": ("label", "predicted", "n"),
    "lift": ("decile", "n", "positives", "rate", "lift", "cumulative_gain"),
}
"""The columns of each, the first of which orders the rows."""
Points = list[dict[str, Any]]


def curve_names(answers: Answers, several: bool = False) -> tuple[str, ...]:
    """The curves of models that predict so; none of numbers. several: more than two classes."""
    if several:
        return ("confusion",)
    if answers.has_probabilities:
        return ("roc_curve", "calibration", "lift")
    return ("roc_curve", "lift") if answers.classifies else ()


def fetch_curve(
    database: Database, name: str, arguments: str, relation: str, keys: Sequence[str]
) -> dict[tuple[Any, ...], Points]:
    """A curve of each group of the relation, by key; a group without one is left out.

    arguments: SQL over the relation's columns; keys: columns of it.
    """
    columns = CURVES[name]
    beside = "".join(f"{key}, " for key in keys)
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    curves = (
        f"SELECT {beside}unnest({database.function(name)}({arguments})) AS tusk_row "
        f"FROM ({relation}) AS scored{grouped}"
    )
    shown = ", ".join(f'(tusk_row)."{column}"' for column in columns)
    found: dict[tuple[Any, ...], Points] = {}
    for row in database.fetch(f"SELECT {beside}{shown} FROM ({curves}) AS curves"):
        key, values = tuple(row[: len(keys)]), row[len(keys) :]
        found.setdefault(key, []).append(dict(zip(columns, values, strict=True)))
    for points in found.values():
        points.sort(key=lambda point: point[columns[0]], reverse=name == "roc_curve")
    return found
