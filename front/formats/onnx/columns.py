"""Rows with names in ONNX graphs: an input per column, and the margin of a linear model.

A column of text is an input of strings, any other one of doubles; both have the shape (n,). NaN is
a missing number. ONNX has no missing text: "" is missing where it is no level of the column. A row
that the model refuses, or for which it has no prediction, gets NaN.
"""

import json
from typing import Any

import numpy as np

from tuskml.formats.onnx.graph import Graph
from tuskml.model.model import Model
from tuskml.model.scoring import source_kinds

ML = "ai.onnx.ml"
MISSING = {"skip": np.nan, "error": np.nan}
"""The contribution of a gap that no level or number replaces."""


def graph_inputs(model: Model) -> dict[str, str]:
    """The inputs of the graph by name: `text` or `number`."""
    return source_kinds(model.preparation or "")


def columns_of(model: Model) -> list[dict[str, Any]]:
    """The columns that a model prepares, none if it reads numbers without names."""
    return json.loads(model.preparation)["columns"] if model.preparation else []


def derives(model: Model) -> bool:
    """Returns whether features are derived: parts of dates, interactions and words."""
    return any(
        one["kind"] not in ("number", "category") or "part" in one for one in columns_of(model)
    )


def add_prepared_margins(graph: Graph, model: Model) -> None:
    """Adds the node `margins`, of shape (n, 1), of a linear model that derives no features: each
    level's weight is looked up in a table, however many there are."""
    preparation = json.loads(model.preparation or "")
    weights = iter(model.weights())
    parts = ["intercept"]
    for place, column in enumerate(preparation["columns"]):
        of = add_category if column["kind"] == "category" else add_number
        parts.append(of(graph, f"column_{place}", column, preparation, weights))
    graph.add("Sum", parts, "margins")


def add_number(
    graph: Graph, name: str, column: dict[str, Any], preparation: dict[str, Any], weights: Any
) -> str:
    """Adds the contribution of a number to the margin, of shape (n, 1)."""
    weight = float(next(weights))
    indicated = float(next(weights)) if column.get("indicator") else 0.0
    gap = MISSING.get(preparation["missing"], weight * column.get("fill", 0.0) + indicated)
    graph.constant(f"{name}_weight", np.array(weight))
    graph.constant(f"{name}_gap", np.array(gap))
    graph.add("Unsqueeze", [column["name"], "second"], f"{name}_given")
    graph.add("Mul", [f"{name}_given", f"{name}_weight"], f"{name}_weighed")
    graph.add("IsNaN", [f"{name}_given"], f"{name}_is_missing")
    return graph.add(
        "Where", [f"{name}_is_missing", f"{name}_gap", f"{name}_weighed"], f"{name}_part"
    )


def level_weights(
    column: dict[str, Any], preparation: dict[str, Any], weights: Any
) -> tuple[list[float], float, float]:
    """The weight of each level, of an unknown one, and of a gap."""
    levels = column["levels"]
    reference = bool(column.get("reference"))
    known = [0.0] * reference + [float(next(weights)) for _ in levels[reference:]]
    other = float(next(weights)) if column.get("other") else None
    missing = float(next(weights)) if column.get("missing") else None
    indicator = float(next(weights)) if column.get("indicator") else 0.0
    fill = known[levels.index(column["fill"])] if "fill" in column else 0.0
    usual = (other or 0.0) if preparation["missing"] == "level" else fill
    gap = MISSING.get(preparation["missing"], indicator + (usual if missing is None else missing))
    refuses = preparation["unseen"] != "other" and other is None
    return known, np.nan if refuses else other or 0.0, gap


def add_category(
    graph: Graph, name: str, column: dict[str, Any], preparation: dict[str, Any], weights: Any
) -> str:
    """Adds the contribution of a level to the margin, of shape (n, 1): its index in a table of
    weights.
    """
    known, unseen, gap = level_weights(column, preparation, weights)
    graph.constant(f"{name}_table", np.array([*known, unseen, gap], np.float64)[:, None])
    place = numbers_placed if column.get("numbers") else texts_placed
    place(graph, name, column["name"], column["levels"])
    return graph.add("Gather", [f"{name}_table", f"{name}_place"], f"{name}_part", axis=0)


def texts_placed(graph: Graph, name: str, given: str, levels: list[str]) -> None:
    """Adds the index of each text among the levels; then come the unknown ones, then a gap."""
    keys = levels if "" in levels else [*levels, ""]
    values = [*range(len(levels)), *([] if "" in levels else [len(levels) + 1])]
    graph.add(
        "LabelEncoder",
        [given],
        f"{name}_place",
        domain=ML,
        keys_strings=keys,
        values_int64s=values,
        default_int64=len(levels),
    )


def numbers_placed(graph: Graph, name: str, given: str, levels: list[str]) -> None:
    """Adds the index of each number among the levels."""
    n = len(levels)
    graph.constant(f"{name}_levels", np.array([float(level) for level in levels])[None, :])
    graph.constant(f"{name}_steps", np.arange(n, dtype=np.int64)[None, :] - n)
    graph.constant(f"{name}_unknown", np.array(n, np.int64))
    graph.constant(f"{name}_missing", np.array(n + 1, np.int64))
    graph.add("Unsqueeze", [given, "second"], f"{name}_given")
    graph.add("Equal", [f"{name}_given", f"{name}_levels"], f"{name}_same")
    graph.add("Cast", [f"{name}_same"], f"{name}_flags", to=7)
    graph.add("Mul", [f"{name}_flags", f"{name}_steps"], f"{name}_back")
    graph.add("ReduceSum", [f"{name}_back", "second"], f"{name}_found", keepdims=0)
    graph.add("Add", [f"{name}_found", f"{name}_unknown"], f"{name}_known")
    graph.add("IsNaN", [given], f"{name}_is_missing")
    graph.add("Where", [f"{name}_is_missing", f"{name}_missing", f"{name}_known"], f"{name}_place")
