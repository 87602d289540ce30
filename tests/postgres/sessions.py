"""Sessions whose trainings are ended, limited and watched."""

# ruff: noqa: E501, SQL is read better on one line

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

Connect = Callable[..., psycopg.Connection]

SOON = 20.0
"""A guard against hanging, wide enough for a machine that does other work: nothing here ends by itself."""
AGAIN = 4.0
"""After how long something is done again that was in vain."""
ALGORITHMS = ("sgd", "mgd", "hogwild", "hogbatch", "svrg", "bgd", "lbfgs", "newton", "newton_cg")
ROWS = """
CREATE TABLE t AS SELECT i % 7 AS g, (i::bigint * 7919) % 1000 < 400 AS y,
                         ARRAY[i * 31 % 97, i * 17 % 89, i % 83]::real[] AS x FROM generate_series(1, 60000) AS i
"""
GOOD = "SELECT (train_model('logistic', y, x)).n_rows FROM t"


def endless(algorithm: str, task: str = "logistic", features: str = "x", **options: object) -> str:
    text = json.dumps({"algorithm": algorithm, "max_iter": 1000000000, "epsilon": 0} | options)
    return f"train_model('{task}', y, {features}, '{text}')"


STATEMENTS = {name: f"SELECT {endless(name)} FROM t" for name in ALGORITHMS} | {
    "in groups": f"SELECT g, {endless('sgd')} FROM t GROUP BY g",
    "newton in groups": f"SELECT g, {endless('newton')} FROM t GROUP BY g",
    "many groups": f"SELECT x[3], x[2], {endless('bgd')} FROM t GROUP BY x[3], x[2]",
    "alone in groups": f"SELECT g, {endless('bgd')}, count(DISTINCT y) FROM t GROUP BY g",
    "into a table": f"CREATE TABLE m AS SELECT g, {endless('sgd')} AS m FROM t GROUP BY g",
    "svm": f"SELECT {endless('mgd', 'svm')} FROM t",
    "dcd": f"SELECT {endless('dcd', 'svm', l2=1e-7)} FROM t",
    "sparse": f"SELECT {endless('sgd', features='sparse(ARRAY[0, 1, 2], x)')} FROM t",
    "deterministic": f"SELECT {endless('hogwild', deterministic=True)} FROM t",
    "in a tree": """SELECT train_model('gbdt', random(), ARRAY[random(), random(), random()], '{"trees": 1, "num_leaves": 65536, "min_child_rows": 1}') FROM t, generate_series(1, 3)""",
    "in a random forest": """SELECT train_model('random_forest', y, x, '{"trees": 100000}') FROM t""",
    "in an epoch of a net": """SELECT train_model('mlp', y::int, x, '{"max_iter": 1, "layers": [2048, 2048, 2048]}') FROM t""",
    "search": f"SELECT {endless('lbfgs', l2=[1, 0.1])} FROM t",
    "search of short trials": 'SELECT train_model(\'logistic\', y, x, \'{"l2": {"log_uniform": [1e-6, 1]}, "search": {"trials": 9000}, "folds": 10}\') FROM t',
    "while rows are packed": "SELECT train_model('linear', i, ARRAY[i, sqrt(i), sin(i), cos(i)]) FROM generate_series(1, 500000000) AS i",
}


def warm(connection: psycopg.Connection) -> psycopg.Connection:
    """After the imports of the first training."""
    assert connection.execute(GOOD).fetchall() == [(60000,)]
    return connection


def pid(connection: psycopg.Connection) -> int:
    return connection.info.backend_pid


def eventually(true: Callable[[], bool], within: float = SOON) -> bool:
    deadline = time.monotonic() + within
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def is_gone(pg: psycopg.Connection, backend: int) -> bool:
    return pg.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = %s", (backend,)
    ).fetchone() == (0,)


def temporary_files(pg: psycopg.Connection) -> list[tuple]:
    return pg.execute("SELECT name FROM pg_ls_tmpdir()").fetchall()


@contextlib.contextmanager
def later(
    seconds: float, action: Callable[[], Any], again: float = AGAIN
) -> Iterator[list[float]]:
    """Does something while the body waits for a statement; when it was done, by the clock.

    Again after `again` seconds, when that was too early or in vain: a statement without end has one.
    """
    done: list[float] = []
    over = threading.Event()

    def act() -> None:
        wait = seconds
        while not over.wait(wait):
            done.append(time.monotonic())
            action()
            wait = again

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


def within(session: psycopg.Connection, milliseconds: int, sql: str) -> bool:
    """Whether the statement was done in time; the timeout is for it alone."""
    try:
        with session.transaction():
            session.execute(f"SET LOCAL statement_timeout = {milliseconds}")
            session.execute(sql)
            session.execute("SET LOCAL statement_timeout = 0")
    except psycopg.errors.QueryCanceled:
        return False
    return True


PARALLEL = "SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 2"
LARGE = """
CREATE TABLE large AS SELECT i % 2 AS g, i % 3 = 0 AS y, ARRAY[i * 31 % 97, i * 17 % 89, i % 83, i % 79]::float8[] AS x
FROM generate_series(1, 150000) AS i
"""


def status(backend: int, field: str) -> int:
    """A number of /proc/PID/status, such as VmRSS in kB."""
    found = re.search(rf"^{field}:\s*(\d+)", Path(f"/proc/{backend}/status").read_text(), re.M)
    assert found is not None
    return int(found[1])


def held(backend: int) -> tuple[int, int]:
    """Open files and threads."""
    return len(os.listdir(f"/proc/{backend}/fd")), status(backend, "Threads")
