"""MADlib's logregr_train: measured if TUSKML_BENCH_MADLIB names a server that has it (a
conninfo), else its seconds once on such a machine: two cores, PostgreSQL 15, MADlib
1.22.0-dev, 500k rows x 28 with an intercept, the same in 100 groups of Zipf sizes.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any

import data
from contender import Contender, Outcome, Recorded, Run, Settings
from postgres_server import DENSE, copy_rows

SERVER = "TUSKML_BENCH_MADLIB"
SCHEMA = "tuskml_bench_madlib"
SECONDS = {"irls": 2.9, "igd": 9.6, "irls by group": 3.9, "igd by group": 12.3}
GAP = {"igd": 0.4886 - 0.47533}  # of the rows it was measured on, above their optimum
ITERATIONS = {"irls": 7, "igd": 10}
MEASURED = bool(os.environ.get(SERVER))


def name(what: str) -> str:
    """The contender's name; what: a key of SECONDS."""
    return f"MADlib {what}{'' if MEASURED else ' (recorded, not measured in this run)'}"


def contenders(*what: str) -> tuple[Contender, ...]:
    """The contenders to run, if there is a server with MADlib."""
    if not MEASURED:
        return ()
    return tuple(Contender(name(one), partial(training, one), ("psycopg",)) for one in what)


def recorded(*what: str) -> tuple[Recorded, ...]:
    """The recorded figures, if there is none."""
    if MEASURED:
        return ()
    quality = {one: {"gap": GAP[one]} if one in GAP else {} for one in what}
    return tuple(Recorded(name(one), SECONDS[one], dict(quality[one])) for one in what)


def training(what: str, settings: Settings) -> Run:
    """A run of logregr_train into a table, with all its iterations, ignoring its tolerance."""
    import psycopg

    con = psycopg.connect(os.environ[SERVER], autocommit=True)
    load(con, settings)
    method, _, by = what.partition(" by ")
    grouping = "'g'" if by else "NULL"
    out = f"{SCHEMA}.model_{what.replace(' ', '_')}"

    def run() -> Outcome:
        con.execute(f"DROP TABLE IF EXISTS {out}, {out}_summary")
        start = time.perf_counter()
        con.execute(
            f"SELECT madlib.logregr_train('{SCHEMA}.rows', '{out}', 'y', 'x', {grouping}, "
            f"{ITERATIONS[method]}, '{method}', 0)"
        )
        seconds = time.perf_counter() - start
        return Outcome(seconds, peak_bytes=0)

    return run


def load(con: Any, settings: Settings) -> None:
    """The rows with a 1 before the features, which is MADlib's intercept."""
    if con.execute(f"SELECT to_regclass('{SCHEMA}.rows')").fetchone()[0]:
        return
    con.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}; SET search_path = {SCHEMA}")
    con.execute("CREATE TABLE dense (g integer, y boolean, x float8[])")
    copy_rows(con, data.double(settings), "dense", DENSE)
    con.execute("CREATE TABLE rows AS SELECT g, y, array_prepend(1::float8, x) AS x FROM dense")
    con.execute("DROP TABLE dense")
    con.execute("VACUUM (ANALYZE, FREEZE) rows")
