"""Predictions of boosted trees, which take several walks at a time: the same numbers for rows one
by one and many at once, up to the last bit.
"""

import json

import duckdb
import numpy as np
import pytest

import tuskml
from tuskml.learners.trees.forest import trees_in

TREES = 21  # neither a multiple of the walks that a row takes together, nor fewer
OPTIONS = {"trees": TREES, "num_leaves": 12, "min_child_rows": 3, "objective": "logistic"}


def data(kind: str, gaps: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows of numbers with few digits, many of which are thresholds of trees."""
    random = np.random.default_rng(7)
    x = np.round(random.normal(size=(600, 5)), 1)
    if gaps:
        x[random.random(x.shape) < 0.2] = np.nan
    y = np.nan_to_num(x[:, 0]) * np.nan_to_num(x[:, 1]) + np.nan_to_num(x[:, 2], nan=2.0)
    return x.astype(kind), y + random.normal(size=600) / 3


def in_numpy(coef: list[float], base: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The margins, tree by tree in their order, (n, K)."""
    out = np.tile(base, (len(x), 1))
    for number, tree in enumerate(trees_in(coef)):
        for row, features in enumerate(x):
            at = 0
            while tree[at, 0] >= 0:
                value = features[int(tree[at, 0])]
                left = tree[at, 5] == 1 if np.isnan(value) else value <= tree[at, 1]
                at = at + 1 if left else int(tree[at, 2])
            out[row, number % len(base)] += tree[at, 1]
    return out


def loaded(con: duckdb.DuckDBPyConnection, x: np.ndarray, y: np.ndarray, options: str) -> None:
    """Tables `t` of rows and `m` of their model."""
    kind = "FLOAT" if x.dtype == np.float32 else "DOUBLE"
    rows = [[None if np.isnan(v) else float(v) for v in row] for row in x]
    con.execute(
        f"CREATE TABLE t AS SELECT (row_number() OVER () - 1)::INTEGER AS i, x::{kind}[] AS x, y "
        "FROM (SELECT unnest($1::DOUBLE[][]) AS x, unnest($2::DOUBLE[]) AS y)",
        [rows, y.tolist()],
    )
    con.execute(
        f"CREATE TABLE m AS SELECT train_model('gbdt', y, x, '{options}') AS m FROM t"
    ).fetchall()


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("gaps", [False, True])
def test_rows_together_and_alone(kind: str, gaps: bool) -> None:
    """Runs of all lengths up to twenty, one row, and all rows: walks in NumPy add the same."""
    x, y = data(kind, gaps)
    with tuskml.connect(threads=1) as con:
        loaded(con, x, (y > 0) * 1.0, json.dumps(OPTIONS))
        coef, base = con.execute(
            "SELECT _tusk_tree_numbers(m.payload), m.intercept FROM m"
        ).fetchall()[0]
        expected = in_numpy(coef, np.array([base]), x)[:, 0]
        assert len(np.unique(expected)) > 100
        nan = "list_transform(x, lambda v: coalesce(v, 'NaN'))"  # without NULLs rows are a matrix
        for n in [*range(1, 21), 600]:
            found = con.execute(
                f"SELECT decision(m, x), decision(m, {nan}) "
                f"FROM (SELECT * FROM t WHERE i < {n} ORDER BY i), m"
            ).fetchall()
            assert [one for one, _ in found] == expected[:n].tolist()
            assert [one for _, one in found] == expected[:n].tolist()


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_classes(kind: str) -> None:
    """A tree of each class in turn."""
    x, y = data(kind, True)
    with tuskml.connect(threads=1) as con:
        loaded(con, x, np.digitize(y, [-0.5, 1.0]), json.dumps(OPTIONS | {"trees": 7}))
        (coef,) = con.execute("SELECT _tusk_tree_numbers(m.payload) FROM m").fetchall()[0]
        margin = in_numpy(coef, np.array(coef[3:6]), x)
        shares = np.exp(margin - margin.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        found = con.execute("SELECT predict_probas(m, x) FROM t, m ORDER BY i").fetchall()
        assert np.array([list(one.values()) for (one,) in found]) == pytest.approx(
            shares, abs=1e-12
        )


def test_thresholds_between_floats() -> None:
    """A float is compared with the double that a threshold is: 0.1f lies above 0.1."""
    with tuskml.connect(threads=1) as con:
        con.execute(
            "CREATE TABLE u AS SELECT CAST(0.1 AS FLOAT) + 0 * i AS a FROM range(100) r(i)"
        )
        tree = [0, 0.1, 2, 0, 2, 0, -1, 1.0, -1, 0, 1, 0, -1, 2.0, -1, 0, 1, 0]
        con.execute(
            "CREATE TABLE m AS SELECT train_model('gbdt', i, [i], '{\"trees\": 1}') AS m "
            "FROM range(100) r(i)"
        )
        coef = [1.0, 1.0, 0.0, 3.0, *map(float, tree)]
        found = con.execute(
            "SELECT decision(with_payload(struct_update(m, coef := ?::DOUBLE[], intercept := 0)), "
            "[a]::FLOAT[]) FROM u, m",
            [coef],
        ).fetchall()
        assert {one for (one,) in found} == {2.0}
