"""The task `mlp` in SQL of both databases: models, predictions, statuses, errors."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from nets import layers_of, margins
from sklearn.metrics import log_loss

import tuskml
from tuskml.export_onnx import to_onnx

ROWS = """
CREATE {temp} TABLE t AS
SELECT i, i % 3 AS g, CAST((i * 7919) % 1009 AS DOUBLE PRECISION) / 1009 AS a,
       CAST((i * 104729) % 997 AS DOUBLE PRECISION) * 3 + 500 AS b, CAST((i * 31) % 11 AS DOUBLE PRECISION) AS c,
       CAST((i * 7919) % 1009 AS DOUBLE PRECISION) * ((i * 104729) % 997) / 400000 + (i * 31) % 11 AS y,
       CASE WHEN (i * 31) % 11 > 7 THEN 'much' WHEN (i * 7919) % 1009 > 500 THEN 'some' ELSE 'none' END AS k
FROM generate_series(1, 1500) AS s(i)
"""
X = {"duck": "[a, b, c]", "post": "ARRAY[a, b, c]"}
SHORT = '{"max_iter": 20, "layers": [16], "learning_rate": 0.01}'
CLASSES = '{"objective": "logistic", "max_iter": 20, "layers": [16, 8], "activation": "tanh", "learning_rate": 0.01}'


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session, self.x = name, session, X[name]
        session.execute(ROWS.format(temp="TEMP" if name == "post" else ""))

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query in which X stands for the features."""
        return self.session.execute(sql.replace("{x}", self.x)).fetchall()

    def model(self, label: str = "y", options: str = SHORT, where: str = "true") -> tuskml.Model:
        sql = f"SELECT train_model('mlp', {label}, {{x}}, '{options}') AS m FROM t WHERE {where}"
        if self.name == "duck":
            return tuskml.Model.of(self.ask(sql)[0][0])
        fields = self.ask(f"SELECT to_jsonb(m) - 'payload' FROM ({sql}) AS f")[0][0]
        return tuskml.Model.of(fields)

    def tell(self, function: str, label: str, options: str) -> list[tuple[Any, ...]]:
        """What a prediction says of each row."""
        trained = f"(SELECT train_model('mlp', {label}, {{x}}, '{options}') AS m FROM t) AS f"
        return self.ask(f"SELECT {function} FROM t, {trained} ORDER BY i")


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


@pytest.fixture
def both(con: duckdb.DuckDBPyConnection, post: Any) -> list[Database]:
    return [Database("duck", con), Database("post", post)]


def columns(db: Database) -> tuple[np.ndarray, np.ndarray]:
    rows = np.array(db.ask("SELECT a, b, c, y FROM t ORDER BY i"), float)
    return rows[:, :3], rows[:, 3]


def by_numpy(model: tuskml.Model, x: np.ndarray) -> np.ndarray:
    """The margins of a model by its `coef`, (n, outputs)."""
    d, layers, activation = (int(number) for number in model.coef[:3])
    units = tuple(int(number) for number in model.coef[3 : 3 + layers])
    return margins(layers_of(np.array(model.coef[3 + layers :]), (d, *units)), x, activation)


@pytest.mark.parametrize("label", ["y", "y > 5", "k"])
def test_both_databases_train_the_same_net(both: list[Database], label: str) -> None:
    here, there = (db.model(label, SHORT if label == "y" else CLASSES) for db in both)
    assert here.coef == there.coef
    assert here.coef
    assert here.history == there.history
    assert (here.class_names, here.loss) == (there.class_names, there.loss)


