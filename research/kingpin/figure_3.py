"""Figure 3: minutes by workers, groups, skew and rows, by the cost model and by simulation.

The product's cost model, with costs that were measured on Ray (cluster_costs.json).
"""

import statistics
from collections.abc import Iterator
from pathlib import Path

from research import report
from research.kingpin.cluster_simulation import read
from research.kingpin.simulated_figures import figure_3
from research.report import Found


def find(scale: float) -> Iterator[Found]:
    """The seconds of GAP over those of the best other approach, along each axis."""
    costs = read(Path(__file__).parent / "cluster_costs.json").of(1, 1)
    with report.quietly():
        axes = figure_3(costs)
    for axis, (_, curves) in axes.items():
        others = [
            min(some) for some in zip(*(curves[n] for n in ("TP", "MTP", "DP")), strict=True)
        ]
        ratios = [gap / best for gap, best in zip(curves["GAP"], others, strict=True)]
        middle = statistics.median(ratios)
        yield Found(f"by {axis}: GAP over the best other, median", "at most 1", middle, most=1.0)
        yield Found(f"by {axis}: at worst", "about 1", max(ratios), most=1.1)


if __name__ == "__main__":
    report.main(find, simulated=True)
