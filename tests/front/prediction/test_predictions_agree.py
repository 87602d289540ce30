"""Every task, by every way of predicting: the same numbers, or a refusal everywhere.

The ways are methods of `Model` on arrays, lists, frames and sparse matrices, JSON, `tuskml.predict` in DuckDB
and in PostgreSQL, SQL on the trained value, ONNX, MLflow and scikit-learn's wrapper. The truth is the margin,
by NumPy, and the response that a task's author asked for. A new task of `TASKS` enters by itself.
"""

# ruff: noqa: E501, SQL is read better on one line

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import statsmodels.api as sm
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nets import margins
from scipy.special import expit
from sklearn import metrics

import tuskml
from tuskml import DataError, Model, TuskError
from tuskml.estimators import TuskClassifier, TuskRegressor
from tuskml.export_mlflow import ModelWrapper
from tuskml.export_onnx import to_onnx
from tuskml.learners.clusters.learner import centres_in
from tuskml.learners.fm.options import machine_in
from tuskml.learners.linear.tasks import OWN
from tuskml.learners.nets.layers import layers_in
from tuskml.learners.nets.learner import TASKS as NETS
from tuskml.learners.registry import TASKS, learner_of
from tuskml.learners.tasks import PAIRS, has_levels, is_labelled, weighs_features
from tuskml.learners.trees.forest import trees_in

ROWS = """
CREATE TABLE seen AS
SELECT i, sin(i) AS a, cos(i * i) AS b, i % 7 AS u, i % 5 AS f, (i * 37) % 11 AS number,
       (i * 37) % 11 + 1 AS amount, (i * 37) % 11 / 10.0 AS share, CASE WHEN (i * 37) % 11 > 4 THEN 7 ELSE -3 END AS code,
       CASE WHEN i > 0 THEN 7 END AS same
FROM generate_series(0, 299) AS t(i)
"""
KINDS = ("predict", "predict_proba", "decision")
OUTPUTS = dict(zip(KINDS, ("prediction", "probability", "decision"), strict=True))
HALF_SQUARE = {"loss": lambda m, y: (m - y) ** 2 / 2, "derivative": lambda m, y: m - y}
LOGIT = {
    "loss": lambda m, y: np.logaddexp(0, -y * m),
    "derivative": lambda m, y: -y * expit(-y * m),
}
OWN_TASKS: dict[str, dict[str, Any]] = {
    "own_number": HALF_SQUARE,
    "own_count": {
        "loss": lambda m, y: np.exp(m) - y * m,
        "derivative": lambda m, y: np.exp(m) - y,
        "curvature": lambda m, y: np.exp(m),
        "response": "exp",
        "likelihood": True,
    },
    "own_share": {
        "loss": lambda m, y: np.logaddexp(0, m) - y * m,
        "derivative": lambda m, y: expit(m) - y,
        "response": "logistic",
    },
    "own_side": LOGIT | {"labels": "classes"},
    "own_class": LOGIT | {"labels": "classes", "response": "logistic"},
}
NAMES = [name for name in (*TASKS, *OWN_TASKS) if name != "lda"]
"""Tasks whose models predict a number of a row."""


@pytest.fixture(autouse=True)
def _own_tasks(registered: None) -> None:
    for name, parts in OWN_TASKS.items():
        tuskml.register_task(name, **parts)


@pytest.fixture
def seen(con: Any) -> Any:
    con.execute(ROWS.replace("generate_series(0, 299)", "range(300)"))
    return con


def penalty_of(name: str, size: float) -> dict[str, float]:
    """The option of a task's penalty, where there is one."""
    options = learner_of(TASKS.get(name) or OWN[name]).options.by_name
    return next(({one: size} for one in ("l2", "lambda") if one in options), {})


def given_of(name: str) -> dict[str, Any]:
    """What a task is trained on."""
    task = TASKS.get(name) or OWN[name]
    label = (
        "code" if task.classifies else "share" if getattr(task, "high", None) == 1 else "number"
    )
    if name in ("gamma", "inverse_gaussian"):  # of numbers above 0
        label = "amount"
    labelled = {"label": label} if task.has_labels else {}
    features = ["u", "f"] if task.features == PAIRS else ["a", "b"]
    more = (
        {} if name == "own_side" or getattr(task, "own", None) is None else {"algorithm": "lbfgs"}
    )
    more |= {"max_iter": 3} if name in NETS else penalty_of(name, 0.01)
    return {"source": "seen", **labelled, "features": features, **more}


