"""Option `feature_names`: the model's field `features`."""

# ruff: noqa: E501, SQL is read better on one line

import duckdb
import pytest

import tuskml

ROWS = "(SELECT i % 3 AS g, i % 7 AS a, i % 5 AS b, i % 7 + 2 * (i % 5) AS y FROM range(90) t(i))"


def features(con: duckdb.DuckDBPyConnection, names: str, x: str = "[a, b]") -> list:
    query = f"SELECT train_model('linear', y, {x}, '{names}').features FROM {ROWS} GROUP BY g"
    return [row for (row,) in con.execute(query).fetchall()]


def test_names_are_kept(con: duckdb.DuckDBPyConnection) -> None:
    assert features(con, '{"feature_names": ["a", "zwölf"]}') == [["a", "zwölf"]] * 3
    assert features(con, "{}") == [None] * 3
    sparse = "sparse([0, 1], [a, b])"
    assert (
        features(con, '{"feature_names": ["a", "b", "never"]}', sparse)
        == [["a", "b", "never"]] * 3
    )
    mixed = f"""SELECT (train_model('linear', y, [a, b], CASE WHEN g = 1 THEN '{{"feature_names": ["a", "b"]}}'
        ELSE '' END)).features FROM {ROWS} GROUP BY g ORDER BY g"""
    assert [row for (row,) in con.execute(mixed).fetchall()] == [None, ["a", "b"], None]


@pytest.mark.parametrize(
    ("names", "x", "told"),
    [
        ('["a"]', "[a, b]", "has 1 names, and the rows have 2 features, expected a name for each"),
        ('["a", "b", "c"]', "[a, b]", "has 3 names, and the rows have 2 features"),
        ('["a"]', "sparse([0, 1], [a, b])", "has 1 names, and the rows have 2 features"),
        ('["a", "a"]', "[a, b]", "expected a list of names, each once"),
        ('["a", ""]', "[a, b]", "expected a list of names, each once"),
        ('["a", 1]', "[a, b]", "expected a list of names, each once"),
    ],
)
def test_other_names_are_refused(
    con: duckdb.DuckDBPyConnection, names: str, x: str, told: str
) -> None:
    with pytest.raises(duckdb.Error, match=told):
        features(con, f'{{"feature_names": {names}}}', x)


def test_every_thread_says_why_the_statement_fails() -> None:
    """DuckDB reports the sentence that it receives first, also from a thread that is only stopped."""
    told = set()
    with tuskml.connect(threads=4) as con:
        for _ in range(150):
            with pytest.raises(duckdb.Error) as error:
                features(con, '{"feature_names": ["a", ""]}')
            told.add(str(error.value))
    assert len(told) == 1
    assert "expected a list of names, each once" in told.pop()


def test_factorizations_have_names_too(con: duckdb.DuckDBPyConnection) -> None:
    query = """SELECT train_model('matrix_factorization', y, [a, b], '{"feature_names": ["who", "what"]}').features
        FROM """
    assert con.execute(query + ROWS).fetchall() == [(["who", "what"],)]


def test_python_says_the_names(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(f"CREATE TABLE seen AS FROM {ROWS}")
    given = {"source": "seen", "label": "y", "features": ["a", "b * 2"]}
    kept = tuskml.train(con, "linear", group_by="g", into="models", **given)
    assert kept == 3
    assert con.execute("SELECT model.features FROM models").fetchall() == [(["a", "b * 2"],)] * 3
    value = con.execute("SELECT model FROM models WHERE g = 0").fetchone()[0]
    assert tuskml.Model.of(value).feature_names == ("a", "b * 2")
