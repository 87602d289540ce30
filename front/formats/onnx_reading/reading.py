"""The model that an ONNX graph is.

Every output has to follow from margins by known operators, so no part of a graph is left out in
silence. Inputs: one, of rows of numbers.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from tuskml.errors import DataError, OptionError, TuskError, one_of
from tuskml.formats.onnx_reading.operators import READ, Node
from tuskml.formats.onnx_reading.values import (
    Answer,
    Dense,
    DerivedValue,
    Features,
    Forest,
    Margins,
    Tree,
    Value,
)
from tuskml.kernels.nets.training import ACTIVATIONS
from tuskml.learners.models import FORMAT
from tuskml.learners.nets.layers import head_of
from tuskml.learners.registry import TASKS
from tuskml.learners.tasks import weighs_features
from tuskml.learners.trees.forest import BOOSTED, response_of, set_of, splits_by_level
from tuskml.model.scoring import Floats

if TYPE_CHECKING:
    import onnx

OBJECTIVES = {"squared": "identity", "poisson": "exp", "logistic": "logistic"}
"""The response to margins."""
BY_RESPONSE = {response: name for name, response in OBJECTIVES.items()}
MOST_CLASSES = 1000
DAMAGED = (
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    StopIteration,
    TypeError,
    ValueError,
)
"""Errors of a graph that lacks parts its operators need."""
NO_TREE = Tree(np.array([[-1.0, 0, 0, 0, 0, 0]]))


def fields(
    graph: "str | PathLike[str] | bytes | onnx.ModelProto", objective: str
) -> dict[str, Any]:
    """The fields of a model, by name."""
    proto = load_graph(graph)
    try:
        return fields_of(proto, objective)
    except DataError:
        raise
    except DAMAGED as error:
        raise DataError(f"the graph is damaged ({error!r}), expected an ONNX model") from error


def fields_of(proto: "onnx.ModelProto", objective: str) -> dict[str, Any]:
    """As `fields`; raises ValueError and KeyError if the graph is damaged."""
    about = {prop.key: prop.value for prop in proto.metadata_props}
    about = about if proto.producer_name == "tuskml" else {}
    if about.get("objective") == "gini":
        raise DataError(
            "the graph is a random forest of classes, whose margins are shares, expected boosted "
            "trees, or a forest of numbers; Model.save keeps every model"
        )
    margins, response = margins_of(follow_graph(proto), proto, objective)
    if response == "softmax" and margins.margins == 2:
        margins, response = second_less_first(margins), "logistic"
    task = task_of(margins, response, about.get("task"))
    options: dict[str, Any] = {"tuskml": FORMAT}
    if not weighs_features(task):
        told, by_response = about.get("objective"), BY_RESPONSE.get(response, "logistic")
        same = told in BOOSTED and response_of(told) == response
        options["objective"] = told if same else by_response
    return {
        "task": task,
        **numbers(margins, task),
        **classes_of(proto, margins.margins, response, about),
        "std_err": None,
        "n_rows": 0,
        "n_skipped": 0,
        "loss": math.nan,
        "history": None,
        "converged": True,
        "status": about.get("status", "ok"),
        "plan": f"read from an ONNX graph of {proto.producer_name or 'an unknown producer'}",
        "seconds": 0.0,
        "options": options,
        "store": None,
        "features": tuple(json.loads(about.get("features", "[]"))),
        "label": about.get("label") or None,
    }


def load_graph(graph: "str | PathLike[str] | bytes | onnx.ModelProto") -> "onnx.ModelProto":
    """A graph, from a file or from bytes. Raises DataError if it is not one."""
    try:
        import onnx
    except ImportError as error:
        raise TuskError("to read ONNX needs onnx: pip install 'tuskml[onnx]'") from error
    if isinstance(graph, onnx.ModelProto):
        return graph
    try:
        if isinstance(graph, bytes):
            proto = onnx.load_model_from_string(graph)
        else:
            proto = onnx.load(graph)
        onnx.checker.check_model(proto)
    except (onnx.checker.ValidationError, ValueError, TypeError) as error:
        raise DataError("the graph is damaged, expected an ONNX model") from error
    except Exception as error:
        if type(error).__module__.startswith("google.protobuf"):
            raise DataError("the graph is damaged, expected an ONNX model") from error
        raise
    return proto


def follow_graph(proto: "onnx.ModelProto") -> dict[str, Value]:
    """The value of each tensor of a graph."""
    from onnx import helper, numpy_helper

    graph = proto.graph
    values: dict[str, Value] = {}
    for tensor in graph.initializer:
        values[tensor.name] = np.asarray(numpy_helper.to_array(tensor))
    given = [one for one in graph.input if one.name not in values]
    if len(given) != 1:
        raise DataError(
            f"the graph has {len(given)} inputs, expected one, of rows of numbers; graphs with an "
            "input for each column are not read"
        )
    values[given[0].name] = rows_of(given[0])
    for node in graph.node:
        read = READ.get(node.op_type)
        attributes = {one.name: plain(helper.get_attribute_value(one)) for one in node.attribute}
        if node.op_type == "Constant":
            values[node.output[0]] = np.asarray(next(iter(attributes.values())))
            continue
        if read is None:
            raise DataError(
                f"the graph has an operator '{node.op_type}', expected layers of "
                f"{one_of(ACTIVATIONS)}, or trees"
            )
        inputs = [values.get(name) if name else None for name in node.input]
        made = read(Node(node.op_type, inputs, attributes))
        for place, name in enumerate(node.output):
            values[name] = made
            if node.op_type == "TreeEnsembleClassifier" and not place:
                values[name] = DerivedValue()  # the class
    return values


def plain(value: Any) -> Any:
    """An attribute's value: text for bytes, an array for a tensor."""
    from onnx import TensorProto, numpy_helper

    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list | tuple) and value and isinstance(value[0], bytes):
        return [one.decode() for one in value]
    return value


