"""A hundred models in PostgreSQL: 500k x 28 float8 in 100 groups of Zipf sizes, logistic.

Measured: CREATE TABLE models AS SELECT g, train_model(...) FROM dense GROUP BY g, to convergence,
and ten epochs of SGD.
Against: MADlib with grouping_cols, irls and igd. Floor: the same statement with avg(x[28]).
"""

from __future__ import annotations

from functools import partial

import goals
import harness
import postgres_madlib as madlib
import postgres_server as server
from contender import TUSKML, Benchmark, Contender, Outcome, Run, Settings
from postgres_dense import prepare

IRLS, IGD = madlib.name("irls by group"), madlib.name("igd by group")
TRAIN = "train_model('logistic', y, x)"
EPOCHS = """train_model('logistic', y, x, '{"algorithm": "sgd", "max_iter": 10, "epsilon": 0}')"""
ALONE, SGD, FLOOR = "tuskml, no parallel workers", "tuskml sgd", "floor: avg(x[28])"


def grouped(call: str, options: server.Options, settings: Settings) -> Run:
    """A run of one value of the aggregate a group, into a table."""
    session = server.Session(settings, **options)
    check = "SELECT count(*), avg(((m).status = 'ok')::int)::float8, avg((m).loss) FROM models"

    def quality() -> dict[str, float | str]:
        if "train_model" not in call:
            return {}
        models, good, loss = session.connection.execute(check).fetchone()
        return {"models": models, "ok": good, "mean loss": loss}

    def run() -> Outcome:
        session.connection.execute("DROP TABLE IF EXISTS models")
        sql = f"CREATE TEMP TABLE models AS SELECT g, {call} AS m FROM dense GROUP BY g"
        _, outcome = session.timed(sql)
        outcome.quality = quality
        return outcome

    return run


def benchmark(settings: Settings) -> Benchmark:
    """The third row of the table of figures."""
    runs = {
        TUSKML: partial(grouped, TRAIN, {}),
        ALONE: partial(grouped, TRAIN, server.ALONE),
        SGD: partial(grouped, EPOCHS, {}),
        FLOOR: partial(grouped, "avg(x[28])", {}),
    }
    return Benchmark(
        name="postgres_groups",
        title="PostgreSQL: 100 groups of Zipf sizes, 500k x 28 float8, logistic",
        contenders=(
            *(Contender(name, setup, server.NEEDS) for name, setup in runs.items()),
            *madlib.contenders("irls by group", "igd by group"),
        ),
        recorded=madlib.recorded("irls by group", "igd by group"),
        goals=(goals.faster_than(IRLS, 8),),
        prepare=prepare,
        around=server.serve,
        notes=(f"{SGD} stands beside {IGD}: ten epochs each.",),
    )


if __name__ == "__main__":
    harness.main(benchmark)
