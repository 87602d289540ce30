"""The lasso by scheduled updates: progress by data touched, and by time behind a slow network.

python scripts/bench/run.py scheduled_lasso --what updates --json build/updates.json
python scripts/bench/run.py scheduled_lasso --what depth --json build/depth.json
python scripts/bench/run.py scheduled_lasso --what plot --json build --out docs/images

`updates`: 32 to 256 simulated concurrent updates, chosen at random (Shotgun: J. Bradley, A.
Kyrola, D. Bickson and C. Guestrin, Parallel coordinate descent for l1-regularized loss
minimization, ICML 2011), by priority alone, and by priority and dependencies. Prints how many
numbers of the data were read until the objective was within a share of the least one; with
`checked` those that were read for correlations count too. `depth`: seconds to the same, with one
worker behind messages that take a while.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import scheduled_plots
from scheduled_data import Problem, problem
from simulated_workers import Inline, distant

from tuskml.learners.paths.scheduled import Lasso, Rows
from tuskml.schedule import Correlations, Dynamic, Prioritised

GOALS = (1e-1, 1e-2, 1e-3)
"""Differences to the least objective, as shares of it."""
THRESHOLD = 0.9
MOST_PASSES = 200


class Random:
    """Shotgun: any weights, alike."""

    def __init__(self, n: int, at_once: int) -> None:
        self.n, self.at_once, self.random = n, at_once, np.random.default_rng(0)

    def pick(self) -> Any:
        """Different ones."""
        return self.random.choice(self.n, self.at_once, replace=False, shuffle=False)

    def settle(self, places: Any, change: Any, distance: Any) -> None:
        """Keeps nothing."""

    def products(self, places: Any) -> None:
        """Returns None: no products are known."""


class Watch:
    """Notes the objective after updates; `after` of an engine."""

    def __init__(self, data: Problem, order: Any, each: int) -> None:
        self.data, self.order, self.each = data, order, each
        self.touched, self.trace, self.began = 0, [], time.perf_counter()
        settle = order.settle

        def counted(places: Any, change: Any, distance: Any) -> None:
            self.touched += len(places) * len(data.y)
            settle(places, change, distance)

        order.settle = counted

    def after(self, n: int, w: Any) -> bool:
        """Returns whether the last goal is reached, or will not be."""
        if n % self.each:
            return False
        spent = time.perf_counter() - self.began
        excess = self.data.objective(w) / self.data.least - 1
        columns = getattr(self.order, "columns", None)
        read = columns.read * len(self.data.y) if columns else 0
        self.trace.append((self.touched, self.touched + read, spent, excess))
        over = self.touched > MOST_PASSES * self.data.x.size
        return over or excess < GOALS[-1] or not excess < 1e6

    def at(self, goal: float) -> tuple[float, ...] | None:
        """Data touched, the same with correlations, and seconds when the goal was reached."""
        return next((row[:3] for row in self.trace if row[3] < goal), None)


def run_updates(data: Problem, counts: list[int], wanted: list[str]) -> list[dict[str, Any]]:
    """Results by approach and number of concurrent updates."""
    found = []
    d = data.x.shape[1]
    for at_once in counts:
        orders = {
            "random": Random(d, at_once),
            "priority": Prioritised(d, None, at_once),
            "priority and dependencies": Prioritised(
                d, Correlations(data.x, kept=0), at_once, threshold=THRESHOLD
            ),
        }
        for name, order in orders.items():
            if name not in wanted:
                continue
            watch = Watch(data, order, max(1, 2048 // at_once))
            program = Lasso(data.penalty, np.ones(d), order)
            worker = Inline(program, Rows(data.x, data.y))
            Dynamic(10**7, after=watch.after).run(program, np.zeros(d), [0], worker)
            told = {
                "approach": name,
                "at_once": at_once,
                "reached": {f"{goal:g}": watch.at(goal) for goal in GOALS},
                "last": watch.trace[-1],
            }
            print(json.dumps(told), flush=True)
            found.append(told | {"trace": watch.trace[:: max(1, len(watch.trace) // 300)]})
    return found


def run_depth(data: Problem, at_once: int, latency: float, repeat: int) -> list[dict[str, Any]]:
    """Results by depth; the runs take turns."""
    found = []
    d = data.x.shape[1]
    for _ in range(repeat):
        for depth in (1, 2, 3, 4):
            order = Prioritised(d, Correlations(data.x, kept=0), at_once, threshold=THRESHOLD)
            program = Lasso(data.penalty, np.ones(d), order)
            with distant(program, Rows(data.x, data.y), latency) as worker:
                watch = Watch(data, order, 10)
                engine = Dynamic(10**7, depth, watch.after)
                done = engine.run(program, np.zeros(d), [0], worker).iterations
            touched, _, seconds, excess = watch.trace[-1]
            told = {
                "depth": depth,
                "latency": latency,
                "seconds": round(seconds, 3),
                "iterations_per_second": round(done / seconds),
                "passes": round(touched / data.x.size, 2),
                "excess": excess,
            }
            print(json.dumps(told), flush=True)
            found.append(told | {"trace": watch.trace})
    return found


def main() -> None:
    """Runs the chosen part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", choices=["updates", "depth", "plot"], default="updates")
    parser.add_argument("--rows", type=int, default=463)
    parser.add_argument("--features", type=int, default=10_000)
    parser.add_argument("--share", type=float, default=0.1)
    parser.add_argument("--counts", default="32,64,128,256")
    parser.add_argument("--approaches", default="random,priority,priority and dependencies")
    parser.add_argument("--latency", type=float, default=0.001, help="seconds of a message")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    args = parser.parse_args()
    if args.what == "plot":
        scheduled_plots.draw(args.json, args.out)
        return
    data = problem(args.rows, args.features, args.share)
    if args.what == "updates":
        counts = [int(one) for one in args.counts.split(",")]
        found = run_updates(data, counts, args.approaches.split(","))
    else:
        found = run_depth(data, int(args.counts.split(",")[0]), args.latency, args.repeat)
    if args.json:
        args.json.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
