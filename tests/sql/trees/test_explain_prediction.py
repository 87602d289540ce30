"""`explain_prediction` against brute force over subsets of features, in both databases."""

# ruff: noqa: E501, SQL is read better on one line
import itertools
import math
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tuskml
from tuskml.learners.models import FORMAT
from tuskml.learners.trees.forest import trees_in

ROWS = """CREATE {temp} TABLE t AS SELECT i, i % 3 AS g, ((i * 7919) % 1009)::float8 / 1009 AS a,
((i * 31) % 101)::float8 / 101 AS b, ((i * 17) % 13)::float8 AS c
FROM generate_series(0, 1499) AS r(i)"""
X = {"duck": "[a, b, c]", "post": "ARRAY[a, b, c]"}
SMALL = '{"trees": 4, "num_leaves": 6}'
CLASSES = "CASE WHEN b > 0.6 THEN 7 WHEN c > 5 THEN 2 ELSE 4 END"


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        session.execute(ROWS.format(temp="TEMP" if name == "post" else ""))

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query in which {x} stands for the features."""
        return self.run(sql).fetchall()

    def run(self, sql: str) -> Any:
        """Runs a statement."""
        return self.session.execute(sql.replace("{x}", X[self.name]))

    def keep(self, call: str) -> tuskml.Model:
        """Trains a model into table f."""
        temp = "TEMP" if self.name == "post" else ""
        self.run(f"CREATE {temp} TABLE f AS SELECT {call} AS m FROM t")
        if self.name == "duck":
            return tuskml.Model.of(self.ask("SELECT m FROM f")[0][0])
        return tuskml.Model.of(self.ask("SELECT to_jsonb(m) FROM f")[0][0])


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


def expected(tree: np.ndarray, row: np.ndarray, known: set[int], at: int = 0) -> float:
    """What a tree says of a row of which some features are known, path-dependent: an unknown
    feature follows the training rows to both sides.
    """
    feature, value, right, _, _, missing = tree[at]
    if feature < 0:
        return value
    left, right = at + 1, int(right)
    if int(feature) in known:
        x = row[int(feature)]
        goes = missing == 1 if np.isnan(x) else x <= value
        return expected(tree, row, known, left if goes else right)
    share = tree[left, 4] / tree[at, 4]
    return share * expected(tree, row, known, left) + (1 - share) * expected(
        tree, row, known, right
    )


def brute_force(trees: list[np.ndarray], row: np.ndarray) -> np.ndarray:
    """Shapley values by their definition, over all subsets of features, of shape (d,)."""
    d = len(row)

    def of(known: tuple[int, ...]) -> float:
        return sum(expected(tree, row, set(known)) for tree in trees)

    told = np.zeros(d)
    for j in range(d):
        others = [i for i in range(d) if i != j]
        for size in range(d):
            weight = math.factorial(size) * math.factorial(d - size - 1) / math.factorial(d)
            for known in itertools.combinations(others, size):
                told[j] += weight * (of((*known, j)) - of(known))
    return told


def model_of(trees: list[np.ndarray], d: int, base: float = 0.5) -> tuskml.Model:
    """A model of given trees, each of shape (nodes, 6)."""
    coef = [float(d), float(len(trees)), 0.0, *(float(len(tree)) for tree in trees)]
    coef += np.concatenate(trees).ravel().tolist()
    return tuskml.Model(
        "gbdt", coef, base, None, None, 9, 0, d, 0.0, None, len(trees), True, "ok", "", 0.0,
        {"tuskml": FORMAT, "objective": "squared"}, None,
    )  # fmt: skip


def grow(random: np.random.Generator, d: int, depth: int) -> np.ndarray:
    """A tree of random splits, shares and leaves, where a path may split by a feature twice."""
    nodes: list[list[float]] = []

    def add(left_over: int, rows: int) -> None:
        place = len(nodes)
        nodes.append([-1, random.normal(), 0, 0, rows, 0])
        if left_over and rows > 1 and random.random() < 0.9:
            left = int(random.integers(1, rows))
            add(left_over - 1, left)
            right = len(nodes)
            add(left_over - 1, rows - left)
            split = [random.integers(d), random.normal(), right, 1.0, rows, random.integers(2)]
            nodes[place] = [float(one) for one in split]

    add(depth, 200)
    return np.array(nodes)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(0, 7))
def test_values_are_those_of_all_subsets(seed: int, d: int, depth: int) -> None:
    random = np.random.default_rng(seed)
    trees = [grow(random, d, depth) for _ in range(3)]
    model, row = model_of(trees, d), random.normal(size=d)
    row[random.random(d) < 0.2] = np.nan
    told = model.explain([row])
    assert told.contributions[0] == pytest.approx(brute_force(trees, row), rel=1e-10, abs=1e-12)
    assert told.base[0] == pytest.approx(
        0.5 + sum(expected(tree, row, set()) for tree in trees), rel=1e-12
    )


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(0, 30))
def test_contributions_add_up_to_the_margin(seed: int, d: int, depth: int) -> None:
    """Also of deep paths, where subtractions would lose digits."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(3, d))
    model = model_of([grow(random, d, depth) for _ in range(3)], d)
    told = model.explain(x)
    added = told.base + told.contributions.sum(axis=1)
    assert added == pytest.approx(model.decision(x), rel=1e-9, abs=1e-11)
    assert (told.values == x).all()


