"""Boosted trees of groups whose sizes follow Zipf's law, compared with LightGBM's ways to train
them.

python scripts/bench/run.py zipf_trees --rows 2000000 --groups 1000

Group k has rows in proportion to 1 / k and 28 float32 features. LightGBM trains in a loop over
slices of the rows, which are ordered by group beforehand, outside the time: from a Dataset per
group, or from subsets of one Dataset, whose bins all groups share. It uses as many threads as
tuskml, or one; the fastest way counts. tuskml trains from a table in DuckDB.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import lightgbm
import numpy as np
from boosting import Times, lightgbm_of, rows_of, show, table, timed

import tuskml

TREES, LEAVES = 50, 15


def sizes_of(rows: int, groups: int) -> Any:
    """Rows of each group, at least 40."""
    share = 1 / np.arange(1, groups + 1)
    return np.maximum((rows * share / share.sum()).astype(int), 40)


def by_subsets(x: Any, y: Any, slices: list[slice], threads: int) -> list[Any]:
    """Models of subsets of one Dataset."""
    quiet = {"verbose": -1, "num_threads": threads}
    whole = lightgbm.Dataset(x, y, params=quiet, free_raw_data=False).construct()
    given = quiet | {"objective": "binary", "num_leaves": LEAVES, "force_col_wise": True}
    return [
        lightgbm.train(given, whole.subset(list(range(one.start, one.stop))), TREES)
        for one in slices
    ]


def main() -> None:
    """Prints times and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--groups", type=int, default=50)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args()
    sizes = sizes_of(args.rows, args.groups)
    ends = np.cumsum(sizes)
    slices = [slice(int(end - size), int(end)) for end, size in zip(ends, sizes, strict=True)]
    x, y = rows_of(int(ends[-1]), 28)
    options = (
        f'{{"objective": "logistic", "trees": {TREES}, "num_leaves": {LEAVES}, '
        f'"threads": {args.threads}}}'
    )
    trained = f"SELECT g, train_model('gbdt', y, x, '{options}') AS m FROM t GROUP BY g"
    ours = f"CREATE OR REPLACE TABLE m AS {trained}"
    print(f"load {os.getloadavg()[0]:.1f}")
    with tuskml.connect(threads=args.threads) as con:
        table(con, "t", x, y=y, g=np.repeat(np.arange(args.groups), sizes))

        def loop(threads: int) -> list[Any]:
            return [lightgbm_of(x[s], y[s], TREES, LEAVES, threads, False) for s in slices]

        calls = {
            "tuskml": lambda: con.execute(ours).fetchall(),
            "a Dataset per group": lambda: loop(args.threads),
            "subsets": lambda: by_subsets(x, y, slices, args.threads),
        }
        if args.threads > 1:
            calls["one thread"] = lambda: loop(1)
        times: dict[str, Times] = {name: [] for name in calls}
        for _ in range(args.repeat):
            for name, call in calls.items():
                timed(call, times[name])
    print(f"{args.groups} groups of {sizes.min()} to {sizes.max():,} rows, {len(x):,} x 28")
    show(times, dict.fromkeys(times, ""))
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
