"""Lasso by scheduled updates on threads, by schedule: updates, iterations and processor seconds.

python scripts/bench/run.py scheduled_lasso --workers 1,2
python scripts/bench/run.py scheduled_lasso --at-once 32
python scripts/bench/run.py scheduled_lasso --what iteration

`updates` trains with `tuskml.train` to a gap of 1e-4 of the objective without features. `data` is
the number of times that updates and passes over all features have read all columns. `iteration`
measures the schedule alone, for d features of which 100 move.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scheduled_data import Problem, problem

import tuskml
from tuskml.learners.paths import scheduled
from tuskml.learners.paths.options import SCHEDULES
from tuskml.schedule import Prioritised, budget

PARTS = 4


def run_updates(data: Problem, folder: Path, workers: list[int]) -> None:
    """Prints a row for each schedule and number of workers."""
    n, d = data.x.shape
    for place, rows in enumerate(np.array_split(np.arange(n), PARTS)):
        table = pa.table({"x": list(data.x[rows]), "y": data.y[rows]})
        pq.write_table(table, folder / f"{place}.parquet")
    usual = budget.threads
    given = {"lambda": data.penalty / n, "fit_intercept": False, "tol": 1e-4}
    with tuskml.connect() as con:
        for count in workers:
            budget.threads = lambda given=None, count=count: count if given is None else given
            for schedule in SCHEDULES:
                began = time.process_time()
                found = tuskml.train(
                    con,
                    "lasso",
                    source=f"{folder}/*.parquet",
                    label="y",
                    features="x",
                    executor="threads",
                    placement="dp",
                    schedule=schedule,
                    **given,
                )
                seconds = time.process_time() - began
                numbers = re.findall(r"(\d[\d,]*) (iterations|updates|passes)", found.plan)
                told = {name: int(text.replace(",", "")) for text, name in numbers}
                excess = data.objective(np.array(found.coef)) / data.least - 1
                told["data"] = round(told["updates"] / d + told["passes"], 2)
                row = {"workers": count, "schedule": schedule, **told, "excess": excess}
                print(json.dumps(row | {"processor seconds": round(seconds, 2)}), flush=True)
                print(found.plan, flush=True)
    budget.threads = usual


def run_iteration(counts: list[int]) -> None:
    """Prints the milliseconds of a pick and its settling by the number of features."""
    for d in counts:
        order = Prioritised(d, None, 20)
        change = np.zeros(d)
        change[np.random.default_rng(0).choice(d, 100, replace=False)] = 1.0
        order.renew(change)
        began = time.process_time()
        for _ in range(500):
            order.settle(found := order.pick(), np.ones(len(found)))
        milliseconds = (time.process_time() - began) / 500 * 1e3
        print(json.dumps({"features": d, "milliseconds": round(milliseconds, 3)}), flush=True)


def main() -> None:
    """Runs the chosen part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", choices=["updates", "iteration"], default="updates")
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--features", type=int, default=2_000)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--workers", default="1")
    parser.add_argument("--at-once", type=int, default=scheduled.AT_ONCE)
    args = parser.parse_args()
    if args.what == "iteration":
        run_iteration([10**4, 10**5, 10**6])
        return
    scheduled.AT_ONCE = args.at_once
    data = problem(args.rows, args.features, args.share)
    with tempfile.TemporaryDirectory() as folder:
        run_updates(data, Path(folder), [int(one) for one in args.workers.split(",")])


if __name__ == "__main__":
    main()
