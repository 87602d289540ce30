"""Predictions of boosted trees in PostgreSQL compared with DuckDB's, in rows per second of a
processor.

python scripts/bench/run.py tree_predictions_postgres --rows 100000

One model of 100 trees of 31 leaves over 28 float4 features, and 200 models of 50 trees of 15
leaves over 10 features, joined with rows in random order. Both databases have the same rows and
use one thread. PostgreSQL's time is that of its backend; reading the rows alone is told beside it.
The server is a private one, as that of the tests.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tuskml

sys.path.append(str(Path(__file__).parents[3] / "tests" / "postgres"))

import cluster

ONE = '{"objective": "logistic"}'
SMALL = '{"objective": "logistic", "trees": 50, "num_leaves": 15}'
MODELS = 200


def feature(j: int, real: str) -> str:
    """A feature of row i, the same number in both databases."""
    return f"CAST(CAST((i * {7919 + 2 * j}) % {1009 + j} AS {real}) / {1009 + j} AS {real})"


def rows(n: int, d: int, array: str, real: str, series: str) -> str:
    """The query of n rows of d features, of a group g and a label y."""
    listed = ", ".join(feature(j, real) for j in range(d))
    label = "(i * 7919) % 1009 * ((i * 7921) % 1010) > (i * 7923) % 1011 * 500"
    return f"SELECT i, i % {MODELS} AS g, {array}[{listed}] AS x, {label} AS y FROM {series}"


def seconds_of(pid: int) -> float:
    """Processor time of a process so far."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def measured(run: Callable[[str], Any], spent: Callable[[], float], sql: str, n: int) -> float:
    """The median of the seconds that a statement takes."""
    times = []
    for _ in range(n):
        began = spent()
        run(sql)
        times.append(spent() - began)
    return statistics.median(times)


def prepare(run: Callable[[str], Any], of: dict[str, str], n: int) -> None:
    """Tables of rows, models and one model; of: a database's words."""
    run(f"CREATE TABLE t AS {rows(n, 28, **of)}")
    run(f"CREATE TABLE u AS {rows(n, 10, **of)} ORDER BY (i * 7919) % 10007, i")
    run(f"CREATE TABLE m AS SELECT train_model('gbdt', y, x, '{ONE}') AS m FROM t")
    trained = f"SELECT g, train_model('gbdt', y, x, '{SMALL}') AS m FROM u GROUP BY g"
    run(f"CREATE TABLE models AS {trained}")


STATEMENTS = {
    "reading alone": "SELECT sum(x[1]) FROM t",
    "one model": "SELECT sum(decision(m, x)) FROM t, m",
    "joined, at random": "SELECT sum(decision(m, x)) FROM u JOIN models USING (g)",
}


def in_duckdb(args: argparse.Namespace) -> list[float]:
    """Seconds of each statement."""
    words = {"array": "", "real": "FLOAT", "series": f"range({args.rows}) AS r (i)"}
    with tuskml.connect(threads=1) as con:

        def run(sql: str) -> Any:
            return con.execute(sql).fetchall()

        prepare(run, words, args.rows)
        statements = STATEMENTS.values()
        return [measured(run, time.process_time, sql, args.repeat) for sql in statements]


def in_postgres(args: argparse.Namespace) -> list[float]:
    """Rows per second in a private server."""
    series = f"generate_series(0::bigint, {args.rows - 1}) AS r (i)"
    words = {"array": "ARRAY", "real": "real", "series": series}
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster.private_cluster(Path(folder)) as server,
        server.connect(cluster.TEMPLATE) as session,
    ):
        session.execute("CREATE EXTENSION IF NOT EXISTS tuskml_train CASCADE")
        session.execute("SET max_parallel_workers_per_gather = 0")
        prepare(session.execute, words, args.rows)
        session.execute("ANALYZE")
        (pid,) = session.execute("SELECT pg_backend_pid()").fetchall()[0]

        def run(sql: str) -> Any:
            return session.execute(sql).fetchall()

        statements = STATEMENTS.values()
        return [measured(run, lambda: seconds_of(pid), sql, args.repeat) for sql in statements]


def main() -> None:
    """Prints rows per second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    for name, here, there in zip(STATEMENTS, in_duckdb(args), in_postgres(args), strict=True):
        rates = (f"{args.rows / seconds / 1e6:.2f}M" for seconds in (here, there))
        print("{:<20} DuckDB {}, PostgreSQL {} rows per second".format(name, *rates))
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
