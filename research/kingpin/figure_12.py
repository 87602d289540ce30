"""Figure 12: makespans of constrained wrap-around over the least possible. Counted in rows."""

from collections.abc import Iterator

from research import report
from research.kingpin.simulated_figures import figure_12
from research.report import Found


def find(scale: float) -> Iterator[Found]:
    """Means over drawn sizes, along both axes."""
    with report.quietly():
        axes = figure_12()
    for axis, rows in axes.items():
        for value, mean, _ in rows:
            if (axis, value) in {("groups", 10), ("groups", 160), ("workers", 4), ("workers", 32)}:
                what = f"{value} {axis}: constrained wrap-around over the optimum, mean"
                yield Found(what, "slightly above 1", mean, "{:.3f}", most=1.2)


if __name__ == "__main__":
    report.main(find, simulated=True)
