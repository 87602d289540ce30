"""Models from ONNX graphs predict what a runtime says of the graphs."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor

from tuskml import DataError, Model, registry, train
from tuskml.export_onnx import to_onnx

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
onnx = pytest.importorskip("onnx")
helper, FLOAT, DOUBLE = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
ROWS = """
CREATE TABLE t AS SELECT hash(i) % 100 / 10.0 AS a, hash(i + 1) % 7 + 0.5 AS b,
       hash(i + 2) % 5 AS c, hash(i + 3) % 10 + a > 8 AS late,
       hash(i + 1) % 7 + hash(i + 5) % 13 AS fare,
       'class ' || (hash(i + 1) % 7 + hash(i + 5) % 13) % 4 AS kind
FROM range(400) t(i)
"""


def run(proto: Any, x: np.ndarray) -> list[Any]:
    """The outputs of a graph, by onnxruntime."""
    onnxruntime = pytest.importorskip("onnxruntime")
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=providers)
    return list(session.run(None, {session.get_inputs()[0].name: x}))


def graph(
    nodes: list[Any], constants: dict[str, Any], outputs: list[str], d: int, kind: int = FLOAT
) -> Any:
    """A graph with an input x (n, d)."""
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    info = helper.make_tensor_value_info
    made = helper.make_graph(
        nodes,
        "given",
        [info("x", kind, ["n", d])],
        [info(name, onnx.TensorProto.UNDEFINED, None) for name in outputs],
        tensors,
    )
    for one in made.output:
        one.ClearField("type")
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(made, opset_imports=opsets, ir_version=8)


OWN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "linear": ("linear", "fare", {}),
    "logistic": ("logistic", "late", {}),
    "svm": ("svm", "CASE WHEN late THEN 7 ELSE -3 END", {}),
    "poisson": ("poisson", "fare", {}),
    "classes": ("logistic", "kind", {}),
    "trees": ("gbdt", "fare", {"trees": 7}),
    "trees of counts": ("gbdt", "fare", {"trees": 7, "objective": "poisson"}),
    "trees of amounts": ("gbdt", "1 + fare", {"trees": 7, "objective": "gamma"}),
    "trees of two classes": ("gbdt", "late", {"trees": 7, "objective": "logistic"}),
    "trees of classes": ("gbdt", "kind", {"trees": 7, "objective": "logistic"}),
    "trees by level": ("gbdt", "fare", {"trees": 7, "categorical": [3], "min_category_rows": 5}),
    "forest": ("random_forest", "fare", {"trees": 7}),
    "relu": ("mlp", "fare", {"layers": [7, 5], "learning_rate": 0.02}),
    "gelu": ("mlp", "late", {"layers": [5], "activation": "gelu", "learning_rate": 0.02}),
    "tanh": ("mlp", "kind", {"layers": [5, 3], "activation": "tanh", "objective": "logistic"}),
}


@pytest.mark.parametrize("case", OWN)
def test_out_and_back_is_the_same_model(con: Any, case: str) -> None:
    con.execute(ROWS)
    task, label, options = OWN[case]
    many = {"max_iter": 3} if task == "mlp" else {}
    features = ["[a, b, c]"] if "categorical" in options else ["a", "b", "c"]
    model = train(con, task, source="t", label=label, features=features, **many | options)
    x = np.array(con.execute("SELECT a, b, c FROM t").fetchall(), np.float64)
    x = np.vstack([x, [[-1e3, 4, 1], [1e3, -2, 3]]])
    if task in ("gbdt", "random_forest"):
        x[::7, 0] = np.nan
    back = Model.from_onnx(to_onnx(model))
    assert (back.task, back.classes, back.class_names) == (
        model.task,
        model.classes,
        model.class_names,
    )
    assert task != "gbdt" or back.options["objective"] == model.options["objective"]
    if model.has_text_classes:
        assert back.predict(x).tolist() == model.predict(x).tolist()
    else:
        assert back.predict(x) == pytest.approx(model.predict(x), rel=1e-12, nan_ok=True)
    if back.many_classes:
        assert back.predict_probas(x) == pytest.approx(model.predict_probas(x), rel=1e-12)
    else:
        assert back.decision(x) == pytest.approx(model.decision(x), rel=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    ("task", "label", "more"),
    [
        ("mlp", "fare", {"max_iter": 2, "learning_rate": 1e9, "algorithm": "sgd"}),
        ("mlp", "late", {"max_iter": 2, "learning_rate": 1e9, "algorithm": "sgd"}),
        ("mlp", "kind", {"max_iter": 2, "learning_rate": 1e9, "algorithm": "sgd"}),
        ("mlp", "late AND false", {"objective": "logistic", "classes": [0, 1]}),
        ("gbdt", "7", {}),
        ("gbdt", "fare", {"objective": "poisson", "min_gain": 1e9}),
        ("random_forest", "7", {}),
    ],
)
def test_constant_models_can_be_read(con: Any, task: str, label: str, more: Any) -> None:
    con.execute(ROWS)
    model = train(con, task, source="t", label=label, features=["a", "b", "c"], **more)
    assert model.status in ("diverged", "one class", "no split")
    proto = to_onnx(model)
    back = Model.from_onnx(proto)
    x = np.array([[1.0, 2.0, 3.0], [4.0, 5.0 if task == "mlp" else np.nan, 6.0]])
    assert back.predict(x).tolist() == pytest.approx(model.predict(x).tolist(), nan_ok=True)
    assert run(proto, x)[0].ravel() == pytest.approx(model.predict(x).ravel(), nan_ok=True)
    assert (back.task, back.status) == (model.task, model.status)


def test_sql_predicts_with_a_model_that_was_read(con: Any, tmp_path: Any) -> None:
    con.execute(ROWS)
    model = train(con, "gbdt", source="t", label="fare", features=["a", "b", "c"], trees=5)
    onnx.save(to_onnx(model), tmp_path / "trees.onnx")
    back = Model.from_onnx(tmp_path / "trees.onnx")
    assert back == Model.from_onnx((tmp_path / "trees.onnx").read_bytes())
    assert Model.from_json(back.to_json()).coef == back.coef
    assert back.feature_names == ("a", "b", "c")
    registry.create(con)
    registry.register(con, "read", back)
    registry.deploy(con, "read", 1)
    told = con.execute("SELECT predict('read', [a, b, c]), a, b, c FROM t").fetchall()
    rows = np.array(told, np.float64)
    assert rows[:, 0] == pytest.approx(model.predict(rows[:, 1:]), rel=1e-12)


def regressor(made: GradientBoostingRegressor, mode: str, **more: Any) -> Any:
    """scikit-learn's trees as TreeEnsembleRegressor; x < v is x <= the float before v."""
    given: dict[str, list[Any]] = {name: [] for name in (
        "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values",
        "nodes_truenodeids", "nodes_falsenodeids", "target_treeids", "target_nodeids",
        "target_ids", "target_weights",
    )}  # fmt: skip
    flipped = mode in ("BRANCH_GT", "BRANCH_GTE")
    for place, one in enumerate(made.estimators_[:, 0]):
        tree = one.tree_
        for node in range(tree.node_count):
            leaf = tree.children_left[node] < 0
            value = np.float32(tree.threshold[node])
            if mode in ("BRANCH_LT", "BRANCH_GTE"):
                value = np.nextafter(value, np.float32(np.inf))
            ends = [max(tree.children_left[node], 0), max(tree.children_right[node], 0)]
            ends = ends[::-1] if flipped else ends
            row = [place, node, max(tree.feature[node], 0), "LEAF" if leaf else mode,
                   0.0 if leaf else float(value), *map(int, ends)]  # fmt: skip
            for name, item in zip(list(given)[:7], row, strict=True):
                given[name].append(item)
            if leaf:
                said = made.learning_rate * float(tree.value[node, 0, 0])
                for name, item in zip(list(given)[7:], [place, node, 0, said], strict=True):
                    given[name].append(item)
    given["nodes_featureids"] = list(map(int, given["nodes_featureids"]))
    base = [float(made.init_.constant_.ravel()[0])]
    return helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, base_values=base,
        **given, **more,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT", "BRANCH_GTE"])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE"])
