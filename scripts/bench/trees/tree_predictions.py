"""Predictions of boosted trees compared with LightGBM's own predictor in C, on as many threads.

python scripts/bench/run.py tree_predictions --rows 1000000 --threads 2

One model of 100 trees of 31 leaves over 28 float32 features, and 1,000 models of 50 trees of 15
leaves over 10 features, joined with their rows: in the order of the groups, and in random order.
LightGBM predicts an array in memory (`LGBM_BoosterPredictForMat`), tuskml the rows of a table.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
from boosting import GROUP_ROWS, Times, lightgbm_of, rows_of, table, timed

import tuskml

TRAINED = 50_000


def told(name: str, rows: int, times: Times) -> None:
    """Medians of rows per second of the clock and of a processor."""
    wall, used = (statistics.median(t[i] for t in times) for i in (0, 1))
    print(
        f"{name:<32} {rows / wall / 1e6:6.2f}M rows/s, {rows / used / 1e6:6.2f}M by processor time"
    )


def one_model(args: argparse.Namespace, con: duckdb.DuckDBPyConnection) -> None:
    """Against LightGBM."""
    x, y = rows_of(args.rows, 28)
    table(con, "t", x, y=y)
    first = f"(SELECT * FROM t LIMIT {TRAINED})"
    options = '{"objective": "logistic"}'
    con.execute(
        "CREATE OR REPLACE TABLE m AS "
        f"SELECT train_model('gbdt', y, x, '{options}') AS m FROM {first}"
    ).fetchall()
    peer = lightgbm_of(x[:TRAINED], y[:TRAINED], 100, 31, args.threads, False)
    calls: dict[str, Callable[[], Any]] = {
        "tuskml": lambda: con.execute("SELECT sum(decision(m.m, x)) FROM t, m").fetchall(),
        "LightGBM": lambda: peer.predict(x, raw_score=True, num_threads=args.threads),
    }
    times: dict[str, Times] = {name: [] for name in calls}
    for _ in range(args.repeat):
        for name, call in calls.items():
            timed(call, times[name])
    for name, of in times.items():
        told(name, args.rows, of)


def many_models(args: argparse.Namespace, con: duckdb.DuckDBPyConnection) -> None:
    """Joined with their rows."""
    n = args.models * GROUP_ROWS
    x, y = rows_of(n, 10, 2)
    table(con, "u", x, y=y, g=np.repeat(np.arange(args.models), GROUP_ROWS))
    options = '{"objective": "logistic", "trees": 50, "num_leaves": 15}'
    con.execute(
        "CREATE OR REPLACE TABLE models AS "
        f"SELECT g, train_model('gbdt', y, x, '{options}') AS m FROM u GROUP BY g"
    ).fetchall()
    joined = "SELECT sum(decision(m, x)) FROM v JOIN models USING (g)"
    for name, order in (("joined, rows by group", "g"), ("joined, rows at random", "hash(rowid)")):
        con.execute(f"CREATE OR REPLACE TABLE v AS SELECT * FROM u ORDER BY {order}").fetchall()
        times: Times = []
        for _ in range(args.repeat):
            timed(lambda: con.execute(joined).fetchall(), times)
        told(name, n, times)


def main() -> None:
    """Prints rows per second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {args.threads} threads")
    with tuskml.connect(threads=args.threads) as con:
        one_model(args, con)
        many_models(args, con)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
