"""Figures 3.11 and 3.12: GPU time for the same work, by scheduler. A simulation of 64 GPUs."""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.themis.runs import POLICIES, medians

LEAST = {"Gandiva": ("1.048", 1.048), "SLAQ": ("about 2.5 to 3.5", 2.5)}


def find(scale: float) -> Iterator[Found]:
    """GPU hours of the others over those of Themis."""
    ours = medians(POLICIES["Themis"], 64, scale)["gpu_hours"]
    for name, (paper, least) in LEAST.items():
        ratio = medians(POLICIES[name], 64, scale)["gpu_hours"] / ours
        yield Found(f"GPU time of {name} over that of Themis", paper, ratio, least=least)


if __name__ == "__main__":
    report.main(find, simulated=True)
