"""A search of boosted trees per group: 12 configurations on 5 folds, and LightGBM's ways to do it.

LightGBM trains in a loop over groups, configurations and folds, with one thread, from a Dataset
for each training or from subsets of one Dataset of the group, whose bins its trainings share; the
faster way counts. Both hold out five folds, judge by log loss, and train the winner on all rows.

    python scripts/bench/run.py search_trees --groups 200
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import pandas as pd

import tuskml

TREES, FOLDS, D = 50, 5, 10
LEAVES, RATES = [7, 15, 31], [0.02, 0.05, 0.1, 0.2]
SEARCH = {
    "objective": "logistic",
    "num_leaves": LEAVES,
    "learning_rate": RATES,
    "trees": TREES,
    "folds": FOLDS,
}


def rows_of(groups: int, rows: int) -> tuple[Any, Any, Any]:
    """Groups (n,), float32 features (n, D) and labels (n,)."""
    random = np.random.default_rng(0)
    g = np.repeat(np.arange(groups), rows)
    x = random.normal(size=(len(g), D)).astype(np.float32)
    margin = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2]
    return g, x, (margin + random.logistic(size=len(g)) > 0).astype(float)


def timed(work: Callable[[], float]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds, and the result of the work."""
    began, used = time.perf_counter(), time.process_time()
    found = work()
    return time.perf_counter() - began, time.process_time() - used, found


def ours(con: Any) -> float:
    """The mean of the winners' log losses."""
    call = f"train_model('gbdt', y, x, '{json.dumps(SEARCH)}')"
    con.execute(f"CREATE OR REPLACE TABLE r AS SELECT {call} AS m FROM t GROUP BY g")
    trials = [json.loads(text) for (text,) in con.execute("SELECT m.trials FROM r").fetchall()]
    return float(np.mean([one["trials"][one["chosen"]]["metric"] for one in trials]))


def log_loss(model: Any, x: Any, y: Any) -> float:
    """The mean log loss of a LightGBM model."""
    p = np.clip(model.predict(x), 1e-15, 1 - 1e-15)
    return float(-np.mean(y * np.log(p) + (1 - y) * np.log(1 - p)))


def theirs(g: Any, x: Any, y: Any, share: bool) -> float:
    """Trains by LightGBM; share: whether the trainings of a group share its bins."""
    quiet = {"verbose": -1, "num_threads": 1, "force_col_wise": True, "objective": "binary"}
    best = []
    for k in range(g.max() + 1):
        a, b = x[g == k], y[g == k]
        fold = np.random.default_rng(k).permutation(len(b)) % FOLDS
        whole = lightgbm.Dataset(a, b, params=quiet, free_raw_data=False).construct()
        found = {}
        for leaves in LEAVES:
            for rate in RATES:
                given = quiet | {"num_leaves": leaves, "learning_rate": rate}
                losses = []
                for f in range(FOLDS):
                    kept, out = np.flatnonzero(fold != f), fold == f
                    some = whole.subset(kept.tolist())
                    if not share:
                        some = lightgbm.Dataset(a[kept], b[kept], params=quiet)
                    losses.append(log_loss(lightgbm.train(given, some, TREES), a[out], b[out]))
                found[leaves, rate] = float(np.mean(losses))
        leaves, rate = min(found, key=lambda one: found[one])
        lightgbm.train(quiet | {"num_leaves": leaves, "learning_rate": rate}, whole, TREES)
        best.append(found[leaves, rate])
    return float(np.mean(best))


def main() -> None:
    """Prints seconds and ratios; of LightGBM those of the first groups, scaled."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1000, help="of each group")
    parser.add_argument("--theirs", type=int, default=5, help="groups that LightGBM trains")
    args = parser.parse_args()
    g, x, y = rows_of(args.groups, args.rows)
    con = tuskml.connect(threads=2)
    frame = pd.DataFrame({"g": g, "y": y} | {f"x{k}": x[:, k] for k in range(D)})
    con.register("given", frame)
    features = ", ".join(f"x{k}" for k in range(D))
    con.execute(f"CREATE TABLE t AS SELECT g, y, [{features}]::FLOAT[] AS x FROM given")
    con.execute("SELECT train_model('gbdt', y, x, '{\"trees\": 2}') FROM t")
    mine = timed(lambda: ours(con))
    print(f"{args.groups} groups of {args.rows:,} rows, {os.getloadavg()[0]:.1f} load")
    print(f"tuskml      {mine[0]:8.2f} s  {mine[1]:8.2f} s of processors, log loss {mine[2]:.4f}")
    few = g < args.theirs
    for name, share in (("own bins", False), ("shared bins", True)):
        wall, used, loss = timed(lambda share=share: theirs(g[few], x[few], y[few], share))
        times = args.groups / args.theirs
        print(
            f"{name:11} {wall * times:8.2f} s  {used * times:8.2f} s, log loss {loss:.4f}, "
            f"{wall * times / mine[0]:.1f} and {used * times / mine[1]:.1f} times"
        )


if __name__ == "__main__":
    main()
