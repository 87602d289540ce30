"""Models as ONNX graphs; `pip install 'tuskml[onnx]'` brings onnx.

Numbers are doubles, or floats on request. Input `features`: (n, n_features) numbers; of
`matrix_factorization` (n, 2) int64, [user, item]; of rows with names an input per column
(formats/onnx/columns.py).
Outputs, of shape (n,): `prediction`; where that is not the margin itself `decision`; and of
classifiers with a logistic response `probability`. Models of more than two classes have
`prediction` and `probability`, the latter of shape (n, n_classes). They are the values of SQL's
functions, to rounding; a user or item below 0, which those refuse, gets NaN.
"""

import json
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError, TuskError, one_of
from tuskml.formats.onnx.columns import add_prepared_margins, columns_of, derives, graph_inputs
from tuskml.formats.onnx.features import add_prepared_features
from tuskml.formats.onnx.graph import ML, Graph
from tuskml.formats.onnx.pipelines import is_pipeline, with_steps
from tuskml.formats.onnx.single import to_single
from tuskml.formats.onnx.trees import ensemble, machine
from tuskml.learners.fm.learner import TASKS as MACHINES
from tuskml.learners.nets.layers import layers_in, tables_in
from tuskml.learners.nets.learner import TASKS as NETS
from tuskml.learners.tasks import has_levels, is_labelled, weighs_features
from tuskml.learners.trees.forest import HEAD, trees_in
from tuskml.model.any_model import Estimator, model_in
from tuskml.model.model import Model
from tuskml.model.scoring import answers, classes_of
from tuskml.version import VERSION

if TYPE_CHECKING:
    import onnx
    from sklearn.pipeline import Pipeline


Floats = NDArray[np.float64]
PRECISIONS = ("float64", "float32")
OPSET, IR_VERSION = 17, 8
"""The versions of ONNX 1.12, 2022, which current runtimes read."""
RESPONSES = {"exp": "Exp", "logistic": "Sigmoid"}
"""The operator of a response to the margin."""


def has_shares(model: Model) -> bool:
    """Returns whether margins are shares of classes, those of a random forest."""
    return model.options.get("objective") == "gini"


def to_onnx(
    model: "Model | Estimator | Pipeline", *, precision: str = "float64", rows: Any = None
) -> "onnx.ModelProto":
    """The ONNX graph of a model; features, label and task are in its `metadata_props`.

    model: also a fitted estimator of one model, or a scikit-learn Pipeline that ends with one,
    whose other steps skl2onnx converts. precision: of numbers, inputs and outputs, `float64` or
    `float32`. rows: for a Pipeline a frame of pandas whose columns are the inputs, each of shape
    (n, 1). Classes that are texts are predicted by their names, "" in a row without a prediction.
    Raises TuskError if onnx is not installed, DataError if the coefficients are in a store.
    """
    try:
        from onnx import checker, helper
    except ImportError as error:
        raise TuskError("an export to ONNX needs onnx: pip install 'tuskml[onnx]'") from error
    if precision not in PRECISIONS:
        raise OptionError(f"precision is {precision!r}, expected {one_of(PRECISIONS)}")
    pipeline: Any = model if is_pipeline(model) else None
    if rows is not None and pipeline is None:
        raise DataError("rows are for a Pipeline whose last step is an estimator of tuskml")
    trained = model_in(model if pipeline is None else pipeline[-1])
    proto = graph_of(trained)
    if precision == "float32":
        if any("part" in column for column in columns_of(trained)):
            raise DataError(
                "the model reads parts of times, which floats cannot tell apart: expected "
                "precision 'float64'"
            )
        to_single(proto)
    about = {prop.key: prop.value for prop in proto.metadata_props}
    if pipeline is not None and len(pipeline) > 1:
        proto = with_steps(pipeline, rows, proto)
        helper.set_model_props(proto, about)
    checker.check_model(proto)
    return proto


