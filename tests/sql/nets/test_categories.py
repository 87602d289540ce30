"""Categories of rows by name in nets: embedded or one input per level, in both databases."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from nets import layers_of, margins

import tuskml
from tuskml.export_onnx import to_onnx
from tuskml.learners.nets.layers import shape_in, sparse_steps, tables_in, usual_length
from tuskml.learners.nets.options import OPTIONS

ROWS = """
CREATE {temp} TABLE t AS
SELECT i, CAST((i * 7919) % 1009 AS DOUBLE PRECISION) / 1009 AS a, 'k' || (i * 31) % 7 AS k, 'l' || (i * 17) % 3 AS l,
       CAST((i * 7919) % 1009 AS DOUBLE PRECISION) / 1009 * ((i * 31) % 7) - (i * 17) % 3 AS y,
       CASE WHEN (i * 31) % 7 > 4 THEN 'much' WHEN (i * 17) % 3 = 1 THEN 'some' ELSE 'none' END AS c
FROM generate_series(1, 1200) AS s(i)
"""
ROW = {"duck": "{{'a': {a}, 'k': {k}, 'l': {l}}}", "post": "(SELECT r FROM (SELECT {a} AS a, {k} AS k, {l} AS l) AS r)"}  # fmt: skip
SHORT = {"max_iter": 20, "layers": [16], "learning_rate": 0.01}
CLASSES = SHORT | {"objective": "logistic"}


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        session.execute(ROWS.format(temp="TEMP" if name == "post" else ""))

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self.session.execute(sql).fetchall()

    def row(self, a: str = "a", k: str = "k", level: str = "l") -> str:
        return ROW[self.name].format(a=a, k=k, l=level)

    def train(self, label: str, options: dict[str, Any], where: str = "true") -> None:
        """A table f with the model m."""
        text = json.dumps(options)
        self.ask_nothing("DROP TABLE IF EXISTS f")
        self.ask_nothing(
            f"CREATE TABLE f AS SELECT train_model('mlp', {label}, {self.row()}, '{text}') AS m FROM t WHERE {where}"
        )

    def ask_nothing(self, sql: str) -> None:
        self.session.execute(sql)

    def model(self) -> tuskml.Model:
        if self.name == "duck":
            return tuskml.Model.of(self.ask("SELECT m FROM f")[0][0])
        return tuskml.Model.of(self.ask("SELECT to_jsonb(m) - 'payload' FROM f")[0][0])

    def predict(self, row: str, function: str = "predict", suffix: str = "") -> list[Any]:
        return [one for (one,) in self.ask(f"SELECT {function}(m, {row}) FROM t, f ORDER BY i{suffix}")]  # fmt: skip


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


def by_numpy(db: Database, model: tuskml.Model) -> np.ndarray:
    """The margins of all rows from the list of numbers, (n, outputs)."""
    numbers = list(model.coef)
    rows = db.ask("SELECT a, k, l FROM t ORDER BY i")
    units, about, at = shape_in(numbers)
    tables = tables_in(numbers)
    assert [first for first, _ in tables] == [1, 8]
    parts = [np.array([[row[0]] for row in rows])]
    for column, (_, vectors) in enumerate(tables, 1):
        levels = sorted({row[column] for row in rows})
        parts.append(vectors[[levels.index(row[column]) for row in rows]])
    x = np.concatenate(parts, axis=1)
    at += sum(levels * length for _, levels, length in about)
    return margins(layers_of(np.array(numbers[at:]), (x.shape[1], *units)), x)


def test_categories_become_vectors(db: Database) -> None:
    """Predictions are those of the formulas, and the loss is that of the predictions."""
    db.train("y", SHORT)
    model = db.model()
    units, about, _ = shape_in(model.coef)
    assert units == [16, 1]
    assert about == [(1, 7, usual_length(7)), (8, 3, usual_length(3))]
    told = np.array(db.predict(db.row()))
    np.testing.assert_allclose(told, by_numpy(db, model)[:, 0], rtol=1e-9, atol=1e-9)
    y = np.array([one for (one,) in db.ask("SELECT y FROM t ORDER BY i")])
    assert ((told - y) ** 2).mean() / 2 == pytest.approx(model.loss, rel=1e-4)
    assert model.loss < 0.02 * y.var()


def test_several_classes(db: Database) -> None:
    db.train("c", CLASSES)
    model = db.model()
    m = by_numpy(db, model)
    p = np.exp(m - m.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    told = [list(one.values()) for one in db.predict(db.row(), "predict_probas")]
    np.testing.assert_allclose(np.array(told), p, rtol=1e-8, atol=1e-10)
    own = [one for (one,) in db.ask("SELECT c FROM t ORDER BY i")]
    assert np.mean([a == b for a, b in zip(db.predict(db.row(), "predict_class"), own, strict=True)]) > 0.95  # fmt: skip


def test_both_databases_train_the_same_net(con: duckdb.DuckDBPyConnection, post: Any) -> None:
    both = [Database("duck", con), Database("post", post)]
    for db in both:
        db.train("y", SHORT | {"max_iter": 3})
    here, there = (db.model() for db in both)
    assert here.coef == there.coef
    assert here.preparation == there.preparation


@pytest.mark.parametrize(("given", "lengths"), [(3, [3, 3]), (1, [1, 1]), (0, [])])
def test_an_option_says_the_length(db: Database, given: int, lengths: list[int]) -> None:
    db.train("y", SHORT | {"embedding": given, "max_iter": 2})
    _, about, _ = shape_in(db.model().coef)
    assert [length for _, _, length in about] == lengths
    assert None not in db.predict(db.row())


def test_a_level_that_is_not_known_counts_as_an_average_row(db: Database) -> None:
    """Its vector is 0, the mean of the rows'; with max_categories it is that of *other*."""
    db.train("y", SHORT)
    unknown = db.predict(db.row(a="0.5", k="'none'"), suffix=" LIMIT 1")[0]
    each = [db.predict(db.row(a="0.5", k=f"'k{n}'"), suffix=" LIMIT 1")[0] for n in range(7)]
    assert min(each) < unknown < max(each)
    db.train("y", SHORT | {"max_categories": 3})
    unknown, other, known = (
        db.predict(db.row(a="0.5", k=f"'{k}'"), suffix=" LIMIT 1")[0] for k in ("none", "k6", "k0")
    )
    rare = {one for one in ("k0", "k6") if one not in db.model().preparation}
    assert unknown == (other if "k6" in rare else known)
    db.train("y", SHORT | {"unseen": "error", "max_iter": 1})
    with pytest.raises((duckdb.Error, psycopg.Error), match="which the model was not trained on"):
        db.predict(db.row(k="'none'"))


