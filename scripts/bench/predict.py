"""Scoring: predict_proba of one model over 10M rows, d = 28.

Measured: SELECT avg(predict_proba(...)) FROM big, and CREATE TABLE of every probability.
Against: NumPy on a matrix that already lies in memory, X @ w + b and a sigmoid, float32 on two
threads of BLAS, with the mean or the array as the result; shown beside it, NumPy with the load
from the same table.
"""

from __future__ import annotations

import time
from functools import partial

import data
import goals
import harness
import numpy as np
import tusk
from contender import Benchmark, Contender, Outcome, Run, Settings
from data import Floats
from load import dense_matrix, open_plain

AVERAGE, TABLE = "tuskml, avg", "tuskml, CREATE TABLE"
NUMPY, NUMPY_LOAD = "NumPy, in memory", "NumPy, with load"
QUERIES = {
    AVERAGE: "SELECT avg(predict_proba(m.model, x)) FROM data.big, m",
    TABLE: "CREATE OR REPLACE TABLE scored AS "
    "SELECT predict_proba(m.model, x) AS p FROM data.big, m",
}
TRAIN_ROWS = 200_000


def tuskml(query: str, settings: Settings) -> Run:
    """Scores with a model trained on the first rows."""
    con = tusk.connect(data.big(settings), settings)
    sample = f"(SELECT y, x FROM data.big LIMIT {TRAIN_ROWS})"
    con.execute(f"CREATE TABLE m AS SELECT train_model('logistic', y, x) AS model FROM {sample}")

    def run() -> Outcome:
        start = time.perf_counter()
        con.execute(QUERIES[query]).fetchall()
        return Outcome(
            time.perf_counter() - start,
            None,
            lambda: {"mean p": con.execute(QUERIES[AVERAGE]).fetchall()[0][0]},
        )

    return run


def numpy_in_memory(settings: Settings) -> Run:
    """The array of probabilities; its mean is not counted."""
    X, _ = dense_matrix(open_plain(data.big(settings), settings), table="big")

    def run() -> Outcome:
        start = time.perf_counter()
        p = _probabilities(X)
        return Outcome(time.perf_counter() - start, None, lambda: {"mean p": float(p.mean())})

    return run


def numpy_with_load(settings: Settings) -> Run:
    """The same from the DuckDB table, a batch at a time so that no matrix is built."""
    con = open_plain(data.big(settings), settings)

    def run() -> Outcome:
        parts = []
        start = time.perf_counter()
        for batch in con.sql("SELECT x FROM big").to_arrow_reader(100_000):
            parts.append(
                _probabilities(batch.column(0).flatten().to_numpy().reshape(-1, data.DIM))
            )
        p = np.concatenate(parts)
        return Outcome(time.perf_counter() - start, None, lambda: {"mean p": float(p.mean())})

    return run


def _probabilities(X: Floats) -> Floats:
    """X @ w + b and a sigmoid in float32, without a temporary array."""
    w, b = data.dense_truth()
    p: Floats = X @ w
    p += np.float32(b)
    np.negative(p, out=p)
    np.exp(p, out=p)
    p += np.float32(1)
    np.reciprocal(p, out=p)
    return p


def benchmark(settings: Settings) -> Benchmark:
    """The seventh row of the issue's table."""
    return Benchmark(
        name="predict",
        title="predict_proba over 10M rows, d = 28, one model",
        contenders=(
            *(Contender(name, partial(tuskml, name), tusk.NEEDS) for name in QUERIES),
            Contender(NUMPY, numpy_in_memory),
            Contender(NUMPY_LOAD, numpy_with_load),
        ),
        goals=tuple(goals.faster_than(NUMPY, 0.5, of=name) for name in QUERIES),
        prepare=data.big,
    )


if __name__ == "__main__":
    harness.main(benchmark)
