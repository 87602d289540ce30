"""Evaluation of the operators of ONNX graphs on symbolic tensors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuskml.errors import DataError
from tuskml.formats.onnx_reading import trees
from tuskml.formats.onnx_reading.values import (
    Answer,
    Dense,
    DerivedValue,
    Erf,
    Features,
    Forest,
    Value,
    Zero,
)
from tuskml.model.scoring import Floats

CLOSE = 1e-6
"""Tolerance of the constants of an activation, which are floats."""


@dataclass(frozen=True)
class Node:
    """A node of a graph. attributes: arrays for tensors."""

    operator: str
    inputs: Sequence[Value | None]
    attributes: Mapping[str, Any]

    @property
    def first(self) -> Value | None:
        """The first input."""
        return self.inputs[0]

    def array(self, place: int) -> Floats:
        """A constant input. Raises DataError if it is not constant."""
        value = self.inputs[place] if place < len(self.inputs) else None
        if not isinstance(value, np.ndarray):
            raise DataError(
                f"an input of '{self.operator}' follows from the rows, expected numbers"
            )
        return value

    def read_error(self) -> DataError:
        """Says why the node cannot be read."""
        kinds = [type(one).__name__.lower() for one in self.inputs if one is not None]
        return DataError(f"'{self.operator}' of {' and '.join(kinds)} is not known here")


def same(node: Node) -> Value:
    """The first input: its shape or its precision changes."""
    if node.first is None:
        raise node.read_error()
    return node.first


FLOATS = (1, 11)
"""Floats and doubles, in ONNX's numbers of types."""


def cast(node: Node) -> Value:
    """Ignores another precision; only tensors derived from an answer may become integers."""
    if node.attributes.get("to") not in FLOATS and not isinstance(node.first, DerivedValue):
        raise DataError("numbers are cast to another type, expected floats or doubles")
    return same(node)


def reshape(node: Node) -> Value:
    """Another shape, in which rows stay rows."""
    of = node.first
    width = of.n if isinstance(of, Features) else getattr(of, "margins", 1)
    if isinstance(of, Features | Dense | Forest) and width != 1 and node.array(1)[-1] != width:
        raise node.read_error()
    return same(node)


def dropout(node: Node) -> Value:
    """Passes its input through, unless in training mode."""
    if len(node.inputs) > 2 and node.inputs[2] is not None and node.array(2).any():
        raise DataError("'Dropout' is in training mode, expected a graph for predictions")
    return same(node)


def layer(node: Node, weights: Floats, biases: Floats | None) -> Value:
    """A layer over features or over another one; weights (units, inputs)."""
    of = node.first
    if weights.ndim != 2:
        raise DataError(f"weights have {weights.ndim} dimensions, expected 2")
    biases = np.zeros(1) if biases is None else biases.ravel()
    biases = np.broadcast_to(biases, (len(weights),)).astype(np.float64)
    weights = weights.astype(np.float64)
    if isinstance(of, Features):
        if of.n not in (0, weights.shape[1]):
            raise DataError(f"a layer has {weights.shape[1]} inputs, the rows {of.n} numbers")
        shift = np.broadcast_to(of.shift, (weights.shape[1],))
        return Dense(weights.shape[1], ((weights * of.scale, biases + weights @ shift),))
    if not isinstance(of, Dense):
        raise node.read_error()
    if of.margins != weights.shape[1]:
        raise DataError(
            f"a layer has {weights.shape[1]} inputs, the one before {of.margins} units"
        )
    if of.active:
        return replace(of, layers=(*of.layers, (weights * of.factor, biases)), factor=1.0)
    before, bias = of.layers[-1]
    return replace(of, layers=(*of.layers[:-1], (weights @ before, weights @ bias + biases)))


def gemm(node: Node) -> Value:
    """alpha A B + beta C, A the rows."""
    given = node.attributes
    if given.get("transA"):
        raise node.read_error()
    weights = node.array(1) if given.get("transB") else node.array(1).T
    biases = node.array(2) * given.get("beta", 1.0) if len(node.inputs) > 2 else None
    return layer(node, weights * given.get("alpha", 1.0), biases)


