"""Categories in boosted trees, in both databases: by name, and by place in lists."""

# ruff: noqa: E501, SQL is read better on one line

import itertools
import math
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest

import tuskml

ROWS = """CREATE {temp} TABLE shops AS SELECT i, 'shop ' || (i * 31 % 41) AS shop, i * 31 % 41 AS number,
CASE WHEN i % 10 > 0 THEN 'd' || (i % 7) END AS day, (i * 7919 % 101)::float8 / 101 AS area,
(i * 31 % 41 * 17 % 13 + i % 7 * (i * 7919 % 5))::float8 AS y FROM generate_series(1, 4000) AS r(i)"""
NAMED = {"duck": "{'shop': shop, 'day': day, 'area': area}", "post": "named"}
LIST = {"duck": "[number, area]", "post": "ARRAY[number, area]"}
WITH_ROWS = (
    "(SELECT t.*, r AS named FROM shops AS t, LATERAL (SELECT t.shop, t.day, t.area) AS r) AS s"
)
PLAIN = '{"trees": 20, "num_leaves": 9}'
HOW = PLAIN.replace("}", ', "min_category_rows": 40}')


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        self.temp = "TEMP" if name == "post" else ""
        self.rows = WITH_ROWS if name == "post" else "shops"
        session.execute(ROWS.format(temp=self.temp))

    def ask(self, sql: str, **more: str) -> list[tuple[Any, ...]]:
        given = {"x": NAMED[self.name], "list": LIST[self.name], "rows": self.rows} | more
        for name, text in given.items():
            sql = sql.replace(f"<{name}>", text)
        return self.session.execute(sql).fetchall()

    def keep(self, features: str = "<x>", options: str = HOW, label: str = "y") -> tuskml.Model:
        """Trains a model into table f."""
        sql = f"SELECT train_model('gbdt', {label}, {features}, '{options}') AS m FROM <rows>"
        given = {"x": NAMED[self.name], "list": LIST[self.name], "rows": self.rows}
        for name, text in given.items():
            sql = sql.replace(f"<{name}>", text)
        self.session.execute("DROP TABLE IF EXISTS f")
        self.session.execute(f"CREATE {self.temp} TABLE f AS {sql}")
        found = self.ask("SELECT m FROM f" if self.name == "duck" else "SELECT to_jsonb(m) FROM f")
        return tuskml.Model.of(found[0][0])


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


def test_both_databases_grow_the_same_trees(con: duckdb.DuckDBPyConnection, post: Any) -> None:
    here, there = (Database(*one).keep() for one in (("duck", con), ("post", post)))
    assert here.coef == there.coef
    assert here.preparation == there.preparation
    assert here.features == ("shop", "day", "area")


def test_a_category_by_name_is_one_by_number(db: Database) -> None:
    """The same splits, whatever the levels are called."""
    loss = db.keep("<x>".replace("<x>", one_column(db))).loss
    by_number = db.keep("<list>", HOW.replace("}", ', "categorical": [1]}'))
    assert by_number.loss == pytest.approx(loss, rel=1e-9)
    told = db.ask("SELECT avg((predict(m, <list>) - y) ^ 2) / 2 FROM f, <rows>")[0][0]
    assert told == pytest.approx(loss, rel=1e-9)
    as_number = db.keep("<list>", PLAIN)
    assert as_number.loss > 1.1 * loss


def one_column(db: Database) -> str:
    if db.name == "duck":
        return "{'shop': shop, 'area': area}"
    db.rows = "(SELECT t.*, r AS named FROM shops AS t, LATERAL (SELECT t.shop, t.area) AS r) AS s"
    return "named"


def test_predictions_have_the_loss_of_the_training(db: Database) -> None:
    loss = db.keep().loss
    told = db.ask("SELECT avg((predict(m, <x>) - y) ^ 2) / 2 FROM f, <rows>")[0][0]
    assert told == pytest.approx(loss, rel=1e-9)


