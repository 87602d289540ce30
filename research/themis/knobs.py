"""What f, leases, networks, errors and lies do to Themis: figures 3.15 to 3.19. A simulation.

python -m research.themis.knobs --plots docs/images --json knobs.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from research.themis.runs import POLICIES, simulated, spread_out
from research.themis.simulation.events import Rules
from research.themis.simulation.generated import searches
from research.themis.simulation.policies.themis import Themis

WORKERS, LOAD, APPS = 64, 0.9, 100
"""At a contention of 4x."""
KNOBS, LEASES = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0), (300.0, 600.0, 1200.0, 2400.0)
NETWORKS, ERRORS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), (0.0, 0.05, 0.1, 0.2)
FACTORS = (0.25, 0.5, 0.9, 1.1, 1.34, 2.0, 4.0, 10.0)
LIARS = (12, 25, 38, 50, 62, 75, 88)
Task = tuple[str, Any, int]


def one(task: Task) -> tuple[float, float, dict[int, float]]:
    """The greatest rho, GPU hours, and the seconds of each app."""
    kind, value, seed = task
    rules, policy, network = Rules(), Themis(), 0.5
    if kind == "f":
        policy = Themis(f=value)
    elif kind == "lease":
        rules = Rules(lease=value)
    elif kind == "network":
        name, network = value
        policy = POLICIES[name]()
    elif kind == "error":
        draw = np.random.default_rng(seed + 1)
        wrong = 1 + draw.uniform(-value, value, APPS)
        policy = Themis(errors=dict(enumerate(wrong.tolist())))
    elif kind in ("lie", "unaudited"):
        liar, factor, world = value
        policy = Themis(said={liar: factor}, audited=kind == "lie")
        run, _ = simulated(searches(APPS, LOAD, 256, world), WORKERS, policy, seed, rules)
        return 0.0, 0.0, {app.number: app.ended - app.arrival for app in run.apps}
    run, _ = simulated(searches(APPS, LOAD, 256, seed, network), WORKERS, policy, seed, rules)
    most = max(app.rho for app in run.apps)
    return most, sum(app.spent for app in run.apps) / 3600, {}


def swept(kind: str, values: Any, seeds: int, processes: int) -> dict[Any, tuple[float, float]]:
    """Returns the median of the greatest rho, and GPU hours, for each value."""
    tasks = [(kind, value, seed) for value in values for seed in range(seeds)]
    found = spread_out(one, tasks, processes)
    by: dict[Any, Any] = {}
    for (_, value, _), (most, hours, _) in zip(tasks, found, strict=True):
        by.setdefault(value, []).append((most, hours))
    return {value: tuple(np.median(pairs, axis=0).tolist()) for value, pairs in by.items()}


def lies(kind: str, seeds: int, processes: int, liars: Any = LIARS) -> dict[float, list[float]]:
    """Returns for each factor by how much each liar ends earlier, over the mean of several draws
    of what is left over, as a part of the seconds that it takes if it tells the truth.
    """
    tasks = [
        (kind, (liar, factor, 0), seed)
        for liar in liars
        for factor in (1.0, *FACTORS)
        for seed in range(seeds)
    ]
    found = spread_out(one, tasks, processes)
    took: dict[tuple[int, float], list[float]] = {}
    for (_, (liar, factor, _), _), (_, _, seconds) in zip(tasks, found, strict=True):
        took.setdefault((liar, factor), []).append(seconds[liar])
    mean = {key: float(np.mean(seconds)) for key, seconds in took.items()}
    return {
        factor: [1 - mean[liar, factor] / mean[liar, 1.0] for liar in liars] for factor in FACTORS
    }


def plots(found: dict[str, Any], folder: Path) -> None:
    """Pictures of it."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(15, 8.4))
    for axis, kind, label in (
        (axes[0, 0], "f", "f: the part of apps that does not bid"),
        (axes[0, 1], "lease", "seconds of a lease"),
    ):
        values = sorted(found[kind])
        axis.plot(values, [found[kind][v][0] for v in values], marker="o", color="C0")
        axis.set(xlabel=label, ylabel="greatest rho")
        other = axis.twinx()
        other.plot(values, [found[kind][v][1] for v in values], marker="s", ls="--", color="C1")
        other.set_ylabel("GPU hours (dashed)")
        axis.set_title("fig. 3.19")
    for name in dict.fromkeys(name for name, _ in found["network"]):
        pairs = sorted((part, v) for (which, part), v in found["network"].items() if which == name)
        for axis, place in ((axes[0, 2], 0), (axes[1, 0], 1)):
            axis.plot([p for p, _ in pairs], [v[place] for _, v in pairs], marker="o", label=name)
    axes[0, 2].set(xlabel="network-intensive apps", ylabel="greatest rho", yscale="log")
    axes[0, 2].set_title("fig. 3.15")
    axes[1, 0].set(xlabel="network-intensive apps", ylabel="GPU hours", title="fig. 3.16")
    axes[0, 2].legend(fontsize=8)
    values = sorted(found["error"])
    axes[1, 1].plot(values, [found["error"][v][0] for v in values], marker="o")
    axes[1, 1].set(xlabel="error of an app's estimates", ylabel="greatest rho", ylim=(0, None))
    axes[1, 1].set_title("fig. 3.17")
    for kind, color in (("lie", "C0"), ("unaudited", "C3")):
        if found.get(kind):
            factors = sorted(found[kind])
            mean = [100 * np.mean(found[kind][k]) for k in factors]
            axes[1, 2].plot(factors, mean, marker="o", color=color, label=kind)
    axes[1, 2].set(xscale="log", xlabel="factor by which rho is overstated")
    axes[1, 2].set(ylabel="% that the liar ends earlier", title="fig. 3.18: lies", ylim=(-60, 60))
    axes[1, 2].axhline(2, color="gray", lw=0.8)
    axes[1, 2].legend(["claims are audited", "not audited (as in the thesis)", "2 %"])
    figure.suptitle("A simulation: Themis at a contention of 4x")
    figure.tight_layout()
    figure.savefig(folder / "fair_knobs.png", dpi=90)


def main() -> None:
    """Runs all, prints what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plots", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {}
    networks = [
        (name, part) for name in ("Themis", "Gavel", "Tiresias", "Gandiva") for part in NETWORKS
    ]
    for kind, values in (
        ("f", KNOBS),
        ("lease", LEASES),
        ("error", ERRORS),
        ("network", networks),
    ):
        found[kind] = swept(kind, values, given.seeds, given.processes)
        print(
            kind,
            {key: tuple(round(x, 2) for x in v) for key, v in found[kind].items()},
            flush=True,
        )
    for kind in ("lie", "unaudited"):
        found[kind] = lies(kind, given.seeds, given.processes)
        for factor, gains in found[kind].items():
            each = " ".join(f"{100 * gain:.1f}" for gain in gains)
            print(f"{kind} {factor}: mean {100 * np.mean(gains):.2f} %, each {each}", flush=True)
    if given.plots:
        plots(found, given.plots)
    if given.json:
        given.json.write_text(json.dumps({kind: str(value) for kind, value in found.items()}))


if __name__ == "__main__":
    main()
