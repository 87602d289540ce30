"""Task `auto` beside FLAML and perpetual: one set of rows, the same seconds, one thread each.

python scripts/bench/run.py auto_tasks --seconds 30 --results

FLAML searches its default estimators (LightGBM, XGBoost, CatBoost, forests, extra trees, linear)
for the given seconds. perpetual boosts until its budget of 1 is spent or the seconds are over.
tuskml searches linear models, boosted trees and forests by `tpe`, its time includes the winner's
training. A quarter of the rows judges: log loss of classes, otherwise the root of the mean squared
error. SETS, from small_group_sets.py, were named before anything was tried.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import machine
import numpy as np
import result_files
from contender import TUSKML
from harness import DEFAULT_DATA_DIR
from small_group_sets import REAL, Floats, Rows, rows_of
from small_groups import load, table_of_scores

import tuskml

SETS = (
    "adult",
    "Boston",
    "breast_cancer",
    "cpus",
    "diabetes",
    "diamonds",
    "digits",
    "flights",
    "GermanCredit",
    "randhie",
)
LEAVES = {"log_int": [4, 64]}
TREES = {
    "task": "gbdt",
    "trees": 1000,
    "patience": 20,
    "num_leaves": LEAVES,
    "learning_rate": {"log_uniform": [0.02, 0.2]},
    "feature_fraction": {"uniform": [0.4, 1]},
    "l2": {"log_uniform": [1e-3, 10]},
}
FOREST = {"task": "random_forest", "feature_fraction": {"uniform": [0.2, 1]}}
PENALTY = {"l2": {"log_uniform": [1e-6, 1]}}
FEW_ROWS = 5000
"""Fewer rows are judged by folds, as in FLAML, and trees stop by a share of the others."""
Scores = Callable[[Rows, np.ndarray, np.ndarray, float], Floats]
"""Predictions (n,), or probabilities (n, K), of the held-out rows."""


def by_tuskml(rows: Rows, train: np.ndarray, held: np.ndarray, seconds: float) -> Floats:
    """Scores of the task `auto`."""
    linear, objective = ("logistic", "logistic") if rows.classes else ("linear", "squared")
    options = {
        "tasks": [
            {"task": linear} | PENALTY,
            TREES | {"objective": objective},
            FOREST | {"objective": "gini" if rows.classes else "squared"},
        ],
        "missing": "mean" if np.isnan(rows.x).any() else None,
        "search": {"strategy": "tpe", "trials": 1000, "time": f"{seconds}s"},
        "validation": 0.2,
        "folds": 5 if len(train) < FEW_ROWS else None,
    }
    options = {name: value for name, value in options.items() if value is not None}
    with tuskml.connect(threads=1) as con:
        for name, which in (("t", train), ("h", held)):
            load(con, name, np.zeros(len(which), np.int64), rows, which)
        call = f"train_model('auto', y, x, '{json.dumps(options)}')"
        con.execute(f"CREATE TABLE m AS SELECT {call} AS m FROM t")
        how = "predict_probas" if rows.classes else "predict"
        found = con.execute(f"SELECT {how}(m, x) FROM h, m ORDER BY i").fetchall()
        print("   ", *con.execute("SELECT m.task, m.status FROM m").fetchone())
    return table_of_scores(rows, found)


def by_flaml(rows: Rows, train: np.ndarray, held: np.ndarray, seconds: float) -> Floats:
    """Scores of FLAML."""
    from flaml import AutoML

    search = AutoML()
    search.fit(
        rows.x[train],
        rows.y[train],
        task="classification" if rows.classes else "regression",
        metric="log_loss" if rows.classes else "rmse",
        time_budget=seconds,
        n_jobs=1,
        verbose=0,
        seed=1,
    )
    print("   ", search.best_estimator)
    if not rows.classes:
        return np.asarray(search.predict(rows.x[held]), np.float64)
    return np.asarray(search.predict_proba(rows.x[held]), np.float64)


def by_perpetual(rows: Rows, train: np.ndarray, held: np.ndarray, seconds: float) -> Floats:
    """Scores of perpetual."""
    from perpetual import PerpetualBooster

    objective = "LogLoss" if rows.classes else "SquaredLoss"
    booster = PerpetualBooster(objective=objective, budget=1.0, num_threads=1, timeout=seconds)
    booster.fit(rows.x[train], rows.y[train])
    if not rows.classes:
        return np.asarray(booster.predict(rows.x[held]), np.float64)
    scores = np.asarray(booster.predict_proba(rows.x[held]), np.float64)
    return scores / scores.sum(axis=1, keepdims=True)


CONTENDERS: dict[str, Scores] = {TUSKML: by_tuskml, "FLAML": by_flaml, "perpetual": by_perpetual}


def loss_of(y: Floats, scores: Floats) -> float:
    """The log loss of probabilities, or the root of the mean squared error of numbers."""
    if scores.ndim == 1:
        return float(np.sqrt(np.mean(np.square(scores - y))))
    return float(-np.log(np.clip(scores[np.arange(len(y)), y.astype(int)], 1e-6, 1)).mean())


def main() -> None:
    """Prints the losses and the seconds, and keeps them where --results says so."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--only", default="", help="contenders whose name has one of TEXT,TEXT")
    parser.add_argument("--data-dir", type=Path, default=DEFAULT_DATA_DIR)
    parser.add_argument("--results", action="store_true")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    folder = args.data_dir / "small_groups"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = args.only.split(",")
    chosen = {
        name: call for name, call in CONTENDERS.items() if any(text in name for text in wanted)
    }
    table, ratios = [], []
    for one in (one for one in REAL if one.name in SETS):
        rows = rows_of(one, folder)
        order = np.random.default_rng(1).permutation(len(rows.y))
        cut = len(order) * 3 // 4
        losses, took = [], []
        for name, call in chosen.items():
            began = time.perf_counter()
            scores = call(rows, order[:cut], order[cut:], args.seconds)
            took.append(time.perf_counter() - began)
            losses.append(loss_of(rows.y[order[cut:]], scores))
            print(f"{rows.name}: {name} {losses[-1]:.5g} in {took[-1]:.1f} s", flush=True)
        ratios.append(np.array(losses) / losses[0])
        row = [f"{loss:.5g} ({seconds:.0f} s)" for loss, seconds in zip(losses, took, strict=True)]
        table.append([rows.name, str(cut), *row])
    means = np.exp(np.log(ratios).mean(axis=0))
    table.append(["losses over tuskml's, geometric mean", "", *(f"{mean:.3f}" for mean in means)])
    print(*table, sep="\n")
    if args.results:
        title = f"`auto` over tasks, {args.seconds:g} s and one thread each"
        run = result_files.described("auto_tasks", title, machine.facts())
        about = {"command": f"auto_tasks --seconds {args.seconds:g}"}
        about |= {"comparisons": [], "figures": []}
        shown = {"columns": ["set", "rows", *chosen], "rows": table}
        print(result_files.add(run | about | {"tables": [shown]}))


if __name__ == "__main__":
    main()