def test_a_path_of_many_features() -> None:
    """A chain of 300 splits, each by its own feature."""
    n = 300
    nodes = []
    for j in range(n):
        nodes += [[j, 0.0, 2 * j + 2, 1, n + 1 - j, 0], [-1, float(j), 0, 0, 1, 0]]
    chain = np.array([*nodes, [-1, float(n), 0, 0, 1, 0]], float)
    x = np.ones((1, n))
    told = model_of([chain], n).explain(x)
    assert told.base[0] + told.contributions.sum() == pytest.approx(n + 0.5, rel=1e-9)
    assert np.isfinite(told.contributions).all()


def test_both_databases_tell_rows(db: Database) -> None:
    model = db.keep(f"train_model('gbdt', a * b + c, {{x}}, '{SMALL}')")
    rows = db.ask(
        "SELECT i, e.feature, e.value, e.contribution, e.class, decision(m, {x}) FROM f, t, LATERAL explain_prediction(m, {x}) AS e WHERE i < 20"
    )
    assert len(rows) == 20 * 4
    found = np.array(db.ask("SELECT a, b, c FROM t WHERE i < 20 ORDER BY i"), float)
    trees = trees_in(model.coef or [])
    for i, row in enumerate(found):
        mine = {r[1]: r for r in rows if r[0] == i}
        assert sorted(mine) == ["base value", "x1", "x2", "x3"]
        assert [mine[f"x{j}"][2] for j in (1, 2, 3)] == row.tolist()
        told = [mine[f"x{j}"][3] for j in (1, 2, 3)]
        assert told == pytest.approx(brute_force(trees, row), rel=1e-10, abs=1e-13)
        assert sum(r[3] for r in mine.values()) == pytest.approx(mine["x1"][5], rel=1e-12)
        assert mine["base value"][2] is None
        assert {r[4] for r in mine.values()} == {None}
    told = model.explain(found)
    assert told.features == ("x1", "x2", "x3")
    assert told.contributions[3] == pytest.approx(brute_force(trees, found[3]), rel=1e-10)