def test_missing_levels(db: Database) -> None:
    """A gap has no prediction, or with missing = level a vector of its own."""
    db.ask_nothing("UPDATE t SET k = NULL WHERE i % 7 = 0")
    db.train("y", SHORT)
    assert [one is None for one in db.predict(db.row())].count(True) == 171
    db.train("y", SHORT | {"missing": "level"})
    assert shape_in(db.model().coef)[1][0][1] == 8 - (7 * 31 % 7 == 0)
    assert None not in db.predict(db.row())


def test_each_group_has_its_own_levels(db: Database) -> None:
    """The same bits as of a training of the group's rows alone."""
    grouped = db.ask(
        f"SELECT l, (m).coef FROM (SELECT l, train_model('mlp', y, {db.row()}, '{json.dumps(SHORT | {'max_iter': 2})}') AS m FROM t WHERE i % 5 > 0 OR l = 'l1' GROUP BY l) AS g ORDER BY l"
    )
    for level, coef in grouped:
        db.train("y", SHORT | {"max_iter": 2}, f"(i % 5 > 0 OR l = 'l1') AND l = '{level}'")
        assert list(db.model().coef) == coef


def test_threads_change_no_bit(db: Database) -> None:
    found = []
    for n in (1, 2):
        db.train("y", SHORT | {"max_iter": 2, "batch_size": 512, "threads": n})
        found.append(db.model().coef)
    assert found[0] == found[1]


