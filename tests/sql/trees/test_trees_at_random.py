"""Rows that are joined with many models in no order: what each model says of them in order."""

import re

import duckdb
import pytest

MODELS, ROWS = 40, 8000
SETUP = f"""
CREATE TABLE u AS
SELECT i, i % {MODELS} AS g, [a, b, c, d] AS x, [a::DOUBLE / 3, b, c / 7, d] AS wide,
       [CASE WHEN i % 97 = 0 THEN 'nan'::FLOAT ELSE a END, b, c, d] AS gaps,
       [CASE i % 89 WHEN 0 THEN 'inf'::FLOAT WHEN 1 THEN '-inf'::FLOAT ELSE a END, b, c, d]
           AS infinite,
       [a * CASE i % 3 WHEN 0 THEN 1e300 WHEN 1 THEN 1e-300 ELSE 1 END, b, c / 3, d] AS huge,
       [(1 + (i % 3) / 8388608.0)::FLOAT, b] AS close, a * b + sin(3 * c) + d AS y
FROM (SELECT i, (hash(i) % 1000 / 500.0 - 1)::FLOAT AS a,
             (hash(-i) % 1000 / 500.0 - 1)::FLOAT AS b,
             (hash(2 * i + 1) % 12)::FLOAT AS c, (hash(3 - i) % 77 / 77.0)::FLOAT AS d
      FROM range({ROWS}) AS r (i))
"""
CASES = {
    "floats": ("decision", "x", "gbdt", "y > 0.5", '{"objective": "logistic", "trees": 30}'),
    "doubles": ("predict", "wide", "gbdt", "y", '{"trees": 21}'),
    "doubles that are floats": ("predict", "x::DOUBLE[]", "gbdt", "y", '{"trees": 9}'),
    "gaps": ("predict", "gaps", "gbdt", "y", '{"trees": 10}'),
    "neighbouring floats": ("predict", "close", "gbdt", "i % 3", '{"trees": 10}'),
    "one leaf": ("predict", "x", "gbdt", "0 * y + 2", '{"trees": 3}'),
    "probabilities": ("predict_proba", "x", "gbdt", "y > 0", '{"objective": "logistic"}'),
    "levels": ("predict", "x", "gbdt", "y", '{"categorical": [3], "min_category_rows": 5}'),
    "large trees": ("predict", "x", "gbdt", "y", '{"num_leaves": 190, "min_child_rows": 1}'),
    "trees of 33 to 128 leaves": (
        "predict",
        "x",
        "gbdt",
        "y",
        '{"num_leaves": 60, "min_child_rows": 1, "trees": 12}',
    ),
    "such trees, doubles": (
        "predict",
        "wide",
        "gbdt",
        "y",
        '{"num_leaves": 60, "min_child_rows": 1, "trees": 12}',
    ),
    "trees of 32 leaves": (
        "predict",
        "wide",
        "gbdt",
        "y",
        '{"num_leaves": 32, "min_child_rows": 1, "trees": 12}',
    ),
    "infinities": ("predict", "infinite", "gbdt", "y", '{"trees": 10}'),
    "infinities of doubles": ("predict", "infinite::DOUBLE[]", "gbdt", "y", '{"trees": 10}'),
    "doubles beyond floats": ("predict", "huge", "gbdt", "y", '{"trees": 10}'),
    "many trees": ("predict", "x", "gbdt", "y", '{"trees": 1100, "num_leaves": 3}'),
    "classes": ("predict_class", "x", "gbdt", "i % 3", '{"objective": "logistic", "trees": 5}'),
    "a forest": ("predict", "x", "random_forest", "y", '{"trees": 20}'),
    "lines": ("predict", "x", "linear", "y", "{}"),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CASES)
def test_an_order_without_order_changes_no_bit(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """Compared with rows in the order of their models, which are scored in another way."""
    answer, x, task, label, options = CASES[name]
    con.execute(SETUP)
    trained_on_x = ("gaps", "huge", "infinite", "infinite::DOUBLE[]")
    seen = "x" if x in trained_on_x else x
    trained = f"train_model('{task}', {label}, {seen}, '{options}')"
    con.execute(f"CREATE TABLE models AS SELECT g, {trained} AS m FROM u GROUP BY g").fetchall()

    def found(order: str) -> list[tuple[int, float]]:
        con.execute(f"CREATE OR REPLACE TABLE v AS SELECT * FROM u ORDER BY {order}").fetchall()
        said = f"SELECT i, {answer}(m, {x}) AS p FROM v JOIN models USING (g)"
        return con.execute(f"SELECT i, p FROM ({said}) ORDER BY i").fetchall()

    expected = found("g, i")
    assert len(expected) == ROWS
    assert all(p is not None for _, p in expected)
    assert found("hash(i + 5)") == expected


@pytest.mark.parametrize("order", ["g, i", "hash(i + 5)"])
def test_rows_of_another_width_are_refused(con: duckdb.DuckDBPyConnection, order: str) -> None:
    con.execute(SETUP)
    con.execute(
        "CREATE TABLE models AS "
        "SELECT g, train_model('gbdt', y, x, '{\"trees\": 3}') AS m FROM u GROUP BY g"
    ).fetchall()
    con.execute(f"CREATE TABLE v AS SELECT * FROM u ORDER BY {order}").fetchall()
    sentence = re.escape("decision: the model has 4 features, row has 3")
    with pytest.raises(duckdb.InvalidInputException, match=sentence):
        con.execute("SELECT sum(decision(m, x[:3])) FROM v JOIN models USING (g)").fetchall()


def test_a_damaged_model_among_sound_ones_is_refused(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(SETUP)
    con.execute(
        "CREATE TABLE models AS "
        "SELECT g, train_model('gbdt', y, x, '{\"trees\": 3}') AS m FROM u GROUP BY g"
    ).fetchall()
    con.execute("CREATE TABLE v AS SELECT * FROM u ORDER BY hash(i)").fetchall()
    cut = "CASE g WHEN 17 THEN m.payload[:200] ELSE m.payload END"
    con.execute(f"CREATE TABLE bytes AS SELECT g, {cut} AS b FROM models").fetchall()
    joined = "FROM v JOIN bytes USING (g) JOIN models USING (g)"
    with pytest.raises(duckdb.InvalidInputException, match="payload of the model is damaged"):
        con.execute(f"SELECT sum(decision(struct_update(m, payload := b), x)) {joined}").fetchall()
    whole = f"SELECT count(decision(struct_update(m, payload := b), x)) {joined} WHERE g <> 17"
    assert con.execute(whole).fetchall() == [(ROWS - ROWS // MODELS,)]
