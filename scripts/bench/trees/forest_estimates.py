"""Estimates of random forests by `explain_training`, actual seconds, and scikit-learn's.

python scripts/bench/run.py forest_estimates --threads 2

Forests of numbers and of two classes, of rows from an unknown to the trials up to five times as
many cells as these have. The rows are random; the label is a product of two features, another
feature and noise. scikit-learn's forest has the same trees, depth and drawn features, but splits
between any two values.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import tuskml

SETS = ((400, 10, 100), (5_000, 20, 60), (30_000, 12, 20), (60_000, 28, 8), (150_000, 28, 4))
"""Rows, features and trees."""


def peer(x: Any, y: Any, trees: int, threads: int) -> float:
    """Seconds of scikit-learn's forest."""
    classes = y.dtype == bool
    drawn: Any = "sqrt" if classes else 1 / 3
    kind = RandomForestClassifier if classes else RandomForestRegressor
    began = time.perf_counter()
    kind(trees, max_features=drawn, n_jobs=threads, random_state=0).fit(x, y)
    return time.perf_counter() - began


def asked(con: Any, function: str, classes: bool, options: dict[str, Any]) -> tuple[Any, float]:
    """The answer of a call over the table, and its seconds."""
    label = "y > 2.5" if classes else "y"
    began = time.perf_counter()
    sql = f"SELECT {function}('random_forest', {label}, x, '{json.dumps(options)}') FROM t"
    ((answer,),) = con.execute(sql).fetchall()
    return answer, time.perf_counter() - began


def measure(n: int, d: int, trees: int, threads: int) -> None:
    """Prints a line for numbers and one for classes."""
    rng = np.random.default_rng(n)
    x = rng.random((n, d), dtype=np.float32)
    y = x[:, 0] * x[:, 1] * 10 + x[:, 2] + rng.random(n)
    names = [f"f{j}" for j in range(d)]
    with tuskml.connect(threads=threads) as con:
        con.register("made", {"y": y, **dict(zip(names, x.T.copy(), strict=True))})
        con.execute(f"CREATE TABLE t AS SELECT [{', '.join(names)}] AS x, y FROM made")
        for classes in (False, True):
            options = {"objective": "gini" if classes else "squared", "trees": trees}
            options |= {"threads": threads}
            told, took = asked(con, "explain_training", classes, options | {"format": "json"})
            expected = json.loads(told)["candidates"][0]["seconds"]["point"]
            _, actual = asked(con, "train_model", classes, options)
            theirs = peer(x, y > 2.5 if classes else y, trees, threads)
            print(
                f"{n:>7,} x {d}, {trees} trees, {'classes' if classes else 'numbers'}: expected "
                f"{expected:.2f} s, took {actual:.2f} s, {expected / actual:.2f} times; asking "
                f"took {took:.2f} s; scikit-learn {theirs:.2f} s",
                flush=True,
            )


def main() -> None:
    """Measures all sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    for n, d, trees in SETS:
        measure(n, d, trees, args.threads)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
