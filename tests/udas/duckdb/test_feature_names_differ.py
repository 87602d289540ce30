"""No two features of a model have the same name, whatever columns and levels are called."""

import json
from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tuskml

COLUMNS = (
    "a",
    "b",
    "a[b]",
    "a[c]",
    "a[missing]",
    "a[other]",
    "a:b",
    "a[",
    'a["b"]',
    "d",
    "d.year",
)
LEVELS = ("b", "c", "x:y", "y", "missing", "other", "", '"', '"b"', ":", "b]", "a[b")
OPTIONS: tuple[tuple[dict[str, object], set[str]], ...] = (
    ({}, set()),
    ({"missing": "level"}, {"a", "b"}),
    ({"missing": "impute"}, set()),
    ({"max_categories": 2}, {"a", "b"}),
    ({"min_count": 3, "missing": "level"}, {"a", "b"}),
    ({"dates": "parts"}, {"d"}),
    ({"dates": "cycles"}, {"d"}),
)
"""Options, and the columns of which one is needed, as options that change nothing are refused."""


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """One for all tests."""
    with tuskml.connect() as con:
        yield con


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def value_of(name: str, levels: list[str | None]) -> str:
    """The values of a column: texts of a and b, dates of d, and numbers."""
    if name in ("a", "b"):
        listed = ", ".join("NULL" if one is None else literal(one) for one in levels)
        return f"[{listed}][1 + (i * {1 if name == 'a' else 5} + i // 7) % {len(levels)}]"
    if name == "d":
        return "DATE '2020-02-01' + CAST(i * 9 AS INTEGER)"
    return "CASE WHEN i % 9 > 0 THEN (i * 3) % 11 END"


def answer(con: duckdb.DuckDBPyConnection, asked: str) -> tuple[list[str], ...] | str:
    """A row, or the sentence that refuses it."""
    try:
        [row] = con.execute(asked).fetchall()
    except duckdb.InvalidInputException as error:
        return str(error)
    return tuple(row)


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=5, unique=True),
    st.lists(st.sampled_from([*LEVELS, None]), min_size=2, max_size=6, unique=True),
    st.sampled_from(OPTIONS),
    st.booleans(),
)
def test_names_differ(
    connection: duckdb.DuckDBPyConnection,
    columns: list[str],
    levels: list[str | None],
    given_of: tuple[dict[str, object], set[str]],
    multiply: bool,
) -> None:
    """Or one sentence says which columns need other names."""
    options, needed = given_of
    if needed and not needed & set(columns):
        columns = [*columns, min(needed)]
    if multiply and {"a", "b"} <= set(columns):
        options = {**options, "interactions": [["a", "b"]]}
    row = ", ".join(f"{literal(name)}: {value_of(name, levels)}" for name in columns)
    asked = f"train_model('linear', i % 5, {{{row}}}, {literal(json.dumps(options))})"
    found = answer(connection, f"SELECT m.features FROM (SELECT {asked} m FROM range(90) t(i))")
    if isinstance(found, str):
        assert "expected another name for one of them" in found
    elif found[0]:
        assert len(set(found[0])) == len(found[0])


TWO = "FROM (SELECT ['b', 'c', 'd'][1 + i % 3] AS k, (i * 7) % 11 AS x, i FROM range(66) t(i))"


@pytest.mark.parametrize(
    ("name", "free"), [("a[c]", "a[c]"), ('a["c"]', 'a["c"]'), ("a[c]", 'a["c"]')]
)
def test_a_name_is_one_feature(
    connection: duckdb.DuckDBPyConnection, name: str, free: str
) -> None:
    """A feature without a penalty is the one of that name: the column before a level."""
    asked = (
        f"train_model('lasso', i % 4, {{'a': k, {literal(name)}: x}}, "
        f"{literal(json.dumps({'unpenalized': [free], 'lambda': 1e3}))})"
    )
    found = answer(connection, f"SELECT m.features, m.coef FROM (SELECT {asked} m {TWO})")
    if isinstance(found, str):
        assert (name[:3], "expected another name" in found) == ('a["', True)
    else:
        assert [one for one, weight in zip(*found, strict=True) if weight] == [free]


def test_levels_of_one_name(connection: duckdb.DuckDBPyConnection) -> None:
    """What stands for missing values and for rare ones is not a level of that name."""
    [[features]] = connection.execute(
        "SELECT m.features FROM (SELECT train_model('linear', i, {'k': k}, "
        '\'{"missing": "level", "min_count": 3}\') m FROM (SELECT i, '
        "['missing', 'other', 'x', NULL, 'y'][1 + i % 5] AS k FROM range(50) t(i) "
        "UNION ALL SELECT 1, 'rare'))"
    ).fetchall()
    assert features == ['k["other"]', "k[x]", "k[y]", "k[other]", "k[missing]"]


@pytest.mark.parametrize(
    ("row", "options", "name"),
    [
        ("'d': DATE '2020-01-01' + i::INT * 40, 'd.year': i", {"dates": "parts"}, "d.year"),
        ("'a': i % 5, 'b': i % 3, 'a:b': i", {"interactions": [["a", "b"]]}, "a:b"),
        ("'x': nullif(i % 5, 0), 'x[missing]': i", {"missing": "impute"}, "x[missing]"),
    ],
)
def test_refused(
    connection: duckdb.DuckDBPyConnection, row: str, options: dict[str, object], name: str
) -> None:
    """A column that is called as a feature which has no other name."""
    asked = f"train_model('linear', i, {{{row}}}, {literal(json.dumps(options))})"
    with pytest.raises(duckdb.InvalidInputException) as error:
        connection.execute(f"SELECT {asked} FROM range(40) t(i)")
    assert f"a column is called '{name}'" in str(error.value)


def test_repeated_features(connection: duckdb.DuckDBPyConnection) -> None:
    """A feature is listed once."""
    connection.execute("CREATE OR REPLACE TABLE twice AS SELECT i AS x, i AS y FROM range(9) t(i)")
    with pytest.raises(tuskml.DataError, match="features names 'x' twice, expected each once"):
        tuskml.train(connection, "linear", source="twice", label="y", features=["x", "x"])