def truth(name: str, model: Model, x: np.ndarray) -> dict[str, np.ndarray]:
    """What each function must answer; those that are missing must refuse."""
    task = TASKS.get(name) or OWN[name]
    if task.features == PAIRS:
        m = ratings(model, x)
        return {"predict": m, "decision": m}
    if name == "ordinal":
        cut, *weights = model.coef or []
        m = x @ np.array(weights)
        predicted = np.where(m >= cut, model.classes[-1], model.classes[0])
        return {"predict": predicted, "decision": m, "predict_proba": expit(m - cut)}
    if name == "kmeans":
        _, centres = centres_in(np.asarray(model.coef))
        squares = np.square(x[:, None] - centres[:, 1:]).sum(axis=2)
        return {"predict": 1.0 + squares.argmin(axis=1), "decision": squares.min(axis=1)}
    if name in NETS:
        activation, layers = layers_in(model.coef or [])
        m = model.intercept + margins(layers, x, activation)[:, 0]
    elif name == "fm":
        weights, vectors = machine_in(model.coef or [])
        pairs = np.triu(vectors @ vectors.T, 1)
        m = model.intercept + x @ weights + np.einsum("ni,ij,nj->n", x, pairs, x)
    elif name in TASKS and not weighs_features(name):
        m = model.intercept + sum(
            (tree[leaves_of(tree, x), 1] for tree in trees_in(model.coef or [])), np.zeros(len(x))
        )
    else:
        m = x @ np.array(model.coef) + model.intercept
    response = getattr(task, "response", None) or (
        "logistic" if name == "logistic" else "identity"
    )
    if task.classifies:
        predicted = np.where(m >= 0, model.classes[-1], model.classes[0])
        found = {"predict": predicted, "decision": m}
        return found | ({"predict_proba": expit(m)} if response == "logistic" else {})
    return {
        "predict": {"identity": m, "exp": np.exp(m), "logistic": expit(m)}[response],
        "decision": m,
    }


