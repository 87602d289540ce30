"""A search per group: 12 configurations on 5 folds of 1,000 Zipf groups, and what users would do.

Peers: sixty `train_model` queries, one per configuration and fold, which pack the rows each time
and judge nothing; and pandas' groupby with scikit-learn's GridSearchCV, on a tenth of the groups,
whose seconds are scaled by their rows. The folds differ from GridSearchCV's, so that the mean of
the winners' own metrics is shown for both.

    python scripts/bench/run.py search --rows 2000000
"""

import argparse
import json
import resource
import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.utils._testing import ignore_warnings

import tuskml

D, FOLDS = 28, 5
L2 = [1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-5]
OPTIONS = {"l2": L2, "class_weight": ["balanced", [1, 1]], "folds": FOLDS}


def table(con: Any, rows: int, groups: int) -> None:
    """Rows of groups whose sizes fall as 1/rank, labels by another signal in each group."""
    random = np.random.default_rng(5)
    share = 1 / np.arange(1, groups + 1)
    g = random.choice(groups, rows, p=share / share.sum())
    x = random.normal(size=(rows, D)).astype(np.float32)
    w = random.normal(size=(groups, D)) / np.sqrt(D) * random.uniform(0.2, 2, (groups, 1))
    y = (x * w[g]).sum(axis=1) + random.logistic(size=rows) > 0.5
    con.register("given", pd.DataFrame({"g": g, "y": y} | {f"x{k}": x[:, k] for k in range(D)}))
    features = ", ".join(f"x{k}" for k in range(D))
    con.execute(f"CREATE TABLE t AS SELECT g, y, [{features}]::FLOAT[] AS x FROM given")
    con.unregister("given")


def trained(con: Any, options: dict[str, Any]) -> tuple[float, float]:
    """Wall and processor seconds of one statement."""
    began, used = time.perf_counter(), time.process_time()
    call = f"train_model('logistic', y, x, '{json.dumps(options)}')"
    con.execute(f"CREATE OR REPLACE TABLE r AS SELECT g, {call} AS m FROM t GROUP BY g")
    return time.perf_counter() - began, time.process_time() - used


@ignore_warnings(category=ConvergenceWarning)
def by_pandas(con: Any, groups: int) -> tuple[float, int, dict[int, float]]:
    """Seconds, rows, and the best log loss of each tenth group, by GridSearchCV."""
    frame = con.execute(f"SELECT g, y, x FROM t WHERE g % 10 = 5 AND g < {groups}").df()
    best, began = {}, time.perf_counter()
    for g, part in frame.groupby("g"):
        x, y = np.stack(part["x"].to_numpy()), part["y"].to_numpy()
        if min(y.sum(), (~y).sum()) < FOLDS:
            continue
        grid = {"C": [1 / (l2 * len(y) * 0.8) for l2 in L2], "class_weight": [None, "balanced"]}
        search = GridSearchCV(
            LogisticRegression(max_iter=200),
            grid,
            scoring="neg_log_loss",
            cv=StratifiedKFold(FOLDS),
        )
        best[int(g)] = -float(search.fit(x, y).best_score_)
    return time.perf_counter() - began, len(frame), best


def ours(con: Any, args: argparse.Namespace) -> tuple[float, float]:
    """Prints seconds of the search and of sixty queries, with their memory."""
    configurations = [{"l2": l2, "class_weight": w} for l2 in L2 for w in ("balanced", [1, 1])]
    trained(con, configurations[0])
    single = [trained(con, one) for one in configurations]
    alone = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    search = sorted(trained(con, OPTIONS) for _ in range(args.repeat))[args.repeat // 2]
    whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sixty = [FOLDS * 0.8 * sum(part) for part in zip(*single, strict=True)]
    print(f"{args.rows:,} rows x {D}, {args.groups:,} groups, {len(configurations)} x {FOLDS}")
    print(f"search                {search[0]:8.2f} s  {search[1]:8.2f} s of processors")
    print(
        f"sixty queries         {sixty[0]:8.2f} s  {sixty[1]:8.2f} s, each 4/5 of one on all rows"
    )
    print(f"ratio                 {sixty[0] / search[0]:8.2f}    {sixty[1] / search[1]:8.2f}")
    print(f"peak memory           {whole:8.0f} MB, after one training {alone:.0f} MB")
    return search


def main() -> None:
    """Prints seconds, ratios, memory and the mean of the winners' metrics."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--no-pandas", action="store_true")
    args = parser.parse_args()
    con = tuskml.connect(threads=2)
    table(con, args.rows, args.groups)
    search = ours(con, args)
    if args.no_pandas:
        return
    seconds, rows, best = by_pandas(con, args.groups)
    scaled = seconds * args.rows / rows
    found = {
        g: json.loads(text) for g, text in con.execute("SELECT g, m.trials FROM r").fetchall()
    }
    mine = [found[g]["trials"][found[g]["chosen"]]["metric"] for g in best]
    print(f"pandas, scikit-learn  {scaled:8.2f} s, scaled from {rows:,} rows")
    print(f"ratio                 {scaled / search[0]:8.2f}")
    print(f"mean best log loss    {np.mean(mine):.5f}, theirs {np.mean(list(best.values())):.5f}")


if __name__ == "__main__":
    main()
