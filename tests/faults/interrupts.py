"""Statements of DuckDB that end by no means but an interrupt, and how long one takes to end them.

The tests and scripts/bench/linear/cancels.py share them; PostgreSQL's are in tests/postgres/sessions.py.
"""

# ruff: noqa: E501, SQL is read better on one line

import threading
import time
from collections.abc import Callable

import duckdb
import pytest

SOON = 10.0
"""A guard against hanging, wide enough for a machine that does other work; the promise is 200 ms."""
AGAIN = 12.0
"""After how long an interrupt that was lost is repeated, later than SOON and before the time limit."""
ENDLESS = '{"algorithm": "%s", "max_iter": 1000000000, "epsilon": 0, "time": "25s"}'
L2 = ', "l2": 1e-7'
DETERMINISTIC = ', "deterministic": true'
ROWS = """CREATE TABLE t AS SELECT i % 7 AS g, (i * 7919) % 1000 < 400 AS y, [(i * 31) % 97, (i * 17) % 89, i % 83]::FLOAT[] AS x,
          [i % 7, 100 + i * 31 % 5000]::INTEGER[] AS ids, [1.0, sin(i)] AS vals FROM range(100000) r(i)"""


WIDE = """CREATE TABLE wide AS SELECT (i * 7919) % 1000 < 400 AS y, list_transform(range(1200), lambda k: sin(i * (k + 1)))::FLOAT[] AS x
          FROM range(2500) r(i)"""


def dense(algorithm: str, task: str = "logistic", more: str = "") -> str:
    return f"train_model('{task}', y, x, '{(ENDLESS % algorithm).replace('}', more + '}')}')"


def stored(**more: object) -> str:
    given = "".join(f', "{name}": {value}' for name, value in more.items())
    options = f'{{"store": "ads", "max_iter": 1000000000, "epsilon": 0, "time": "25s", "step": 0.1{given}}}'
    return f"train_model('logistic', y, sparse(ids, vals), '{options}')"


FACTORIZATION = """train_model('matrix_factorization', sin(i), [i %% 900, i %% 700],
    '{"rank": 8, "max_iter": 1000000000, "epsilon": 0, "time": "25s"%s}')"""
STATEMENTS = {
    name: f"SELECT {dense(name)} FROM t" for name in ("sgd", "hogwild", "svrg", "bgd", "lbfgs", "newton", "newton_cg")
} | {
    "svm": f"SELECT {dense('mgd', 'svm')} FROM t",
    "dcd": f"SELECT {dense('dcd', 'svm', L2)} FROM t",
    "deterministic": f"SELECT {dense('hogwild', more=DETERMINISTIC)} FROM t",
    "newton, wide": f"SELECT {dense('newton')} FROM wide",
    "lbfgs, wide": f"SELECT {dense('lbfgs')} FROM wide",
    "while rows are packed": "SELECT train_model('linear', i, [i, sqrt(i), sin(i)]) FROM range(500000000) t(i)",
    "sparse": f"SELECT {dense('sgd').replace('x, ', 'sparse(ids, vals), ')} FROM t",
    "in groups": f"SELECT g, {dense('sgd')} FROM t GROUP BY g",
    "many groups": f"SELECT x, {dense('bgd')} FROM t GROUP BY x",
    "into a table": f"CREATE TABLE m AS SELECT g, {dense('sgd')} AS m FROM t GROUP BY g",
    "in a store": f"SELECT {stored()} FROM t",
    "in a store, tight": f"SELECT {stored(cache=chr(34) + '16MB' + chr(34))} FROM t",
    "factorization": f"SELECT {FACTORIZATION % ''} FROM range(200000) r(i)",
    "factorization in a store": f"SELECT {FACTORIZATION % (', ' + chr(34) + 'store' + chr(34) + ': ' + chr(34) + 'films' + chr(34))} FROM range(200000) r(i)",
}  # fmt: skip


def seconds_to_end(
    con: duckdb.DuckDBPyConnection,
    sql: str,
    after: float = 0.4,
    interrupt: Callable[[], object] | None = None,
) -> float:
    """From the first interrupt on; there are more, lest a test waits for the time limit."""
    asked: list[float] = []
    over = threading.Event()

    def ask() -> None:
        wait = after
        while not over.wait(wait):
            asked.append(time.monotonic())
            (interrupt or con.interrupt)()
            wait = AGAIN

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        with pytest.raises(duckdb.Error, match=r"(?i)interrupted"):
            con.execute(sql).fetchall()
        return time.monotonic() - asked[0]
    finally:
        over.set()
        thread.join()
