"""Ten epochs of stochastic gradient descent in PostgreSQL: 500k x 28 float8, one model.

Measured: train_model with the algorithms sgd, hogwild and hogbatch.
Against: MADlib's igd. The gap is the log-loss above the optimum; MADlib's is that of the rows on
which it was measured.
"""

from __future__ import annotations

import json
from functools import partial

import goals
import harness
import postgres_madlib as madlib
import postgres_server as server
from contender import TUSKML, Benchmark, Contender, Outcome, Run, Settings
from postgres_dense import prepare, trained

EPOCHS = 10
OPTIONS = {"max_iter": EPOCHS, "epsilon": 0}
ALGORITHMS = ("sgd", "hogwild", "hogbatch")
IGD = madlib.name("igd")


def tuskml(algorithm: str, settings: Settings) -> Run:
    """Ten epochs of one algorithm."""
    session = server.Session(settings)
    options = json.dumps({"algorithm": algorithm, **OPTIONS})
    sql = f"SELECT train_model('logistic', y, x, '{options}') FROM dense"

    def run() -> Outcome:
        ((model,),), outcome = session.timed(sql)
        return trained(model, outcome, settings)

    return run


def benchmark(settings: Settings) -> Benchmark:
    """The second row of the table of figures."""
    names = {algorithm: f"{TUSKML} {algorithm}" for algorithm in ALGORITHMS}
    return Benchmark(
        name="postgres_sgd",
        title="PostgreSQL: ten epochs of SGD, 500k x 28 float8",
        contenders=(
            *(Contender(name, partial(tuskml, one), server.NEEDS) for one, name in names.items()),
            *madlib.contenders("igd"),
        ),
        recorded=madlib.recorded("igd"),
        goals=(
            *(goals.faster_than(IGD, 25, of=name) for name in names.values()),
            *(goals.quality_at_most("gap", madlib.GAP["igd"], of=name) for name in names.values()),
        ),
        prepare=prepare,
        around=server.serve,
    )


if __name__ == "__main__":
    harness.main(benchmark)
