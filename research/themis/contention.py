"""Ten schedulers at contentions of 1x, 2x and 4x: figures 3.9 to 3.14 of the thesis. A simulation.

python -m research.themis.contention --seeds 5 --json rows.json --plots docs/images

The same apps run on 256, 128 and 64 GPUs. `load` is the work that arrives over what 256 GPUs do.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from research.themis.runs import (
    AS_IN_THESIS,
    POLICIES,
    Row,
    as_dicts,
    measured,
    simulated,
    spread_out,
)
from research.themis.simulation.bound import least_rho, may_have_incentive
from research.themis.simulation.events import Rules
from research.themis.simulation.generated import searches

WORKERS = (256, 128, 64)
ALL = AS_IN_THESIS | POLICIES


def one(task: tuple[str, int, int, int, float]) -> tuple[Row, list[float], list[float]]:
    """A run: its figures, the rho of all apps, and their placement scores."""
    name, workers, seed, apps, load = task
    specs = searches(apps, load, 256, seed)
    run, seconds = simulated(specs, workers, ALL[name](), seed)
    rho = [app.rho for app in run.apps]
    score = [app.work / (app.spent - app.lost) for app in run.apps]
    return measured(name, workers, seed, run, seconds), rho, score


def table(rows: list[Row]) -> str:
    """Markdown: of each scheduler and size the median over seeds."""
    lines = [
        "| scheduler | GPUs | max rho | its range | p99 | rho <= 1 | <= 1.05 | GPU hours | "
        "lost | hours of an app |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for workers in WORKERS:
        for name in ALL:
            mine = [row for row in rows if (row.policy, row.workers) == (name, workers)]
            if mine:
                lines.append(line(name, workers, mine))
    return "\n".join(lines)


def line(name: str, workers: int, mine: list[Row]) -> str:
    """One line of it."""

    def middle(field: str) -> float:
        return float(np.median([getattr(row, field) for row in mine]))

    most = [row.most for row in mine]
    return (
        f"| {name} | {workers} | {np.median(most):.2f} | {min(most):.2f}..{max(most):.2f} | "
        f"{middle('p99'):.2f} | {middle('within_1'):.0%} | {middle('within_105'):.0%} | "
        f"{middle('gpu_hours'):,.0f} | {middle('lost_hours'):.0f} | {middle('hours'):.1f} |"
    )


def bounds(seeds: int, apps: int, load: float) -> str:
    """Markdown: of each size what no scheduler can do better, medians over seeds."""
    lines = [
        "| GPUs | least greatest rho | its range | most apps with rho <= 1, none above 1.5 |",
        "|---|---|---|---|",
    ]
    restart = Rules().restart
    made = [searches(apps, load, 256, seed) for seed in range(seeds)]
    for workers in WORKERS:
        rho = [least_rho(specs, workers, restart) for specs in made]
        part = [may_have_incentive(specs, workers, restart, 1.5) for specs in made]
        lines.append(
            f"| {workers} | {np.median(rho):.2f} | {min(rho):.2f}..{max(rho):.2f} | "
            f"{np.median(part):.0%} |"
        )
    return "\n".join(lines)


def plots(found: list[Any], folder: Path) -> None:
    """Pictures of it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(15, 4.6))
    colors = dict(zip(POLICIES, plt.get_cmap("tab10").colors, strict=True))
    for name in POLICIES:
        mine = [row for row, _, _ in found if row.policy == name]
        middle = [np.median([r.most for r in mine if r.workers == w]) for w in WORKERS]
        hours = [np.median([r.gpu_hours for r in mine if r.workers == w]) for w in WORKERS]
        style = {"color": colors[name], "lw": 2.5 if name == "Themis" else 1.3, "label": name}
        axes[0].plot([1, 2, 4], middle, marker="o", **style)
        rho = np.sort(
            [x for row, rhos, _ in found if (row.policy, row.workers) == (name, 64) for x in rhos]
        )
        axes[1].plot(rho, np.arange(1, len(rho) + 1) / len(rho), **style)
        axes[2].plot([1, 2, 4], hours, marker="o", **style)
    axes[0].set(yscale="log", xlabel="contention", ylabel="greatest rho, median of seeds")
    axes[0].set_title("Finish-time fairness by contention (fig. 3.14)")
    axes[0].axhline(1, color="gray", lw=0.8)
    axes[1].set(xscale="log", xlim=(0.1, 100), xlabel="rho of an app", ylabel="part of apps")
    axes[1].axvline(1, color="gray", lw=0.8)
    axes[1].set_title("At a contention of 4x (figs. 3.9, 3.10)")
    axes[2].set(xlabel="contention", ylabel="GPU hours for all work")
    axes[2].set_title("GPU time (figs. 3.11, 3.12)")
    for axis in (axes[0], axes[2]):
        axis.set_xticks([1, 2, 4])
    axes[2].legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.suptitle("A simulation: 120 apps, half of them network-intensive")
    figure.tight_layout()
    figure.savefig(folder / "fair_contention.png", dpi=90)


def main() -> None:
    """Runs all, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--apps", type=int, default=120)
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plots", type=Path)
    given = parser.parse_args()
    tasks = [
        (name, workers, seed, given.apps, given.load)
        for workers in reversed(WORKERS)
        for seed in range(given.seeds)
        for name in ALL
    ]
    found = spread_out(one, tasks, given.processes)
    rows = [row for row, _, _ in found]
    print(table(rows))
    print(bounds(given.seeds, given.apps, given.load))
    if given.json:
        given.json.write_text(json.dumps(as_dicts(rows)))
    if given.plots:
        plots(found, given.plots)


if __name__ == "__main__":
    main()
