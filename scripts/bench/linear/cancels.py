"""Seconds until a cancelled training ends: all kinds of trainings, both databases.

python scripts/bench/run.py cancels --repeat 4 --results

The trainings are those of tests/faults/interrupts.py and tests/postgres/sessions.py, which end by
no means but a cancel, and waiting for a store's lock. In DuckDB `connection.interrupt()` and
`tuskml.cancel()` end them, in PostgreSQL pg_cancel_backend and statement_timeout. A cancel comes
after 0.1 to 0.5 s by chance; its time is from the request to the error in the client's hands.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import duckdb
import machine
import numpy as np
import result_files

import tuskml
from tuskml.kvstore import files

TESTS = Path(__file__).parents[3] / "tests"
sys.path += [str(TESTS / "faults"), str(TESTS / "postgres")]

import interrupts  # noqa: E402

PROMISE_MS = 200
TITLE = "The time from a request to cancel to the error at the client"
DuckDB = duckdb.DuckDBPyConnection
Case = tuple[str, str, str, Callable[[float], float]]
"""The database, the training, the way of cancelling, and one cancel: from its delay to its
seconds.
"""
FACTORIZATION = """SELECT train_model('matrix_factorization', sin(i), ARRAY[i %% 900, i %% 700],
    '{"rank": 8, "max_iter": 1000000000, "epsilon": 0%s}') FROM generate_series(1, 200000) AS i"""
STORED = """SELECT train_model('logistic', y, sparse(ids, vals), '{"store": "ads", "step": 0.1,
    "max_iter": %d, "epsilon": 0}') FROM stored"""
STORED_ROWS = """CREATE TABLE stored AS SELECT (i::bigint * 7919) % 1000 < 400 AS y,
    ARRAY[i % 7, 100 + i * 31 % 5000]::int[] AS ids, ARRAY[1, sin(i)]::float8[] AS vals
    FROM generate_series(1, 100000) AS i"""


