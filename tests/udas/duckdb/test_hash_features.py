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


LIST = "?::VARCHAR[]"
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
def test_map_as_in_sklearn(con, features, bits):
    pair = hashed(con, MAP, list(features), list(features.values()), bits)
    np.testing.assert_allclose(dense(pair, bits), expected(features.items(), bits), atol=1e-6)


@relaxed
@given(st.lists(names.filter(lambda name: ":" not in name), max_size=10), st.integers(1, 12))
def test_list_as_in_sklearn(con, features, bits):
    pair = hashed(con, LIST, features, bits)
    np.testing.assert_array_equal(
        dense(pair, bits), expected([(name, 1) for name in features], bits)
    )


@relaxed
@given(names.filter(bool), values.filter(bool))
def test_name_and_value(con, name, value):
    pair = hashed(con, LIST, [f"{name}:{value!r}"], 20)
    (index, weight), hasher = pair, FeatureHasher(2**20, input_type="pair")
    row = hasher.transform([[(name, value)]]).tocoo()
    assert index == row.col.tolist()
    assert weight == row.data.tolist()


@pytest.mark.parametrize(
    ("item", "name", "value"),
    [
        ("colour=red", "colour=red", 1),
        ("a:b", "a:b", 1),
        ("a:b:2.5", "a:b", 2.5),
        ("a:", "a:", 1),
        (":3", ":3", 1),
        ("a:-.5", "a", -0.5),
        ("a:+2.", "a", 2),
        ("a:1e3", "a", 1000),
        ("a:1e", "a:1e", 1),
        ("a:.", "a:.", 1),
        ("a:nan", "a:nan", 1),
        ("a:0x10", "a:0x10", 1),
        ("a: 1", "a: 1", 1),
        ("http://x:80", "http://x", 80),
    ],
)
def test_what_splits(con, item, name, value):
    assert hashed(con, LIST, [item], 24) == hashed(con, MAP, [name], [value], 24)


def test_nulls(con):
    assert hashed(con, LIST, None, 4) is None
    assert hashed(con, LIST, ["a"], None) is None
    assert hashed(con, LIST, [], 4) == ([], [])
    assert hashed(con, LIST, ["a", None], 4) == hashed(con, LIST, ["a"], 4)
    assert hashed(con, LIST, ["a:0"], 4) == ([], [])
    query = "SELECT hash_features(MAP {'a': 1.0::DOUBLE, 'b': NULL}, 8) = hash_features(['a'], 8)"
    assert con.execute(query).fetchone() == (True,)


def test_literals(con):
    query = "SELECT hash_features(['a', 'b:2'], 8) = hash_features(MAP {'a': 1, 'b': 2}, 8)"
    assert con.execute(query).fetchone() == (True,)


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