def test_trees_of_scikit_learn(mode: str, aggregate: str) -> None:
    random = np.random.default_rng(1)
    x = random.integers(-5, 6, size=(500, 4)).astype(np.float32)
    y = x[:, 0] * x[:, 1] + x[:, 2]
    made = GradientBoostingRegressor(n_estimators=9, max_depth=4, random_state=1).fit(x, y)
    proto = graph([regressor(made, mode, aggregate_function=aggregate)], {}, ["y"], 4)
    x[::9, 1] = np.nan
    model = Model.from_onnx(proto)
    assert (model.task, model.n_features, model.options["objective"]) == ("gbdt", 4, "squared")
    told = run(proto, x)[0].ravel()
    assert model.predict(x) == pytest.approx(told, rel=1e-5, abs=1e-5)
    known = ~np.isnan(x).any(axis=1)
    if aggregate == "SUM":
        assert model.predict(x[known]) == pytest.approx(made.predict(x[known]), rel=1e-5, abs=1e-4)


def classifier(labels: dict[str, Any], ids: list[int], weights: list[float], how: str) -> Any:
    """Stumps by x[:, 0] <= 0 with two leaves each, as TreeEnsembleClassifier."""
    n = len(ids) // 2
    return helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "p"], domain="ai.onnx.ml",
        nodes_treeids=[t for t in range(n) for _ in range(3)], nodes_nodeids=[0, 1, 2] * n,
        nodes_featureids=[t % 2 for t in range(n) for _ in range(3)],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * n, nodes_values=[0.0] * (3 * n),
        nodes_truenodeids=[1, 0, 0] * n, nodes_falsenodeids=[2, 0, 0] * n,
        nodes_missing_value_tracks_true=[1, 0, 0] * n,
        class_treeids=[t for t in range(n) for _ in range(2)], class_nodeids=[1, 2] * n,
        class_ids=ids, class_weights=weights, post_transform=how, **labels,
    )  # fmt: skip


