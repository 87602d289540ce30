"""`train(...)` on columns as they are: text, dates and booleans by name, numbers with their names."""

# ruff: noqa: E501, SQL is read better on one line

from typing import Any

import duckdb
import psycopg
import pytest

ROWS = """
CREATE TABLE {name} AS SELECT CAST(i AS INTEGER) AS i, CAST(i * 7919 % 13 AS INTEGER) AS a,
CASE i * 31 % 3 WHEN 0 THEN 'x' WHEN 1 THEN 'y' ELSE 'z' END AS c, CAST({epoch} AS DATE) AS d, i % 5 = 0 AS b,
CASE i % 4 WHEN 0 THEN 'late' ELSE 'on time' END AS label, i % 3 AS "odd name"
FROM generate_series(0, 599) AS s(i)
"""
EPOCH = {
    "duck": "DATE '2024-01-01' + CAST(i AS INTEGER)",
    "post": "DATE '2024-01-01' + CAST(i AS INTEGER)",
}
FIELDS = ("coef", "intercept", "features", "status", "class_names", "n_rows")


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        self.table = "rows_by_name"
        session.execute(f"DROP TABLE IF EXISTS {self.table}")
        session.execute(ROWS.format(name=self.table, epoch=EPOCH[name]))

    def train(
        self, task: str, label: str, features: list[str], options: str = "", weight: str = ""
    ) -> dict[str, Any]:
        """Fields of the model of the table form."""
        listed = ", ".join("'" + text.replace("'", "''") + "'" for text in features)
        sign = ":=" if self.name == "duck" else "=>"
        more = f", weight {sign} '{weight}'" if weight else ""
        given = f"'{self.table}', '{task}', '{label}', {'ARRAY' if self.name == 'post' else ''}[{listed}], '{options}'{more}"
        columns = ", ".join(FIELDS)
        if self.name == "post":
            columns = ", ".join(f"(m).{field}" for field in FIELDS)
            query = f"SELECT {columns} FROM (SELECT train({given}) AS m OFFSET 0) AS t"
        else:
            query = f"SELECT {columns} FROM train({given})"
        (found,) = self.session.execute(query).fetchall()
        return dict(zip(FIELDS, found, strict=True))

    def aggregate(self, task: str, label: str, row: dict[str, str], more: str = "") -> list[float]:
        """The coefficients of the aggregate on a row with names."""
        if self.name == "duck":
            features = "{" + ", ".join(f"'{name}': {sql}" for name, sql in row.items()) + "}"
        else:
            features = (
                "(SELECT q FROM (SELECT "
                + ", ".join(f'{sql} AS "{name}"' for name, sql in row.items())
                + ") AS q)"
            )
        query = f"SELECT (train_model('{task}', {label}, {features}{more})).coef FROM {self.table}"
        return self.session.execute(query).fetchall()[0][0]


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


def test_columns_of_any_type_are_features_by_name(db: Database) -> None:
    model = db.train("linear", "i", ["a", "c", "d", "b"])
    assert model["features"] == ["a", "c[y]", "c[z]", "d", "b[true]"]
    row = {"a": "a", "c": "c", "d": "d", "b": "b"}
    assert model["coef"] == db.aggregate("linear", "i", row)
    assert (model["n_rows"], model["coef"][3]) == (600, pytest.approx(1))


def test_expressions_and_odd_names(db: Database) -> None:
    model = db.train("linear", "i", ["upper(c)", "a + 1", '"odd name"'])
    assert model["features"] == ["upper(c)[Y]", "upper(c)[Z]", "a + 1", "odd name"]
    row = {"upper(c)": "upper(c)", "a + 1": "a + 1", "odd name": '"odd name"'}
    assert model["coef"] == db.aggregate("linear", "i", row)


def test_labels_of_text_weights_and_options(db: Database) -> None:
    options = '{"l2": 0.01, "missing": "level"}'
    model = db.train("logistic", "label", ["a", "c"], options, weight="a + 1")
    assert model["class_names"] == ["late", "on time"]
    assert model["features"] == ["a", "c[x]", "c[y]", "c[z]"]
    truth = db.aggregate("logistic", "label", {"a": "a", "c": "c"}, f", '{options}', a + 1")
    assert model["coef"] == pytest.approx(truth, rel=1e-9)


def test_numbers_are_a_list_with_the_columns_names(db: Database) -> None:
    assert db.train("linear", "i", ["a", "b"])["features"] == ["a", "b"]
    assert db.train("linear", "i", ["a", "b"], '{"l2": 1}')["features"] == ["a", "b"]
    assert db.train("linear", "i", ["a", "b"], " {} ")["features"] == ["a", "b"]
    assert db.train("linear", "i", ["a", "a * 2"])["features"] is None
    own = db.train("linear", "i", ["a", "b"], '{"feature_names": ["u", "v"]}')
    assert own["features"] == ["u", "v"]


def test_wrong_options_are_refused_as_ever(db: Database) -> None:
    for options, message in [('{"l3": 1}', "option 'l3'"), ("{", "options"), ("[1]", "options")]:
        with pytest.raises((duckdb.Error, psycopg.Error), match=message):
            db.train("linear", "i", ["a", "b"], options)


EVIL = "a) AS u FROM rows_by_name; DROP TABLE rows_by_name; SELECT (1"
"""A whole statement in itself, if put where an expression belongs."""


@pytest.mark.parametrize("place", ["label", "features", "weight"])
def test_there_is_no_second_statement(db: Database, place: str) -> None:
    given: dict[str, Any] = {"label": "i", "features": ["a", "c"], "weight": "1"}
    given[place] = [EVIL, "c"] if place == "features" else EVIL
    with pytest.raises((duckdb.Error, psycopg.Error)):
        db.train("linear", **given)
    assert db.session.execute("SELECT count(*) FROM rows_by_name").fetchall() == [(600,)]


def test_no_second_statement_where_row_groups_are_asked_for(
    con: duckdb.DuckDBPyConnection,
) -> None:
    """Another connection looks at types and sizes before the statement is planned."""
    con.execute("CREATE TABLE big AS SELECT i, i % 2 AS y FROM range(300000) AS r(i)")
    options = '{"algorithm": "sgd", "epsilon": 0.1}'
    for label, features, source in [
        ("y) AS y FROM big; DROP TABLE big; SELECT (1", "['i']", "big"),
        ("y", "'[i] AS x FROM big; DROP TABLE big; SELECT [1]'", "big"),
        ("y", "['i']", "big); DROP TABLE big; SELECT * FROM (SELECT 1"),
    ]:
        with pytest.raises(duckdb.Error):
            con.execute(f"FROM train('{source}', 'logistic', '{label}', {features}, '{options}')")
        assert con.execute("SELECT count(*) FROM big").fetchall() == [(300000,)]


def test_enums_and_domains(post: Any) -> None:
    db = Database("post", post)
    db.session.execute("CREATE TYPE pg_temp.mood AS ENUM ('glad', 'sad')")
    db.session.execute("CREATE DOMAIN pg_temp.colour AS text")
    db.session.execute(
        "CREATE TEMP TABLE felt AS SELECT i, (CASE WHEN i % 2 = 0 THEN 'glad' ELSE 'sad' END)::pg_temp.mood AS m, "
        "(CASE WHEN i % 3 = 0 THEN 'red' ELSE 'blue' END)::pg_temp.colour AS k FROM generate_series(1, 60) AS s(i)"
    )
    query = "SELECT (train('felt', 'linear', 'i', ARRAY['m', 'k'])).features"
    assert db.session.execute(query).fetchall() == [(["m[sad]", "k[red]"],)]
