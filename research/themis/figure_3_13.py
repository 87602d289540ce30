"""Figure 3.13: the median placement score, by scheduler. A simulation of 64 GPUs."""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.themis.figure_3_9 import BASELINES
from research.themis.runs import POLICIES, medians


def find(scale: float) -> Iterator[Found]:
    """Scores of Themis, and of the others less that."""
    ours = medians(POLICIES["Themis"], 64, scale)["placement"]
    yield Found("median placement score of Themis", "near 1", ours, least=0.95)
    for name in BASELINES:
        less = medians(POLICIES[name], 64, scale)["placement"] - ours
        yield Found(f"{name} less that", "below 0", less, "{:+.3f}", most=0.0)


if __name__ == "__main__":
    report.main(find, simulated=True)