def test_trees_of_two_classes() -> None:
    node = classifier({"classlabels_int64s": [3, 8]}, [1] * 4, [-1.0, 0.5, 0.25, -2.0], "LOGISTIC")
    proto = graph([node], {}, ["label", "p"], 2)
    model = Model.from_onnx(proto)
    x = np.array(list(itertools.product([-1, 0, 1, np.nan], repeat=2)), np.float32)
    label, p = run(proto, x)
    assert model.classes == [3.0, 8.0]
    assert model.predict(x).tolist() == label.tolist()
    assert model.predict_proba(x) == pytest.approx(p[:, 1], abs=1e-6)


def test_trees_of_three_classes() -> None:
    """The first class has a tree more, the last one has none."""
    labels = {"classlabels_strings": ["low", "middle", "high"], "base_values": [0.1, -0.2, 0.3]}
    node = classifier(labels, [0, 0, 1, 1, 0, 0], [1, -1, 2, 0.5, -0.5, 3], "SOFTMAX")
    proto = graph([node], {}, ["label", "p"], 2)
    model = Model.from_onnx(proto)
    x = np.array(list(itertools.product([-1, 0, 1, np.nan], repeat=2)), np.float32)
    label, p = run(proto, x)
    assert model.class_names == ["low", "middle", "high"]
    assert model.predict_class(x) == label.tolist()
    assert model.predict_probas(x) == pytest.approx(p, abs=1e-6)


def layers(net: Any, last: list[str], active: str = "Relu") -> tuple[list[Any], dict[str, Any]]:
    """scikit-learn's net as PyTorch writes nets: Gemm with transB."""
    nodes, constants, at = [], {}, "x"
    for place, (weights, biases) in enumerate(zip(net.coefs_, net.intercepts_, strict=True)):
        constants[f"w{place}"] = weights.T.astype(np.float32)
        constants[f"b{place}"] = biases.astype(np.float32)
        inputs = [at, f"w{place}", f"b{place}"]
        at = f"z{place}"
        nodes.append(helper.make_node("Gemm", inputs, [at], transB=1))
        if place + 1 < len(net.coefs_):
            nodes.append(helper.make_node(active, [at], [f"a{place}"]))
            at = f"a{place}"
    for name in last:
        nodes.append(helper.make_node(name, [at], [name]))
        at = name
    nodes.append(helper.make_node("Identity", [at], ["y"]))
    return nodes, constants


