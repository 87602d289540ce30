"""rolling_model over frames of a window compared with polars_ols (pip install polars-ols).

python scripts/bench/run.py rolling --rows 1000000 --features 20 --window 250 --repeat 3

tuskml reads a table of DuckDB, and its models have standard errors, losses and payloads;
polars_ols has columns in memory, and gives coefficients. Seconds are of the wall clock and, in
brackets, of processors. The largest difference of coefficients in the last 1,000 rows is shown,
and what DuckDB takes for the mean of the labels over the same frames.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import polars_ols  # noqa: F401, registers `least_squares`
import pyarrow as pa
from named import medians

import tuskml

LAST = 1000


def main() -> None:
    """Prints medians and the difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--window", type=int, default=250)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    random = np.random.default_rng(1)
    x = random.normal(size=(args.rows, args.features))
    y = x @ random.normal(size=args.features) + random.normal(size=args.rows)
    names = [f"x{j}" for j in range(args.features)]
    frame = pl.DataFrame(x, schema=names).with_columns(pl.Series("y", y))
    con = tuskml.connect(threads=args.threads)
    lists = pa.FixedSizeListArray.from_arrays(x.ravel(), args.features)
    con.register("given", pa.table({"i": np.arange(args.rows), "y": y, "x": lists}))
    con.execute("CREATE TABLE t AS SELECT i, y, CAST(x AS DOUBLE[]) AS x FROM given")
    found: dict[str, Any] = {}

    def ours(frames: str) -> Callable[[], object]:
        rolled = f"SELECT i, rolling_model(y, x) OVER (ORDER BY i ROWS {frames}) AS m FROM t"
        query = f"CREATE OR REPLACE TABLE r AS SELECT i, m.coef AS c FROM ({rolled})"
        return lambda: con.execute(query)

    def mean() -> None:
        over = f"OVER (ORDER BY i ROWS {args.window - 1} PRECEDING)"
        con.execute(f"CREATE OR REPLACE TABLE means AS SELECT i, avg(y) {over} AS m FROM t")

    def theirs() -> None:
        label: Any = pl.col("y")
        rolled = label.least_squares.rolling_ols(
            *map(pl.col, names),
            window_size=args.window,
            min_periods=args.features + 1,
            add_intercept=True,
            mode="coefficients",
        )
        found["polars_ols"] = frame.select(rolled)

    runs = {
        "expanding": ours("UNBOUNDED PRECEDING"),
        "rolling": ours(f"{args.window - 1} PRECEDING"),
        "polars_ols": theirs,
        "avg": mean,
    }
    taken = medians(runs, args.repeat)
    print(f"{args.rows} rows, {args.threads} threads, load {os.getloadavg()[0]:.1f}")
    for name, seconds in taken.items():
        print(f"{name}: {seconds}")
    over = taken["polars_ols"].over(taken["rolling"])
    print(f"polars_ols takes {over} times as long as rolling")
    answer = con.execute(f"SELECT c FROM r WHERE i >= {args.rows - LAST} ORDER BY i").fetchall()
    truth = found["polars_ols"].tail(LAST).unnest("coefficients").select(names).to_numpy()
    print(f"differs by {np.abs(np.array([c for (c,) in answer]) - truth).max():.1e} at most")


if __name__ == "__main__":
    main()
