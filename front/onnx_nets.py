"""Neural nets as ONNX graphs, of lists of features or of rows with names.

Of rows with names, the inputs of the first layer are put together from the columns: a number, a
vector from a table of the levels by `Gather`, and flags of gaps.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuskml.learners.nets.layers import layers_in, tables_in
from tuskml.model.model import Model
from tuskml.onnx_columns import numbers_placed, refuse_derived, texts_placed

if TYPE_CHECKING:
    from tuskml.export_onnx import Graph

Floats = NDArray[np.float64]


def net_margins(graph: "Graph", model: Model) -> None:
    """Adds the node `margins`, (n, outputs); a row with a missing feature has none."""
    numbers = model.weights()
    features = "features"
    if model.preparation is not None:
        features = named_inputs(graph, json.loads(model.preparation), numbers)
    if_complete(graph, features)
    if not numbers:
        graph.add("Identity", ["first"], "margins")
        return
    activation, layers = layers_in(numbers)
    values = features
    for place, (weights, biases) in enumerate(layers):
        graph.constant(f"weights{place}", weights)
        graph.constant(f"biases{place}", biases)
        of_layer = [values, f"weights{place}", f"biases{place}"]
        values = graph.add("Gemm", of_layer, f"sums{place}", transB=1)
        if place + 1 < len(layers):
            values = ACTIVATED[activation](graph, values)
    graph.add("Add", [values, "first"], "margins")


def if_complete(graph: "Graph", features: str) -> None:
    """The intercept for each row, called `first`; no number where a feature is missing."""
    graph.constant("nothing", np.array(0.0))
    graph.add("Mul", [features, "nothing"], "zeros")
    graph.add("ReduceSum", ["zeros", "second"], "missing", keepdims=1)
    graph.add("Add", ["missing", "intercept"], "first")


@dataclass
class Inputs:
    """What the columns have given so far.

    tables: by the first feature of an embedded category, its vectors (levels, length); plain,
    vectors: nodes of shape (n, any); feature: the number of the next one.
    """

    graph: "Graph"
    preparation: dict[str, Any]
    tables: dict[int, Floats]
    plain: list[str]
    vectors: list[str]
    feature: int = 0

    @property
    def refuses_gaps(self) -> bool:
        """Whether a row with a gap has no prediction."""
        return self.preparation["missing"] in ("skip", "error")


def named_inputs(graph: "Graph", preparation: dict[str, Any], numbers: list[float]) -> str:
    """The inputs of the first layer, (n, inputs)."""
    tables = dict(tables_in(numbers)) if numbers else {}
    inputs = Inputs(graph, preparation, tables, [], [])
    for place, column in enumerate(preparation["columns"]):
        refuse_derived(column)
        add = category if column["kind"] == "category" else number
        add(inputs, f"column_{place}", column)
    return graph.add("Concat", [*inputs.plain, *inputs.vectors], "inputs", axis=1)


def number(inputs: Inputs, name: str, column: dict[str, Any]) -> None:
    """A number, what fills its gaps, and a flag of gaps if the model has one."""
    graph = inputs.graph
    gap = np.nan if inputs.refuses_gaps else column.get("fill", 0.0)
    graph.constant(f"{name}_gap", np.array(gap, np.float64))
    graph.add("Unsqueeze", [column["name"], "second"], f"{name}_given")
    graph.add("IsNaN", [f"{name}_given"], f"{name}_is_missing")
    of_column = [f"{name}_is_missing", f"{name}_gap", f"{name}_given"]
    inputs.plain.append(graph.add("Where", of_column, f"{name}_part"))
    inputs.feature += 1
    if column.get("indicator"):
        inputs.plain.append(graph.add("Cast", [f"{name}_is_missing"], f"{name}_flag", to=11))
        inputs.feature += 1


def category(inputs: Inputs, name: str, column: dict[str, Any]) -> None:
    """The vector of a level, or a feature per level, and a flag of gaps if the model has one."""
    graph, levels = inputs.graph, column["levels"]
    width = len(levels) + bool(column.get("other")) + bool(column.get("missing"))
    rows = inputs.tables.get(inputs.feature, np.eye(width))
    place = numbers_placed if column.get("numbers") else texts_placed
    place(graph, name, column["name"], levels)
    table = np.vstack([rows[: len(levels)], unseen_and_gap(inputs, column, rows)])
    graph.constant(f"{name}_table", table)
    found = graph.add("Gather", [f"{name}_table", f"{name}_place"], f"{name}_part", axis=0)
    (inputs.vectors if inputs.feature in inputs.tables else inputs.plain).append(found)
    inputs.feature += width
    if column.get("indicator"):
        flags = np.zeros((len(table), 1))
        flags[-1] = 1
        graph.constant(f"{name}_flags", flags)
        flag = [f"{name}_flags", f"{name}_place"]
        inputs.plain.append(graph.add("Gather", flag, f"{name}_flag", axis=0))
        inputs.feature += 1


def unseen_and_gap(inputs: Inputs, column: dict[str, Any], rows: Floats) -> Floats:
    """The rows of the table for a level that is not known and for a gap, (2, any)."""
    none, levels = np.zeros(rows.shape[1]), column["levels"]
    at = len(levels)
    other = rows[at] if column.get("other") else None
    missing = rows[at + (other is not None)] if column.get("missing") else None
    refuses = inputs.preparation["unseen"] == "error" and other is None
    unseen = none + np.nan if refuses else none if other is None else other
    if inputs.refuses_gaps:
        gap = none + np.nan
    elif missing is not None:
        gap = missing
    elif inputs.preparation["missing"] == "level":
        gap = none if other is None else other
    else:
        gap = rows[levels.index(column["fill"])] if "fill" in column else none
    return np.stack([unseen, gap])


def relu(graph: "Graph", sums: str) -> str:
    """max(0, z)."""
    return graph.add("Relu", [sums], f"{sums}_relu")


def tanh(graph: "Graph", sums: str) -> str:
    """tanh z."""
    return graph.add("Tanh", [sums], f"{sums}_tanh")


def gelu(graph: "Graph", sums: str) -> str:
    """z / 2 (1 + erf(z / sqrt 2)), with an erf of floats, which is the one that runtimes have; the
    operator Gelu is younger than the others here."""
    from onnx import TensorProto

    for name, value in (("root", np.sqrt(0.5)), ("one", 1.0), ("half", 0.5)):
        graph.constant(f"{sums}_{name}", np.array(value))
    graph.add("Mul", [sums, f"{sums}_root"], f"{sums}_z")
    graph.add("Cast", [f"{sums}_z"], f"{sums}_float", to=TensorProto.FLOAT)
    graph.add("Erf", [f"{sums}_float"], f"{sums}_erf_float")
    graph.add("Cast", [f"{sums}_erf_float"], f"{sums}_erf", to=TensorProto.DOUBLE)
    graph.add("Add", [f"{sums}_erf", f"{sums}_one"], f"{sums}_twice")
    graph.add("Mul", [f"{sums}_twice", f"{sums}_half"], f"{sums}_share")
    return graph.add("Mul", [sums, f"{sums}_share"], f"{sums}_gelu")


ACTIVATED = (relu, tanh, gelu)
"""By the number of an activation."""
