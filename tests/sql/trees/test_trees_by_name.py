"""Trees on rows by name, in both databases: signs by name, and the functions on such rows."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import duckdb
import psycopg
import pytest

ROWS = """
CREATE {temp} TABLE t AS
SELECT CAST(i AS INTEGER) AS i, CAST(i % 3 AS INTEGER) AS g, CAST((i * 7919) % 1009 AS DOUBLE PRECISION) / 1009 AS a,
       CAST((i * 104729) % 997 AS DOUBLE PRECISION) / 997 AS b, CAST((i * 31) % 11 AS DOUBLE PRECISION) AS c,
       CAST((i * 7919) % 1009 AS DOUBLE PRECISION) * ((i * 104729) % 997) / 400000 + (i * 31) % 11 AS y
FROM generate_series(1, 1500) AS s(i)
"""
X = {"duck": "[a, b, c]", "post": "ARRAY[a, b, c]"}


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        session.execute(ROWS.format(temp="TEMP" if name == "post" else ""))

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query in which {x} stands for a list of the features."""
        return self.session.execute(sql.replace("{x}", X[self.name])).fetchall()


@pytest.fixture(params=["duck", "post"])
def db(request: pytest.FixtureRequest) -> Database:
    if request.param == "duck":
        return Database("duck", request.getfixturevalue("con"))
    return Database("post", request.getfixturevalue("connect")())


def by_name(db: Database, columns: str = "c, k, a") -> str:
    """A row with names."""
    if db.name == "duck":
        return "{" + ", ".join(f"'{name}': {name}" for name in columns.split(", ")) + "}"
    return f"(SELECT q FROM (SELECT {columns}) AS q)"


LEVELS = "CASE WHEN g = 0 THEN 'u' WHEN i % 2 = 0 THEN 'v' ELSE 'w' END AS k"
"""Of which groups have one or two, so that features lie at other places."""


def test_monotone_features_by_name(db: Database) -> None:
    """Signs by name are those of a list, in each group by its own features."""
    options = '{"trees": 10, "monotone": SIGNS}'
    call = f"train_model('gbdt', 3 * a - c, {by_name(db)}, '{options}')"
    query = f"SELECT g, (m).features, (m).coef FROM (SELECT g, {call} AS m FROM (SELECT *, {LEVELS} FROM t) AS s GROUP BY g) AS f ORDER BY g"
    named = db.ask(query.replace("SIGNS", '{"a": -1, "c": 1}'))
    assert [len(features) for _, features, _ in named] == [3, 4, 4]
    for g, features, coef in named:
        signs = json.dumps([{"a": -1, "c": 1}.get(name, 0) for name in features])
        alone = query.replace("SIGNS", signs).replace("AS s GROUP", f"AS s WHERE g = {g} GROUP")
        assert db.session.execute(alone).fetchall() == [(g, features, coef)]
    free = query.replace("SIGNS", "[0, 0, 0, 0]").replace("AS s GROUP", "AS s WHERE g = 1 GROUP")
    assert named[1][2] != db.ask(free)[0][2]


def test_monotone_names_of_a_list(db: Database) -> None:
    options = '{"trees": 5, "feature_names": ["a", "b", "c"], "monotone": SIGNS}'
    call = f"SELECT (m).coef, (m).options FROM (SELECT train_model('gbdt', y, {{x}}, '{options}') AS m FROM t) AS f"
    named = db.ask(call.replace("SIGNS", '{"c": -1}'))
    assert named == db.ask(call.replace("SIGNS", "[0, 0, -1]"))
    assert json.loads(named[0][1])["monotone"] == [0, 0, -1]


@pytest.mark.parametrize(
    ("given", "x", "message"),
    [
        (
            '{"aa": 1}',
            "",
            "option 'monotone' names 'aa', which no feature is called: they are c, k[u], k[v], k[w], a; did you mean 'a'?",
        ),
        (
            '{"a": 1}',
            "{x}",
            "option 'monotone' names 'a', but features are a list without names: expected a list of signs, or option 'feature_names'",
        ),
        ('{"a": 2}', "{x}", "option 'monotone' is {\"a\": 2}, expected a list with 1, 0 or -1"),
        ("{}", "{x}", "option 'monotone' is {}, expected a list with 1, 0 or -1"),
    ],
)
def test_monotone_names_that_no_feature_has(
    db: Database, given: str, x: str, message: str
) -> None:
    call = f"train_model('gbdt', y, {x or by_name(db)}, '{{\"monotone\": {given}}}')"
    with pytest.raises((duckdb.Error, psycopg.Error)) as caught:
        db.ask(f"SELECT {call} FROM (SELECT *, {LEVELS} FROM t) AS s")
    assert message in str(caught.value)


def test_rows_by_name_in_all_functions(db: Database) -> None:
    """Order and other columns do not matter, and the numbers are those of the same trees on a list."""
    source = "(SELECT *, CASE WHEN c < 4 THEN 'low' WHEN c < 8 THEN 'mid' ELSE 'top' END AS k FROM t) AS s"
    options = '{"objective": "logistic", "trees": 8}'
    db.session.execute(
        f"CREATE TABLE kept_by_name AS SELECT train_model('gbdt', k, {by_name(db, 'a, k, b')}, '{options}') AS m FROM {source}"
    )
    coded = (
        "CAST(k = 'low' AS INTEGER)",
        "CAST(k = 'mid' AS INTEGER)",
        "CAST(k = 'top' AS INTEGER)",
    )
    listed = f"{'ARRAY' if db.name == 'post' else ''}[a, {', '.join(coded)}, b]"
    try:
        db.session.execute(
            f"CREATE TABLE kept_as_list AS SELECT train_model('gbdt', k, {listed}, '{options}') AS m FROM {source}"
        )
        rows = by_name(db, "b, i, k, a")
        answers = "predict(f.m, {x}), predict_class(f.m, {x}), predict_proba(f.m, {x}, 'mid'), predict_probas(f.m, {x})"
        asked = "SELECT i, " + answers + " FROM {f} AS f, " + source + " WHERE i < 40 ORDER BY i"
        found = db.session.execute(asked.format(x=rows, f="kept_by_name")).fetchall()
        assert found == db.session.execute(asked.format(x=listed, f="kept_as_list")).fetchall()
        explained = (
            "SELECT i, e.value, e.contribution, e.class FROM {f} AS f, "
            + source
            + ", LATERAL explain_prediction(f.m, {x}) AS e WHERE i = 7"
        )
        by_row = db.session.execute(explained.format(x=rows, f="kept_by_name")).fetchall()
        assert (
            by_row == db.session.execute(explained.format(x=listed, f="kept_as_list")).fetchall()
        )
        importance = "SELECT feature, splits FROM feature_importance((SELECT m FROM kept_by_name))"
        names = {name for name, _ in db.session.execute(importance).fetchall()}
        assert names == {"a", "k[low]", "k[mid]", "k[top]", "b"}
    finally:
        db.session.execute("DROP TABLE IF EXISTS kept_by_name; DROP TABLE IF EXISTS kept_as_list")
