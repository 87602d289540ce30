"""Dense logistic regression to convergence in PostgreSQL: 500k x 28 float8, one model.

Measured: SELECT train_model('logistic', y, x) FROM dense, with the server's settings, without
parallel workers, and with room for all rows in memory.
Against: the route outside, COPY (FORMAT binary) through psycopg or through a pipe from psql, then
NumPy and scikit-learn's newton-cholesky with the loosest tolerance that reaches the same
objective; the same statement in DuckDB on the same rows, from a file that is cached; MADlib's
irls. The gap is the log-loss above that of a Newton iteration in double precision.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import data
import goals
import harness
import numpy as np
import postgres_madlib as madlib
import postgres_rows
import postgres_server as server
import quality
import tusk
from contender import TUSKML, Benchmark, Contender, Outcome, Run, Settings
from load import dense_matrix, open_plain

SQL = "SELECT train_model('logistic', y, x) FROM {table}"
COPY = "COPY (SELECT y, x FROM dense) TO STDOUT (FORMAT binary)"
COLUMNS: postgres_rows.Columns = {"y": "boolean", "x": data.DIM}
GAP = 1e-6
PLANS: dict[str, server.Options] = {
    TUSKML: {},
    "tuskml, no parallel workers": server.ALONE,
    "tuskml, memory_limit 1GB": {"tuskml.memory_limit": "1GB"},
    "tuskml, memory_limit 1GB, no parallel workers": {
        "tuskml.memory_limit": "1GB",
        **server.ALONE,
    },
}
OUTSIDE = "COPY by psycopg, NumPy, scikit-learn newton-cholesky"
OUTSIDE_PSQL = "COPY by psql, NumPy, scikit-learn newton-cholesky"
INSIDE_DUCKDB = "tuskml in DuckDB"
IRLS = madlib.name("irls")


def tuskml(options: server.Options, settings: Settings) -> Run:
    """A run of the statement in a session with the given settings."""
    session = server.Session(settings, **options)

    def run() -> Outcome:
        ((model,),), outcome = session.timed(SQL.format(table="dense"))
        return trained(model, outcome, settings)

    return run


def trained(model: Any, outcome: Outcome, settings: Settings) -> Outcome:
    """The outcome with the training's share and the check of a model that a session has read."""
    facts = {"iterations": model.iterations, "status": model.status}
    return Outcome(
        outcome.seconds,
        model.seconds,
        lambda: gap(*server.weights(model), settings) | facts,
        outcome.peak_bytes,
    )


def outside(connect: Callable[[], Callable[[], bytes]], settings: Settings) -> Run:
    """A run that exports the rows from the server and trains by scikit-learn."""
    from sklearn.linear_model import LogisticRegression

    read = connect()

    def run() -> Outcome:
        start = time.perf_counter()
        rows = postgres_rows.parse(read(), COLUMNS)
        X, y = np.ascontiguousarray(rows["x"]["value"], np.float32), rows["y"]
        loaded = time.perf_counter()
        model = LogisticRegression(C=np.inf, solver="newton-cholesky").fit(X, y)
        end = time.perf_counter()
        coef, intercept = model.coef_[0], float(model.intercept_[0])
        return Outcome(end - start, end - loaded, lambda: gap(coef, intercept, settings))

    return run


def by_psycopg() -> Callable[[], bytes]:
    """Reads the output of COPY through a connection of its own."""
    con = server.connect()

    def read() -> bytes:
        with con.cursor().copy(COPY) as copy:
            return b"".join(copy)

    return read


def by_psql() -> Callable[[], bytes]:
    """Reads psql's output from a pipe; C splits the rows, and Python sees large pieces."""
    server.connect().close()
    schema = f"SET search_path = {server.SCHEMA}"
    call = ["psql", "-Xqc", schema, "-c", COPY, os.environ[server.SERVER]]
    return lambda: subprocess.run(call, stdout=subprocess.PIPE, check=True).stdout


def duckdb(settings: Settings) -> Run:
    """A run of the same statement on the same rows in DuckDB."""
    con = tusk.connect(data.double(settings), settings)
    sql = SQL.format(table="data.dense")
    return tusk.training_run(con, sql, lambda m: gap(m["coef"], m["intercept"], settings))


def gap(coef: Any, intercept: float, settings: Settings) -> dict[str, float | str]:
    """The log-loss, and its difference to the optimum."""
    path = data.double(settings)
    X, y = dense_matrix(open_plain(path, settings))
    kept = path.with_suffix(".optimum-0")
    if not kept.exists():
        kept.write_text(repr(quality.optimum(X, y, 0)))
    loss = quality.log_loss(X, y, coef, intercept)
    return {"log-loss": loss, "gap": loss - float(kept.read_text())}


def prepare(settings: Settings) -> None:
    """The rows in DuckDB's file, their optimum, and in PostgreSQL."""
    path = data.double(settings)
    gap(np.zeros(data.DIM), 0.0, settings)
    server.load(path, "dense", server.DENSE)


def benchmark(settings: Settings) -> Benchmark:
    """The first, the fourth and the last row of the table of figures."""
    return Benchmark(
        name="postgres_dense",
        title="PostgreSQL: logistic regression to convergence, 500k x 28 float8",
        contenders=(
            *(
                Contender(name, partial(tuskml, options), server.NEEDS)
                for name, options in PLANS.items()
            ),
            Contender(OUTSIDE, partial(outside, by_psycopg), ("sklearn", "psycopg")),
            Contender(OUTSIDE_PSQL, partial(outside, by_psql), ("sklearn", "psycopg")),
            Contender(INSIDE_DUCKDB, duckdb, tusk.NEEDS),
            *madlib.contenders("irls"),
        ),
        recorded=madlib.recorded("irls"),
        goals=(
            goals.faster_than(IRLS, 8),
            goals.faster_than([OUTSIDE, OUTSIDE_PSQL], 3, quality="gap", worst=GAP),
            goals.slowdown_at_most(TUSKML, INSIDE_DUCKDB, 2.5),
            goals.quality_at_most("gap", GAP),
        ),
        prepare=prepare,
        around=server.serve,
    )


if __name__ == "__main__":
    harness.main(benchmark)
