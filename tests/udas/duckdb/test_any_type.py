"""Arguments of any type: numbers become what a cast to DOUBLE makes of them, the rest a sentence.

DuckDB's own cast is what the numbers are compared with.
"""

# ruff: noqa: E501, SQL is read better on one line

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tuskml
from tuskml.udas.duckdb import extension_path

WHOLE = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
    "UHUGEINT": (0, 2**128 - 1),
}
DECIMALS = [
    (4, 1),
    (9, 3),
    (9, 9),
    (18, 0),
    (18, 4),
    (18, 17),
    (38, 0),
    (38, 2),
    (38, 20),
    (38, 37),
]
MODEL = "with_payload({'task': 'linear', 'coef': [1.0::DOUBLE], 'intercept': 0::DOUBLE, 'classes': NULL::DOUBLE[], 'options': '{\"tuskml\":1}'})"


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect(threads=1) as con:
        yield con


@st.composite
def typed(draw: st.DrawFn) -> tuple[str, list[str | None]]:
    """A type of numbers and some of its values as SQL texts, their magnitudes spread evenly."""
    if draw(st.booleans()):
        kind, (low, high) = draw(st.sampled_from(list(WHOLE.items())))
    else:
        width, scale = draw(st.sampled_from(DECIMALS))
        kind, low, high = f"DECIMAL({width}, {scale})", 1 - 10**width, 10**width - 1
    bits = high.bit_length()
    numbers = st.integers(0, bits).flatmap(
        lambda b: st.integers(max(low, -(2**b)), min(high, 2**b))
    )
    values = draw(st.lists(st.none() | numbers, min_size=1, max_size=9))
    if not kind.startswith("DECIMAL"):
        return kind, [None if v is None else str(v) for v in values]
    texts = [None if v is None else f"{'-' * (v < 0)}{abs(v) // 10**scale}.{abs(v) % 10**scale:0{scale}}".rstrip(".")
             for v in values]  # fmt: skip
    return kind, texts


@given(typed())
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_are_those_of_a_cast(db: duckdb.DuckDBPyConnection, numbers) -> None:
    kind, texts = numbers
    values = f"(SELECT unnest(?::VARCHAR[])::{kind} AS x)"
    for features in ("[x]", f"[x]::{kind}[1]", "{'indices': [0::TINYINT], 'values': [x]}"):
        found = db.execute(
            f"SELECT _tusk_decision({MODEL}.payload, {features}), x::DOUBLE FROM {values}", [texts]
        ).fetchall()
        for got, cast in found:
            assert got == cast, f"{features}: {got!r}, a cast says {cast!r}"


@pytest.mark.parametrize(
    "kind", ["TINYINT", "BIGINT", "UBIGINT", "HUGEINT", "DECIMAL(9, 2)", "DECIMAL(38, 3)", "FLOAT"]
)
@pytest.mark.parametrize(
    "shape", ["[{x}, {z}]", "array_value({x}, {z})", "sparse([1, 3], [{x}, {z}])"]
)
def test_models_are_those_of_a_cast(db: duckdb.DuckDBPyConnection, kind: str, shape: str) -> None:
    """All bits of them, with rows skipped for NULL in each place."""
    rows = f"(SELECT (i % 7)::{kind} AS y, nullif(i % 11, 5)::{kind} AS x, (i * i % 13)::{kind} AS z FROM range(300) t(i))"
    real = kind if kind == "FLOAT" else "DOUBLE"
    given = shape.format(x="x", z="z")
    cast = shape.format(x=f"x::{real}", z=f"z::{real}")
    models = [
        f"train_model('linear', nullif(y{label}, 6), {features}, '{{}}')"
        for label, features in (("", given), ("::DOUBLE", cast))
    ]
    ((first, second),) = db.execute(f"SELECT {', '.join(models)} FROM {rows}").fetchall()
    assert first | {"seconds": 0} == second | {"seconds": 0}
    assert first["n_skipped"] == 65


