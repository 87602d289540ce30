"""Figures 3.9 and 3.10: the greatest rho of an app, by scheduler. A simulation of 64 GPUs."""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.themis.runs import POLICIES, medians

BASELINES = ("Gandiva", "SLAQ", "Tiresias", "Optimus")
"""Those of the thesis; DRF is its starting point."""


def find(scale: float) -> Iterator[Found]:
    """Themis, and how much larger the greatest rho of others is."""
    ours = medians(POLICIES["Themis"], 64, scale)["most"]
    yield Found("greatest rho of Themis", "near 1", ours, most=1.2)
    for name in BASELINES:
        ratio = medians(POLICIES[name], 64, scale)["most"] / ours
        yield Found(f"{name} over it", "2.2 to 3.25", ratio, least=2.2)
    ratio = medians(POLICIES["DRF"], 64, scale)["most"] / ours
    yield Found("DRF over it", "above 1", ratio, least=1.05)


if __name__ == "__main__":
    report.main(find, simulated=True)
