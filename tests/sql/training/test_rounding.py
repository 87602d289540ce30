"""Numbers that a type loses, and statuses that say so."""

import duckdb
import pytest


@pytest.mark.parametrize(("kind", "status"), [("FLOAT", "rounded feature"), ("DOUBLE", "ok")])
def test_epochs_among_floats_are_rounded_and_the_status_says_so(
    con: duckdb.DuckDBPyConnection, kind: str, status: str
) -> None:
    """DuckDB makes a FLOAT[] of a FLOAT and a BIGINT; its steps at 1.7e9 are of 128 (IEEE 754)."""
    con.execute(
        f"CREATE TABLE late AS SELECT i % 2 AS g, (i % 7)::{kind} AS f, 1700000000 + i AS epoch, "
        "2.0 * i + i % 7 + sin(i) AS y FROM range(1000) t(i)"
    )
    rows = con.execute("SELECT g, train_model('linear', y, [f, epoch]) FROM late GROUP BY g")
    for _, model in rows.fetchall():
        assert model["status"] == status
        far = abs(model["coef"][1] - 2)
        assert far > 0.02 if kind == "FLOAT" else far < 1e-3


@pytest.mark.parametrize(
    "features",
    [
        "[(i * 100000 % 16777217)::FLOAT]",  # all whole numbers up to 2^24 are floats
        "[(1e9 * sin(i))::FLOAT]",  # large, and varies by many steps
        "[(1e30 + 1e29 * sin(i))::FLOAT]",
        "[(20 + sin(i))::FLOAT]",
        "sparse([1], [(1700000000 + i)::FLOAT])",
        "[1700000000::FLOAT]",  # a constant is told as one
    ],
)
def test_floats_that_lose_nothing_are_not_told_of(
    con: duckdb.DuckDBPyConnection, features: str
) -> None:
    query = (
        f"SELECT (train_model('linear', sin(i) + i % 3, {features})).status FROM range(1000) t(i)"
    )
    assert con.execute(query).fetchone()[0] in ("ok", "constant feature", "collinear features")