PLACES = (
    "t WHERE i % 3 = 1",
    "t JOIN k USING (i)",
    "t JOIN k USING (i) WHERE i % 5 = 2",
    "(FROM t ORDER BY i DESC)",
    "(FROM t LIMIT 70)",
)


@pytest.mark.parametrize("place", PLACES)
def test_models_of_rows_that_are_picked(db: duckdb.DuckDBPyConnection, place: str) -> None:
    """Filters and joins hand over vectors that point into others."""
    db.execute(
        "CREATE OR REPLACE TEMP TABLE t AS SELECT i, i % 7 AS y, [i % 3, 3]::TINYINT[] AS ids, [i * i % 13, i % 5] AS x, (i % 11)::DECIMAL(9, 1) AS d FROM range(5000) r(i)"
    )
    db.execute(
        "CREATE OR REPLACE TEMP TABLE k AS SELECT i * 7 % 5000 AS i, 'w' || i AS w FROM range(3000) r(i)"
    )
    for features, cast in (
        ("x", "x::DOUBLE[]"),
        ("x::BIGINT[2]", "x::DOUBLE[]"),
        ("[d, i]", "[d::DOUBLE, i::DOUBLE]"),
        ("{'indices': ids, 'values': x}", "{'indices': ids::INTEGER[], 'values': x::DOUBLE[]}"),
    ):
        models = [
            f"train_model('linear', y{label}, {x}, '{{\"l2\": 1e-3}}')"
            for label, x in (("", features), ("::DOUBLE", cast))
        ]
        ((first, second),) = db.execute(f"SELECT {', '.join(models)} FROM {place}").fetchall()
        assert first | {"seconds": 0} == second | {"seconds": 0}, features


NOTHING = {
    "a label that is NULL": "train_model('linear', NULL, [x])",
    "features that are NULL": "train_model('linear', x, NULL)",
    "a list of NULL": "train_model('linear', x, [NULL])",
    "ids that are NULL": "train_model('linear', x, {'indices': NULL, 'values': [x]})",
    "an array of NULL": "train_model('linear', x, array_value(NULL, NULL))",
}


@pytest.mark.parametrize("what", NOTHING)
def test_rows_of_null_are_skipped(db: duckdb.DuckDBPyConnection, what: str) -> None:
    assert db.execute(f"SELECT {NOTHING[what]} FROM range(9) t(x)").fetchall() == [(None,)]


TRAINING = "(task, label, features [, options [, weight [, offset]]]): the label a number, a boolean or text, the features a row with names such as {'a': a, 'b': b}, a list of numbers such as [a, b] or sparse(indices, values), the options a struct such as {'l2': 0.1} or JSON as text, weight and offset numbers; text becomes features in a row with names, or by hash_features"
REFUSED = {
    "'linear', DATE '2026-01-01', [x]": "VARCHAR, DATE, BIGINT[]",
    "'linear', x, [word]": "VARCHAR, BIGINT, VARCHAR[]",
    "'linear', x, [x > 1]": "VARCHAR, BIGINT, BOOLEAN[]",
    "'linear', x, [[x]]": "VARCHAR, BIGINT, BIGINT[][]",
    "'linear', x, x": "VARCHAR, BIGINT, BIGINT",
    "'linear', x, MAP {'a': x}": "VARCHAR, BIGINT, MAP(VARCHAR, BIGINT)",
    "'linear', x, [DATE '2026-01-01']": "VARCHAR, BIGINT, DATE[]",
    "'linear', x, [x], 4": "VARCHAR, BIGINT, BIGINT[], INTEGER",
    "'linear', x, [x], {'l2': DATE '2026-01-01'}": "VARCHAR, BIGINT, BIGINT[], STRUCT(l2 DATE)",
    "'linear'": "VARCHAR",
    "x, [x]": "BIGINT, BIGINT[]",
    "x, [x], 'linear'": "DOUBLE, BIGINT[], VARCHAR",
    "x > 1, [x], 'linear'": "BOOLEAN, BIGINT[], VARCHAR",
    "'linear', x, x, x, x": "VARCHAR, BIGINT, BIGINT, BIGINT, BIGINT",
    "'linear', x, x, x, x, word": "VARCHAR, BIGINT, BIGINT, BIGINT, BIGINT, VARCHAR",
}  # fmt: skip


