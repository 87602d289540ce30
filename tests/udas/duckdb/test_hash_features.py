"""The hashing trick against scikit-learn's FeatureHasher."""

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher

relaxed = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

# Texts that SQL can carry; a NUL character ends a Python parameter's string in some versions.
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
values = st.floats(-1e9, 1e9)


suffixes = st.sampled_from(["", ":", ":1", ":-2.5", ":1e3", ":0", "=12:30"])
"""What a name may end with, and is no value."""

LIST = "?::VARCHAR[]"
PAIRS = "?::VARCHAR[], ?::DOUBLE[]"
MAP = "MAP(?::VARCHAR[], ?::DOUBLE[])"


def hashed(con, argument, *parameters):
    """(indices, values) of one row, None for NULL."""
    query = f"SELECT h.indices, h.values FROM (SELECT hash_features({argument}, ?) AS h)"
    indices, weights = con.execute(query, parameters).fetchone()
    return None if indices is None else (indices, weights)


def dense(pair, bits):
    row = np.zeros(2**bits)
    np.add.at(row, np.array(pair[0], dtype=int), pair[1])
    return row


def expected(features, bits):
    """The row of scikit-learn for (name, value) pairs."""
    hasher = FeatureHasher(2**bits, input_type="pair")
    return hasher.transform([features]).toarray()[0]


@relaxed
@given(st.dictionaries(names, values, max_size=10), st.integers(1, 12))
def test_names_and_values_as_in_sklearn(con, features, bits):
    for form in (MAP, PAIRS):
        pair = hashed(con, form, list(features), list(features.values()), bits)
        np.testing.assert_allclose(dense(pair, bits), expected(features.items(), bits), atol=1e-6)


@relaxed
@given(st.lists(st.builds(str.__add__, names, suffixes), max_size=10), st.integers(1, 12))
def test_list_as_in_sklearn(con, features, bits):
    pair = hashed(con, LIST, features, bits)
    np.testing.assert_array_equal(
        dense(pair, bits), expected([(name, 1) for name in features], bits)
    )


@pytest.mark.parametrize(
    "item", ["time=12:30", "v=1:0", "a:b:2.5", "a:1e3", "http://x:80", "a:nan", ":3", "a:", ""]
)
def test_a_name_is_never_read_as_a_number(con, item):
    """The whole text is the name, and counts 1; scikit-learn's hasher of strings does the same."""
    row = FeatureHasher(2**24, input_type="string").transform([[item]]).tocoo()
    assert hashed(con, LIST, [item], 24) == (row.col.tolist(), row.data.tolist())
    assert hashed(con, LIST, [item], 24) == hashed(con, MAP, [item], [1.0], 24)


def test_repeated_names_add_up(con):
    pair = hashed(con, PAIRS, ["a", "b", "a"], [1.5, -2.0, 2.0], 12)
    np.testing.assert_allclose(dense(pair, 12), expected([("a", 3.5), ("b", -2.0)], 12))


def test_nulls(con):
    """A NULL makes the row NULL, as one among dense features does; a value of 0 weighs nothing."""
    assert hashed(con, LIST, None, 4) is None
    assert hashed(con, LIST, ["a"], None) is None
    assert hashed(con, LIST, [], 4) == ([], [])
    assert hashed(con, LIST, ["a", None], 4) is None
    assert hashed(con, PAIRS, ["a", None], [1.0, 2.0], 4) is None
    assert hashed(con, PAIRS, ["a", "b"], [1.0, None], 4) is None
    assert hashed(con, PAIRS, None, [1.0], 4) is None
    assert hashed(con, PAIRS, ["a"], None, 4) is None
    assert hashed(con, PAIRS, ["a", "b"], [0.0, 1.0], 4) == hashed(con, LIST, ["b"], 4)
    query = "SELECT hash_features(MAP {'a': 1.0::DOUBLE, 'b': NULL}, 8) IS NULL"
    assert con.execute(query).fetchone() == (True,)


def test_a_row_with_a_null_is_skipped_in_training_and_has_no_prediction(con):
    """The same rows that dense features skip."""
    con.execute(
        "CREATE TABLE t AS SELECT i % 3 AS y, i % 2 AS a, CASE WHEN i % 5 > 0 THEN i END AS temp "
        "FROM range(40) r(i)"
    )
    forms = [
        "hash_features(['a', 'temp'], [a, temp], 8)",
        "hash_features(MAP {'a': a, 'temp': temp}, 8)",
        "hash_features(['a=' || a, 'temp=' || temp], 8)",
        "sparse([0, 1], [a, temp])",
        "sparse([a, temp], [1, 1])",
    ]
    dense_rows = con.execute("SELECT train_model('linear', y, [a, temp]) FROM t").fetchone()[0]
    assert (dense_rows["n_rows"], dense_rows["n_skipped"]) == (32, 8)
    for form in forms:
        con.execute(
            f"CREATE OR REPLACE TABLE m AS SELECT train_model('linear', y, {form}, "
            "'{\"l2\": 0.1}') AS m FROM t"
        )
        assert con.execute("SELECT m.n_rows, m.n_skipped FROM m").fetchone() == (32, 8), form
        query = (
            f"SELECT count(*) FILTER ((predict(m, {form}) IS NULL) <> (temp IS NULL)) FROM t, m"
        )
        assert con.execute(query).fetchone() == (0,), form


def test_literals(con):
    query = """SELECT hash_features(['a', 'b'], [1, 2.5], 8) = hash_features(MAP {'a': 1, 'b': 2.5}, 8),
                      hash_features(['a', 'b'], [1, 2], 8) = hash_features(MAP {'a': 1, 'b': 2}, 8)"""  # noqa: E501
    assert con.execute(query).fetchone() == (True, True)


def test_as_many_values_as_names(con):
    with pytest.raises(
        duckdb.Error, match="hash_features: there are 2 names and 1 values, expected as many"
    ):
        hashed(con, PAIRS, ["a", "b"], [1.0], 8)


def test_many_rows(con):
    query = """
        SELECT i, hash_features(CASE WHEN i % 7 = 0 THEN NULL ELSE
            list_transform(range(i % 5), lambda j: 'f' || (i + j)) END, 10) AS h
        FROM range(10_000) t(i) ORDER BY i"""
    hasher = FeatureHasher(2**10, input_type="string")
    for i, pair in con.execute(query).fetchall():
        if i % 7 == 0:
            assert pair is None
        elif i % 100 == 1:
            row = hasher.transform([[f"f{i + j}" for j in range(i % 5)]]).toarray()[0]
            np.testing.assert_array_equal(dense((pair["indices"], pair["values"]), 10), row)


@pytest.mark.parametrize("bits", [-1, 0, 31])
def test_bad_bits(con, bits):
    with pytest.raises(duckdb.Error, match=f"hash_features: bits is {bits}, expected 1 to 30"):
        hashed(con, LIST, ["a"], bits)
