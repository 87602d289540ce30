"""Scoring: predict_proba of one model over 10M rows, d = 28.

Measured: SELECT avg(predict_proba(...)) over a DuckDB table in memory, with one model and joined
with 10,000, and over one in a file; CREATE TABLE of every probability from memory; and the bare
scan of the same lists, avg(len(x)), which is what DuckDB asks for before tuskml sees a row.
Against: NumPy on a matrix that already lies in memory, X @ w + b and a sigmoid, float32 on two
threads of BLAS, with the array as the result, and the same with the weights of 10,000 models,
einsum of X and W[g]; and NumPy with the load from the file.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import data
import goals
import harness
import numpy as np
import tusk
from contender import Benchmark, Contender, Outcome, Run, Settings
from data import Floats
from load import dense_matrix, open_plain

AVERAGE, TABLE = "tuskml, avg", "tuskml, CREATE TABLE"
JOINED, NUMPY_JOINED = "tuskml, avg, joined with 10,000 models", "NumPy, W[g] of 10,000 models"
FILE_AVERAGE = "tuskml, avg, from the file"
SCAN, FILE_SCAN = "DuckDB scan, avg(len(x))", "DuckDB scan, from the file"
NUMPY, NUMPY_LOAD = "NumPy, in memory", "NumPy, with load from the file"
SCORE = "SELECT avg(predict_proba(m.model, x)) FROM {rows}, {models}"
QUERIES = {
    AVERAGE: SCORE.format(rows="near", models="m"),
    JOINED: "SELECT avg(predict_proba(m.model, x)) FROM near JOIN many AS m USING (g)",
    TABLE: "CREATE OR REPLACE TABLE scored AS SELECT predict_proba(m.model, x) AS p FROM near, m",
    FILE_AVERAGE: SCORE.format(rows="data.big", models="m"),
    SCAN: "SELECT avg(len(x)) FROM near",
    FILE_SCAN: "SELECT avg(len(x)) FROM data.big",
}
TRAIN_ROWS, MODELS = 200_000, 10_000


def tuskml(query: str, settings: Settings) -> Run:
    """Scores with a model trained on the first rows; rows come from memory or from the file."""
    con = tusk.connect(data.big(settings), settings)
    sample = f"(SELECT y, x FROM data.big LIMIT {TRAIN_ROWS})"
    con.execute(f"CREATE TABLE m AS SELECT train_model('logistic', y, x) AS model FROM {sample}")
    if "data.big" not in QUERIES[query]:
        con.execute(f"CREATE TABLE near AS SELECT x, rowid * 7919 % {MODELS} AS g FROM data.big")
    if query == JOINED:
        options = '{"l2": 0.1, "max_iter": 3}'
        con.execute(
            f"CREATE TABLE many AS SELECT g, train_model('logistic', y, x, '{options}') AS model "
            f"FROM (SELECT y, x, rowid % {MODELS} AS g FROM data.big LIMIT {TRAIN_ROWS}) "
            "GROUP BY g"
        )

    def run() -> Outcome:
        start = time.perf_counter()
        con.execute(QUERIES[query]).fetchall()
        return Outcome(
            time.perf_counter() - start,
            None,
            lambda: {"mean p": mean_p(con, query)},
        )

    return run


def mean_p(con: Any, query: str) -> float:
    """The figure that all contenders must share; a bare scan has none."""
    if query in (SCAN, FILE_SCAN, JOINED):
        return float("nan")
    again = QUERIES[FILE_AVERAGE if query == FILE_AVERAGE else AVERAGE]
    return float(con.execute(again).fetchall()[0][0])


def numpy_in_memory(settings: Settings) -> Run:
    """The array of probabilities; its mean is not counted."""
    X, _ = dense_matrix(open_plain(data.big(settings), settings), table="big")

    def run() -> Outcome:
        start = time.perf_counter()
        p = _probabilities(X)
        return Outcome(time.perf_counter() - start, None, lambda: {"mean p": float(p.mean())})

    return run


def numpy_joined(settings: Settings) -> Run:
    """The array of probabilities, each row by the model of its group."""
    X, _ = dense_matrix(open_plain(data.big(settings), settings), table="big")
    w, b = data.dense_truth()
    W = np.tile(w, (MODELS, 1))
    g = np.arange(len(X)) * 7919 % MODELS

    def run() -> Outcome:
        start = time.perf_counter()
        p = np.empty(len(X), np.float32)
        for begin in range(0, len(X), 100_000):  # the weights of all rows would not fit the caches
            rows = slice(begin, begin + 100_000)
            p[rows] = np.einsum("ij,ij->i", X[rows], W[g[rows]])
        _sigmoid(p, b)
        return Outcome(time.perf_counter() - start, None, lambda: {"mean p": float("nan")})

    return run


def numpy_with_load(settings: Settings) -> Run:
    """A run from the DuckDB table, a batch at a time so that no matrix is built."""
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
    _sigmoid(p, b)
    return p


def _sigmoid(p: Floats, b: float) -> None:
    """Computes 1 / (1 + exp(-(p + b))) in place."""
    p += np.float32(b)
    np.negative(p, out=p)
    np.exp(p, out=p)
    p += np.float32(1)
    np.reciprocal(p, out=p)


def benchmark(settings: Settings) -> Benchmark:
    """The seventh row of the table of figures."""
    return Benchmark(
        name="predict",
        title="predict_proba over 10M rows, d = 28, one model",
        contenders=(
            *(Contender(name, partial(tuskml, name), tusk.NEEDS) for name in QUERIES),
            Contender(NUMPY, numpy_in_memory),
            Contender(NUMPY_JOINED, numpy_joined),
            Contender(NUMPY_LOAD, numpy_with_load),
        ),
        goals=(
            goals.faster_than(NUMPY, 0.8, of=AVERAGE),
            goals.faster_than(NUMPY_JOINED, 0.8, of=JOINED),
            goals.faster_than(NUMPY, 0.8, of=TABLE),
            goals.faster_than(NUMPY_LOAD, 0.5, of=FILE_AVERAGE),
        ),
        prepare=data.big,
    )


if __name__ == "__main__":
    harness.main(benchmark)
