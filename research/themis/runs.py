"""Simulations of apps that share a cluster: what all figures of fairness use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from research.themis.simulation.apps import Spec
from research.themis.simulation.events import Outcome, Rules, Simulation
from research.themis.simulation.generated import searches
from research.themis.simulation.machines import mixed
from research.themis.simulation.policies import levels, orders
from research.themis.simulation.policies.themis import Themis

POLICIES: dict[str, Callable[[], Any]] = {
    "Themis": Themis,
    "Gavel": levels.Gavel,
    "Shockwave": lambda: levels.shockwave,
    "DRF": lambda: levels.drf,
    "Tiresias": lambda: orders.tiresias,
    "SRSF": lambda: orders.srsf,
    "SRTF": lambda: orders.srtf,
    "SLAQ": lambda: levels.slaq,
    "Optimus": lambda: levels.optimus,
    "Gandiva": lambda: orders.gandiva,
}
AS_IN_THESIS: dict[str, Callable[[], Any]] = {
    "Themis, thesis": lambda: Themis(stay=0.0, random=True),
}
"""Without what this project changes."""
FAIR = ("Themis", "Gavel", "Shockwave", "DRF", "Tiresias")
"""Those with some notion of fairness among apps."""


@dataclass(frozen=True)
class Row:
    """The figures of one run: the greatest rho and its 99th percentile and median, the part of
    apps with a rho of at most 1 and 1.05, hours of GPUs held and lost in restarts, mean hours of
    an app, the median placement score (work over GPU time without restarts), and seconds of the
    simulation.
    """

    policy: str
    workers: int
    seed: int
    most: float
    p99: float
    median: float
    within_1: float
    within_105: float
    gpu_hours: float
    lost_hours: float
    hours: float
    placement: float
    allocations: int
    seconds: float


def measured(name: str, workers: int, seed: int, run: Outcome, seconds: float) -> Row:
    """The figures of a run."""
    rho = np.array([app.rho for app in run.apps])
    score = np.array([app.work / (app.spent - app.lost) for app in run.apps])
    return Row(
        name,
        workers,
        seed,
        float(rho.max()),
        float(np.quantile(rho, 0.99)),
        float(np.median(rho)),
        float((rho <= 1.0).mean()),
        float((rho <= 1.05).mean()),
        sum(app.spent for app in run.apps) / 3600,
        sum(app.lost for app in run.apps) / 3600,
        float(np.mean([app.ended - app.arrival for app in run.apps])) / 3600,
        float(np.median(score)),
        run.allocations,
        seconds,
    )


def simulated(
    specs: Sequence[Spec], workers: int, policy: Any, seed: int, rules: Rules | None = None
) -> tuple[Outcome, float]:
    """A run, and the seconds that it took."""
    began = time.perf_counter()
    run = Simulation(specs, mixed(workers), policy, rules or Rules(), seed).ran()
    return run, time.perf_counter() - began


def medians(
    make: Callable[[], Any],
    workers: int,
    scale: float,
    *,
    network: float = 0.5,
    rules: Rules | None = None,
) -> dict[str, float]:
    """The medians over seeds of the figures of a policy, which `make` returns anew for each seed.

    Five seeds of 80 apps at a scale of 1; `network`: the part of network-intensive apps.
    """
    rows = []
    for seed in range(max(1, round(5 * scale))):
        specs = searches(max(20, round(80 * min(scale, 1.0))), 0.9, 256, seed, network)
        run, seconds = simulated(specs, workers, make(), seed, rules)
        rows.append(asdict(measured("", workers, seed, run, seconds)))
    return {
        name: float(np.median([row[name] for row in rows])) for name in rows[0] if name != "policy"
    }


def spread_out(work: Callable[[Any], Any], tasks: Iterable[Any], processes: int) -> list[Any]:
    """The results in order, by a given number of processes."""
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(work, tasks, chunksize=1))


def as_dicts(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(row) for row in rows]
