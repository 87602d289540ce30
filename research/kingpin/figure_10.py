"""Figure 10: speed-ups by workers. A simulation with costs that were measured on Ray."""

from collections.abc import Iterator
from pathlib import Path

from research import report
from research.kingpin.approaches import simulated
from research.kingpin.cluster_simulation import read
from research.kingpin.simulated_figures import GROUPS, LARGEST, ROWS, skewed, workload
from research.report import Found


def find(scale: float) -> Iterator[Found]:
    """From 2 workers to 8: Kingpin and MTP gain, GTP is bound by the largest group."""
    costs = read(Path(__file__).parent / "cluster_costs.json").of(1, 1)
    work = workload(skewed(ROWS, GROUPS, LARGEST))
    for name, paper, least, most in (
        ("GAP", "speeds up", 2.0, None),
        ("MTP", "speeds up most", 2.0, None),
        ("TP", "about 1", None, 2.5),
        ("DP", "about 1", None, 2.0),
    ):
        two, eight = (simulated(name, work, workers, costs).makespan for workers in (2, 8))
        yield Found(f"{name}: 2 workers over 8", paper, two / eight, "{:.2f}", least, most)


if __name__ == "__main__":
    report.main(find, simulated=True)