def test_one_hot_is_an_option_and_needs_more_splits(db: Database) -> None:
    native = db.keep()
    one_hot = db.keep(options=PLAIN.replace("}", ', "category_encoding": "one_hot"}'))
    assert len(one_hot.features or ()) == 41 + 8 + 1
    assert "shop[shop 3]" in (one_hot.features or ())
    assert one_hot.loss > native.loss


NEW = {
    "duck": "{'shop': <shop>, 'day': <day>, 'area': 0.5}",
    "post": "(SELECT r FROM (SELECT <shop>::text AS shop, <day>::text AS day, 0.5::float8 AS area) AS r)",
}


def test_new_levels_go_where_rare_ones_do(db: Database) -> None:
    """Which is never to the left; a NULL that training had is a level of its own."""
    db.keep(options=HOW.replace("}", ', "max_categories": 20}'))

    def of(shop: str, day: str) -> float:
        told: float = db.ask(f"SELECT predict(m, {NEW[db.name]}) FROM f", shop=shop, day=day)[0][0]
        return told

    kept = tuskml.Model.of(
        db.ask("SELECT m FROM f" if db.name == "duck" else "SELECT to_jsonb(m) FROM f")[0][0]
    )
    assert '"other":true' in (kept.preparation or "")
    rare = next(f"'shop {k}'" for k in range(41) if f'"shop {k}"' not in (kept.preparation or ""))
    assert of("'never'", "'d1'") == of(rare, "'d1'") == of("NULL", "'d1'")
    assert of("'never'", "NULL") != of("'never'", "'never'")
    db.keep(options=HOW.replace("}", ', "unseen": "error"}'))
    with pytest.raises((duckdb.Error, psycopg.Error), match="'never', which the model was not"):
        of("'never'", "'d1'")


def test_the_sides_are_in_tree_dump(db: Database) -> None:
    model = db.keep()
    nodes = db.ask(
        "SELECT tree, node, feature, threshold, left_child, right_child, value, levels, missing_left FROM f, LATERAL tree_dump(m)".replace(
            "FROM f, LATERAL tree_dump(m)", "FROM tree_dump((SELECT m FROM f))"
        )
    )
    by_tree: dict[int, dict[int, Any]] = {}
    for node in nodes:
        by_tree.setdefault(node[0], {})[node[1]] = node
    rows = db.ask(
        "SELECT shop, coalesce(day, 'missing'), area, predict(m, <x>) FROM f, <rows> ORDER BY i LIMIT 50"
    )
    seen = set()
    for shop, day, area, told in rows:
        total = model.intercept or 0.0
        for tree in by_tree.values():
            node = tree[0]
            while node[2] is not None:
                if node[7] is not None:
                    seen.add(node[2])
                    assert node[3] is None
                    left = {"shop": shop, "day": day}[node[2]] in node[7]
                else:
                    left = area <= node[3]
                node = tree[node[4] if left else node[5]]
            total += node[6]
        assert total == pytest.approx(told, rel=1e-12)
    assert seen == {"shop", "day"}
    assert any("missing" in (node[7] or []) for node in nodes)


def test_contributions_are_shapley_values(db: Database) -> None:
    """By their definition over all subsets of the three columns, path-dependent."""
    db.keep(options=HOW.replace("20", "4"))
    nodes = db.ask(
        "SELECT tree, node, feature, threshold, left_child, right_child, value, levels, n_rows FROM tree_dump((SELECT m FROM f))"
    )
    trees = [
        {node[1]: node for node in nodes if node[0] == number} for number in {n[0] for n in nodes}
    ]
    shop, day, area = db.ask(
        "SELECT shop, coalesce(day, 'missing'), area FROM shops WHERE i = 77"
    )[0]
    row = {"shop": shop, "day": day, "area": area}
    told = dict(
        db.ask(
            "SELECT e.feature, e.contribution FROM f, <rows>, LATERAL explain_prediction(m, <x>) AS e WHERE i = 77"
        )
    )
    for name in row:
        others = [one for one in row if one != name]
        expected = 0.0
        for size in range(3):
            weight = math.factorial(size) * math.factorial(2 - size) / 6
            for known in itertools.combinations(others, size):
                expected += weight * sum(
                    mean(tree, row, {*known, name}) - mean(tree, row, set(known)) for tree in trees
                )
        assert told[name] == pytest.approx(expected, rel=1e-10, abs=1e-12)


