"""A million small models: 1,000,000 groups x 100 rows x 3 features, linear and logistic.

Measured: CREATE TABLE models AS SELECT g, train_model(...) GROUP BY g, with the rows ordered by
group and shuffled; the process's peak memory above what it held before, which includes the pages
of the table that DuckDB keeps.
Against: figures published for the best peer extension (175 to 208 s and 8 GB on six cores, not run
here), with DuckDB's own avg() of the same columns GROUP BY g as the floor of any such query.
"""

from __future__ import annotations

import json
from functools import partial

import data
import goals
import harness
import tusk
from contender import Benchmark, Contender, Run, Settings

TABLES = ("ordered", "shuffled")
LABELS = {"linear": "y", "logistic": "late"}
ROW_BYTES = 4 * 4  # three float32 features and the label
OPTIONS = {"l2": 1e-3}


def tuskml(task: str, table: str, settings: Settings) -> Run:
    """A run of one model a group; the quality is the share of the groups with status ok."""
    con = tusk.connect(data.million(settings), settings)
    call = f"train_model('{task}', {LABELS[task]}, [a, b, c], '{json.dumps(OPTIONS)}')"

    def quality() -> dict[str, float | str]:
        models, good = con.execute(
            "SELECT count(*), count(*) FILTER (m.status = 'ok') FROM models"
        ).fetchall()[0]
        return {"models": models, "ok": good / models}

    return tusk.table_run(con, f"SELECT g, {call} AS m FROM data.{table} GROUP BY g", quality)


def floor(table: str, settings: Settings) -> Run:
    """DuckDB alone: the same grouping with four built-in averages."""
    import duckdb

    con = duckdb.connect(config={"threads": settings.threads})
    con.execute(f"ATTACH '{data.million(settings)}' AS data (READ_ONLY)")
    return tusk.table_run(
        con, f"SELECT g, avg(y), avg(a), avg(b), avg(c) FROM data.{table} GROUP BY g", dict
    )


def benchmark(settings: Settings) -> Benchmark:
    """The fifth row of the table of figures."""
    row_bytes = settings.rows(1_000_000) * data.GROUP_ROWS * ROW_BYTES
    contenders, wanted = [], []
    for table in TABLES:
        for task in LABELS:
            name = f"tuskml {task}, {table}"
            contenders.append(Contender(name, partial(tuskml, task, table), tusk.NEEDS))
            wanted += [
                goals.at_most_seconds(20, of=name),
                goals.memory_at_most(name, 2.5, row_bytes),
            ]
        contenders.append(Contender(f"floor: DuckDB avg, {table}", partial(floor, table)))
    return Benchmark(
        name="groups_million",
        title="1,000,000 groups x 100 rows x 3 features",
        contenders=tuple(contenders),
        goals=tuple(wanted),
        prepare=data.million,
        fresh=True,
        notes=("Published for the best peer extension: 175 to 208 s and 8 GB on 6 cores.",),
    )


if __name__ == "__main__":
    harness.main(benchmark)
