"""Pipelines of scikit-learn as one graph: skl2onnx converts the steps before the estimator."""

from typing import TYPE_CHECKING, Any

from tuskml.errors import DataError, TuskError

if TYPE_CHECKING:
    import onnx


def is_pipeline(of: Any) -> bool:
    """Returns whether it is a pipeline whose last step may be an estimator of tuskml."""
    return type(of).__name__ == "Pipeline" and type(of.steps[-1][1]).__name__.startswith("Tusk")


def with_steps(pipeline: Any, rows: Any, last: "onnx.ModelProto") -> "onnx.ModelProto":
    """Puts the steps before the last one in front of its graph.

    rows: a frame whose columns are the inputs, each of shape (n, 1): strings for text, numbers for
    the rest; None: one input `features` of shape (n, n_features). Numbers are of `last`'s type.
    Raises TuskError if skl2onnx is not installed, DataError if it cannot convert a step or the
    last step reads columns by name.
    """
    from onnx import compose, helper

    if [one.name for one in last.graph.input] != ["features"]:
        raise DataError(
            "the last step of the pipeline was fitted on columns of text or categories, expected "
            "steps before it that make them numbers, such as OneHotEncoder"
        )
    kind = last.graph.input[0].type.tensor_type.elem_type
    first = graph_of_steps(pipeline[:-1], rows, kind, last)
    output = first.graph.output[0].name
    first.graph.node.append(helper.make_node("Cast", [output], ["steps_numbers"], to=kind))
    del first.graph.output[:]
    first.graph.output.append(helper.make_tensor_value_info("steps_numbers", kind, ["n", None]))
    model = compose.add_prefix(last, "model_", rename_outputs=False)
    return compose.merge_models(first, model, io_map=[("steps_numbers", "model_features")])


def graph_of_steps(steps: Any, rows: Any, kind: int, last: "onnx.ModelProto") -> "onnx.ModelProto":
    """The graph of fitted transformations, of the versions of `last`.

    kind: its type of numbers.
    """
    try:
        import skl2onnx
        from skl2onnx.common import data_types
    except ImportError as error:
        raise TuskError(
            "an export of a Pipeline to ONNX needs skl2onnx: pip install skl2onnx"
        ) from error
    from onnx import TensorProto, compose

    single = kind == TensorProto.FLOAT
    numbers = data_types.FloatTensorType if single else data_types.DoubleTensorType
    if rows is None:
        inputs = [("features", numbers([None, steps.n_features_in_]))]
    else:
        inputs = [
            (
                str(name),
                (data_types.StringTensorType if is_text(rows[name]) else numbers)([None, 1]),
            )
            for name in rows.columns
        ]
    try:
        first = skl2onnx.to_onnx(steps, initial_types=inputs, target_opset=versions(last))
    except Exception as error:  # of many kinds, by the step that it does not know
        raise DataError(f"skl2onnx cannot convert the steps before the model: {error}") from error
    first.ir_version = last.ir_version
    for one in first.opset_import:  # steps of fewer operators name an earlier set
        one.version = versions(last).get(one.domain, one.version)
    return compose.add_prefix(first, "steps_", rename_inputs=False)


def versions(proto: "onnx.ModelProto") -> dict[str, int]:
    """The sets of operators that a graph needs."""
    return {one.domain: one.version for one in proto.opset_import}


def is_text(column: Any) -> bool:
    """Returns whether a column of a frame is strings to ONNX."""
    return getattr(column.dtype, "kind", "O") not in "biuf"
