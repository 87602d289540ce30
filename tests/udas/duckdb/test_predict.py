"""predict, predict_proba and decision against NumPy, on models written by hand."""

import math

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuskml.udas.model_fields import MODEL_FIELDS

relaxed = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

FIELDS = {field.name: field.duckdb for field in MODEL_FIELDS if field.name != "payload"}

NAMES = ["predict", "predict_proba", "decision"]
TYPES = ["FLOAT", "DOUBLE"]
OPTIONS = '{"tuskml":1,"l2":0.0}'
COEF = [1.0, -2.0, 0.5]


def text(value):
    """The value as a SQL literal."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, float):
        return f"'{value!r}'::DOUBLE"
    if isinstance(value, list):
        return f"[{', '.join(map(text, value))}]"
    return repr(value)


def model(task="logistic", **fields):
    """A model as a SQL literal of the type that train_model returns."""
    usual = {
        "task": task, "coef": COEF, "intercept": 0.25, "options": OPTIONS, "history": [0.7, 0.6],
        "classes": None if task == "linear" else [3.0, 7.0], "n_rows": 10, "status": "ok",
    }  # fmt: skip
    given_fields = usual | fields
    items = (f"'{f}': {text(given_fields.get(f))}::{t}" for f, t in FIELDS.items())
    return "with_payload({" + ", ".join(items) + "})"


def one(con, expression, parameters=()):
    return con.execute(f"SELECT {expression}", parameters).fetchone()[0]


def sigmoid(m):
    return 1 / (1 + math.exp(-m)) if m >= 0 else math.exp(m) / (1 + math.exp(m))


def answer(name, task, margin):
    """What each function says of a margin; predict_proba of 'logistic' only."""
    if name == "predict_proba":
        return sigmoid(margin)
    if name == "decision" or task == "linear":
        return margin
    return 7.0 if margin >= 0 else 3.0


@pytest.mark.parametrize("value_type", TYPES)
@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("predict_proba", "logistic"),
        *(
            (name, task)
            for name in ("predict", "decision")
            for task in ("linear", "logistic", "svm")
        ),
    ],
)
def test_dense(con, name, task, value_type):
    for x in ([1.5, 0.25, -2.0], [-1.5, 4.0, 3.0], [0.0, 0.125, 0.0]):
        value = one(con, f"{name}({model(task)}, ?::{value_type}[])", [x])
        assert value == pytest.approx(answer(name, task, np.dot(x, COEF) + 0.25), rel=1e-14)
        value = one(con, f"{name}({model(task)}, ?::{value_type}[3])", [x])
        assert value == pytest.approx(answer(name, task, np.dot(x, COEF) + 0.25), rel=1e-14)


@pytest.mark.parametrize("id_type", ["INTEGER", "BIGINT"])
@pytest.mark.parametrize("value_type", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_sparse(con, name, value_type, id_type):
    features = f"sparse(?::{id_type}[], ?::{value_type}[])"
    cases = [([2, 0], [4.0, 1.0], 3.25), ([1, 1, 900], [1.0, 2.0, 50.0], -5.75), ([], [], 0.25)]
    for ids, values, margin in cases:
        value = one(con, f"{name}({model()}, {features})", [ids, values])
        assert value == pytest.approx(answer(name, "logistic", margin), rel=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_literals(con, name):
    expected = answer(name, "logistic", 1 - 4 + 0.75 + 0.25)
    assert one(con, f"{name}({model()}, [1, 2, 1.5])") == pytest.approx(expected, rel=1e-14)
    assert one(con, f"{name}({model()}, [1.0, 2.0, 1.5::FLOAT])") == pytest.approx(expected)


@relaxed
@given(
    st.floats(-800, 800)
    | st.floats(-1e-3, 1e-3)
    | st.sampled_from([-0.0, 36.8, 709.8, -709.8, -745.1, -1e300, 1e300, math.inf, -math.inf])
)
def test_probability_is_accurate(con, margin):
    value = one(con, f"predict_proba({model(coef=[1.0], intercept=0.0)}, [?::DOUBLE])", [margin])
    expected = sigmoid(max(margin, -1e4))
    assert value == pytest.approx(expected, rel=1e-15 * 8, abs=5e-324)


def test_nan_in_nan_out(con):
    for name in NAMES:
        assert math.isnan(one(con, f"{name}({model()}, ['nan'::DOUBLE, 1, 1])"))


@pytest.mark.parametrize("name", NAMES)
def test_null(con, name):
    m = model()
    for features in (
        "NULL::DOUBLE[]",
        "[1.0::DOUBLE, NULL, 2]",
        "NULL::FLOAT[]",
        "sparse([0]::INT[], NULL::DOUBLE[])",
        "sparse([0, NULL]::INT[], [1, 2]::DOUBLE[])",
        "sparse([0, 1]::INT[], [1, NULL]::DOUBLE[])",
    ):
        assert one(con, f"{name}({m}, {features})") is None
    assert one(con, f"{name}(if(random() < 2, NULL, {m}), [1.0, 2.0, 3.0])") is None
    assert one(con, f"{name}({model(coef=None, intercept=None)}, [1.0])") is None


@pytest.mark.parametrize("task", ["logistic", "svm"])
def test_one_class(con, task):
    m = model(task, coef=None, classes=[5.0], intercept=2.0, status="one class")
    assert one(con, f"predict({m}, [1.0, 2.0])") == 5
    assert one(con, f"decision({m}, [1.0, 2.0])") == 2
    assert one(con, f"predict({m}, sparse([7]::INT[], [1]::DOUBLE[]))") == 5
    if task == "logistic":
        assert one(con, f"predict_proba({m}, [1.0])") == pytest.approx(sigmoid(2))


@relaxed
@given(st.integers(1, 70), st.sampled_from(TYPES), st.integers(0, 2**32 - 1))
def test_every_width(con, d, value_type, seed):
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((4, d)).astype(np.float32), rng.standard_normal(d)
    con.execute(f"CREATE OR REPLACE TEMP TABLE wide_rows (i INT, x {value_type}[])")
    rows = ", ".join(f"({i}, {text([float(v) for v in row])})" for i, row in enumerate(x))
    con.execute(f"INSERT INTO wide_rows VALUES {rows}")
    m = model("linear", coef=w.tolist())
    values = con.execute(f"SELECT predict({m}, x) FROM wide_rows ORDER BY i").fetchall()
    np.testing.assert_allclose(
        np.ravel(values), x.astype(float) @ w + 0.25, rtol=1e-12, atol=1e-12
    )


@pytest.fixture
def joined(con):
    """50,000 rows with NULLs here and there, and seven models of different widths and tasks."""
    rng = np.random.default_rng(11)
    n, n_models = 50_000, 7
    tasks = ["linear", "logistic", "svm"]
    models = [
        (g, tasks[g % 3], rng.standard_normal(g + 1), float(rng.standard_normal()))
        for g in range(n_models)
    ]
    con.execute(
        "CREATE OR REPLACE TEMP TABLE models AS "
        + " UNION ALL ".join(
            f"SELECT {g} AS g, {model(task, coef=w.tolist(), intercept=b)} AS model"
            for g, task, w, b in models
        )
    )
    con.execute(f"""
        CREATE OR REPLACE TEMP TABLE points AS SELECT i, g, CASE
            WHEN i % 11 = 3 THEN NULL
            WHEN i % 13 = 5 THEN list_transform(range(g + 1), lambda j: NULL::DOUBLE)
            ELSE list_transform(range(g + 1), lambda j: sin(i + 3 * j)) END AS x
        FROM (SELECT i, (i * 31 // 3) % {n_models} AS g FROM range({n}) t(i))""")
    return models


def expected_of_row(i, g, models, name):
    if i % 11 == 3 or i % 13 == 5:
        return None
    _, task, w, b = models[g]
    return answer(name, task, math.fsum(w * np.sin(i + 3 * np.arange(g + 1))) + b)


@pytest.mark.parametrize("name", ["predict", "decision"])
@pytest.mark.parametrize("order", ["i", "g, i"])
def test_join_with_many_models(con, joined, name, order):
    query = f"""
        SELECT i, g, {name}(model, x) FROM points JOIN models USING (g)
        ORDER BY {order} LIMIT 9000"""
    sorted_query = f"""
        SELECT i, g, {name}(model, x) AS value FROM
        (SELECT i, g, x, model FROM points JOIN models USING (g) ORDER BY {order} LIMIT 9000)"""
    rows = con.execute(query).fetchall()
    assert sorted(rows) == sorted(con.execute(sorted_query).fetchall())
    for i, g, value in rows[::5]:
        expected = expected_of_row(i, g, joined, name)
        if expected is None:
            assert value is None
        else:
            assert value == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_fields_that_vary_while_the_coefficients_stay(con):
    """Rows may share a coefficient list and still be different models."""
    fields = ", ".join(f"'{f}': {f}" for f in ["task", "coef", "intercept", "classes", "options"])
    tasks = "if(i % 3 = 0, 'svm', 'logistic')"
    query = f"""
        SELECT i, decision(m, [2.0, 0.0]), predict(m, [2.0, 0.0])
        FROM (SELECT i, with_payload({{{fields}}}) AS m FROM (
            SELECT i, {tasks} AS task, [1.0::DOUBLE, 0.0] AS coef, -i::DOUBLE AS intercept,
                if(i % 2 = 0, [0.0::DOUBLE, 1.0], [5.0::DOUBLE, 6.0]) AS classes,
                '{OPTIONS}' AS options FROM range(5000) t(i)))"""
    for i, decision, predicted in con.execute(query).fetchall():
        assert decision == 2 - i
        assert predicted == (2 - i >= 0) + (0 if i % 2 == 0 else 5)


def test_lists_that_do_not_lie_in_a_row(con):
    """Slices, filters and constants: features that are no matrix in memory."""
    m = model("linear", coef=[1.0, 10.0], intercept=0.0)
    query = f"""
        SELECT i, predict({m}, x[2:3]), predict({m}, [7.0, 1.0])
        FROM (SELECT i, [i, i + 1, i + 2, i + 3]::DOUBLE[] AS x FROM range(10000) t(i))
        WHERE i % 3 <> 1"""
    for i, sliced, constant in con.execute(query).fetchall():
        assert sliced == i + 1 + 10 * (i + 2)
        assert constant == 17


def test_the_margin_of_a_row_does_not_depend_on_its_neighbours(con):
    m = model("linear", coef=[math.sin(i) for i in range(29)])
    con.execute("""
        CREATE OR REPLACE TEMP TABLE near AS
        SELECT i, list_transform(range(29), lambda j: cos(i * j))::FLOAT[] AS x
        FROM range(4096) t(i)""")
    query = f"SELECT predict({m}, x) FROM near ORDER BY i"
    together = con.execute(query).fetchall()
    for i in (0, 1, 2, 3, 100, 2047, 2048, 4095):
        assert (
            con.execute(f"SELECT predict({m}, x) FROM near WHERE i = {i}").fetchone()
            == together[i]
        )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            f"predict({model()}, [1.0, 2.0])",
            "predict: the model has 3 features, row has 2",
        ),
        (
            f"decision({model()}, []::DOUBLE[])",
            "decision: the model has 3 features, row has 0",
        ),
        (
            f"predict({model()}, sparse([0, -4]::INT[], [1, 2]::DOUBLE[]))",
            "predict: feature id -4 is negative, ids start at 0",
        ),
        (
            f"predict({model()}, sparse([0]::INT[], [1, 2]::DOUBLE[]))",
            "predict: row has 1 indices and 2 values",
        ),
        (
            f"predict_proba({model('svm')}, [1.0, 2.0, 3.0])",
            "predict_proba: model is 'svm', which gives no probabilities; "
            r"use decision\(\)",
        ),
        (
            f"predict_proba({model('linear')}, [1.0, 2.0, 3.0])",
            "predict_proba: model is 'linear', which gives no probabilities",
        ),
        (
            f"predict({model('ica')}, [1.0, 2.0, 3.0])",
            "model_payload: model is 'ica', expected 'linear', 'logistic', 'svm', "
            "'squared_hinge', 'poisson', 'negative_binomial', 'gamma', 'tweedie', "
            "'inverse_gaussian', 'huber', 'quantile', 'ordinal', "
            "'matrix_factorization', 'gbdt', 'random_forest', 'mlp', 'lasso', "
            "'elastic_net', 'sparse_logistic', 'lda', 'kmeans' or 'fm'",
        ),
        (
            f"predict({model(classes=None)}, [1.0, 2.0, 3.0])",
            "model_payload: the model has no classes",
        ),
        (
            f"predict({model(coef=None, store='/models/7')}, [1.0, 2.0, 3.0])",
            "model_payload: the model has no coefficients, and its options name no store",
        ),
        (
            f"predict({model(options=OPTIONS.replace('1', '2'))}, [1.0, 2.0, 3.0])",
            r"model_payload: the model has format version 2, this tuskml \S+ reads version 1",
        ),
        (
            f"predict({model(options=OPTIONS.replace('1', '12'))}, [1.0, 2.0, 3.0])",
            "model_payload: the model has format version 12",
        ),
        (
            f"predict({model(options='{}')}, [1.0, 2.0, 3.0])",
            """model_payload: the options of the model begin with '{}', expected '{"tuskml":1'""",
        ),
        (
            f"predict({model(options=None)}, [1.0, 2.0, 3.0])",
            "model_payload: the model has no options",
        ),
    ],
)
def test_bad_input(con, call, sentence):
    with pytest.raises(duckdb.Error, match=sentence):
        one(con, call)
    assert one(con, "1") == 1


@pytest.mark.parametrize("task", ["logistic", "gbdt", "mlp"])
def test_all_classes_ask_for_as_many_indices_as_values(con, task):
    how = {"gbdt": '{"objective": "logistic", "trees": 2}', "mlp": '{"objective": "logistic"}'}
    given = how.get(task, "{}")
    model = f"SELECT train_model('{task}', i % 3, [i % 7, i % 5], '{given}') FROM range(60) t(i)"
    with pytest.raises(duckdb.Error, match="predict_probas: row has 1 indices and 3 values"):
        con.execute(f"SELECT predict_probas(({model}), sparse([0]::INT[], [1.0, 2.0, 3.0]))")