def mean(tree: dict[int, Any], row: dict[str, Any], known: set[str], at: int = 0) -> float:
    node = tree[at]
    if node[2] is None:
        value: float = node[6]
        return value
    left, right = node[4], node[5]
    if node[2] in known:
        x = row[node[2]]
        goes = x in node[7] if node[7] is not None else x <= node[3]
        return mean(tree, row, known, left if goes else right)
    share = tree[left][8] / node[8]
    return share * mean(tree, row, known, left) + (1 - share) * mean(tree, row, known, right)


def test_groups_have_their_own_levels(db: Database) -> None:
    """A model of some rows does not depend on the rows of other groups."""
    grouped = db.ask(
        f"SELECT g, (m).loss FROM (SELECT i % 3 AS g, train_model('gbdt', y, <x>, '{HOW}') AS m FROM <rows> GROUP BY i % 3) AS t ORDER BY g"
    )
    alone = [
        db.ask(
            f"SELECT (m).loss FROM (SELECT train_model('gbdt', y, <x>, '{HOW}') AS m FROM <rows> WHERE i % 3 = {g}) AS t"
        )[0][0]
        for g in range(3)
    ]
    assert [loss for _, loss in grouped] == pytest.approx(alone, rel=1e-12)


ERRORS = [
    (
        "<list>",
        '{"categorical": [2], "invalid": "error"}',
        "has a value that is no level, expected whole numbers from 0 to 65,535",
    ),
    (
        "<list>",
        '{"categorical": [3]}',
        "option 'categorical' lists feature 3 and rows have 2 features, expected places from 1 to 2",
    ),
    ("<list>", '{"categorical": [0]}', "expected a list of places of features, the first being 1"),
    ("<list>", '{"categorical": [1], "monotone": [1, 0]}', "'monotone' has a sign for feature 1"),
    ("<x>", '{"categorical": [1]}', "option 'categorical' is for features that are lists"),
]


@pytest.mark.parametrize(("features", "options", "sentence"), ERRORS)
def test_errors_say_what_to_do(db: Database, features: str, options: str, sentence: str) -> None:
    with pytest.raises((duckdb.Error, psycopg.Error), match=sentence):
        db.keep(features, options)


MANY_LEVELS = {
    "duck": "{'k': k} AS x FROM (SELECT i % 2 AS y, CASE WHEN i % 2 = 0 THEN 'k' || (i % 50) ELSE 'one ' || i END AS k FROM range(500000) r(i))",
    "post": "r AS x FROM (SELECT i % 2 AS y, CASE WHEN i % 2 = 0 THEN 'k' || (i % 50) ELSE 'one ' || i END AS k FROM generate_series(0, 499999) i) s, LATERAL (SELECT s.k) r",
}


@pytest.mark.nightly
def test_a_quarter_of_a_million_levels(db: Database) -> None:
    """The 255 most frequent ones are bins; the others go right together."""
    options = '{"trees": 3, "threads": 1}'
    sql = f"SELECT train_model('gbdt', y, x, '{options}') AS m FROM (SELECT y::float8 AS y, {MANY_LEVELS[db.name]}) t"
    if db.name == "post":
        sql = f"SELECT to_jsonb(m) FROM ({sql}) f"
    model = tuskml.Model.of(db.ask(sql)[0][0])
    assert (model.status, model.n_rows) == ("ok", 500_000)
    assert model.loss < 0.07
    assert len(model.preparation or "") < 10_000
    assert np.isfinite(model.coef or []).all()
