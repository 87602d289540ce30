"""Seconds of an auction at 256 workers, payments included: the thesis' solver takes 354 ms.

python -m research.themis.solver

Tables are those of the simulation: apps of `searches` that have waited, on machines with 8, 4 and
1 GPUs that are all free. The goal is 350 ms.
"""

from __future__ import annotations

import time

import numpy as np

from research.themis.pieces import capacity
from research.themis.simulation.generated import searches
from research.themis.simulation.machines import mixed
from research.themis.simulation.policies.themis import bid_of
from research.themis.simulation.running import Running, View
from tuskml.schedule.fair.auction import partial_allocation
from tuskml.schedule.fair.solving import exactly, greedily

REPEATS = 15


def tables(bidders: int, seed: int, workers: int = 256) -> list:
    """Bids of a given number of apps."""
    draw = np.random.default_rng(seed)
    specs = searches(bidders * 5, 1.0, workers, seed)
    picked = draw.permutation(len(specs))[:bidders].tolist()
    now = max(spec.arrival for spec in specs) + 600.0
    apps = [Running(number, specs[number], specs[number].arrival, 0.0) for number in picked]
    room = np.array(mixed(workers).sizes)
    crowd = now * bidders * 5 / 2
    view = View(now, apps, workers, capacity(room).tolist(), workers, crowd, 600.0, draw)
    return [bid_of(view, app, app.spec.work) for app in apps]


def main() -> None:
    """Prints a table."""
    print("| bidders | bundles | exact, median ms | most ms | steps, median ms | product lost |")
    print("|---|---|---|---|---|---|")
    room = capacity(np.array(mixed(256).sizes))
    for bidders in (4, 8, 12, 16, 24, 32, 48):
        took: dict[str, list[float]] = {"exact": [], "steps": []}
        lost, bundles = [], []
        for seed in range(REPEATS):
            bids = tables(bidders, seed)
            totals = []
            for name, solver in (("exact", exactly), ("steps", greedily)):
                began = time.perf_counter()
                partial_allocation(bids, room, solver)
                took[name].append(1e3 * (time.perf_counter() - began))
                totals.append(solver([bid.bundles() for bid in bids], room).total)
            lost.append(1 - np.exp(totals[1] - totals[0]))
            bundles.append(sum(len(bid.rho) for bid in bids))
        print(
            f"| {bidders} | {np.median(bundles):.0f} | {np.median(took['exact']):.0f} | "
            f"{max(took['exact']):.0f} | {np.median(took['steps']):.1f} | {np.max(lost):.1%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