def test_more_epochs_from_a_model(db: Database) -> None:
    """A warm start begins where the model ended, so its first epoch has a lower loss."""
    for label, options in (("y", SHORT), ("c", CLASSES)):
        db.train(label, options)
        first = db.model()
        start = {"coef": list(first.coef), "intercept": first.intercept}
        db.train(label, options | {"warm_start": start, "max_iter": 5})
        more = db.model()
        assert more.history[0] < 0.5 * first.history[0]
        assert more.loss < 1.1 * first.loss
        db.train(label, options | {"warm_start": start, "max_iter": 1, "learning_rate": 40})
        if label == "y":  # classes that are told apart have a lower loss by larger weights
            steep = db.model()
            assert (steep.status, steep.coef) == ("worse than start", first.coef)
    with pytest.raises((duckdb.Error, psycopg.Error), match=re.escape("warm_start is a net 11-16-3 of relu with vectors for 7 levels of 5, 3 levels of 3, expected a net 11-16-1 of relu with vectors for 7 levels of 5, 3 levels of 3")):  # fmt: skip
        db.train("y", SHORT | {"warm_start": start})
    with pytest.raises((duckdb.Error, psycopg.Error), match="warm_start is a model without a net"):
        db.train("y", SHORT | {"warm_start": {"coef": [1.0, 2.0], "intercept": 0}})


def test_weights_of_classes(db: Database) -> None:
    """A heavier class is told more often; weights of equal size change no bit."""
    told, base = {}, None
    for name, weight in (("none", None), ("equal", [2, 2]), ("heavy", [1, 20])):
        given = {} if weight is None else {"class_weight": weight}
        db.train("y > 3", CLASSES | {"max_iter": 3} | given)
        told[name] = np.mean(db.predict(db.row(), "predict_proba"))
        coef = db.model().coef
        base = coef if name == "none" else base
        assert (coef == base) == (name != "heavy")
    assert told["heavy"] > told["none"]
    db.train("c", CLASSES | {"max_iter": 3, "class_weight": "balanced"})
    db.train("c", CLASSES | {"max_iter": 3, "class_weight": {"much": 2, "none": 1, "some": 1}})
    with pytest.raises((duckdb.Error, psycopg.Error), match="option 'class_weight' is not available with task 'mlp', which has no classes"):  # fmt: skip
        db.train("y", SHORT | {"class_weight": [1, 2]})
    with pytest.raises((duckdb.Error, psycopg.Error), match="has 2 weights and a group 3 classes"):
        db.train("c", CLASSES | {"class_weight": [1, 2]})


@pytest.mark.sample(1)
def test_a_limit_of_time_keeps_the_best_so_far(db: Database) -> None:
    db.train("y", SHORT | {"max_iter": 1_000_000, "time": "0.2s", "learning_rate": 0.001})
    model = db.model()
    assert model.status == "time limit"
    assert 0 < model.iterations < 1_000_000
    db.train("y", SHORT | {"max_iter": 1_000_000, "time": "0.2s", "validation": 0.2, "patience": 1_000_000})  # fmt: skip
    assert db.model().status in ("time limit", "early stop")


def test_explanations_know_the_vectors(db: Database) -> None:
    for given in ({}, {"embedding": 0}):
        text = json.dumps(SHORT | given | {"format": "json"})
        told = db.ask(f"SELECT explain_training('mlp', y, {db.row()}, '{text}') FROM t")[0][0]
        one = json.loads(told)["candidates"][0]
        assert one["memory_bytes"] > 1200 * 16 * 4
        assert one["seconds_per_iteration"] > 0


