"""One logistic model a group: 2M x 28 float32 in 1,000 groups of Zipf sizes, to convergence.

Measured: from the DuckDB table to one model a group; the objective of each is mean(loss) + l2/2
||w||^2, l2 = 1e-3.
Against: pandas groupby + scikit-learn LogisticRegression without arguments (C=1, which is another
objective), with its default solver and our objective, and with newton-cholesky; DuckDB list() +
IRLS in NumPy; all from the DuckDB table; joblib on 2 processes + newton-cholesky from arrays in
mapped files. The peers are in groups_zipf_peers.py.
"""

from __future__ import annotations

import json
from functools import partial

import data
import goals
import groups_zipf_peers as peers
import harness
import numpy as np
import tusk
from contender import TUSKML, Benchmark, Contender, Run, Settings

PANDAS = "pandas groupby + LogisticRegression defaults"
LBFGS = "pandas groupby + LogisticRegression, our l2"
NEWTON = "pandas groupby + newton-cholesky"
JOBLIB = "joblib, 2 processes + newton-cholesky, from arrays"
IRLS = "DuckDB list() + NumPy IRLS"
OPTIONS = {"l2": peers.L2, "epsilon": 1e-4}
WORST_GAP = 1e-5


def tuskml(settings: Settings) -> Run:
    """train_model ... GROUP BY into a table."""
    con = tusk.connect(data.zipf(settings), settings)
    call = f"train_model('logistic', y, x, '{json.dumps(OPTIONS)}')"
    sql = f"SELECT g, {call} AS m FROM data.zipf GROUP BY g"

    def quality() -> dict[str, float | str]:
        W = np.zeros((data.GROUPS_ZIPF, data.DIM + 1), np.float32)
        for g, coef, intercept in con.execute(
            "SELECT g, m.coef, m.intercept FROM models WHERE m IS NOT NULL"
        ).fetchall():
            W[g] = [*coef, intercept]
        return peers.quality_of(W, settings)

    return tusk.table_run(con, sql, quality)


def benchmark(settings: Settings) -> Benchmark:
    """The fourth row of the table of figures."""
    return Benchmark(
        name="groups_zipf",
        title="1,000 groups of Zipf sizes, 2M x 28 float32, logistic to convergence",
        contenders=(
            Contender(TUSKML, tuskml, tusk.NEEDS),
            Contender(PANDAS, partial(peers.pandas_groups, peers.DEFAULTS), ("sklearn", "pandas")),
            Contender(LBFGS, partial(peers.pandas_groups, "lbfgs"), ("sklearn", "pandas")),
            Contender(
                NEWTON, partial(peers.pandas_groups, "newton-cholesky"), ("sklearn", "pandas")
            ),
            Contender(JOBLIB, peers.joblib_groups, ("sklearn", "joblib")),
            Contender(IRLS, peers.list_irls),
        ),
        goals=(
            goals.faster_than(PANDAS, 25),
            goals.faster_than(NEWTON, 5),
            goals.faster_than(JOBLIB, 3),
            goals.faster_than(IRLS, 4),
            goals.quality_no_worse("objective", [NEWTON], WORST_GAP),
        ),
        prepare=data.zipf,
    )


if __name__ == "__main__":
    harness.main(benchmark)