def matmul(node: Node) -> Value:
    """A B, A the rows."""
    return layer(node, node.array(1).T, None)


def arithmetic(node: Node) -> Value:
    """Sums, differences, products and quotients of two."""
    a, b = node.inputs
    operator = node.operator
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if np.broadcast(a, b).size > max(a.size, b.size):
            raise node.read_error()  # few bytes would make many
        return BINARY[operator](a, b)
    if any(isinstance(one, Answer | DerivedValue) for one in (a, b)):
        return DerivedValue()
    if operator == "Mul" and any(isinstance(one, Erf) for one in (a, b)):
        return with_erf(node, a, b)
    if isinstance(a, np.ndarray) and operator in ("Add", "Mul"):
        a, b = b, a
    if isinstance(a, Zero) and operator == "Add" and b is not None:
        return b
    if not isinstance(b, np.ndarray) or a is None:
        raise node.read_error()
    return change_value(node, a, b if operator in ("Add", "Mul") else INVERSE[operator](b))


BINARY: dict[str, Callable[[Floats, Floats], Floats]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
}
INVERSE: dict[str, Callable[[Floats], Floats]] = {"Sub": np.negative, "Div": np.reciprocal}


def change_value(node: Node, a: Value, b: Floats) -> Value:
    """A value and a number, or times one."""
    adds = node.operator in ("Add", "Sub")
    if isinstance(a, Features):
        b = b.ravel() if b.size > 1 else b.reshape(())
        found = a.plus(b) if adds else a.times(b)
        return Zero() if not (found.scale.any() or found.shift.any()) else found
    if isinstance(a, Dense | Forest):
        return a.plus(b) if adds else a.times(b)
    if isinstance(a, Erf) and b.size == 1:
        one = float(b.ravel()[0])
        return replace(a, at=a.at + one) if adds else replace(a, at=a.at * one, by=a.by * one)
    raise node.read_error()


def with_erf(node: Node, a: Value | None, b: Value | None) -> Value:
    """z (1 + erf(z / sqrt 2)), which is twice gelu; or a number times such an erf."""
    dense, erf = (b, a) if isinstance(a, Erf) else (a, b)
    if isinstance(dense, np.ndarray) and isinstance(erf, Erf):
        return change_value(node, erf, dense)
    if not isinstance(dense, Dense) or not isinstance(erf, Erf) or dense.active:
        raise node.read_error()
    ours, inner = dense.layers[-1], erf.of.layers[-1]
    alike = all(np.allclose(p, q, CLOSE, CLOSE) for p, q in zip(ours, inner, strict=True))
    if not alike or abs(erf.at - erf.by) > CLOSE:
        raise node.read_error()
    return replace(dense.activate("gelu"), factor=2 * erf.at)


def erf(node: Node) -> Value:
    """erf, whose argument is z / sqrt 2 in gelu."""
    if not isinstance(node.first, Dense) or node.first.active:
        raise node.read_error()
    return Erf(node.first.times(np.array(np.sqrt(2.0))), 0.0, 1.0)


def activation(node: Node) -> Value:
    """Relu, Tanh or Gelu of a layer."""
    if not isinstance(node.first, Dense):
        raise node.read_error()
    if node.attributes.get("approximate", "none") != "none":
        raise DataError("'Gelu' is approximated by tanh, expected the exact one")
    return node.first.activate(node.operator.lower())


def response(node: Node) -> Value:
    """The answer to margins."""
    of = node.first
    if isinstance(of, np.ndarray):
        raise node.read_error()
    if isinstance(of, Answer | DerivedValue):
        return DerivedValue()
    if not isinstance(of, Dense | Forest) or (isinstance(of, Dense) and of.active):
        raise node.read_error()
    if RESPONSES[node.operator] == "softmax" and node.attributes.get("axis", -1) not in (-1, 1):
        raise node.read_error()
    return Answer(of, RESPONSES[node.operator])


