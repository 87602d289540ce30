"""A deterministic search finds the same of a group whatever groups are beside it."""

import json

import duckdb
import numpy as np
import pandas as pd
import pytest

SIZES, D = (1200, 700, 300, 60, 35), 4
OPTIONS = json.dumps({"l2": [0.3, 0.01, 1e-4], "folds": 4, "deterministic": True})


@pytest.fixture
def rows(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Groups of which the last two are too small to start their folds from."""
    random = np.random.default_rng(8)
    g = np.repeat(np.arange(len(SIZES)), SIZES)
    x = random.normal(size=(len(g), D)) * [1, 10, 0.1, 1] + [0, 3, 0, 5]
    margin = 0.5 * x[:, 0] + random.uniform(-1, 1, len(SIZES))[g] * (x[:, 1] - 3) / 10
    y = margin + random.logistic(size=len(g)) > 0.3
    con.register("given", pd.DataFrame({"g": g, "y": y, "x": list(x)}))
    con.execute("CREATE TABLE t AS SELECT * FROM given")
    return con


def folds(con: duckdb.DuckDBPyConnection, where: str) -> list[list[tuple[float, int]]]:
    """Metric and iterations of each fold, by group."""
    call = f"train_model('logistic', y, x, '{OPTIONS}')"
    sql = f"SELECT ({call}).trials FROM t WHERE {where} GROUP BY g ORDER BY g"
    told = [json.loads(text)["trials"] for (text,) in con.execute(sql).fetchall()]
    return [
        [(fold["metric"], fold["iterations"]) for one in group for fold in one["folds"]]
        for group in told
    ]


def test_neighbours_change_no_bit(rows: duckdb.DuckDBPyConnection) -> None:
    together = folds(rows, "true")
    for g in range(len(SIZES)):
        assert folds(rows, f"g = {g}") == [together[g]]
    assert folds(rows, "g >= 2") == together[2:]
