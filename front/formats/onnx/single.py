"""A graph in single precision, from one in double precision."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError

if TYPE_CHECKING:
    import onnx


def to_single(proto: "onnx.ModelProto") -> None:
    """Makes numbers, inputs and outputs of a graph floats, in place.

    Thresholds of trees are rounded down, so that each float goes where it went before. Raises
    DataError if a number is beyond floats.
    """
    from onnx import TensorProto, numpy_helper

    graph = proto.graph
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.DOUBLE:
            values = floats(numpy_helper.to_array(tensor))
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name == "to" and attribute.i == TensorProto.DOUBLE:
                attribute.i = TensorProto.FLOAT
            if attribute.t.data_type == TensorProto.DOUBLE:
                numbers = numpy_helper.to_array(attribute.t)
                values = floats(numbers)
                if attribute.name == "nodes_splits":
                    lower = np.nextafter(values, np.float32(-np.inf))
                    values = np.where(values > numbers, lower, values)
                attribute.t.CopyFrom(numpy_helper.from_array(values, attribute.t.name))
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == TensorProto.DOUBLE:
            value.type.tensor_type.elem_type = TensorProto.FLOAT


def floats(numbers: NDArray[Any]) -> NDArray[np.float32]:
    """The nearest floats."""
    with np.errstate(over="ignore"):
        values = numbers.astype(np.float32)
    if (np.isinf(values) & np.isfinite(numbers)).any():
        most = float(np.abs(numbers[np.isfinite(numbers)]).max())
        raise DataError(
            f"the model has the number {most:g}, which floats cannot hold: expected precision "
            "'float64'"
        )
    return values