def test_a_model_says_what_it_is(db: Database) -> None:
    model = db.model()
    x, y = columns(db)
    assert (model.status, model.iterations, model.n_features) == ("ok", 20, 3)
    assert (model.classes, len(model.history), model.converged) == (None, 20, True)
    assert model.coef[:5] == [3, 2, 0, 16, 1]
    assert len(model.coef) == 5 + 16 * 4 + 17
    assert (model.options["layers"], model.options["learning_rate"]) == ([16], 0.01)
    assert model.loss == pytest.approx(((model.predict(x) - y) ** 2).mean() / 2, rel=1e-5)
    assert model.loss < 0.02 * y.var() / 2
    assert model.history[0] > model.history[-1] > 0


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_numbers_are_predicted_by_the_formula(db: Database, activation: str) -> None:
    options = SHORT.replace("}", f', "activation": "{activation}"}}')
    model = db.model("y", options)
    x, _ = columns(db)
    found = np.array(db.tell("predict(m, {x}), decision(m, {x})", "y", options))
    assert found[:, 0] == pytest.approx(by_numpy(model, x)[:, 0], rel=1e-11)
    assert (found[:, 1] == found[:, 0]).all()
    assert found[:, 0] == pytest.approx(model.predict(x), rel=1e-13)


def test_two_classes(db: Database) -> None:
    x, y = columns(db)
    model = db.model("y > 5", CLASSES)
    assert (model.classes, model.status) == ([0, 1], "ok")
    answers = "decision(m, {x}), predict_proba(m, {x}), predict(m, {x}), predict_class(m, {x})"
    rows = db.tell(answers, "y > 5", CLASSES)
    found = np.array([row[:3] for row in rows], float)
    assert found[:, 0] == pytest.approx(by_numpy(model, x)[:, 0], rel=1e-11, abs=1e-11)
    assert found[:, 1] == pytest.approx(1 / (1 + np.exp(-found[:, 0])), rel=1e-12)
    assert (found[:, 2] == (found[:, 0] > 0)).all()
    assert [row[3] for row in rows] == [model.class_names[int(p)] for p in found[:, 2]]
    assert log_loss(y > 5, found[:, 1]) == pytest.approx(model.loss, rel=1e-5)
    assert ((y > 5) == found[:, 2]).mean() > 0.95


