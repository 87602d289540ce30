"""Pictures of the lasso by scheduled updates."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

STYLES = {"random": "C3", "priority": "C0", "priority and dependencies": "C2"}


def draw(folder: Path, out: Path) -> None:
    """Draws `updates.json` and `depth.json` of a folder."""
    updates(json.loads((folder / "updates.json").read_text()), out / "scheduled_updates.png")
    depth(json.loads((folder / "depth.json").read_text()), out / "scheduled_depth.png")


def updates(found: list[dict], path: Path) -> None:
    """The objective by data touched, one part per number of concurrent updates."""
    counts = sorted({one["at_once"] for one in found})
    figure, parts = plt.subplots(1, len(counts), figsize=(3 * len(counts), 3.4), sharey=True)
    for part, count in zip(parts, counts, strict=True):
        for one in found:
            if one["at_once"] == count:
                x, y = ([row[k] for row in one["trace"]] for k in (0, 3))
                part.plot(x, y, STYLES[one["approach"]], label=one["approach"])
        part.set(xscale="log", yscale="log", title=f"{count} at once", xlabel="numbers read")
        part.set_ylim(5e-4, 1e2)
    parts[0].set_ylabel("objective above the least, relative")
    parts[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def depth(found: list[dict], path: Path) -> None:
    """The objective by time, one line per depth; the first run of each."""
    figure, part = plt.subplots(figsize=(5, 3.4))
    for one in {one["depth"]: one for one in reversed(found)}.values():
        x, y = ([row[k] for row in one["trace"]] for k in (2, 3))
        part.plot(x, y, label=f"depth {one['depth']}")
    part.set(yscale="log", xlabel="seconds", ylabel="objective above the least, relative")
    handles, labels = part.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=labels.__getitem__)
    part.legend([handles[k] for k in order], [labels[k] for k in order])
    figure.tight_layout()
    figure.savefig(path, dpi=110)
