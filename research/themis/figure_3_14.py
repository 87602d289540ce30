"""Figure 3.14: the greatest rho as the cluster shrinks from 256 GPUs to 64. A simulation."""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.themis.contention import WORKERS
from research.themis.runs import POLICIES, medians


def find(scale: float) -> Iterator[Found]:
    """Themis, which shares fairly at each contention, beside the least of the thesis' others."""
    for workers in WORKERS:
        at = f"at {256 // workers}x contention"
        ours = medians(POLICIES["Themis"], workers, scale)["most"]
        yield Found(f"greatest rho of Themis {at}", "near 1", ours, most=1.2)
        others = ("SRSF", "Tiresias", "Gandiva", "SLAQ", "Optimus")
        least = min(medians(POLICIES[name], workers, scale)["most"] for name in others)
        yield Found(f"least of the others {at}", "above it", least / ours, "{:.2f} of it", 1.0)


if __name__ == "__main__":
    report.main(find, simulated=True)