def test_several_classes_have_rows_each(db: Database) -> None:
    model = db.keep(
        f'train_model(\'gbdt\', {CLASSES}, {{x}}, \'{{"objective": "logistic", "trees": 3}}\')'
    )
    rows = db.ask(
        "SELECT e.class, e.feature, e.contribution FROM f, t, LATERAL explain_prediction(m, {x}) AS e WHERE i = 7"
    )
    x = np.array(db.ask("SELECT a, b, c FROM t WHERE i = 7"), float)
    trees = trees_in(model.coef or [])
    assert len(rows) == 12
    for k, name in enumerate(["2", "4", "7"]):
        mine = {feature: told for one, feature, told in rows if one == name}
        assert [mine["x1"], mine["x2"], mine["x3"]] == pytest.approx(
            brute_force(trees[k::3], x[0]), rel=1e-10, abs=1e-13
        )
    told = model.explain(x)
    margins = told.base + told.contributions.sum(axis=2)
    shares = np.exp(margins) / np.exp(margins).sum()
    assert shares == pytest.approx(model.predict_probas(x), rel=1e-10)


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
def test_linear_models_weigh_values(db: Database, task: str) -> None:
    label = "a * b + c" if task == "linear" else "c > 5"
    model = db.keep(f"train_model('{task}', {label}, {{x}})")
    rows = db.ask(
        "SELECT e.feature, e.contribution, {x}, decision(m, {x}) FROM f, t, LATERAL explain_prediction(m, {x}) AS e WHERE i = 7"
    )
    told = {row[0]: row[1] for row in rows}
    assert told.pop("base value") == model.intercept
    assert sorted(told) == ["x1", "x2", "x3"]
    assert [told[f"x{j}"] for j in (1, 2, 3)] == [
        w * x for w, x in zip(model.coef or [], rows[0][2], strict=True)
    ]
    assert model.intercept + sum(told.values()) == pytest.approx(rows[0][3], rel=1e-12)


def test_several_classes_of_a_linear_model(db: Database) -> None:
    model = db.keep(f"train_model('logistic', {CLASSES}, {{x}})")
    x = np.array(db.ask("SELECT a, b, c FROM t WHERE i = 7"), float)
    rows = db.ask(
        "SELECT e.class, sum(e.contribution) FROM f, t, LATERAL explain_prediction(m, {x}) AS e WHERE i = 7 GROUP BY 1 ORDER BY 1"
    )
    assert [row[0] for row in rows] == ["2", "4", "7"]
    margins = np.array([row[1] for row in rows])
    shares = np.exp(margins - margins.max()) / np.exp(margins - margins.max()).sum()
    assert shares == pytest.approx(model.predict_probas(x)[0], rel=1e-9)


def test_rows_by_name_and_sparse_rows(db: Database) -> None:
    """Text is a category, each of whose levels is a feature of the model."""
    duck = db.name == "duck"
    row = "{'a': a, 'k': k}" if duck else "named"
    source = (
        "t, LATERAL (SELECT t.a AS a, 'k' || i % 4 AS k) AS named"
        if not duck
        else "(SELECT i, a, 'k' || i % 4 AS k FROM t)"
    )
    db.run(
        f"CREATE {'' if duck else 'TEMP'} TABLE f AS SELECT train_model('gbdt', i % 4 * {'' if duck else 't.'}a, {row}) AS m FROM {source}"
    )
    one = f"FROM f, {source}, LATERAL explain_prediction(m, {row}) AS e WHERE i = 9"
    rows = db.ask(f"SELECT e.feature, e.value {one}")
    assert dict(rows) == {"base value": None, "a": pytest.approx(9 * 7919 % 1009 / 1009), "k": 1}
    total, margin = db.ask(f"SELECT sum(e.contribution), max(decision(m, {row})) {one}")[0]
    assert total == pytest.approx(margin, rel=1e-12)
    sparse = "sparse([1], [2.0])" if duck else "sparse(ARRAY[1], ARRAY[2.0])"
    told = db.ask(
        f"SELECT e.feature, e.value FROM (SELECT train_model('linear', a, {{x}}) AS m FROM t) AS s, LATERAL explain_prediction(m, {sparse}) AS e"
    )
    assert dict(told) == {"base value": None, "x1": 0, "x2": 2, "x3": 0}