def rows_of(given: Any) -> Features:
    """The input. Raises DataError unless it is a matrix of numbers."""
    from onnx import TensorProto

    kind = given.type.tensor_type
    if kind.elem_type not in (TensorProto.FLOAT, TensorProto.DOUBLE):
        raise DataError(f"the input {given.name!r} is not of floats or doubles")
    dims = kind.shape.dim
    if len(dims) != 2:
        raise DataError(f"the input {given.name!r} has {len(dims)} dimensions, expected 2")
    return Features(int(dims[1].dim_value), np.array(1.0), np.array(0.0))


def margins_of(
    values: Mapping[str, Value], proto: "onnx.ModelProto", objective: str
) -> tuple[Margins, str]:
    """The margins of the outputs, and the response to them."""
    outputs = [values.get(one.name) for one in proto.graph.output]
    for one, value in zip(proto.graph.output, outputs, strict=True):
        if not isinstance(value, Dense | Forest | Answer | DerivedValue):
            raise DataError(f"the output {one.name!r} is no answer of layers or of trees")
    answers = [one for one in values.values() if isinstance(one, Answer)]
    bare = [one for one in outputs if isinstance(one, Dense | Forest)]
    if objective != "auto" and objective not in OBJECTIVES:
        raise OptionError(f"objective is {objective!r}, expected 'auto' or {one_of(OBJECTIVES)}")
    if len({id(one.of) for one in answers}) > 1:
        raise DataError("the graph has responses to several margins, expected one model")
    if answers:
        found, response = answers[0].of, answers[0].response
    elif bare:
        found, response = bare[0], "identity"
    else:
        raise DataError("the graph has classes and no probabilities, expected these too")
    if isinstance(found, Dense) and found.active:
        raise DataError("the graph ends with an activation, expected a layer without one")
    if response == "identity" and objective != "auto":
        many = found.margins > 1 and objective == "logistic"
        response = "softmax" if many else OBJECTIVES[objective]
    if found.margins > 1 and response != "softmax":
        raise DataError(
            f"the graph answers {found.margins} numbers per row without Softmax, expected one; if "
            "they are margins of classes, give objective='logistic'"
        )
    if response == "softmax" and not 2 <= found.margins <= MOST_CLASSES:
        raise DataError(f"the graph has {found.margins} classes, expected 2 to {MOST_CLASSES}")
    return found, response


def second_less_first(of: Margins) -> Margins:
    """The margin of the second of two classes: the difference."""
    if isinstance(of, Dense):
        weights, biases = of.layers[-1]
        last = (weights[1:] - weights[:1], biases[1:] - biases[:1])
        return replace(of, layers=(*of.layers[:-1], last))
    low, high = of.trees
    trees = (*high, *(tree.times(-1.0) for tree in low))
    return Forest(of.n, (trees,), of.bases[1:] - of.bases[:1])


