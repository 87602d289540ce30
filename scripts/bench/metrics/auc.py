"""auc(label, score) compared with scikit-learn's roc_auc_score, in one group and in many.

python scripts/bench/run.py auc --rows 10000000 --groups 1000 --repeat 3

tuskml reads a table of DuckDB; scikit-learn has NumPy arrays for one group, and a pandas loop over
the groups of a frame for many. Scores are normal, shifted by half of a deviation for the label 1.
Seconds are of the wall clock and, in brackets, of processors. The largest difference is shown.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from named import medians
from sklearn.metrics import roc_auc_score

import tuskml


def frame_of(rows: int, groups: int) -> pd.DataFrame:
    """Labels y, scores s and groups g."""
    random = np.random.default_rng(1)
    y = random.integers(0, 2, rows)
    score = random.normal(size=rows) + 0.5 * y
    return pd.DataFrame({"y": y, "s": score, "g": random.integers(0, groups, rows)})


def main() -> None:
    """Prints medians and the differences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    frame = frame_of(args.rows, args.groups)
    con = tuskml.connect(threads=args.threads)
    con.register("frame", frame)
    con.execute("CREATE TABLE t AS FROM frame")
    found: dict[str, dict[Any, float]] = {}

    def keep(name: str, answer: dict[Any, float]) -> None:
        found[name] = answer

    by_group = "SELECT g, auc(y, s) FROM t GROUP BY g"
    runs: dict[str, Callable[[], object]] = {
        "one": lambda: keep("one", dict(con.execute("SELECT 0, auc(y, s) FROM t").fetchall())),
        "one, scikit-learn": lambda: keep(
            "one, scikit-learn", {0: roc_auc_score(frame.y, frame.s)}
        ),
        "groups": lambda: keep("groups", dict(con.execute(by_group).fetchall())),
        "groups, scikit-learn": lambda: keep(
            "groups, scikit-learn",
            {g: roc_auc_score(part.y, part.s) for g, part in frame.groupby("g")},
        ),
    }
    taken = medians(runs, args.repeat)
    print(f"{args.rows} rows, {args.threads} threads, load {os.getloadavg()[0]:.1f}")
    for name in ("one", "groups"):
        peer = f"{name}, scikit-learn"
        apart = max(abs(found[name][g] - auc) for g, auc in found[peer].items())
        over = taken[peer].over(taken[name])
        print(f"{name}: {taken[name]}, scikit-learn {taken[peer]}, {over} times")
        print(f"    differs by {apart:.1e} at most")


if __name__ == "__main__":
    main()