@pytest.mark.parametrize("name", ["train_model", "explain_training"])
@pytest.mark.parametrize("given", REFUSED)
def test_calls_are_refused_by_type(db: duckdb.DuckDBPyConnection, name: str, given: str) -> None:
    query = f"SELECT {name}({given}) FROM (SELECT x, 'a' AS word FROM range(9) r(x)) AS t"
    with pytest.raises(duckdb.Error) as raised:
        db.execute(query).fetchall()
    assert (
        str(raised.value)
        == f"Invalid Input Error: {name} got ({REFUSED[given]}), expected {TRAINING}"
    )


@pytest.mark.parametrize("name", ["predict", "predict_proba", "decision"])
@pytest.mark.parametrize(
    ("features", "kind"),
    [
        ("1", "INTEGER"),
        ("['a']", "VARCHAR[]"),
        ("'a'", "VARCHAR"),
    ],
)
def test_predictions_are_refused_by_type(
    db: duckdb.DuckDBPyConnection, name: str, features: str, kind: str
) -> None:
    model = "(SELECT train_model('logistic', x > 4, [x], '{\"l2\": 1}') FROM range(9) t(x))"
    with pytest.raises(duckdb.Error) as raised:
        db.execute(f"SELECT {name}({model}, {features})").fetchall()
    assert str(raised.value).startswith(
        f"Invalid Input Error: {name} got (model, {kind}), expected (model, features): the model a value that train_model answered, the features a row with names"
    )


def test_long_types_end_in_dots(db: duckdb.DuckDBPyConnection) -> None:
    fields = ", ".join(f"'field_{i}': {i}" for i in range(200))
    with pytest.raises(duckdb.Error) as raised:
        db.execute(f"SELECT train_model('linear', 1, [{{{fields}}}])").fetchall()
    assert "field_9 INTEGER, " in str(raised.value)
    assert "..., expected" in str(raised.value).replace("...)", "...")
    assert len(str(raised.value)) < 850


def test_a_database_without_python_says_the_same(tmp_path: Path) -> None:
    """Nothing of the sentence is Python's."""
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as con:
        con.execute(f"LOAD '{extension_path()}'")
        with pytest.raises(
            duckdb.Error, match=r"train_model got \(VARCHAR, BIGINT, BIGINT\), expected"
        ):
            con.execute("SELECT train_model('linear', x, x) FROM range(9) t(x)").fetchall()


def test_a_model_of_an_unknown_number_of_rows_has_no_p_values(con):
    """What lies in a vector behind a NULL is any number, here often another row's."""
    con.execute("""CREATE TABLE m AS SELECT train_model('linear', sin(i) + i, [i::DOUBLE]) AS m
                   FROM range(50) r(i)""")
    for n in range(1, 30):
        con.execute(f"""CREATE OR REPLACE TABLE n AS SELECT i, CASE WHEN i % 2 = 0 THEN 50 END::BIGINT AS n
                        FROM range({n}) r(i)""")
        terms = "unnest(model_summary(struct_update(m, n_rows := n)), recursive := true)"
        query = f"SELECT i % 2, p_value IS NULL FROM (SELECT i, {terms} FROM m, n)"
        assert all(odd == without for odd, without in con.execute(query).fetchall())


@pytest.mark.parametrize("character", ["é", "木", "🦆"])
def test_a_sentence_is_cut_between_characters(con, character):
    for before in range(4):
        name = "x" * before + character * 300
        with pytest.raises(duckdb.Error, match=r"got \(VARCHAR, .*\.\.\.\), expected"):
            con.execute(f"SELECT train_model('linear', 1.0, [{{'{name}': 1.0}}])")