def test_missing_numbers_go_where_trees_send_them(db: Database) -> None:
    """Their contributions add up to the margin, too; a linear model has neither."""
    null = "[1.0, NULL, 3]" if db.name == "duck" else "ARRAY[1.0, NULL, 3]::float8[]"
    asked = f"FROM f, LATERAL explain_prediction(m, {null}) AS e"
    db.keep(f"train_model('gbdt', a, {{x}}, '{SMALL}')")
    ((rows, total, margin),) = db.ask(
        f"SELECT count(*), sum(e.contribution), max(decision(m, {null})) {asked}"
    )
    assert (rows, total) == (4, pytest.approx(margin, rel=1e-12))
    db.run("DROP TABLE f")
    db.keep("train_model('linear', a, {x})")
    assert db.ask(f"SELECT e.* {asked}") == []


def test_a_constant_model_is_its_base_value(db: Database) -> None:
    db.keep("train_model('gbdt', 1.0, {x})")
    rows = db.ask("SELECT e.* FROM f, t, LATERAL explain_prediction(m, {x}) AS e WHERE i = 0")
    assert rows == [("base value", None, 1.0, None)]


@pytest.mark.parametrize(("call", "x", "sentence"), [
    ("train_model('matrix_factorization', a, ARRAY[1, 2])", "{two}", "model is 'matrix_factorization', expected trees, a net, a factorization machine or a linear model"),
    ("train_model('gbdt', a, {x}, '{\"trees\": 2}')", "{two}", "the model has 3 features, row has 2"),
])  # fmt: skip
def test_mistakes_have_a_sentence(db: Database, call: str, x: str, sentence: str) -> None:
    db.keep(call)
    x = x.replace("{two}", "[1.0, 2.0]" if db.name == "duck" else "ARRAY[1.0, 2.0]")
    with pytest.raises((duckdb.Error, psycopg.Error), match=f"explain_prediction: {sentence}"):
        db.ask(f"SELECT e.* FROM f, t, LATERAL explain_prediction(m, {x}) AS e WHERE i = 0")


SPLIT, LEAF = [0.0, 0.0, 2.0, 1.0, 4.0, 0.0], [-1.0, 1.0, 0.0, 0.0, 2.0, 0.0]
FORGED = {
    "a cycle": [[0.0, 0.0, 0.0, 1.0, 4.0, 0.0], LEAF, LEAF],
    "a shared child": [SPLIT, SPLIT, LEAF],
    "no right child": [SPLIT, LEAF],
    "a feature beyond": [[7.0, 0.0, 2.0, 1.0, 4.0, 0.0], LEAF, LEAF],
    "nodes left over": [LEAF, LEAF, LEAF],
    "NaN": [[math.nan, 0.0, 2.0, 1.0, 4.0, 0.0], LEAF, LEAF],
}


@pytest.mark.parametrize("nodes", FORGED.values(), ids=FORGED)
def test_forged_trees_are_refused(nodes: list[list[float]]) -> None:
    with pytest.raises(tuskml.DataError, match="are not the nodes of its trees"):
        model_of([np.array(nodes)], 2).explain([[1.0, 2.0]])


def test_trees_without_counts_are_refused() -> None:
    nodes = np.array([SPLIT, LEAF, LEAF])
    nodes[:, 4] = 0
    with pytest.raises(tuskml.DataError, match="do not say how many rows reached their nodes"):
        model_of([nodes], 2).explain([[1.0, 2.0]])


def test_endless_depth_is_refused() -> None:
    n = 1200
    nodes = [
        row for j in range(n) for row in ([0.0, 0.0, 2 * j + 2, 1, 2, 0], [-1, 0.0, 0, 0, 1, 0])
    ]
    with pytest.raises(tuskml.DataError, match="deeper than 1000 splits"):
        model_of([np.array([*nodes, LEAF], float)], 1).explain([[1.0]])
