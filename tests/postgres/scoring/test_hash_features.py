"""`hash_features`: PostgreSQL says what DuckDB says."""

from hypothesis import given
from hypothesis import strategies as st
from parity import (
    POSTGRES_MODEL,
    ask_duckdb,
    ask_postgres,
    model,
    relaxed,
    value,
)

# --- hash_features ---

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
suffixes = st.sampled_from(["", ":", ":1", ":-2.5", ":1e3", ":1e", ":.", ":nan", ":0", ": 1"])
items = st.builds(str.__add__, names, suffixes)


@relaxed
@given(st.none() | st.lists(st.none() | items, max_size=8), st.none() | st.integers(-1, 32))
def test_hash_features_as_in_duckdb(pg, duck, texts, bits):
    parameters = {"texts": texts, "bits": bits}
    hashed = "hash_features(%(texts)s::text[], %(bits)s::int)"
    found = [ask_postgres(pg, f"({hashed}).{field}", parameters) for field in FIELDS_OF_SPARSE]
    hashed = "hash_features($texts::VARCHAR[], $bits::INTEGER)"
    expected = [ask_duckdb(duck, f"({hashed}).{field}", parameters) for field in FIELDS_OF_SPARSE]
    assert found == expected


pairs = st.lists(st.tuples(st.none() | items, st.none() | st.floats(-1e9, 1e9)), max_size=6)


@relaxed
@given(pairs, st.integers(1, 30), st.sampled_from([0, 0, 0, 1]))
def test_hashed_values_as_in_duckdb(pg, duck, features, bits, more):
    """Also of as many values and one more, which both refuse."""
    texts, numbers = [name for name, _ in features], [number for _, number in features]
    parameters = {"texts": texts, "numbers": numbers + [1.0] * more, "bits": bits}
    hashed = "hash_features(%(texts)s::text[], %(numbers)s::float8[], %(bits)s::int)"
    found = [ask_postgres(pg, f"({hashed}).{field}", parameters) for field in FIELDS_OF_SPARSE]
    hashed = "hash_features($texts::VARCHAR[], $numbers::DOUBLE[], $bits::INTEGER)"
    expected = [ask_duckdb(duck, f"({hashed}).{field}", parameters) for field in FIELDS_OF_SPARSE]
    assert found == expected


def test_a_row_with_a_null_is_skipped_in_training_and_has_no_prediction(pg):
    pg.execute(
        "CREATE TEMP TABLE holes AS SELECT i % 3 AS y, i % 2 AS a, CASE WHEN i % 5 > 0 THEN i END "
        "AS temp FROM generate_series(0, 39) AS t(i)"
    )
    for form in (
        "ARRAY[a, temp]",
        "hash_features(ARRAY['a', 'temp'], ARRAY[a, temp], 8)",
        "hash_features(ARRAY['a=' || a, 'temp=' || temp], 8)",
        "sparse(ARRAY[0, 1], ARRAY[a, temp])",
        "sparse(ARRAY[a, temp], ARRAY[1, 1])",
    ):
        pg.execute(
            f"CREATE TEMP TABLE fit AS SELECT train_model('linear', y, {form}, "
            "'{\"l2\": 0.1}') AS m FROM holes"
        )
        assert pg.execute("SELECT (m).n_rows, (m).n_skipped FROM fit").fetchone() == (32, 8), form
        differ = f"(predict(m, {form}) IS NULL) <> (temp IS NULL)"
        assert value(pg, f"SELECT count(*) FILTER (WHERE {differ}) FROM holes, fit") == 0, form
        pg.execute("DROP TABLE fit")


FIELDS_OF_SPARSE = ["indices", '"values"']


def test_hashed_features_train_and_predict(pg):
    m = model("linear", coef=[1.0] * 8, intercept=0.0)
    found = ask_postgres(
        pg, f"predict({POSTGRES_MODEL}, hash_features(ARRAY['wt', 'red'], ARRAY[2, 1], 3))", m
    )
    assert found == 1.0