def graph_of(model: Model) -> "onnx.ModelProto":
    """The graph of a model in double precision."""
    from onnx import TensorProto, helper

    if "link" in model.options and weighs_features(model.task):
        raise DataError(
            f"models with link '{model.options['link']}' have no ONNX graph: expected the usual "
            "link of their task"
        )
    if not is_labelled(model.task) or has_levels(model.task):
        raise DataError(
            f"models of task '{model.task}' have no ONNX graph: expected a task with labels that "
            "are numbers or classes without an order"
        )
    answers(model).refuse_calibrated("its ONNX graph")
    graph, make_output = Graph(), helper.make_tensor_value_info
    factorizes = answers(model).factorizes
    outputs = outputs_of(graph, model)
    model.weights()  # refuses a model whose coefficients are in a store
    shapes: dict[str, list[Any]] = {name: ["n"] for name in outputs}
    if model.many_classes:
        shapes["probability"] = ["n", len(model.classes or ())]
    kinds = {"prediction": TensorProto.STRING} if model.has_text_classes else {}
    proto = helper.make_model(
        helper.make_graph(
            graph.nodes,
            f"tuskml {model.task}",
            inputs(model),
            [
                make_output(name, kinds.get(name, TensorProto.DOUBLE), shape)
                for name, shape in shapes.items()
            ],
            graph.constants,
        ),
        producer_name="tuskml",
        producer_version=VERSION,
        opset_imports=[helper.make_opsetid("", OPSET), *graph.more_operators()],
        ir_version=IR_VERSION,
    )
    about = {"task": model.task, "status": model.status, "label": model.label or ""}
    if model.options.get("objective"):
        about["objective"] = str(model.options["objective"])
    if model.class_names:
        about["classes"] = json.dumps(model.class_names)
    if not factorizes:
        about["features"] = json.dumps(model.feature_names)
    helper.set_model_props(proto, about)
    return proto


def inputs(model: Model) -> list[Any]:
    """The inputs of the graph."""
    from onnx import TensorProto, helper

    info = helper.make_tensor_value_info
    if model.preparation is not None:
        kinds = {"text": TensorProto.STRING, "number": TensorProto.DOUBLE}
        return [info(name, kinds[kind], ["n"]) for name, kind in graph_inputs(model).items()]
    factorizes = answers(model).factorizes
    kind = TensorProto.INT64 if factorizes else TensorProto.DOUBLE
    return [info("features", kind, ["n", 2 if factorizes else model.n_features])]


def save_onnx(
    model: "Model | Estimator | Pipeline",
    path: str | PathLike[str],
    *,
    precision: str = "float64",
    rows: Any = None,
) -> None:
    """Writes the graph of a model to a file; precision, rows: as for `to_onnx`."""
    graph = to_onnx(model, precision=precision, rows=rows)
    import onnx

    onnx.save(graph, path)


def outputs_of(graph: Graph, model: Model) -> list[str]:
    """Adds the nodes of a model; returns the outputs."""
    if answers(model).factorizes:
        if model.preparation is not None:
            raise DataError(
                "users and items of the model are columns of rows with names, expected ids that "
                "are numbers from 0 on"
            )
        return rating(graph, model)
    return softmax(graph, model) if model.many_classes else linear(graph, model)


def softmax(graph: Graph, model: Model) -> list[str]:
    """The likeliest class, and the probabilities of all; of the first of those that tie.

    A row with a missing feature has neither.
    """
    _ = model.payload  # refuses coefficients that are not as many for each class
    classes = np.array(model.classes, np.float64)
    graph.constant("classes", classes)
    graph.constant("second", np.array([1], np.int64))
    if model.preparation is not None:
        add_prepared_features(graph, model, vectors_of(model))
        graph.refuse()
    if model.task in NETS:
        graph.intercept(np.zeros(1))
        net(graph, model.weights(), model.n_features)
    elif weighs_features(model.task):
        weights = np.array(model.weights(), np.float64).reshape(len(classes), -1)
        graph.constant("coef", weights[:, 1:].T.copy())
        graph.intercept(weights[:, 0].copy())
        graph.add("Gemm", ["features", "coef", "intercept"], "margins")
    else:
        trees_of_classes(graph, model)
    if has_shares(model):
        add_scaled_shares(graph, len(classes))
    else:
        graph.add("Softmax", ["margins"], "probability", axis=1)
    graph.add("ArgMax", ["margins"], "place", axis=1, keepdims=0)
    graph.add("Gather", ["classes", "place"], "likeliest")
    graph.add("ReduceSum", ["probability", "second"], "total", keepdims=0)
    graph.add("IsNaN", ["total"], "unknown")
    add_prediction(graph, model, "total", "likeliest")
    return ["prediction", "probability"]