RESPONSES = {"Sigmoid": "logistic", "Softmax": "softmax", "LogSoftmax": "softmax", "Exp": "exp"}


def scaler(node: Node) -> Value:
    """(x - offset) scale."""
    if not isinstance(node.first, Features):
        raise node.read_error()
    given = {name: np.asarray(node.attributes[name], np.float64) for name in ("offset", "scale")}
    return node.first.plus(-given["offset"]).times(given["scale"])


def plain_features(node: Node) -> int:
    """Counts the features that trees read. Raises DataError if they are not the rows' own."""
    if not isinstance(node.first, Features):
        raise node.read_error()
    if not node.first.plain:
        raise DataError("the trees read features that are scaled, expected the rows' own")
    return node.first.n


def tree_ensemble(node: Node) -> Value:
    """The sums of trees."""
    return trees.ensemble(plain_features(node), node.attributes)


def tree_regressor(node: Node) -> Value:
    """As `trees`, for the older operator."""
    given = node.attributes
    found = trees.older(plain_features(node), given, "target", trees.targets_of(given))
    return transform_margins(found, given.get("post_transform", "NONE"))


def tree_classifier(node: Node) -> Value:
    """As `tree_regressor`; its second output is the answer."""
    given = node.attributes
    labels = len(given.get("classlabels_int64s", ()) or given.get("classlabels_strings", ()))
    lone = labels == 2 and len(set(given["class_ids"])) == 1
    if lone:
        weights = trees.numbers(given, "class_weights")
        if given.get("post_transform") == "LOGISTIC" and all(one >= 0 for one in weights):
            raise DataError(
                "all leaves of two classes are positive, expected margins of both signs"
            )
        given = {**given, "class_ids": [0] * len(weights)}
    found = trees.older(plain_features(node), given, "class", 1 if lone else labels)
    how = given.get("post_transform", "NONE")
    if how != ("LOGISTIC" if lone else "SOFTMAX"):
        expected = "LOGISTIC" if lone else "SOFTMAX"
        raise DataError(f"post_transform of the trees is '{how}', expected '{expected}'")
    return transform_margins(found, how)


def transform_margins(found: Forest, how: str) -> Value:
    """Applies `post_transform` to margins."""
    if how == "NONE":
        return found
    if how not in ("LOGISTIC", "SOFTMAX"):
        raise DataError(
            f"post_transform of the trees is '{how}', expected 'LOGISTIC' or 'SOFTMAX'"
        )
    return Answer(found, how.lower())


def total(node: Node) -> Value:
    """Sums along an axis: of tensors derived from answers, or of zeros."""
    return node.first if isinstance(node.first, Zero) else follows(node)


def follows(node: Node) -> Value:
    """A class, or the mask of rows without one."""
    if all(one is None or isinstance(one, np.ndarray | Features | Zero) for one in node.inputs):
        raise node.read_error()
    return DerivedValue()


READ: dict[str, Callable[[Node], Value]] = {
    **dict.fromkeys(("Identity", "Flatten", "Squeeze", "Unsqueeze"), same),
    "Cast": cast,
    "Reshape": reshape,
    "Dropout": dropout,
    "Gemm": gemm,
    "MatMul": matmul,
    **dict.fromkeys(BINARY, arithmetic),
    "Erf": erf,
    **dict.fromkeys(("Relu", "Tanh", "Gelu"), activation),
    **dict.fromkeys(RESPONSES, response),
    "Scaler": scaler,
    "TreeEnsemble": tree_ensemble,
    "TreeEnsembleRegressor": tree_regressor,
    "TreeEnsembleClassifier": tree_classifier,
    "ReduceSum": total,
    **dict.fromkeys(
        (
            "ArgMax",
            "Gather",
            "Where",
            "Greater",
            "GreaterOrEqual",
            "Less",
            "Equal",
            "IsNaN",
            "Not",
            "ZipMap",
            "ArrayFeatureExtractor",
            "Concat",
            "LabelEncoder",
            "Binarizer",
        ),
        follows,
    ),
}
"""Functions by operator."""
