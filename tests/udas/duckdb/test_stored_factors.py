"""Predictions of a matrix factorization whose factors are stored."""

import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parent))

from stored_models import ask, con, literal, root

__all__ = ["con", "root"]

pytestmark = pytest.mark.native


def factors(coef: str, users: int, items: int, width: int, biases: str = "true") -> str:
    model = literal("x", "matrix_factorization", more=f"[{users}, {items}, {width}]")
    model = model.replace('"store": "x", ', "").replace("true", biases)
    return model.replace("NULL::DOUBLE[]", f"{coef}::DOUBLE[]", 1)


@given(
    users=st.integers(1, 6), items=st.integers(1, 5), width=st.sampled_from([1, 2, 5, 300]),
    biases=st.booleans(), dtype=st.sampled_from(["float32", "float64"]),
)  # fmt: skip
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_factors_as_in_numpy(root, con, users, items, width, biases: bool, dtype: str) -> None:
    vectors = np.random.default_rng(users).standard_normal((users + items, width)).astype(dtype)
    known = np.zeros((users + 1 + items + 1, width))  # and two that were never seen
    known[:users], known[users + 1 : -1] = vectors[:users], vectors[users:]
    if not biases:
        known[users] = vectors[:users].astype(float).mean(axis=0)
    ids = [(u, i) for u in range(users + 1) for i in range(items + 1)]
    u, v = known[[u for u, _ in ids]], known[[users + 1 + i for _, i in ids]]
    b = int(biases)
    expected = 0.5 + (u[:, :b] + v[:, :b]).sum(1) + (u[:, b:] * v[:, b:]).sum(1)
    stored = literal(
        root.publish_weights("mf", vectors.ravel()).reference, "matrix_factorization",
        more=f"[{users}, {items}, {width}]",
    ).replace("true", str(biases).lower())  # fmt: skip
    as_value = factors(
        str(vectors.ravel().astype(float).tolist()), users, items, width, str(biases).lower()
    )
    for model in (stored, as_value):
        for kind in ("INTEGER", "BIGINT", "DOUBLE", "FLOAT"):
            found = con.execute(
                f"SELECT predict(m, [u, i]::{kind}[]), decision(m, [u, i]::{kind}[]) "
                f"FROM (SELECT {model} AS m), range({users + 1}) a(u), range({items + 1}) b(i) "
                "ORDER BY u, i"
            ).fetchnumpy()
            for column in found.values():
                assert column == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(("row", "told"), [
    ("[-1, 0]", "feature 1, the user, is -1, expected an integer id from 0 on"),
    ("[0, 0.5]", "feature 2, the item, is 0.5, expected an integer id from 0 on"),
    ("[0, 'nan'::DOUBLE]", "feature 2, the item, is nan, expected"),
    ("['inf'::DOUBLE, 0]", "feature 1, the user, is inf, expected"),
    ("[0]", "row has 1 features, expected two"),
    ("[0, 0, 0]", "row has 3 features, expected two"),
    ("[]::DOUBLE[]", "row has 0 features, expected two"),
    ("sparse([0, 1], [1.0, 1.0])", "row has sparse features"),
])  # fmt: skip
def test_pairs_that_are_none(con, row: str, told: str) -> None:
    model = factors("[1, 2, 3, 4]", 1, 1, 2)
    with pytest.raises(duckdb.Error, match=told):
        ask(con, f"predict({model}, {row})")
    assert ask(con, f"predict({model}, [1e18, 0])") == 3.5
    assert ask(con, f"predict({model}, [0, NULL])") is None


def test_factors_that_do_not_fit(root, con) -> None:
    for model, told in [
        (factors("[1, 2, 3]", 1, 1, 2), "has 3 coefficients, its users and items have 4"),
        (factors("[1, 2, 3]", 1, 2, 0), "classes of the model are not its numbers of users"),
        (factors("[1, 2]", -1, 1, 2), "classes of the model are not its numbers of users"),
    ]:
        with pytest.raises(duckdb.Error, match=told):
            ask(con, f"predict({model}, [0, 0])")
    reference = root.publish_weights("mf", np.ones(5)).reference
    stored = literal(reference, "matrix_factorization", more="[1, 1, 2]")
    with pytest.raises(duckdb.Error, match="has 5 coefficients, its users and items have 4"):
        ask(con, f"predict({stored}, [0, 0])")
    with pytest.raises(duckdb.Error, match="which gives no probabilities"):
        ask(con, f"predict_proba({stored}, [0, 0])")
