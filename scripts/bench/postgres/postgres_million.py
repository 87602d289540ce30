"""A million small models in PostgreSQL: 1,000,000 groups x 20 rows x 3 features, rows shuffled.

Measured: CREATE TABLE models AS SELECT g, train_model(...) GROUP BY g, by a sort (the default
work_mem) and by a hash table (work_mem 2GB); the peak memory of the backend. A statement that
takes five minutes is cancelled.
Against: avg() of the same columns, the floor of any such query.
"""

from __future__ import annotations

from functools import partial

import data
import harness
import postgres_server as server
from contender import Benchmark, Contender, Outcome, Run, Settings

LIMIT: server.Options = {"statement_timeout": "300s"}
WAYS: dict[str, server.Options] = {
    "default work_mem": LIMIT,
    "work_mem 2GB": {**LIMIT, "work_mem": "2GB"},
}
FLOOR = "avg(y) AS y, avg(a) AS a, avg(b) AS b, avg(c) AS c"
TRAIN = "train_model('{}', {}, ARRAY[a, b, c], '{{\"l2\": 0.001}}') AS m"
LABELS = {"linear": "y", "logistic": "late"}


def grouped(values: str, options: server.Options, settings: Settings) -> Run:
    """A run of one row a group, into a table; the quality is the plan and the share of good
    models.
    """
    session = server.Session(settings, **options)
    sql = f"SELECT g, {values} FROM twenty GROUP BY g"

    def quality() -> dict[str, float | str]:
        run = session.connection.execute
        facts: dict[str, float | str] = {"plan": _plan(run(f"EXPLAIN {sql}").fetchall())}
        if "train_model" in values:
            check = "SELECT count(*), avg(((m).status = 'ok')::int)::float8 FROM models"
            facts["models"], facts["ok"] = run(check).fetchone()
        return facts

    def run() -> Outcome:
        session.connection.execute("DROP TABLE IF EXISTS models")
        _, outcome = session.timed(f"CREATE TEMP TABLE models AS {sql}")
        outcome.quality = quality
        return outcome

    return run


def _plan(lines: list[tuple[str]]) -> str:
    """The nodes of a plan, from the top."""
    nodes = [line.partition("(cost=")[0].strip(" ->") for (line,) in lines if "(cost=" in line]
    return " < ".join(nodes)


def prepare(settings: Settings) -> None:
    """The rows in DuckDB's file and in PostgreSQL."""
    server.load(data.twenty(settings), "twenty", server.TWENTY)


def benchmark(settings: Settings) -> Benchmark:
    """The benchmark of many groups."""
    values = {f"tuskml {task}": TRAIN.format(task, label) for task, label in LABELS.items()}
    values["floor: avg"] = FLOOR
    return Benchmark(
        name="postgres_million",
        title="PostgreSQL: 1,000,000 groups x 20 rows x 3 features, shuffled",
        contenders=tuple(
            Contender(f"{name}, {way}", partial(grouped, call, options), server.NEEDS)
            for name, call in values.items()
            for way, options in WAYS.items()
        ),
        goals=(),
        prepare=prepare,
        around=server.serve,
        fresh=True,
    )


if __name__ == "__main__":
    harness.main(benchmark)
