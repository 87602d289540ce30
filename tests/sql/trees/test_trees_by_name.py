"""Trees on rows by name, in both databases: signs by name, and the functions on such rows."""

# ruff: noqa: E501, SQL is read better on one line

import json
import math
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


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


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
    query = f"SELECT g, (m).features, (m).payload FROM (SELECT g, {call} AS m FROM (SELECT *, {LEVELS} FROM t) AS s GROUP BY g) AS f ORDER BY g"
    named = db.ask(query.replace("SIGNS", '{"a": -1, "c": 1}'))
    assert [g for g, *_ in named] == [0, 1, 2]
    for g, features, coef in named:
        signs = json.dumps([{"a": -1, "c": 1}.get(name, 0) for name in features])
        alone = query.replace("SIGNS", signs).replace("AS s GROUP", f"AS s WHERE g = {g} GROUP")
        assert db.session.execute(alone).fetchall() == [(g, features, coef)]
    free = query.replace("SIGNS", "[0, 0, 0]").replace("AS s GROUP", "AS s WHERE g = 1 GROUP")
    assert named[1][2] != db.ask(free)[0][2]


def test_monotone_names_of_a_list(db: Database) -> None:
    options = '{"trees": 5, "feature_names": ["a", "b", "c"], "monotone": SIGNS}'
    call = f"SELECT (m).payload, (m).options FROM (SELECT train_model('gbdt', y, {{x}}, '{options}') AS m FROM t) AS f"
    named = db.ask(call.replace("SIGNS", '{"c": -1}'))
    assert named == db.ask(call.replace("SIGNS", "[0, 0, -1]"))
    assert json.loads(named[0][1])["monotone"] == [0, 0, -1]


@pytest.mark.parametrize(
    ("given", "x", "message"),
    [
        (
            '{"aa": 1}',
            "",
            "option 'monotone' names 'aa', which no feature is called: they are c, k",
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


def test_sets_of_features_by_name(db: Database) -> None:
    """Sets by name are those of places, in each group by its own features."""
    options = '{"trees": 6, "interaction_constraints": SETS}'
    call = f"train_model('gbdt', a * c + b, {by_name(db, 'c, k, a, b')}, '{options}')"
    query = f"SELECT g, (m).features, (m).payload FROM (SELECT g, {call} AS m FROM (SELECT *, {LEVELS} FROM t) AS s GROUP BY g) AS f ORDER BY g"
    named = db.ask(query.replace("SETS", '[["a", "b"], ["c", "k"]]'))
    assert [g for g, *_ in named] == [0, 1, 2]
    for g, features, payload in named:
        at = {name: place for place, name in enumerate(features, 1)}
        sets = json.dumps([[at["a"], at["b"]], [at["c"], at["k"]]])
        alone = query.replace("SETS", sets).replace("AS s GROUP", f"AS s WHERE g = {g} GROUP")
        assert db.session.execute(alone).fetchall() == [(g, features, payload)]
    free = db.ask(query.replace(', "interaction_constraints": SETS', ""))
    assert all(one[2] != other[2] for one, other in zip(named, free, strict=True))


@pytest.mark.parametrize(
    ("given", "x", "message"),
    [
        (
            '[["aa"]]',
            "",
            "option 'interaction_constraints' names 'aa', which no feature is called",
        ),
        ('[["a"]]', "{x}", "names 'a', but features are a list without names: expected places"),
        (
            "[[1, 4]]",
            "{x}",
            "lists feature 4 and rows have 3 features, expected places from 1 to 3",
        ),
        ("[[0]]", "{x}", "option 'interaction_constraints' is [[0]], expected up to 63 lists"),
        ("[]", "{x}", "option 'interaction_constraints' is [], expected up to 63 lists"),
    ],
)
def test_sets_that_rows_do_not_have(db: Database, given: str, x: str, message: str) -> None:
    options = f'{{"interaction_constraints": {given}}}'
    call = f"train_model('gbdt', y, {x or by_name(db)}, '{options}')"
    with pytest.raises((duckdb.Error, psycopg.Error)) as caught:
        db.ask(f"SELECT {call} FROM (SELECT *, {LEVELS} FROM t) AS s")
    assert message in str(caught.value)


def test_rows_by_name_in_all_functions(db: Database) -> None:
    """Order and other columns do not matter; explanations add up to the classes' margins."""
    source = "(SELECT *, CASE WHEN c < 4 THEN 'low' WHEN c < 8 THEN 'mid' ELSE 'top' END AS k, CASE WHEN a < 0.3 THEN 'r' ELSE 's' END AS l FROM t) AS s"
    options = '{"objective": "logistic", "trees": 8}'
    model = (
        f"(SELECT train_model('gbdt', k, {by_name(db, 'a, l, b, c')}, '{options}') FROM {source})"
    )
    answers = "predict_class(m, {x}), predict_proba(m, {x}, 'mid'), predict_probas(m, {x})"
    asked = (
        f"SELECT i, {answers} FROM (SELECT {model} AS m) AS f, {source} WHERE i < 40 ORDER BY i"
    )
    found, again = (
        db.session.execute(asked.replace("{x}", by_name(db, columns))).fetchall()
        for columns in ("a, l, b, c", "c, b, i, y, l, a")
    )
    assert found == again
    for _, name, middle, shares in found:
        assert list(shares) == ["low", "mid", "top"]
        assert max(shares, key=shares.get) == name
        assert (middle, sum(shares.values())) == (shares["mid"], pytest.approx(1))
    explained = f"SELECT e.class, sum(e.contribution) FROM (SELECT {model} AS m) AS f, {source}, LATERAL explain_prediction(m, {by_name(db, 'c, i, l, a, b')}) AS e WHERE i = 7 GROUP BY 1"
    margins = dict(db.session.execute(explained).fetchall())
    parts = {name: math.exp(margin) for name, margin in margins.items()}
    shares = next(row[3] for row in found if row[0] == 7)
    for name, part in parts.items():
        assert part / sum(parts.values()) == pytest.approx(shares[name])
    importance = f"SELECT feature FROM feature_importance({model})"
    names = {name.split("[")[0] for (name,) in db.session.execute(importance).fetchall()}
    assert names == {"a", "l", "b", "c"}
