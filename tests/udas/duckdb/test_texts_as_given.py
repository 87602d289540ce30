"""Columns whose names are no expressions, models that JSON brought back, and features of JSON."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import tuskml

NAMES = (
    "net sales",
    "order",
    "select",
    "100%",
    "it's",
    'a "b"',
    "größe des tisches",
    "x +",
    "plain",
)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """One for all tests."""
    with tuskml.connect() as con:
        con.execute(
            "CREATE TABLE kept AS SELECT k, train_model('logistic', i % 5 > 1, {'x': i, 'c': "
            "['a', 'b'][1 + i % 2]}) AS model FROM (SELECT i, i % 2 AS k FROM range(60) t(i)) "
            "GROUP BY k"
        )
        yield con


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("place", ["label", "list", "row", "alone", "group"])
def test_names_of_columns(connection: duckdb.DuckDBPyConnection, name: str, place: str) -> None:
    """`train` takes a column's name as it is, as in PostgreSQL."""
    own = f"(i * 7 % 11) AS {quoted(name)}, i % 3 AS other, 2 * i AS y FROM range(40) t(i)"
    connection.execute(f"CREATE OR REPLACE TABLE odd AS SELECT {own}")
    text = "'" + name.replace("'", "''") + "'"
    label = text if place == "label" else "'y'"
    features = {
        "list": f"[{text}, 'other + 1']",
        "row": f"{{'a': {text}, 'b': 'other + 1'}}",
        "label": "['other']",
        "group": "['other']",
        "alone": text,
    }[place]
    by = f", group_by := {text}" if place == "group" else ""
    if place == "group" and " " in name:
        pytest.skip("two words are an expression and its name")
    if place == "alone":
        connection.execute(f"UPDATE odd SET {quoted(name)} = 1")
        connection.execute(f"ALTER TABLE odd ALTER {quoted(name)} TYPE INTEGER[] USING [other]")
    found = connection.execute(f"FROM train('odd', 'linear', {label}, {features}{by})").fetchall()
    assert len(found) == (11 if place == "group" else 1)


def test_names_of_weights(connection: duckdb.DuckDBPyConnection) -> None:
    """So are weights and offsets."""
    connection.execute(
        "CREATE OR REPLACE TABLE odd AS SELECT i AS x, i % 3 AS y, 1 + i % 2 AS w, "
        '1 + i % 2 AS "my weight" FROM range(30) t(i)'
    )
    extras = "weight := '{0}', \"offset\" := '{0}'"
    asked = f"SELECT coef FROM train('odd', 'poisson', 'y', ['x'], {extras})"
    found = [connection.execute(asked.format(one)).fetchall() for one in ("w", "my weight")]
    assert found[0] == found[1]


def test_expressions_stay(connection: duckdb.DuckDBPyConnection) -> None:
    """What is an expression is none of a column's name, and a mistake names what was given."""
    connection.execute(
        "CREATE OR REPLACE TABLE odd AS SELECT i AS x, 3 * i AS y FROM range(9) t(i)"
    )
    [[coef]] = connection.execute(
        "SELECT coef FROM train('odd', 'linear', 'y', ['x * 2'])"
    ).fetchall()
    assert coef == [pytest.approx(1.5)]
    with pytest.raises(duckdb.BinderException, match=r'column "x \* \* 2" not found'):
        connection.execute("FROM train('odd', 'linear', 'y', ['x * * 2'])")


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_models_of_files(connection: duckdb.DuckDBPyConnection, tmp_path: Path, kind: str) -> None:
    """A file brings models back, whatever type their payload then has."""
    path = tmp_path / f"kept.{kind}"
    connection.execute(f"COPY kept TO '{path}'")
    calls = (
        "predict(model, {'x': 7, 'c': 'a'})",
        "predict_proba(model, {'x': 7, 'c': 'a'})",
        "predict_class(model, {'x': 7, 'c': 'a'})",
        "decision(model, {'x': 7, 'c': 'a'})",
        "predict_probas(model, {'x': 7, 'c': 'a'})",
    )
    if kind == "csv":
        calls = calls[:1]  # a model as text
    for call in calls:
        asked = f"SELECT k, {call} FROM "
        expected = connection.execute(asked + "kept ORDER BY k").fetchall()
        assert connection.execute(asked + f"'{path}' ORDER BY k").fetchall() == expected


@pytest.mark.parametrize("use", ["train_model('linear', 1.0, {})", "predict(model, {})"])
def test_json_features(connection: duckdb.DuckDBPyConnection, use: str) -> None:
    """JSON is no text: each of its numbers would be a level."""
    asked = use.format("""{'x': '{"x": 3}'::JSON->'x', 'c': 'a'}""")
    with pytest.raises(duckdb.Error, match=r"column 'x' is (JSON|of a type that cannot be)"):
        connection.execute(f"SELECT {asked} FROM kept").fetchall()


def test_big_numbers_are_named(connection: duckdb.DuckDBPyConnection) -> None:
    """A type that is refused is called as DuckDB calls it."""
    with pytest.raises(duckdb.Error, match="column 'x' is BIGNUM, expected a number"):
        connection.execute("SELECT train_model('linear', 1.0, {'x': 3::BIGNUM})")