def test_several_classes(db: Database) -> None:
    """Softmax of the net's margins; names of the classes are those of the labels."""
    x, _ = columns(db)
    model = db.model("k", CLASSES)
    assert model.class_names == ["much", "none", "some"]
    rows = db.tell("predict_probas(m, {x}), predict_class(m, {x}), k, k", "k", CLASSES)
    m = by_numpy(model, x)
    p = np.exp(m - m.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    found = np.array([[row[0][name] for name in model.class_names] for row in rows])
    assert found == pytest.approx(p, rel=1e-10, abs=1e-13)
    assert [row[1] for row in rows] == [model.class_names[place] for place in m.argmax(axis=1)]
    assert model.predict_class(x) == [row[1] for row in rows]
    own = [model.class_names.index(row[3]) for row in rows]
    assert -np.log(p[range(len(p)), own]).mean() == pytest.approx(model.loss, rel=1e-5)
    assert np.mean([row[1] == row[3] for row in rows]) > 0.95
    assert model.predict_probas(x) == pytest.approx(p, rel=1e-10, abs=1e-13)


def test_each_group_has_its_own_net(db: Database) -> None:
    """The same bits as of a training of the group's rows alone."""
    rows = db.ask(
        f"SELECT g, (m).coef FROM (SELECT g, train_model('mlp', y, {{x}}, '{SHORT}') AS m FROM t GROUP BY g) AS f ORDER BY g"
    )
    for g, coef in rows:
        assert db.model(where=f"g = {g}").coef == coef
    assert len({tuple(coef) for _, coef in rows}) == 3


def test_groups_may_have_different_numbers_of_classes(db: Database) -> None:
    label = "CASE g WHEN 0 THEN i % 2 WHEN 1 THEN i % 5 ELSE 7 END"
    rows = db.ask(
        f"SELECT g, (m).classes, (m).status FROM (SELECT g, train_model('mlp', {label}, {{x}}, '{CLASSES}') AS m FROM t GROUP BY g) AS f ORDER BY g"
    )
    classes = [(g, found) for g, found, _ in rows]
    assert classes == [(0, [0, 1]), (1, [0, 1, 2, 3, 4]), (2, [7])]
    assert [status for *_, status in rows][2] == "one class"
    assert {status for *_, status in rows[:2]} <= {"ok", "not converged"}  # labels are noise


def test_labels_may_have_any_unit(db: Database) -> None:
    """Inputs and labels are centred and scaled, so predictions have the labels' units."""
    x, y = columns(db)
    for scale, shift in ((1.0, 0.0), (1e9, 1e11), (1e-9, -1.0)):
        m = db.model(f"y * {scale} + {shift}").predict(x)
        assert (((m - shift) / scale - y) ** 2).mean() < 0.02 * y.var()


@pytest.mark.parametrize("units", [16, 4096])
def test_threads_and_orders_change_no_bit(db: Database, units: int) -> None:
    """Batches of few numbers are one thread's work, those of the wider net all threads'."""
    given = f'{{{{"max_iter": 3, "layers": [{units}], "batch_size": 512, "threads": {{n}}, "dropout": 0.2}}}}'
    one, two = (db.model("y", given.format(n=n)) for n in (1, 2))
    assert one.coef == two.coef
    sql = f"SELECT (train_model('mlp', y, {{x}}, '{given.format(n=2)}')).coef FROM (SELECT * FROM t ORDER BY i * 31 % 101) AS o"
    assert db.ask(sql)[0][0] == one.coef


def test_dropout_and_schedules_reach_the_training(db: Database) -> None:
    """Each changes the losses; `tests/learners/nets` holds what they are."""
    given = '{{"max_iter": 3, "layers": [16], "seed": 4{}}}'
    more = (
        "",
        ', "dropout": 0.3',
        ', "schedule": "cosine"',
        ', "schedule": "step", "decay_epochs": 1',
    )
    found = {tuple(db.model("y", given.format(one)).history) for one in more}
    assert len(found) == len(more)


def test_seeds_differ(db: Database) -> None:
    coef = [db.model(options=SHORT.replace("}", f', "seed": {n}}}')).coef for n in (1, 1, 2)]
    assert coef[0] == coef[1] != coef[2]


def test_held_out_rows_end_a_training(db: Database) -> None:
    noise = "(i * 7919 * 31) % 1013"
    model = db.model(
        noise, '{"validation": 0.3, "max_iter": 200, "patience": 3, "learning_rate": 0.01}'
    )
    assert model.status == "early stop"
    assert model.iterations < 50
    assert len(model.history) == model.iterations + 3


@pytest.mark.parametrize(("label", "options", "status"), [
    ("y > -1", CLASSES, "one class"),
    ("y", '{"algorithm": "sgd", "learning_rate": 1e6, "max_iter": 5}', "diverged"),
    ("y > 5", '{"objective": "logistic", "algorithm": "sgd", "learning_rate": 1e9, "max_iter": 5}', "diverged"),
    ("k", '{"objective": "logistic", "algorithm": "sgd", "learning_rate": 1e9, "max_iter": 5}', "diverged"),
    ("y * 1e200", SHORT, "out of range"),
    ("i = 7", '{"objective": "logistic", "max_iter": 1, "learning_rate": 1e-5}', "not converged"),
])  # fmt: skip
def test_groups_without_a_net_have_a_status(
    db: Database, label: str, options: str, status: str
) -> None:
    model = db.model(label, options)
    assert (model.status, model.iterations, model.converged) == (status, 0, False)
    x, y = columns(db)
    if label == "k":
        share = np.array(
            [p[1] / 1500 for p in db.ask("SELECT k, count(*) FROM t GROUP BY k ORDER BY k")]
        )
        assert model.predict_probas(x[:2]) == pytest.approx(np.tile(share, (2, 1)))
    elif "logistic" in options:
        expected = {"one class": 1, "not converged": 1 / 1500}.get(status, (y > 5).mean())
        assert model.predict_proba(x[:1])[0] == pytest.approx(expected)
    else:
        assert np.isfinite(model.predict(x)).all()
        assert np.ptp(model.predict(x)) == 0


def test_one_row_and_constant_rows(db: Database) -> None:
    """What does not vary has no weight; a constant label is predicted."""
    assert db.model(where="i = 7").predict([[1.0, 2.0, 3.0]])[0] == pytest.approx(
        db.ask("SELECT y FROM t WHERE i = 7")[0][0]
    )
    model = db.model("3.5")
    assert model.predict([[9.0, 2.0, 3.0]])[0] == pytest.approx(3.5)
    assert model.loss == pytest.approx(0, abs=1e-12)


ERRORS = [
    ("train_model('mlp', y, {x}, '{\"layer\": [5]}')", "did you mean 'layers'?"),
    ("train_model('mlp', y, {x}, '{\"layers\": 5}')", "option 'layers' is 5, expected a list of 1 to 8 whole numbers from 1 to 65536, such as [64, 32]"),
    ("train_model('mlp', y, {x}, '{\"layers\": []}')", "expected a list of 1 to 8"),
    ("train_model('mlp', y, {x}, '{\"layers\": [0]}')", "expected a list of 1 to 8"),
    ("train_model('mlp', y, {x}, '{\"layers\": [65536, 65536]}')", "'mlp' takes at most 16,777,216"),
    ("train_model('mlp', y, {x}, '{\"activation\": \"rely\"}')", "did you mean 'relu'?"),
    ("train_model('mlp', y, {x}, '{\"dropout\": 1}')", "expected a number of at least 0 and less than 1"),
    ("train_model('mlp', y, {x}, '{\"store\": \"s\"}')", "option 'store' is not available with task 'mlp'"),
    ("predict_proba(train_model('mlp', y, {x}, '{\"max_iter\": 2}'), {x3})", "only models of classes give probabilities"),
    ("predict_proba(train_model('mlp', k, {x}, '{\"max_iter\": 2, \"objective\": \"logistic\"}'), {x3})", "the model has more than two classes"),
    ("predict(train_model('mlp', y, {x}, '{\"max_iter\": 2}'), {x2})", "the model has 3 features, row has 2"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "sentence"), ERRORS)
def test_mistakes_have_a_sentence(db: Database, call: str, sentence: str) -> None:
    literal = {"{x3}": "[1.0, 2, 3]", "{x2}": "[1.0, 2]"}
    for name, text in literal.items():
        call = call.replace(name, text if db.name == "duck" else f"ARRAY{text}::float8[]")
    with pytest.raises((duckdb.Error, psycopg.Error), match=re.escape(sentence)):
        db.ask(f"SELECT {call} FROM t")


def test_sparse_rows_predict_and_do_not_train(con: duckdb.DuckDBPyConnection) -> None:
    db = Database("duck", con)
    with pytest.raises(duckdb.Error, match=r"features of 'mlp' are a list, got sparse\(\.\.\.\)"):
        db.ask("SELECT train_model('mlp', y, sparse([0], [a])) FROM t")
    for label, options in (("y", SHORT), ("k", CLASSES)):
        db.ask(
            f"CREATE OR REPLACE TABLE f AS SELECT train_model('mlp', {label}, {{x}}, '{options}') AS m FROM t"
        )
        call = "predict" if label == "y" else "predict_class"
        rows = db.ask(f"SELECT {call}(m, sparse([2, 1], [c, b])), {call}(m, [0, b, c]) FROM f, t")
        assert [sparse for sparse, _ in rows] == [dense for _, dense in rows]


@pytest.mark.parametrize("several", [False, True])
def test_features_by_name(con: duckdb.DuckDBPyConnection, several: bool) -> None:
    """Text is a category, whose levels are inputs of the net; the order does not matter."""
    con.execute(
        "CREATE TABLE n AS SELECT a, 'k' || (i % 4) AS k, CASE i % 4 WHEN 1 THEN 3 * a ELSE a END AS y "
        "FROM (SELECT i, (i * 7919) % 1009 / 1009 AS a FROM range(2000) r(i))"
    )
    label = (
        "CASE WHEN y > 1 THEN 'high' WHEN y > 0.5 THEN 'mid' ELSE 'low' END" if several else "y"
    )
    options = CLASSES if several else SHORT
    con.execute(
        f"CREATE TABLE f AS SELECT train_model('mlp', {label}, {{'a': a, 'k': k}}, '{options}') AS m FROM n"
    )
    if several:
        told = con.execute(
            f"SELECT avg((predict_class(m, {{'k': k, 'a': a}}) = {label})::INT) FROM n, f"
        ).fetchall()
        assert told[0][0] > 0.95
        return
    told, loss = con.execute(
        "SELECT avg((predict(m, {'k': k, 'a': a}) - y) ** 2) / 2, any_value(m.loss) FROM n, f"
    ).fetchall()[0]
    assert told == pytest.approx(loss, rel=1e-4)
    assert loss < 0.001


def test_missing_features_have_no_prediction(db: Database) -> None:
    null = "[1.0, NULL, 3]" if db.name == "duck" else "ARRAY[1.0, NULL, 3]::float8[]"
    assert db.ask(f"SELECT predict(train_model('mlp', y, {{x}}, '{SHORT}'), {null}) FROM t") == [
        (None,)
    ]
    assert np.isnan(db.model().predict([[1, np.nan, 3]])).all()


def test_explanations_say_the_plan(db: Database) -> None:
    text = db.ask(f"SELECT explain_training('mlp', y > 5, {{x}}, '{CLASSES}') FROM t")[0][0]
    assert "adam, logistic loss, hidden layers 16-8 of tanh, 20 epochs of batches of 32" in text
    told = db.ask("SELECT explain_training('mlp', y, {x}, '{\"format\": \"json\"}') FROM t")[0][0]
    found = json.loads(told)
    assert found["plan"]["max_iter"] == 100
    one, epochs = found["candidates"][0], found["plan"]["max_iter"]
    assert one["seconds"]["point"] == pytest.approx(one["seconds_per_iteration"] * epochs)
    assert one["seconds_per_iteration"] > 0
    inputs, rows, weights = 3 * 8, 1500, 3 * 64 + 64 + 64 * 32 + 32 + 32 + 1
    assert one["memory_bytes"] > rows * (inputs + 8) + 4 * 4 * weights


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_onnx_predicts_the_same(con: duckdb.DuckDBPyConnection, activation: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    db = Database("duck", con)
    x, _ = columns(db)
    for label, options in (
        ("y", SHORT),
        ("y > 5", SHORT.replace("{", '{"objective": "logistic", ')),
    ):
        model = db.model(label, options.replace("}", f', "activation": "{activation}"}}'))
        graph = runtime.InferenceSession(to_onnx(model).SerializeToString())
        found = graph.run(["prediction"], {"features": x})[0]
        precise = 1e-6 if activation == "gelu" else 1e-9  # whose erf is of floats there
        assert found == pytest.approx(model.predict(x), rel=precise, abs=precise)
    model = db.model("k", CLASSES.replace("tanh", activation))
    graph = runtime.InferenceSession(to_onnx(model).SerializeToString())
    x[0, 1] = np.nan
    predicted, p = graph.run(["prediction", "probability"], {"features": x})
    assert predicted.tolist() == ["" if name is None else name for name in model.predict(x)]
    precise = 1e-5 if activation == "gelu" else 1e-9
    assert p[1:] == pytest.approx(model.predict_probas(x)[1:], rel=precise, abs=precise)