@pytest.mark.parametrize("label", ["y", "y > 3", "c"])
@pytest.mark.parametrize("given", [{}, {"embedding": 0}, {"missing": "level"}, {"max_categories": 2, "missing": "impute"}])  # fmt: skip
def test_onnx_reads_the_columns(con: duckdb.DuckDBPyConnection, label: str, given: dict[str, Any]) -> None:  # fmt: skip
    """Levels that are known, rare, unknown and missing, by name."""
    runtime = pytest.importorskip("onnxruntime")
    db = Database("duck", con)
    db.ask_nothing("UPDATE t SET k = NULL WHERE i % 9 = 0")
    db.train(label, (SHORT if label == "y" else CLASSES) | {"max_iter": 3} | given)
    rows = [(0.1, "k1", "l1"), (0.2, "k6", "l2"), (0.7, "none", "l0"), (0.5, None, "l1"), (None, "k0", "l1")]  # fmt: skip
    graph = runtime.InferenceSession(to_onnx(db.model()).SerializeToString())
    a, k, level = zip(*rows, strict=True)
    told = graph.run(None, {
        "a": np.array([np.nan if one is None else one for one in a]),
        "k": np.array([one or "" for one in k], object), "l": np.array(level, object),
    })  # fmt: skip
    functions = {"y": "predict", "y > 3": "predict_proba", "c": "predict_probas"}
    literal = [
        "{{'a': {}, 'k': {}, 'l': '{}'}}".format(
            *("NULL" if one is None else one for one in (row[0],)),
            "NULL" if row[1] is None else f"'{row[1]}'",
            row[2],
        )
        for row in rows
    ]
    found = [db.ask(f"SELECT {functions[label]}(m, {one}) FROM f")[0][0] for one in literal]
    if label == "c":
        expected = np.array([[np.nan] * 3 if one is None else list(one.values()) for one in found])
    else:
        expected = np.array([np.nan if one is None else one for one in found], float)
    np.testing.assert_allclose(told[-1], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("more", [{}, {"embedding": 0}])
def test_words_and_interactions_beside_categories(con: duckdb.DuckDBPyConnection, more: dict[str, Any]) -> None:  # fmt: skip
    """Rows of hashed words are sparse, also without a category; the loss is that of predictions."""
    db = Database("duck", con)
    words = "'word' || i % 50 || ' or' || i % 40 || ' and' || i % 30"
    for row, given in (
        (f"{{'w': {words}, 'a': a}}", {"text": ["w"]}),
        (
            f"{{'w': {words}, 'k': k, 'l': l}}",
            {"text": ["w"], "interactions": [["k", "l"]]} | more,
        ),
    ):
        text = json.dumps(SHORT | given | {"max_iter": 3})
        db.ask_nothing("DROP TABLE IF EXISTS f")
        db.ask_nothing(f"CREATE TABLE f AS SELECT train_model('mlp', y, {row}, '{text}') AS m FROM t")  # fmt: skip
        loss, told = db.ask(f"SELECT any_value(m.loss), avg((predict(m, {row}) - y) ** 2) / 2 FROM t, f")[0]  # fmt: skip
        assert told == pytest.approx(loss, rel=1e-4)


def test_sparse_lists_are_refused_with_labels_that_are_text_too(
    con: duckdb.DuckDBPyConnection,
) -> None:
    with pytest.raises(duckdb.Error, match=r"features of 'mlp' are a list, got sparse\(\.\.\.\)"):
        con.execute(
            "SELECT train_model('mlp', 'c' || i % 2, sparse([0], [i]), '{\"objective\": \"logistic\"}') FROM range(9) r(i)"
        )


def test_very_many_levels_stay_sparse(con: duckdb.DuckDBPyConnection) -> None:
    """20,000 levels as inputs of their own would be 3 GB of rows."""
    con.execute("SET memory_limit = '400MB'")
    con.execute("CREATE TABLE w AS SELECT 'v' || (i % 20000) AS v, (i % 20000) / 1e4 AS y FROM range(20000) r(i)")  # fmt: skip
    loss, n = con.execute("SELECT m.loss, len(m.coef) FROM (SELECT train_model('mlp', y, {'v': v}, '{\"max_iter\": 1, \"layers\": [4], \"embedding\": 2, \"batch_size\": 512, \"learning_rate\": 0.02}') AS m FROM w)").fetchall()[0]  # fmt: skip
    assert n == 3 + 2 + 4 + 40000 + 4 * 3 + 5
    assert np.isfinite(loss)


def test_steps_are_sparse_where_tables_are_large_or_an_option_says_so(db: Database) -> None:
    """Of whole groups as batches both steps are the same, as each batch has all levels."""
    whole = SHORT | {"batch_size": 1200, "embedding": 4}
    db.train("y", whole | {"sparse_embeddings": True})
    sparse = db.model()
    db.train("y", whole | {"sparse_embeddings": False})
    assert sparse.loss == pytest.approx(db.model().loss, rel=1e-3)
    losses = []
    for more in ({}, {"sparse_embeddings": False}, {"sparse_embeddings": True}):
        db.train("y", SHORT | {"batch_size": 4, "max_iter": 2, "embedding": 4} | more)
        losses.append(db.model().history)
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]
    assert losses[0] == pytest.approx(losses[2], rel=0.3)


@pytest.mark.parametrize(("levels", "sparse"), [(20_000, True), (19_999, False)])
def test_tables_are_large_from_a_million_numbers_on(levels: int, sparse: bool) -> None:
    options = OPTIONS.parse("{}", "mlp")
    assert sparse_steps(options, ((0, levels, 50),)) == sparse