def linear(graph: Graph, model: Model) -> list[str]:
    """Adds margins, and the model's answers to them; returns the outputs."""
    found = answers(model)
    graph.constant("second", np.array([1], np.int64))
    by_column = weighs_features(model.task) and not derives(model)
    if model.preparation is not None and not by_column:
        add_prepared_features(graph, model, vectors_of(model))
        graph.refuse()
    if model.intercept is None:
        raise DataError(
            f"the model's status is '{model.status}', and it has no margin, expected a model of "
            "two classes or of numbers"
        )
    graph.intercept([model.intercept])
    if model.preparation is not None and by_column:
        add_prepared_margins(graph, model)
    elif weighs_features(model.task):
        graph.constant("coef", np.array(model.weights(), np.float64)[:, None])
        graph.add("Gemm", ["features", "coef", "intercept"], "margins")
    elif model.task in NETS:
        net(graph, model.weights(), model.n_features)
    elif model.task in MACHINES:
        if_complete(graph)
        machine(graph, model.weights())
    else:
        sum_of_trees(graph, model.weights(), model.n_features)
    if not found.classifies and found.response == "identity":
        graph.add("Squeeze", ["margins", "second"], "prediction")
        return ["prediction"]
    graph.add("Squeeze", ["margins", "second"], "decision")
    if not found.classifies:
        graph.add(RESPONSES[found.response], ["decision"], "prediction")
        return ["prediction", "decision"]
    add_class(graph, model)
    if not found.has_probabilities:
        return ["prediction", "decision"]
    if has_shares(model):
        share_of_margin(graph)
    else:
        graph.add("Sigmoid", ["decision"], "probability")
    return ["prediction", "decision", "probability"]


def share_of_margin(graph: Graph) -> None:
    """Adds the share of the higher of two classes: the margin plus 1/2, from 0 to 1."""
    for name, value in (("half", 0.5), ("least", 0.0), ("most", 1.0)):
        graph.constant(name, np.array(value))
    graph.add("Add", ["decision", "half"], "share")
    graph.add("Less", ["share", "least"], "is_below")
    graph.add("Where", ["is_below", "least", "share"], "from_least")
    graph.add("Greater", ["share", "most"], "is_above")
    graph.add("Where", ["is_above", "most", "from_least"], "probability")


def add_scaled_shares(graph: Graph, n: int) -> None:
    """Adds the shares of n classes, from 0 on, over their sum; 1 / n if all are 0."""
    graph.constant("least", np.array(0.0))
    graph.constant("equal", np.full(n, 1 / n))
    graph.add("Less", ["margins", "least"], "is_below")
    graph.add("Where", ["is_below", "least", "margins"], "shares")
    graph.add("ReduceSum", ["shares", "second"], "sum", keepdims=1)
    graph.add("Div", ["shares", "sum"], "scaled")
    graph.add("Equal", ["sum", "least"], "is_nothing")
    graph.add("Where", ["is_nothing", "equal", "scaled"], "probability")


def vectors_of(model: Model) -> dict[int, Floats]:
    """Maps the first feature of each embedded category to the vectors of its features."""
    if model.task not in NETS or not model.weights():
        return {}
    return dict(tables_in(model.weights()))


def if_complete(graph: Graph) -> None:
    """Adds the intercept for each row, `first`; it is no number where a feature is missing."""
    graph.constant("nothing", np.array(0.0))
    graph.add("Mul", ["features", "nothing"], "zeros")
    graph.add("ReduceSum", ["zeros", "second"], "missing", keepdims=1)
    graph.add("Add", ["missing", "intercept"], "first")


def net(graph: Graph, numbers: list[float], n_features: int) -> None:
    """Adds the margins of a net, or of a constant without numbers; a row with a missing feature
    has none.
    """
    if_complete(graph)
    if not numbers:
        graph.constant("coef", np.zeros((n_features, 1)))
        graph.add("MatMul", ["features", "coef"], "sums")
        graph.add("Add", ["sums", "first"], "margins")
        return
    activation, layers = layers_in(numbers)
    values = "features"
    for place, (weights, biases) in enumerate(layers):
        graph.constant(f"weights{place}", weights)
        graph.constant(f"biases{place}", biases)
        of_layer = [values, f"weights{place}", f"biases{place}"]
        values = graph.add("Gemm", of_layer, f"sums{place}", transB=1)
        if place + 1 < len(layers):
            values = ACTIVATED[activation](graph, values)
    graph.add("Add", [values, "first"], "margins")


def relu(graph: Graph, sums: str) -> str:
    """max(0, z)."""
    return graph.add("Relu", [sums], f"{sums}_relu")


def tanh(graph: Graph, sums: str) -> str:
    """tanh z."""
    return graph.add("Tanh", [sums], f"{sums}_tanh")


def gelu(graph: Graph, sums: str) -> str:
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
"""Functions by the number of an activation."""


def sum_of_trees(graph: Graph, coef: Sequence[float], n_features: int) -> None:
    """Adds the margins of trees, which have an answer for missing features too. A constant, which
    has none, gets a tree that is one leaf of 0.
    """
    leaf = [n_features, 1, 0, 1, -1, 0, 0, 0, 0, 0]
    graph.add("TreeEnsemble", ["features"], "of_trees", domain=ML, **ensemble(coef or leaf, 1))
    graph.add("Add", ["of_trees", "intercept"], "margins")


