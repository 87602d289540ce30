"""Pictures of the record of `planner.py`, after figures 6 to 9 of Kaoudi et al., SIGMOD 2017."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

COLOURS = {
    "newton": "#1f77b4",
    "newton_cg": "#17becf",
    "lbfgs": "#ff7f0e",
    "bgd": "#2ca02c",
    "dcd": "#bcbd22",
    "svrg": "#9467bd",
    "mgd": "#8c564b",
    "sgd": "#d62728",
    "hogbatch": "#e377c2",
    "hogwild": "#7f7f7f",
}


def draw(record: dict[str, Any], folder: Path, name: str = "planner") -> None:
    """Draws all pictures of a record, with `name` as the prefix of files."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = record["cases"]
    against(cases, "iterations", folder / f"{name}_iterations.png")
    against(cases, "each", folder / f"{name}_cost.png")
    choices([case for case in cases if case.get("long", True)], folder / f"{name}_choice.png")
    if record["peers"]:
        beside(record["peers"], folder / f"{name}_scikit_learn.png")


def points(cases: list[dict[str, Any]], what: str, name: str) -> tuple[list[float], list[float]]:
    """Seen and estimated figures of a family."""
    seen, expected = [], []
    for case in cases:
        one = case["families"].get(name)
        if one is None or not one[what]:
            continue
        by = 1e3 if what == "each" else 1.0
        seen.append(one[what] * by)
        expected.append(max(one["told"][what], 1 if what == "iterations" else 1e-9) * by)
    return seen, expected


def against(cases: list[dict[str, Any]], what: str, path: Path) -> None:
    """Draws estimates over actual values, by family, both on logarithmic axes."""
    figure, axes = plt.subplots(figsize=(6, 5.4))
    every: list[float] = []
    for name, colour in COLOURS.items():
        seen, expected = points(cases, what, name)
        axes.scatter(seen, expected, s=22, color=colour, label=name, alpha=0.75, linewidths=0)
        every += seen + expected
    ends = np.array([min(every) / 1.3, max(every) * 1.3])
    factor = 2.0 if what == "iterations" else 1.2
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.fill_between(ends, ends / factor, ends * factor, color="black", alpha=0.08, linewidth=0)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    words = "iterations" if what == "iterations" else "milliseconds of an iteration"
    axes.set(xlabel=f"{words}, seen", ylabel=f"{words}, estimated")
    axes.set_title(f"Shaded: within {factor:g}x", fontsize=10)
    axes.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def choices(cases: list[dict[str, Any]], path: Path) -> None:
    """Best, chosen and worst plan by data set and tolerance, a panel a task."""
    tasks = list(dict.fromkeys(case["task"] for case in cases))
    most = max(sum(case["task"] == task for case in cases) for task in tasks)
    figure, panels = plt.subplots(
        len(tasks), 1, figsize=(max(7.0, 0.36 * most + 2), 3.1 * len(tasks)), squeeze=False
    )
    for axes, task in zip(panels[:, 0], tasks, strict=True):
        some = [case for case in cases if case["task"] == task]
        at = np.arange(len(some))
        for offset, key, colour, label in (
            (-0.27, "best_seconds", "#2ca02c", "best plan"),
            (0.0, "auto_seconds", "#1f77b4", "auto, planning included"),
            (0.27, "worst_seconds", "#c7c7c7", "worst plan that converged"),
        ):
            heights = [case[key] * 1e3 for case in some]
            axes.bar(at + offset, heights, 0.27, color=colour, label=label)
        names = [f"{case['data']} {case['epsilon']:g}" for case in some]
        axes.set_xticks(at, names, rotation=60, ha="right", fontsize=7)
        axes.set(yscale="log", ylabel="ms", title=task)
        axes.margins(x=0.01)
    panels[0, 0].legend(fontsize=8, frameon=False, ncol=3)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def beside(lines: list[dict[str, Any]], path: Path) -> None:
    """Seconds to scikit-learn's loss."""
    known = [line for line in lines if line["peer_seconds"] is not None]
    figure, axes = plt.subplots(figsize=(max(6.0, 0.55 * len(known) + 1.5), 4.2))
    at = np.arange(len(known))
    theirs = [line["peer_seconds"] * 1e3 for line in known]
    axes.bar(at - 0.2, theirs, 0.4, color="#ff7f0e", label="scikit-learn, rows in memory")
    ours = [line["seconds"] * 1e3 for line in known]
    axes.bar(at + 0.2, ours, 0.4, color="#1f77b4", label="tuskml auto, the whole query")
    for place, line in zip(at, known, strict=True):
        if not line["reached"]:
            axes.annotate("loss higher", (place + 0.2, line["seconds"] * 1e3), fontsize=6)
    names = [f"{line['data']}\n{line['task']}" for line in known]
    axes.set_xticks(at, names, rotation=60, ha="right", fontsize=7)
    axes.set(yscale="log", ylabel="ms to the same loss")
    axes.legend(fontsize=8, frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
