"""Pictures of a simulated cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

TITLE = "a simulation, calibrated by runs on 2 cores"


def axes(curves: Mapping[str, Any], path: Path) -> None:
    """Seconds of each approach along four axes."""
    figure, parts = plt.subplots(2, 2, figsize=(9, 6.5))
    for part, (name, (values, by_approach)) in zip(parts.flat, curves.items(), strict=True):
        for approach, seconds in by_approach.items():
            if approach.startswith("simulated "):
                continue
            part.plot(values, seconds, marker="o", label=approach)
            points = by_approach.get(f"simulated {approach}")
            if points is not None:
                part.plot(values, points, "kx", markersize=5)
        part.set(xlabel=name, ylabel="seconds", yscale="log")
        if not name.startswith("share"):
            part.set_xscale("log")
            part.set_xticks(values, [f"{value:,g}" for value in values])
            part.minorticks_off()
    parts.flat[0].legend(fontsize=8)
    saved(figure, f"By formulas (lines) and by events (x): {TITLE}", path)


def constrained(found: Mapping[str, Sequence[tuple[int, float, float]]], path: Path) -> None:
    """The makespan of constrained wrap-around over the least one."""
    figure, parts = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    for part, (name, points) in zip(parts, found.items(), strict=True):
        values, mean, worst = zip(*points, strict=True)
        part.plot(values, mean, marker="o", label="mean of 25 draws")
        part.plot(values, worst, marker="v", label="worst of 25 draws")
        part.axhline(1, color="black", linewidth=0.8)
        part.set(xlabel=name, xscale="log")
        part.set_xticks(values, [f"{value:g}" for value in values])
        part.minorticks_off()
    parts[0].set_ylabel("makespan / least makespan")
    parts[0].legend(fontsize=8)
    saved(figure, "Constrained wrap-around", path)


def workers(found: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Seconds and worker-hours by the number of workers."""
    figure, parts = plt.subplots(1, 2, figsize=(9, 3.6))
    for approach in dict.fromkeys(one["approach"] for one in found):
        mine = [one for one in found if one["approach"] == approach]
        n = [one["workers"] for one in mine]
        for part, what in zip(parts, ("seconds", "hours"), strict=True):
            part.plot(n, [one[what] for one in mine], marker="o", label=approach)
    for part, name in zip(parts, ("seconds", "worker-hours"), strict=True):
        part.set(xlabel="workers", ylabel=name, xscale="log", yscale="log")
    parts[0].legend(fontsize=8)
    saved(figure, f"A million groups, 12 configurations: {TITLE}", path)


def saved(figure: Any, title: str, path: Path) -> None:
    """Writes the picture."""
    figure.suptitle(title, fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)