def trees_of_classes(graph: Graph, model: Model) -> None:
    """Adds the margins of more than two classes; tree t is of class t modulo their number."""
    n = len(model.classes or ())
    coef, bases = model.weights(), np.array(model.weights()[HEAD : HEAD + n])
    if not trees_in(coef):
        raise DataError("the model has no tree, expected one whose status is 'ok'")
    graph.intercept(bases)
    graph.add("TreeEnsemble", ["features"], "of_trees", domain=ML, **ensemble(coef, n))
    graph.add("Add", ["of_trees", "intercept"], "margins")


def add_class(graph: Graph, model: Model) -> None:
    """Adds the class on that side of the margin; a NaN margin has none."""
    low, high = classes_of(model)
    for name, value in (("zero", 0.0), ("low", low), ("high", high)):
        graph.constant(name, np.array(value, np.float64))
    graph.add("GreaterOrEqual", ["decision", "zero"], "is_high")
    graph.add("Where", ["is_high", "high", "low"], "side")
    graph.add("IsNaN", ["decision"], "unknown")
    add_prediction(graph, model, "decision", "side")


def add_prediction(graph: Graph, model: Model, number: str, found: str) -> None:
    """Adds the prediction: the class `found`, and none where `number` is NaN, as `unknown`
    says.
    """
    from onnx import TensorProto

    if not model.has_text_classes:
        graph.add("Where", ["unknown", number, found], "prediction")
        return
    names = model.names_of_classes
    graph.constant("class_names", np.array([*names, ""], object))
    graph.constant("no_class", np.array(len(names), np.float64))
    graph.add("Where", ["unknown", "no_class", found], "class_number")
    graph.add("Cast", ["class_number"], "class_index", to=TensorProto.INT64)
    graph.add("Gather", ["class_names", "class_index"], "prediction")


def rating(graph: Graph, model: Model) -> list[str]:
    """The sum of biases and the product of factors; items never seen have zeros, and users too,
    or without biases the mean of users."""
    users, items, width = (int(number) for number in model.classes or (0, 0, 1))
    first = int(bool(model.options.get("biases", True)))
    coef = np.array(model.weights(), np.float64).reshape(users + items, width)
    none = np.zeros((1, width))
    stranger, seen = none, np.asarray(coef[:users].any(axis=1))
    if not first and seen.any():
        stranger = coef[:users][seen].mean(axis=0, keepdims=True)
    known = np.where(seen[:, None], coef[:users], stranger)
    graph.constant("user_table", np.vstack([known, stranger]))
    graph.constant("item_table", np.vstack([coef[users:], none]))
    graph.constant("intercept", np.array(model.intercept, np.float64))
    graph.constant("last", np.array([1], np.int64))
    graph.constant("least", np.array(0, np.int64))
    for place, (side, count) in enumerate((("user", users), ("item", items))):
        graph.constant(f"{side}_place", np.array(place, np.int64))
        graph.constant(f"{side}_unseen", np.array(count, np.int64))
        graph.add("Gather", ["features", f"{side}_place"], f"{side}_id", axis=1)
        graph.add("Min", [f"{side}_id", f"{side}_unseen"], f"{side}_known")
        graph.add("Max", [f"{side}_known", "least"], f"{side}_row")
        graph.add("Gather", [f"{side}_table", f"{side}_row"], f"{side}_vector", axis=0)
        for name, begin, end in (("bias", 0, first), ("factors", first, width)):
            graph.constant(f"{side}_{name}_begin", np.array([begin], np.int64))
            graph.constant(f"{side}_{name}_end", np.array([end], np.int64))
            bounds = [f"{side}_{name}_begin", f"{side}_{name}_end", "last"]
            graph.add("Slice", [f"{side}_vector", *bounds], f"{side}_{name}")
    graph.add("Mul", ["user_factors", "item_factors"], "products")
    graph.add("Concat", ["products", "user_bias", "item_bias"], "parts", axis=1)
    graph.add("ReduceSum", ["parts", "last"], "sums", keepdims=0)
    graph.add("Add", ["sums", "intercept"], "rating")
    refuse_negative(graph)
    return ["prediction"]


def refuse_negative(graph: Graph) -> None:
    """NaN for ids below 0, which would count rows of a table from its end."""
    graph.constant("none", np.array(np.nan, np.float64))
    graph.add("Min", ["user_id", "item_id"], "smaller_id")
    graph.add("Less", ["smaller_id", "least"], "is_negative")
    graph.add("Where", ["is_negative", "none", "rating"], "prediction")
