"""The first training of a fresh connection to PostgreSQL: 1,000 x 28 float8.

Measured: connecting and SELECT train_model(...), in which the backend loads the extension,
PL/Python and the Python packages; and a further training in a connection that has trained.
Against: connecting and a statement that trains nothing.
"""

from __future__ import annotations

import time
from functools import partial

import goals
import harness
import postgres_server as server
from contender import TUSKML, Benchmark, Contender, Outcome, Run, Settings
from postgres_dense import prepare as prepare_dense

ROWS = 1_000
TRAIN = "SELECT train_model('logistic', y, x) FROM few"
SCAN = "SELECT sum(x[28]) FROM few"
LATER, BARE = "a later training", "connecting and a scan"


def fresh(sql: str, settings: Settings) -> Run:
    """A new connection for every run; the training's share is the statement's."""

    def run() -> Outcome:
        start = time.perf_counter()
        with server.connect(**{"tuskml.threads": settings.threads}) as con:
            connected = time.perf_counter()
            con.execute(sql).fetchall()
            end = time.perf_counter()
        return Outcome(end - start, end - connected, peak_bytes=0)

    return run


def later(settings: Settings) -> Run:
    """A run of later trainings in one connection."""
    session = server.Session(settings)
    return lambda: session.timed(TRAIN)[1]


def prepare(settings: Settings) -> None:
    """A small table."""
    prepare_dense(settings)
    if not server.running():
        return
    with server.connect() as con:
        con.execute(f"CREATE TABLE few AS SELECT * FROM dense LIMIT {ROWS}")
        con.execute("VACUUM ANALYZE few")


def benchmark(settings: Settings) -> Benchmark:
    """The sixth row of the table of figures."""
    return Benchmark(
        name="postgres_first",
        title="PostgreSQL: the first training in a fresh connection, imports included",
        contenders=(
            Contender(TUSKML, partial(fresh, TRAIN), server.NEEDS),
            Contender(LATER, later, server.NEEDS),
            Contender(BARE, partial(fresh, SCAN), server.NEEDS),
        ),
        goals=(goals.at_most_seconds(0.4),),
        prepare=prepare,
        around=server.serve,
    )


if __name__ == "__main__":
    harness.main(benchmark)
