"""Linear SVMs on features in their own units: scikit-learn's LinearSVC compared with tuskml, in
one run.

python scripts/bench/run.py svm_units --repeat 5

breast_cancer as it is, and wine one class against the rest in five folds (15 fits), with the
penalty of C = 1. LinearSVC (hinge, dual) stops at 1,000 sweeps by default, long before its
tolerance here: it runs with several limits, and `above` is how far its objective, with the
intercept free, ends above the least that any of them reached. Seconds of processors tell more
where the machine is busy with other work. The same on standardised features.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.model_selection import KFold
from sklearn.svm import LinearSVC

import tuskml

Floats = NDArray[np.float64]
Model = tuple[Floats, float]
Fit = tuple[Floats, Floats]
SWEEPS = (1_000, 10_000, 100_000)
EPSILONS = (1e-3, 1e-6)


def fits(name: str, scaled: bool) -> list[Fit]:
    """Features and classes (0 and 1) of all fits of a task."""
    found = list(breast_cancer() if name == "breast_cancer" else wine())
    if not scaled:
        return found
    return [((x - x.mean(axis=0)) / x.std(axis=0), y) for x, y in found]


def breast_cancer() -> Iterator[Fit]:
    """Yields one fit."""
    x, y = load_breast_cancer(return_X_y=True)
    yield x, y.astype(float)


def wine() -> Iterator[Fit]:
    """Yields three classes, each against the rest, in five folds."""
    x, y = load_wine(return_X_y=True)
    for kept, _ in KFold(5, shuffle=True, random_state=0).split(x):
        for one in range(3):
            yield x[kept], (y[kept] == one).astype(float)


def objective(fit: Fit, model: Model) -> float:
    """mean hinge + ||w||^2 / (2 n), at the model's own intercept."""
    (x, y), (w, b) = fit, model
    sign = np.where(y == 1, 1.0, -1.0)
    return float(np.maximum(0.0, 1.0 - sign * (x @ w + b)).mean() + w @ w / (2 * len(y)))


def peer(sweeps: int) -> Callable[[list[Fit]], list[Model]]:
    """LinearSVC with a limit; its intercept is a feature that hardly feels the penalty."""

    def run(all_fits: list[Fit]) -> list[Model]:
        found = []
        for x, y in all_fits:
            made = LinearSVC(loss="hinge", C=1.0, max_iter=sweeps).fit(x, y)
            found.append((made.coef_[0], float(made.intercept_[0])))
        return found

    return run


def tusk(con: Any, epsilon: float) -> Callable[[list[Fit]], list[Model]]:
    """train_model from tables that are there, the algorithm left to it."""

    def run(all_fits: list[Fit]) -> list[Model]:
        found = []
        for number, (_, y) in enumerate(all_fits):
            options = json.dumps({"l2": 1 / len(y), "epsilon": epsilon})
            sql = f"SELECT train_model('svm', y, x, '{options}') FROM t{number}"
            model = con.execute(sql).fetchall()[0][0]
            assert model["status"] == "ok"
            found.append((np.array(model["coef"]), model["intercept"]))
        return found

    return run


def put(con: Any, all_fits: list[Fit]) -> None:
    """A table for each fit."""
    for number, (x, y) in enumerate(all_fits):
        con.register("frame", pd.DataFrame({"y": y, "x": list(x)}))
        con.execute(f"CREATE OR REPLACE TABLE t{number} AS SELECT * FROM frame").fetchall()


def measure(name: str, scaled: bool, repeat: int) -> None:
    """Prints the rows of one task."""
    all_fits = fits(name, scaled)
    con = tuskml.connect()
    put(con, all_fits)
    runs = {f"tuskml, epsilon {epsilon:g}": tusk(con, epsilon) for epsilon in EPSILONS}
    runs |= {f"LinearSVC, {sweeps:,} sweeps": peer(sweeps) for sweeps in SWEEPS}
    seconds: dict[str, list[float]] = {kind: [] for kind in runs}
    worked: dict[str, list[float]] = {kind: [] for kind in runs}
    losses = {}
    for run in runs.values():  # the first call of anything loads something
        run(all_fits[:1])
    for _ in range(repeat):
        for kind, run in runs.items():
            began, busy = time.perf_counter(), time.process_time()
            models = run(all_fits)
            seconds[kind].append(time.perf_counter() - began)
            worked[kind].append(time.process_time() - busy)
            pairs = zip(all_fits, models, strict=True)
            losses[kind] = float(np.mean([objective(*pair) for pair in pairs]))
    least = min(losses.values())
    where = f"{name}, {'standardised' if scaled else 'as it is'}"
    for kind in runs:
        medians = [f"{statistics.median(of[kind]):.4g}" for of in (seconds, worked)]
        cells = [where, kind, *medians, f"{losses[kind]:.6g}", f"{losses[kind] - least:.2g}"]
        print(f"| {' | '.join(cells)} |")


def main() -> None:
    """Runs all tasks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| data | contender | median s | of processors | mean objective | above |")
    print("|---|---|---|---|---|---|")
    for name in ("breast_cancer", "wine"):
        for scaled in (False, True):
            measure(name, scaled, arguments.repeat)


if __name__ == "__main__":
    main()
