"""Huber's loss of labels that a linear model has exactly leaves no residual, in any rows."""

import json

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.native

GROUPS = 8
CLOSE = 1e-7
"""Of what labels vary by, a prediction that is off by less."""
FEATURES = {"dense": "v", "sparse": "sparse(ids, v)"}


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    algorithm=st.sampled_from(["auto", "newton", "lbfgs", "newton_cg"]),
    storage=st.sampled_from(sorted(FEATURES)),
    unit=st.sampled_from([1e-9, 1.0, 1e9]),
)
@example(seed=1, algorithm="newton_cg", storage="sparse", unit=1.0)
@example(seed=3, algorithm="newton_cg", storage="sparse", unit=1e9)
@example(seed=4, algorithm="newton_cg", storage="sparse", unit=1.0)
@example(seed=8, algorithm="auto", storage="sparse", unit=1.0)
@example(seed=10, algorithm="newton_cg", storage="sparse", unit=1.0)
def test_no_residual_is_left(
    con: duckdb.DuckDBPyConnection, seed: int, algorithm: str, storage: str, unit: float
) -> None:
    """More rows than features and fewer, hashed ids among them; every second group has noise and
    must not change its neighbours.
    """
    rng = np.random.default_rng(seed)
    ids_in_all, listed = int(rng.choice([16, 64, 1024])), int(rng.integers(1, 5))
    con.execute("CREATE OR REPLACE TABLE t (k INTEGER, ids BIGINT[], v DOUBLE[], y DOUBLE)")
    for k in range(GROUPS):
        n = int(rng.integers(20, 200))
        ids = np.argsort(rng.random((n, ids_in_all)))[:, :listed]
        v = rng.normal(size=(n, listed)) if seed % 2 else rng.integers(1, 4, (n, listed)) + 0.0
        weight = rng.normal(size=ids_in_all)
        y = (v * (weight[ids] if storage == "sparse" else weight[:listed])).sum(axis=1) + 1
        y += (k % 2) * rng.normal(size=n)
        values = [k, ids.tolist(), v.tolist(), (unit * y).tolist()]
        con.execute(
            "INSERT INTO t SELECT $1, unnest($2::BIGINT[][]), unnest($3::DOUBLE[][]), "
            "unnest($4::DOUBLE[])",
            values,
        )
    x = FEATURES[storage]
    found = con.execute(
        f"SELECT any_value(m.status), max(abs(predict(m, {x}) - y)), stddev(y) FROM t JOIN "
        f"(SELECT k, train_model('huber', y, {x}, $1) AS m FROM t WHERE k % 2 = 0 OR $2 "
        "GROUP BY k) USING (k) WHERE k % 2 = 0 GROUP BY k",
        [json.dumps({"algorithm": algorithm}), seed % 3 == 0],
    ).fetchall()
    assert len(found) == GROUPS / 2
    for status, off, size in found:
        assert status in ("ok", "collinear features", "too few rows")
        assert off <= CLOSE * size