def leaves_of(tree: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The leaf of a tree that each row comes to."""
    found = []
    for row in x:
        at = 0
        while tree[at, 0] >= 0:
            at = at + 1 if row[int(tree[at, 0])] <= tree[at, 1] else int(tree[at, 2])
        found.append(at)
    return np.array(found)


def ratings(model: Model, x: np.ndarray) -> np.ndarray:
    """Koren, Bell, Volinsky 2009, equation 4; who was never seen has zeros."""
    users, items, width = map(int, model.classes)
    table = np.array(model.coef).reshape(users + items, width)
    found = []
    for u, f in x.astype(int):
        user = table[u] if u < users else np.zeros(width)
        item = table[users + f] if f < items else np.zeros(width)
        found.append(model.intercept + user[0] + item[0] + user[1:] @ item[1:])
    return np.array(found)


def by_sql(connection: Any, model: Any, source: str) -> Callable[[str], np.ndarray]:
    def ask(kind: str) -> np.ndarray:
        rows = tuskml.predict(connection, model, source=source, kind=kind, name="p", returns="numpy",
                              columns="i", features=list(model.features))  # fmt: skip
        return rows["p"][np.argsort(rows["i"])]

    return ask


def by_onnx(model: Model, x: np.ndarray) -> Callable[[str], np.ndarray]:
    runtime = pytest.importorskip("onnxruntime")
    graph = to_onnx(model).SerializeToString()
    session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    rows = x.astype(np.int64) if model.task == "matrix_factorization" else x
    found = dict(zip(names, session.run(None, {"features": rows}), strict=True))
    if names == ["prediction"]:  # where it is the margin
        found["decision"] = found["prediction"]

    def ask(kind: str) -> np.ndarray:
        if OUTPUTS[kind] not in found:
            raise DataError("the graph has no such output")
        return found[OUTPUTS[kind]]

    return ask


def ways_of(model: Model, x: np.ndarray) -> dict[str, Callable[[str], np.ndarray]]:
    """All that need no database."""
    frame = pd.DataFrame(x, columns=list(model.features))
    again = Model.from_json(model.to_json())
    found = {
        "array": lambda kind: getattr(model, kind)(x),
        "lists": lambda kind: getattr(model, kind)(x.tolist()),
        "frame": lambda kind: getattr(model, kind)(frame[frame.columns[::-1]]),
        "json": lambda kind: getattr(again, kind)(x),
        "mlflow": lambda kind: ModelWrapper(again).predict(frame, {"kind": kind}),
    }
    if is_labelled(model.task) and not has_levels(model.task):
        found["onnx"] = by_onnx(model, x)
    if model.task != "matrix_factorization":
        found["sparse"] = lambda kind: getattr(model, kind)(scipy.sparse.csr_array(x))
    return found


def compare(ways: dict[str, Callable[[str], np.ndarray]], expected: dict[str, np.ndarray]) -> None:
    for kind in KINDS:
        for way, ask in ways.items():
            if kind in expected:
                np.testing.assert_allclose(
                    ask(kind), expected[kind], rtol=1e-11, atol=1e-12, err_msg=f"{kind} by {way}"
                )
            else:
                with pytest.raises(TuskError) as refused:
                    ask(kind)
                assert "\n" not in str(refused.value), (kind, way)


def rows_of(connection: Any, features: list[str]) -> np.ndarray:
    query = f"SELECT {', '.join(features)} FROM seen ORDER BY i"
    return np.array(connection.execute(query).fetchall(), float)


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", NAMES)
def test_all_ways_agree(seen: Any, name: str) -> None:
    given = given_of(name)
    model = tuskml.train(seen, name, **given)
    x = rows_of(seen, given["features"])
    ways = ways_of(model, x) | {"duckdb": by_sql(seen, model, "seen")}
    compare(ways, truth(name, model, x))


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", NAMES)
def test_postgres_agrees(seen: Any, pg: Any, name: str) -> None:
    """Of a model that DuckDB trained; its own tasks are not registered there."""
    given = given_of(name)
    model = tuskml.train(seen, name, **given)
    x = rows_of(seen, given["features"])
    compare({"postgres": by_sql(pg, model, "seen")}, truth(name, model, x))
    if not is_labelled(name):
        with pytest.raises(TuskError, match=f"task '{name}' has no labels"):
            tuskml.evaluate(seen, model, source="seen")
        with pytest.raises(TuskError, match=f"models of task '{name}' have no ONNX graph"):
            to_onnx(model)
        return
    here, there = (tuskml.evaluate(at, model, source="seen") for at in (seen, pg))
    assert here == pytest.approx(there, rel=1e-9)


@pytest.mark.sample(9)
@pytest.mark.parametrize(
    "name", [n for n in NAMES if n not in ("matrix_factorization", "ordinal") and is_labelled(n)]
)
@pytest.mark.parametrize("label", ["0", "1"])
def test_models_of_one_class_agree(seen: Any, name: str, label: str) -> None:
    """Or of one number; their coefficients are 0."""
    label = f"1 + {label}" if name in ("gamma", "inverse_gaussian") else label  # above 0
    model = tuskml.train(seen, name, **given_of(name) | {"label": label} | penalty_of(name, 1.0))
    x = rows_of(seen, ["a", "b"])
    if model.intercept is None:  # which of two classes the label 1 is, is unknown
        with pytest.raises(tuskml.DataError, match="has no margin"):
            ways_of(model, x)
        return
    ways = ways_of(model, x) | {"duckdb": by_sql(seen, model, "seen")}
    compare(ways, truth(name, model, x))


@pytest.mark.parametrize(
    ("name", "of_classes"), [("logistic", True), ("svm", True), ("linear", False)]
)
def test_the_wrappers_of_scikit_learn_agree(seen: Any, name: str, of_classes: bool) -> None:
    x = rows_of(seen, ["a", "b"])
    y = rows_of(seen, ["code" if of_classes else "number"])[:, 0]
    wrapper = TuskClassifier(name, l2=0.01) if of_classes else TuskRegressor(l2=0.01)
    wrapper.fit(x, y)
    expected = truth(
        name, replace(wrapper.models_[0], classes=[-3.0, 7.0] if of_classes else None), x
    )
    np.testing.assert_allclose(wrapper.predict(x), expected["predict"], rtol=1e-11)
    if of_classes:
        np.testing.assert_allclose(wrapper.decision_function(x), expected["decision"], rtol=1e-11)
    assert hasattr(wrapper, "predict_proba") == ("predict_proba" in expected)
    if "predict_proba" in expected:
        np.testing.assert_allclose(
            wrapper.predict_proba(x)[:, 1], expected["predict_proba"], rtol=1e-11
        )


MODERATE = st.floats(-30, 30)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from([name for name in NAMES if weighs_features(name)]),
    coef=st.lists(MODERATE, min_size=1, max_size=4),
    intercept=MODERATE,
    classes=st.sampled_from([[0.0, 1.0], [-1.0, 1.0], [2.5, 1e9], [1.0], [0.0], [-7.0]]),
    data=st.data(),
)
def test_any_weights_agree(
    con: Any, name: str, coef: list, intercept: float, classes: list, data: Any
) -> None:
    task = TASKS.get(name) or OWN[name]
    rows = st.lists(st.floats(-10, 10), min_size=len(coef), max_size=len(coef))
    x = np.array(data.draw(st.lists(rows, min_size=1, max_size=4)))
    response = {"response": task.response} if getattr(task, "own", None) else {}
    names = [f"x{k}" for k in range(len(coef))]
    model = Model(name, coef, intercept, None, classes if task.classifies else None, 9, 0, len(coef), 0.5, None, 3,
                  True, "ok", "newton", 0.1, {"tuskml": 1} | response, None, tuple(names), "y")  # fmt: skip
    m = x @ np.array(coef) + intercept
    if (np.abs(m) < 1e-9).any() and task.classifies:
        return  # rounding may put it on either side
    frame = pd.DataFrame(x, columns=names).assign(i=range(len(x)))
    con.register("frame", frame)
    ways = ways_of(model, x) | {"duckdb": by_sql(con, model, "frame")}
    compare(ways, truth(name, model, x))


def test_no_class_is_made_up(seen: Any) -> None:
    """A model of classes that names none, and one of a task that nothing is known of."""
    model = tuskml.train(seen, "logistic", **given_of("logistic"))
    x = rows_of(seen, ["a", "b"])
    for wrong, sentence in (
        (replace(model, classes=None), "the model has no classes, expected a list of one or two"),
        (
            replace(model, classes=[1.0, 2.0, 3.0]),
            "the model has (2 coefficients, expected as many for each of its 3|more than two) classes",
        ),
        (
            replace(model, task="probit"),
            "is 'probit', expected 'linear', 'logistic', 'svm', 'squared_hinge', 'poisson', "
            "'negative_binomial', 'gamma', 'tweedie', 'inverse_gaussian', 'huber', 'quantile', 'ordinal', 'matrix_factorization', 'gbdt', 'random_forest', 'mlp', 'lasso', 'elastic_net', 'sparse_logistic', 'lda', 'kmeans' or 'fm'",
        ),
        (
            replace(model, task="gone", options={"tuskml": 1, "response": "log"}),
            "is 'gone', expected",
        ),
    ):
        for kind in KINDS:
            with pytest.raises(DataError, match=sentence):
                getattr(wrong, kind)(x)
            with pytest.raises(TuskError):
                tuskml.predict(seen, wrong, source="seen", kind=kind)
        with pytest.raises(DataError, match=sentence):
            to_onnx(wrong)


@pytest.mark.parametrize("name", list(OWN_TASKS))
@pytest.mark.parametrize("shape", ["model", "table", "groups"])
def test_own_tasks_are_judged_as_what_they_predict(seen: Any, name: str, shape: str) -> None:
    """Metrics of scikit-learn: of classes those of classes, of numbers those of numbers."""
    given = given_of(name)
    of = {"source": "seen", "label": given["label"], "features": given["features"]}
    single = model = tuskml.train(seen, name, **given)
    if shape == "table":
        tuskml.train(seen, name, **given, into="kept")
        model = "kept"
    if shape == "groups":
        model = tuskml.train(seen, name, **given, group_by="u % 1")
        single = model[0]
        of["group_by"] = "u % 1"
    found = tuskml.evaluate(seen, model, **of)
    found = found[0] if shape == "groups" else found
    x, y = rows_of(seen, ["a", "b"]), rows_of(seen, [given["label"]])[:, 0]
    answered = truth(name, single, x)
    expected: dict[str, Any] = {"n_rows": 300, "n_not_scored": 0}
    if OWN[name].classifies:
        expected["auc"] = metrics.roc_auc_score(y == 7, answered["decision"])
        expected["accuracy"] = metrics.accuracy_score(y, answered["predict"])
        if OWN[name].response == "logistic":
            expected["log_loss"] = metrics.log_loss(y == 7, answered["predict_proba"])
    else:
        expected["rmse"] = metrics.root_mean_squared_error(y, answered["predict"])
        expected["mae"] = metrics.mean_absolute_error(y, answered["predict"])
        expected["r2"] = metrics.r2_score(y, answered["predict"])
    assert found == pytest.approx(expected, rel=1e-9)
    if OWN[name].classifies:
        third = "CASE WHEN i = 3 THEN 5 ELSE code END"
        with pytest.raises(
            DataError, match="the label of 1 rows is neither of the model's two classes"
        ):
            tuskml.evaluate(seen, model, **of | {"label": third})


def test_a_summary_of_an_own_likelihood_is_statsmodels_s(seen: Any) -> None:
    given = given_of("own_count") | {"l2": 0, "algorithm": "newton", "epsilon": 1e-10}
    summary = tuskml.train(seen, "own_count", **given).summary()
    x, y = rows_of(seen, ["a", "b"]), rows_of(seen, ["number"])[:, 0]
    peer = sm.GLM(y, sm.add_constant(x), family=sm.families.Poisson()).fit()
    assert summary.test == "z"
    assert [term.name for term in summary.terms] == ["intercept", "a", "b"]
    np.testing.assert_allclose([term.std_err for term in summary.terms], peer.bse, rtol=1e-6)
    np.testing.assert_allclose(
        [term.p for term in summary.terms], peer.pvalues, rtol=1e-4, atol=1e-9
    )
    tuskml.unregister_task("own_count")  # what a model says does not depend on it
    assert "z" in str(summary)


@pytest.mark.parametrize("name", NAMES)
def test_every_task_has_a_summary(seen: Any, name: str) -> None:
    model = tuskml.train(seen, name, **given_of(name))
    assert name in str(model.summary())
    assert name in model._repr_html_()


def test_ids_below_0_are_no_ratings(seen: Any) -> None:
    model = tuskml.train(seen, "matrix_factorization", **given_of("matrix_factorization"))
    x = np.array([[-1.0, 2], [3, -2], [3, 2]])
    with pytest.raises(DataError, match="the user, is -1, expected an integer id from 0 on"):
        model.predict(x)
    found = by_onnx(model, x)("predict")
    np.testing.assert_allclose(found, [np.nan, np.nan, ratings(model, x[2:])[0]], rtol=1e-11)


def test_ids_that_doubles_round_are_exact_in_frames() -> None:
    """Of 64-bit integers, Python's own and decimals; as a double one may be of another user."""
    with tuskml.connect() as con:
        con.execute(
            "CREATE TABLE choices AS SELECT 1 + i * 7 % 5 AS rating, "
            "'user ' || i % 11 AS u, 18446744073709551615::UBIGINT - (i * i % 13)::UBIGINT AS f "
            "FROM range(120) AS t(i)"
        )
        given = {"source": "choices", "label": "rating", "features": ["u", "f"]}
        model = tuskml.train(con, "matrix_factorization", **given)
        table = "(SELECT DISTINCT u, f FROM choices ORDER BY u, f)"
        expected = tuskml.predict(con, model, source=table, returns="numpy")["prediction"]
        frame = con.execute(f"FROM {table}").df()
    assert len(set(expected)) == len(frame)
    assert model.predict(frame).tolist() == expected.tolist()
    assert model.predict(frame.astype(object)).tolist() == expected.tolist()
    rounded = model.predict(frame.astype({"f": float}))
    assert len(set(rounded)) == 11  # items are unknown, users are known