def blobs(classes: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(4)
    x = random.normal(size=(300, 3)).astype(np.float32)
    return x, (np.abs(x).sum(axis=1) * 2).astype(int) % classes


@pytest.mark.parametrize(("classes", "last"), [(2, "Sigmoid"), (3, "Softmax")])
def test_nets_of_classes(classes: int, last: str) -> None:
    x, y = blobs(classes)
    net = MLPClassifier(hidden_layer_sizes=(8, 6), max_iter=30, random_state=1).fit(x, y)
    proto = graph(*layers(net, [last]), ["y"], 3)
    model = Model.from_onnx(proto)
    assert (model.task, model.n_features) == ("mlp", 3)
    told, theirs = run(proto, x)[0], net.predict_proba(x)
    ours = model.predict_probas(x)
    assert ours == pytest.approx(theirs, abs=1e-5)
    assert ours[:, -1] == pytest.approx(told.reshape(len(x), -1)[:, -1], abs=1e-5)
    assert model.predict(x).tolist() == net.predict(x).tolist()


def test_margins_of_classes_need_a_word() -> None:
    """PyTorch's classifiers end with margins; of two classes they may have one for each."""
    x, y = blobs(3)
    net = MLPClassifier(hidden_layer_sizes=(4,), max_iter=20, random_state=1).fit(x, y)
    proto = graph(*layers(net, []), ["y"], 3)
    with pytest.raises(DataError, match="without Softmax, expected one; if they are margins of"):
        Model.from_onnx(proto)
    model = Model.from_onnx(proto, objective="logistic")
    assert model.predict_probas(x) == pytest.approx(net.predict_proba(x), abs=1e-5)
    net.coefs_[-1], net.intercepts_[-1] = net.coefs_[-1][:, :2], net.intercepts_[-1][:2]
    model = Model.from_onnx(graph(*layers(net, ["Softmax"]), ["y"], 3))
    shares = run(graph(*layers(net, ["Softmax"]), ["y"], 3), x)[0]
    assert model.classes == [0.0, 1.0]
    assert model.predict_proba(x) == pytest.approx(shares[:, 1], abs=1e-5)


@pytest.mark.parametrize("kind", ["Gelu", "erf", "Tanh"])
def test_nets_of_numbers(kind: str) -> None:
    """With a scaler before them, and a factor behind; erf: gelu as older graphs have it."""
    x, _ = blobs(2)
    net = MLPRegressor(hidden_layer_sizes=(5,), max_iter=30, random_state=1).fit(
        x, x[:, 0] * x[:, 1]
    )
    nodes, constants = layers(net, [], "Gelu" if kind == "erf" else kind)
    constants |= {
        "mean": np.array([0.5, 1, -2], np.float32), "scale": np.array([[2, 3, 0.5]], np.float32),
        "root": np.array(np.sqrt(2), np.float32), "one": np.array(1, np.float32),
        "half": np.array(0.5, np.float32), "times": np.array(3, np.float32),
    }  # fmt: skip
    node = helper.make_node
    if kind == "erf":
        nodes[1:2] = [
            node("Div", ["z0", "root"], ["e0"]), node("Erf", ["e0"], ["e1"]),
            node("Add", ["e1", "one"], ["e2"]), node("Mul", ["z0", "e2"], ["e3"]),
            node("Mul", ["e3", "half"], ["a0"]),
        ]  # fmt: skip
    nodes[0].input[0] = "scaled"
    nodes = [node("Sub", ["x", "mean"], ["c"]), node("Div", ["c", "scale"], ["scaled"]), *nodes]
    nodes[-1] = node("Mul", ["times", "z1"], ["y"])
    proto = graph(nodes, constants, ["y"], 3)
    model = Model.from_onnx(proto)
    assert model.predict(x) == pytest.approx(run(proto, x)[0].ravel(), abs=1e-5)


def test_layers_without_activations_are_one_linear_model() -> None:
    random = np.random.default_rng(2)
    constants = {"a": random.normal(size=(3, 4)), "b": random.normal(size=(4, 1)), "c": np.ones(1)}
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "a"], ["h"]), node("MatMul", ["h", "b"], ["m"]),
        node("Add", ["c", "m"], ["z"]), node("Sigmoid", ["z"], ["p"]),
    ]  # fmt: skip
    proto = graph(nodes, constants, ["p"], 3, DOUBLE)
    model, x = Model.from_onnx(proto), random.normal(size=(9, 3))
    assert model.task == "logistic"
    assert model.coef == pytest.approx((constants["a"] @ constants["b"]).ravel())
    assert model.predict_proba(x) == pytest.approx(run(proto, x)[0].ravel())


