"""The cost of a row before any training in PostgreSQL: 500k rows of float8[28], one backend.

Measured: explain_training, which packs all rows and trains nothing, with room for them in memory
and with the default budget, beyond which they are written to a file; and on 100 rows, to measure
the rest of such a statement. Against: a scan that detoasts every array and reads its last number,
sum(x[28]).
"""

from __future__ import annotations

from functools import partial

import data
import goals
import harness
import postgres_server as server
from contender import Benchmark, Contender, Outcome, Run, Settings
from postgres_dense import prepare

EXPLAIN = "SELECT explain_training('logistic', y, x) FROM dense"
ROOM: server.Options = {**server.ALONE, "tuskml.memory_limit": "1GB"}
PACK, SPILL = "packing", "packing, default memory_limit"
FEW, SCAN = "packing 100 rows", "detoasting scan"


def statement(sql: str, options: server.Options, settings: Settings) -> Run:
    """A run of one statement, timed."""
    session = server.Session(settings, **options)
    return lambda: timed(session, sql)


def timed(session: server.Session, sql: str) -> Outcome:
    """Without a quality to check."""
    return session.timed(sql)[1]


def benchmark(settings: Settings) -> Benchmark:
    """The fifth row of the table of figures."""
    rows = settings.rows(500_000)
    runs: dict[str, tuple[str, server.Options]] = {
        PACK: (EXPLAIN, ROOM),
        SPILL: (EXPLAIN, server.ALONE),
        FEW: (f"{EXPLAIN.replace('dense', '(SELECT * FROM dense LIMIT 100) few')}", ROOM),
        SCAN: (f"SELECT sum(x[{data.DIM}]) FROM dense", server.ALONE),
    }
    return Benchmark(
        name="postgres_pack",
        title="PostgreSQL: packing 500k rows of float8[28]",
        contenders=tuple(
            Contender(name, partial(statement, sql, options), server.NEEDS)
            for name, (sql, options) in runs.items()
        ),
        goals=(
            goals.extra_per_row(PACK, SCAN, rows, 0.25),
            goals.extra_per_row(SPILL, SCAN, rows, 0.25),
        ),
        prepare=prepare,
        around=server.serve,
    )


if __name__ == "__main__":
    harness.main(benchmark)