def main() -> None:
    """The command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--repeat", type=int, default=4, help="cancels of each kind (default 4)")
    made.add_argument("--only", default="", help="the kinds whose text contains this")
    made.add_argument("--seconds", type=float, default=1e9, help="no round starts after this long")
    made.add_argument("--json", type=Path, metavar="FILE", help="write all times as JSON")
    made.add_argument(
        "--results", action="store_true", help="write the figures into scripts/bench/results"
    )
    arguments = made.parse_args()
    facts = machine.facts()
    with ExitStack() as stack:
        cases = [*duckdb_cases(stack), *postgres_cases(stack)]
        cases = [case for case in cases if arguments.only in ", ".join(case[:3])]
        found = measured(cases, arguments.repeat, time.monotonic() + arguments.seconds)
    run = run_of(found, facts)
    print(json.dumps(run["tables"][0]["rows"], indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps([[*key, times] for key, times in found.items()]))
    if arguments.results:
        print(f"wrote {result_files.add(run)}", file=sys.stderr)


def measured(
    cases: list[Case], repeat: int, end: float
) -> dict[tuple[str, str, str], list[float]]:
    """Seconds of every cancel, by kind; the kinds take turns."""
    chance = random.Random(0)
    found: dict[tuple[str, str, str], list[float]] = {case[:3]: [] for case in cases}
    for number in range(repeat):
        for *key, cancel in cases if time.monotonic() < end else ():
            seconds = cancel(chance.uniform(0.1, 0.5))
            found[tuple(key)].append(seconds)
            print(f"{number}: {', '.join(key)}: {seconds * 1000:.0f} ms", file=sys.stderr)
    return {key: times for key, times in found.items() if times}


# --- DuckDB ---


def duckdb_cases(stack: ExitStack) -> Iterator[Case]:
    """Both ways, over all statements and a lock."""
    stores = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "stores"
    con = stack.enter_context(tuskml.connect(threads=2, store_root=stores))
    con.execute("SET enable_progress_bar = false")
    con.execute(interrupts.ROWS)
    con.execute(interrupts.WIDE)
    con.execute("SELECT train_model('logistic', y, x).n_rows FROM t").fetchall()
    lock = stores / "ads" / "lock"
    con.execute(
        f"SELECT {interrupts.stored()} FROM t".replace("1000000000", "1")
    ).fetchall()  # a version
    for how, stop in (("interrupt", con.interrupt), ("tuskml.cancel", tuskml.cancel)):
        for name, sql in interrupts.STATEMENTS.items():
            yield "DuckDB", name, how, one_of_duckdb(con, sql, stop, nullcontext)
        waiting = interrupts.STATEMENTS["in a store"]
        yield (
            "DuckDB",
            "waiting for a lock",
            how,
            one_of_duckdb(con, waiting, stop, lambda: files.Lock(lock)),
        )


def one_of_duckdb(
    con: DuckDB,
    sql: str,
    stop: Callable[[], object],
    held: Callable[[], AbstractContextManager[Any]],
) -> Callable[[float], float]:
    """A function that trains and cancels."""

    def cancel(after: float) -> float:
        con.execute("DROP TABLE IF EXISTS m")
        with held():
            return interrupts.seconds_to_end(con, sql, after, stop)

    return cancel


# --- PostgreSQL ---


def postgres_cases(stack: ExitStack) -> Iterator[Case]:
    """Both ways, over all statements, stores and a lock; none without a server."""
    try:
        import cluster
        import sessions

        build = Path(tempfile.gettempdir()) / "tuskml-bench" / "postgres-build"
        server = stack.enter_context(cluster.private_cluster(build))
    except Exception as problem:
        print(f"no PostgreSQL: {problem}", file=sys.stderr)
        return
    session = stack.enter_context(server.connect(cluster.TEMPLATE))
    for made in (sessions.ROWS, STORED_ROWS, "ANALYZE"):
        session.execute(made)
    sessions.warm(session)
    session.execute(STORED % 1)
    (lock,) = (server.data / "tuskml" / "stores").glob("*/ads/lock")
    stack.callback(shutil.rmtree, server.data / "tuskml", ignore_errors=True)
    statements = sessions.STATEMENTS | {
        "in a store": STORED % 10**9,
        "factorization": FACTORIZATION % "",
        "factorization in a store": FACTORIZATION % ', "store": "films"',
    }
    for how, one in (("pg_cancel_backend", asked), ("statement_timeout", timed_out)):
        for name, sql in statements.items():
            yield "PostgreSQL", name, how, one(session, sql, nullcontext)
        yield (
            "PostgreSQL",
            "waiting for a lock",
            how,
            one(session, STORED % 10**9, lambda: held_lock(lock)),
        )


@contextmanager
def held_lock(path: Path) -> Iterator[None]:
    """A store's lock, which afterwards belongs to the server's user again."""
    owner = path.stat()
    with files.Lock(path):
        yield
    os.chown(path, owner.st_uid, owner.st_gid)


def asked(
    session: Any, sql: str, held: Callable[[], AbstractContextManager[Any]]
) -> Callable[[float], float]:
    """A function that trains and is cancelled by a request, as pg_cancel_backend is."""
    import sessions
    from psycopg.errors import QueryCanceled

    def cancel(after: float) -> float:
        with held(), sessions.later(after, session.cancel_safe) as done:
            try:
                session.execute(sql)
            except QueryCanceled:
                return time.monotonic() - done[0]
        raise RuntimeError(f"it ended by itself: {sql}")

    return cancel


def timed_out(
    session: Any, sql: str, held: Callable[[], AbstractContextManager[Any]]
) -> Callable[[float], float]:
    """A function that trains until its statement_timeout."""
    from psycopg.errors import QueryCanceled

    def cancel(after: float) -> float:
        session.execute(f"SET statement_timeout = {round(after * 1000)}")
        with held():
            began = time.monotonic()
            try:
                session.execute(sql)
            except QueryCanceled:
                return time.monotonic() - began - round(after * 1000) / 1000
            finally:
                session.execute("SET statement_timeout = 0")
        raise RuntimeError(f"it ended by itself: {sql}")

    return cancel


# --- the table ---


def run_of(
    found: dict[tuple[str, str, str], list[float]], facts: dict[str, object]
) -> dict[str, Any]:
    """The run for `scripts/bench/results`: a row per database and training, and one of all."""
    rows: dict[tuple[str, str], list[float]] = {}
    for (database, name, _), times in found.items():
        rows.setdefault((database, name), []).extend(times)
    for database in dict.fromkeys(database for database, _ in rows):
        every = [t for (d, _), times in rows.items() if d == database for t in times]
        rows[database, "**all**"] = every
    rows["both", "**all**"] = [t for times in found.values() for t in times]
    marks = {
        key: [f"{float(np.quantile(times, q)) * 1000:.0f}" for q in (0.5, 0.99, 1)]
        for key, times in rows.items()
    }
    median, p99, worst = marks["both", "**all**"]
    missed = ", missed" if float(p99) > PROMISE_MS else ""
    figure = {
        "what": f"cancelled trainings, {len(rows['both', '**all**'])} in both databases: "
        "median, p99, worst",
        "figure": f"{median} ms, {p99} ms, {worst} ms",
        "goal": f"p99 <= {PROMISE_MS} ms{missed}",
    }
    columns = ["database", "training", "cancels", "median ms", "p99 ms", "worst ms"]
    return result_files.described("cancels", TITLE, facts) | {
        "comparisons": [],
        "figures": [figure],
        "tables": [
            {
                "columns": columns,
                "rows": [[*key, str(len(times)), *marks[key]] for key, times in rows.items()],
            }
        ],
    }


if __name__ == "__main__":
    main()