WEIGHTS = {"w": np.ones((3, 2)), "v": np.ones((2, 1)), "one": np.ones(1)}
REFUSED: dict[str, tuple[list[tuple[str, list[str], str]], str]] = {
    "an operator": ([("Sin", ["x"], "y")], "has an operator 'Sin', expected layers of 'relu'"),
    "a mixture": (
        [("MatMul", ["x", "w"], "a"), ("Relu", ["a"], "b"), ("MatMul", ["b", "v"], "c"),
         ("Tanh", ["c"], "d"), ("Mul", ["d", "one"], "y")],
        "ends with an activation",
    ),
    "two activations": (
        [("MatMul", ["x", "w"], "a"), ("Relu", ["a"], "b"), ("Tanh", ["b"], "y")],
        "'tanh' is of an activation, expected one activation for a layer",
    ),
    "a hidden sigmoid": (
        [("MatMul", ["x", "w"], "a"), ("Sigmoid", ["a"], "b"), ("MatMul", ["b", "v"], "y")],
        "'MatMul' of answer and ndarray is not known here",
    ),
    "two numbers": ([("MatMul", ["x", "w"], "y")], "2 numbers per row without Softmax"),
    "features": ([("Identity", ["x"], "y")], "the output 'y' is no answer"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_what_is_expected(case: str) -> None:
    nodes, sentence = REFUSED[case]
    made = [helper.make_node(name, inputs, [output]) for name, inputs, output in nodes]
    with pytest.raises(DataError, match=sentence):
        Model.from_onnx(graph(made, WEIGHTS, ["y"], 3, DOUBLE))


def test_damaged_graphs_are_refused(con: Any, tmp_path: Any) -> None:
    con.execute(ROWS)
    model = train(con, "gbdt", source="t", label="fare", features=["a", "b"], trees=2)
    proto = to_onnx(model)
    whole = proto.SerializeToString()
    for part in (b"", whole[: len(whole) // 2], b"no graph"):
        with pytest.raises(DataError, match="expected"):
            Model.from_onnx(part)
    (node,) = (one for one in proto.graph.node if one.op_type == "TreeEnsemble")
    roots = next(one for one in node.attribute if one.name == "tree_roots")
    roots.ints[0] = 10_000
    with pytest.raises(DataError, match="the nodes are no tree"):
        Model.from_onnx(proto)
    node.attribute.remove(roots)
    with pytest.raises(DataError, match="the graph is damaged"):
        Model.from_onnx(proto)


@pytest.mark.parametrize("seed", range(3))
def test_changed_trees_end_in_a_model_or_a_sentence(con: Any, seed: int) -> None:
    """Children, features and roots that are any number."""
    con.execute(ROWS)
    model = train(con, "gbdt", source="t", label="fare", features=["a", "b"], trees=3)
    random, told = np.random.default_rng(seed), 0
    for _ in range(60):
        proto = to_onnx(model)
        (node,) = (one for one in proto.graph.node if one.op_type == "TreeEnsemble")
        lists = [one for one in node.attribute if one.ints]
        for one in random.choice(len(lists), 2):
            values = lists[one].ints
            values[int(random.integers(len(values)))] = int(random.integers(-3, 40))
        try:
            found = Model.from_onnx(proto)
            assert np.isfinite(found.predict(np.ones((2, found.n_features)))).all()
        except DataError:
            told += 1
    assert 0 < told < 60
    assert json.loads(found.to_json())


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("n_targets", lambda one: setattr(one, "i", 10**9), "1000000000 targets, expected 1 to"),
        ("n_targets", lambda one: setattr(one, "i", 0), "0 targets, expected 1 to"),
        ("tree_roots", lambda one: one.ints.append(one.ints[0]), "the nodes are no tree"),
        ("nodes_featureids", lambda one: one.ints.__setitem__(0, -7), "feature -7, expected one"),
    ],
    ids=["many targets", "no target", "a tree twice", "a feature below 0"],
)
def test_few_bytes_do_not_make_many_nodes(con: Any, name: str, change: Any, sentence: str) -> None:
    con.execute(ROWS)
    model = train(con, "gbdt", source="t", label="fare", features=["a", "b"], trees=2)
    proto = to_onnx(model)
    (node,) = (one for one in proto.graph.node if one.op_type == "TreeEnsemble")
    change(next(one for one in node.attribute if one.name == name))
    with pytest.raises(DataError, match=sentence):
        Model.from_onnx(proto)


def test_constants_that_grow_and_are_none() -> None:
    add = helper.make_node("Add", ["one", "other"], ["sum"])
    layer = helper.make_node("MatMul", ["x", "sum"], ["y"])
    column = {"one": np.ones((3, 1), np.float32), "other": np.ones((1, 3), np.float32)}
    with pytest.raises(DataError, match="'Add' of ndarray and ndarray"):
        Model.from_onnx(graph([add, layer], column, ["y"], 3))
    none = helper.make_node("Constant", [], ["w"])
    layer = helper.make_node("MatMul", ["x", "w"], ["y"])
    with pytest.raises(DataError, match="the graph is damaged"):
        Model.from_onnx(graph([none, layer], {}, ["y"], 3))
