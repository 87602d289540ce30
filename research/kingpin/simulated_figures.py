"""Tables and pictures of a simulated cluster: figures 3 and 12 of the paper, and beyond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from research.kingpin.approaches import simulated
from research.kingpin.calibrating import Calibrated
from research.kingpin.events import Failures
from tuskml.schedule.placement import (
    Sizes,
    constrained_wrap_around,
    least_makespan,
    rows_by_worker,
    wrap_around,
)
from tuskml.schedule.simulation import Costs, Workload, estimates

CONFIGURATIONS, PASSES = 12, 10
ROWS, GROUPS, LARGEST, WORKERS = 1_400_000_000, 18, 0.25, 4
"""As in appendix E, whose 14 million rows have a hundred times as many features as ours."""
ROW_BYTES, MODEL_BYTES = 44, 96
FAILS_EVERY = 24.0
"""Hours between two failures of one worker."""


def shown(found: Calibrated, plots: Path | None) -> None:
    """Prints all tables; plots: a folder for pictures, or None."""
    costs = found.of(1, 1)
    curves = figure_3(costs)
    constrained = figure_12()
    large = many_workers(costs)
    if plots is not None:
        import plotted

        plotted.axes(curves, plots / "cluster_simulation_axes.png")
        plotted.constrained(constrained, plots / "cluster_simulation_constrained.png")
        plotted.workers(large, plots / "cluster_simulation_workers.png")


def skewed(rows: int, groups: int, largest: float) -> Sizes:
    """Sizes of groups, the largest with its share of the rows and the others with equal ones."""
    sizes = np.full(groups, rows * (1 - largest) / max(groups - 1, 1))
    sizes[0] = rows * largest if groups > 1 else rows
    return np.maximum(sizes, 1).astype(np.int64)


def zipf(rows: int, groups: int, exponent: float = 1.0) -> Sizes:
    """Sizes that fall with the rank."""
    shares = 1 / np.arange(1, groups + 1) ** exponent
    return np.maximum(shares / shares.sum() * rows, 1).astype(np.int64)


def workload(sizes: Sizes) -> Workload:
    """Makes a workload of 10 features in 44 bytes a row."""
    return Workload(sizes, CONFIGURATIONS, PASSES, ROW_BYTES, MODEL_BYTES)


Curves = dict[str, tuple[list[float], dict[str, list[float]]]]
"""By axis: its values, and minutes of each approach."""


def figure_3(costs: Costs) -> Curves:
    """Seconds by the number of groups, of workers, the largest group's share and the rows."""
    axes: dict[str, tuple[Sequence[float], Callable[[float], tuple[Sizes, int]]]] = {
        "workers": ([2, 4, 8, 16, 32, 64], lambda x: (skewed(ROWS, GROUPS, LARGEST), int(x))),
        "groups": (
            [2, 18, 280, 5_000, 100_000],
            lambda x: (skewed(ROWS, int(x), min(LARGEST, 0.999)), WORKERS),
        ),
        "share of the largest group": (
            [0.06, 0.25, 0.5, 0.75, 0.99],
            lambda x: (skewed(ROWS, GROUPS, x), WORKERS),
        ),
        "million rows": (
            [14, 140, 1_400, 14_000],
            lambda x: (skewed(int(x * 1e6), GROUPS, LARGEST), WORKERS),
        ),
    }
    found: Curves = {}
    for axis, (values, make) in axes.items():
        print(f"\n| {axis} | TP | MTP | DP | GAP | simulated TP | DP | GAP |")
        print("|---|---|---|---|---|---|---|---|")
        curves: dict[str, list[float]] = {}
        for value in values:
            sizes, workers = make(value)
            work = workload(sizes)
            by_name = {one.approach: one.seconds for one in estimates(work, workers, costs)}
            runs = {
                f"simulated {name}": simulated(name, work, workers, costs).makespan
                for name in ("TP", "DP", "GAP")
            }
            for name, seconds in (by_name | runs).items():
                curves.setdefault(name, []).append(seconds)
            line = [by_name[name] for name in ("TP", "MTP", "DP", "GAP")] + list(runs.values())
            print(f"| {value:,g} | {' | '.join(f'{x:,.1f}' for x in line)} |")
        found[axis] = list(values), curves
    return found


def figure_12() -> dict[str, list[tuple[int, float, float]]]:
    """The makespan of constrained wrap-around over n / p, the C* of algorithm 2, and that of
    wrap-around over equation 2: 25 draws of log-normal sizes, mean and worst."""
    draw = np.random.default_rng(12)
    found: dict[str, list[tuple[int, float, float]]] = {"groups": [], "workers": []}
    for axis, values in (("groups", (10, 20, 40, 80, 160)), ("workers", (2, 4, 8, 16, 32))):
        print(f"\n| {axis} | constrained, mean | worst | wrap-around |\n|---|---|---|---|")
        for value in values:
            groups, workers = (value, 4) if axis == "groups" else (40, value)
            over, plain = [], []
            for _ in range(25):
                sizes = (draw.lognormal(0, 1, groups) * 500).astype(np.int64) + 1
                each, least = -(-sizes.sum() // workers), least_makespan(sizes, workers)
                over.append(
                    rows_by_worker(constrained_wrap_around(sizes, workers), workers).max() / each
                )
                plain.append(rows_by_worker(wrap_around(sizes, workers), workers).max() / least)
            found[axis].append((value, float(np.mean(over)), float(max(over))))
            print(f"| {value} | {np.mean(over):.3f} | {max(over):.3f} | {max(plain):.3f} |")
    return found


def many_workers(costs: Costs) -> list[dict[str, Any]]:
    """A million groups with 12 configurations, to 10,000 workers, with and without failures."""
    work = workload(zipf(10_000_000_000, 1_000_000))
    print(
        f"\n{work.rows:,} rows in {len(work.sizes):,} groups, the largest with "
        f"{work.sizes.max():,}; each worker fails every {FAILS_EVERY:g} hours"
    )
    print("| workers | approach | seconds | worker-hours | with failures | failures | lost s |")
    print("|---|---|---|---|---|---|---|")
    found = []
    for workers in (10, 100, 1_000, 10_000):
        for name in ("TP", "DP", "GAP"):
            run = simulated(name, work, workers, costs)
            broken = simulated(name, work, workers, costs, Failures(FAILS_EVERY))
            hours = run.worker_hours
            found.append(
                {"workers": workers, "approach": name, "seconds": run.makespan, "hours": hours}
            )
            print(
                f"| {workers:,} | {name} | {run.makespan:,.1f} | {hours:,.2f} | "
                f"{broken.makespan:,.1f} | {broken.failures:,} | {broken.lost:,.1f} |",
                flush=True,
            )
    return found