def task_of(of: Margins, response: str, told: str | None) -> str:
    """The task that trains such models; told: the task that tuskml wrote into the graph."""
    if told in TASKS:
        return str(told)
    if isinstance(of, Forest):
        return "gbdt"
    if len(of.layers) > 1:
        return "mlp"
    return {"identity": "linear", "exp": "poisson"}.get(response, "logistic")


def classes_of(
    proto: "onnx.ModelProto", margins: int, response: str, about: Mapping[str, str]
) -> dict[str, Any]:
    """The fields `classes` and `class_names`; None of a model of numbers."""
    named = json.loads(about["classes"]) if "classes" in about else None
    if about and (found := own_classes(proto)):
        return {"classes": found, "class_names": named}
    if response not in ("logistic", "softmax"):
        return {"classes": None, "class_names": None}
    n = margins if margins > 1 else 2
    labels: list[Any] = list(range(n))
    for node in proto.graph.node:
        for one in node.attribute:
            if one.name in ("classlabels_int64s", "classlabels_strings", "classlabels_ints"):
                given = [*one.ints, *(text.decode() for text in one.strings)]
                labels = given if len(given) == n else labels
    rising = all(isinstance(one, int) for one in labels) and labels == sorted(set(labels))
    classes = [float(one) for one in (labels if rising else range(n))]
    return {"classes": classes, "class_names": [str(one) for one in labels]}


def own_classes(proto: "onnx.ModelProto") -> list[float]:
    """The classes in the constants of a graph of tuskml, if it has some."""
    from onnx import numpy_helper

    found = [
        float(value)
        for tensor in proto.graph.initializer
        if tensor.name in ("classes", "low", "high")
        for value in numpy_helper.to_array(tensor).ravel()
    ]
    return sorted(set(found))


def numbers(of: Margins, task: str) -> dict[str, Any]:
    """The fields of a model that determine its answers."""
    several = of.margins > 1
    if isinstance(of, Forest):
        base = None if several else float(of.bases[0])
        about = {"n_features": of.n, "iterations": max(map(len, of.trees))}
        return about | {"coef": coef_of_trees(of), "intercept": base}
    about = {"n_features": of.inputs, "iterations": 0}
    if not weighs_features(task):
        return about | {"coef": coef_of_net(of), "intercept": None if several else 0.0}
    weights, biases = of.layers[0]
    table = np.column_stack([biases, weights]) if several else weights
    base = None if several else float(biases[0])
    return about | {"coef": table.ravel().tolist(), "intercept": base}


def coef_of_net(of: Dense) -> list[float]:
    """The numbers of a net. Raises DataError for one of several activations."""
    if len(set(of.activations)) > 1:
        raise DataError(f"the layers have activations {one_of(of.activations)}, expected one")
    units = [len(biases) for _, biases in of.layers]
    activation = ACTIVATIONS.index(of.activations[0]) if of.activations else 0
    head = head_of(of.inputs, units, activation)
    parts = [np.column_stack([biases, weights]).ravel() for weights, biases in of.layers]
    return [*head.tolist(), *np.concatenate(parts).tolist()]


def coef_of_trees(of: Forest) -> list[float]:
    """The numbers of trees; those of classes take turns, and a class with fewer has trees of 0."""
    rounds = max(map(len, of.trees))
    trees = [
        some[place] if place < len(some) else NO_TREE
        for place in range(rounds)
        for some in of.trees
    ]
    bases = of.bases.tolist() if of.margins > 1 else []
    sets: list[float] = []
    tables: list[Floats] = []
    for tree in trees:
        table = tree.table.copy()
        for at in np.flatnonzero(splits_by_level(table)).tolist():
            levels = tree.sets[int(table[at, 1])]
            table[at, 1] = len(sets)
            sets += set_of(levels)
        tables.append(table)
    for table in tables:
        by_level = splits_by_level(table)
        table[by_level, 1] = len(sets) - table[by_level, 1]
    head = [float(of.n), float(len(trees)), float(len(bases)), *bases]
    head += [float(len(table)) for table in tables]
    nodes: list[float] = np.concatenate([table.ravel() for table in tables]).tolist()
    return head + nodes + sets
