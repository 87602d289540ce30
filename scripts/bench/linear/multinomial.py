"""Multinomial logistic regression: scikit-learn's lbfgs compared with tuskml, in one run.

python scripts/bench/run.py multinomial --rows 1000000 --repeat 5

Made rows of 64 float32 features and 10 classes, like digits, with l2 = 0.001. tuskml is called
through SQL on lists, so its time includes the packing. Seconds are of the wall clock and, in
brackets, of processors; objectives are computed in NumPy for both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import duckdb
import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import tuskml

Floats = NDArray[np.float64]
L2 = 0.001


def rows_of(n: int, d: int, k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features with scales from 0.3 to 3, and classes drawn by a softmax model."""
    random = np.random.default_rng(1)
    x = random.normal(size=(n, d)) * np.geomspace(0.3, 3, d)
    margins = x @ (random.normal(size=(d, k)) / np.sqrt(d))
    y = (margins + random.gumbel(size=(n, k))).argmax(axis=1)
    return x.astype(np.float32), y


def objective(x: NDArray[np.float32], y: NDArray[np.int64], w: Floats, b: Floats) -> float:
    """The mean loss and the penalty; w: (K, d)."""
    m = x @ w.T + b
    m -= m.max(axis=1, keepdims=True)
    loss = np.log(np.exp(m).sum(axis=1)) - m[np.arange(len(y)), y]
    return float(loss.mean() + L2 / 2 * (w * w).sum())


def by_tuskml(con: duckdb.DuckDBPyConnection, k: int) -> tuple[Floats, Floats, str]:
    """Weights (K, d), intercepts (K,), and the plan."""
    call = f"train_model('logistic', y, x, '{{\"l2\": {L2}, \"threads\": 2}}')"
    model = con.execute(f"SELECT {call} FROM t").fetchall()[0][0]
    coef = np.array(model["coef"]).reshape(k, -1)
    return coef[:, 1:], coef[:, 0], f"{model['iterations']} iterations, {model['status']}"


def main() -> None:
    """Prints medians, objectives and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    x, y = rows_of(args.rows, args.features, args.classes)
    con = tuskml.connect(threads=2)
    con.register("made", {"y": y, **{f"c{j}": x[:, j] for j in range(x.shape[1])}})
    listed = ", ".join(f"c{j}" for j in range(x.shape[1]))
    con.execute(f"CREATE TABLE t AS SELECT y, [{listed}] AS x FROM made")
    times: dict[str, list[tuple[float, float]]] = {"tuskml": [], "scikit-learn": []}
    found, told = {}, {}
    for _ in range(args.repeat):
        for name, taken in times.items():
            began, used = time.perf_counter(), time.process_time()
            if name == "tuskml":
                *weights, told[name] = by_tuskml(con, args.classes)
            else:
                peer = LogisticRegression(C=1 / (L2 * len(y)), tol=1e-6, max_iter=1000).fit(x, y)
                weights, told[name] = (
                    [peer.coef_, peer.intercept_],
                    f"{peer.n_iter_[0]} iterations",
                )
            taken.append((time.perf_counter() - began, time.process_time() - used))
            found[name] = objective(x, y, *weights)
    print(f"{args.rows:,} x {args.features} x {args.classes}, load {os.getloadavg()[0]:.1f}")
    middle = {n: [statistics.median(t[i] for t in of) for i in (0, 1)] for n, of in times.items()}
    for name, (wall, used) in middle.items():
        print(f"{name:<13} {wall:.2f} s ({used:.2f} s)  {found[name]:.9f}  {told[name]}")
    ratios = [a / b for a, b in zip(middle["scikit-learn"], middle["tuskml"], strict=True)]
    print(f"ratio         {ratios[0]:.2f} ({ratios[1]:.2f})")


if __name__ == "__main__":
    main()
