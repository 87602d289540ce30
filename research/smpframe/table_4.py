"""Table 4: million samples a second of the scheduled lasso, by entries of a column, per core."""

from collections.abc import Iterator

from scheduled_data import problem

from research import report
from research.report import Found
from research.smpframe.updates import train

PAPER = {1_000: 125 / 64, 10_000: 212 / 64}
"""Millions of 64 cores, by one."""
FEATURES = 400


def find(scale: float) -> Iterator[Found]:
    """Entries that updates and passes touched in a processor second, the scheduling included."""
    for rows, paper in PAPER.items():
        data = problem(rows, FEATURES, 0.01)
        fits = [train(data, "dynamic", 32, tol=1e-8) for _ in range(max(1, round(5 * scale)))]
        touched = sum(fit.passes * FEATURES * rows for fit in fits)
        seconds = sum(fit.seconds for fit in fits)
        what = f"million entries a second, {rows:,} in a column"
        yield Found(what, f"{paper:.1f}", touched / seconds / 1e6, least=paper)


if __name__ == "__main__":
    report.main(find)
