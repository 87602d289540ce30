"""Figure 12: iterations in flight of the lasso on one worker behind a network with delays."""

import statistics
from collections.abc import Iterator

from scheduled_lasso import run_depth

from research import report
from research.report import Found
from research.smpframe.updates import made


def find(scale: float) -> Iterator[Found]:
    """Iterations a second, passes and seconds at depth 3 over those at depth 1."""
    with report.quietly():
        rows = run_depth(made(scale / 2), 32, 0.002, 1 if scale < 1 else 3)

    def middle(depth: int, key: str) -> float:
        return statistics.median(one[key] for one in rows if one["depth"] == depth)

    faster = middle(3, "iterations_per_second") / middle(1, "iterations_per_second")
    yield Found("12a: iterations a second, depth 3 over 1", "2.5", faster, least=2.5)
    more = middle(3, "passes") / middle(1, "passes")
    yield Found("12b: passes over the data, depth 3 over 1", "above 1", more, least=1.0)
    sooner = middle(1, "seconds") / middle(3, "seconds")
    yield Found("12c: seconds to converge, depth 1 over 3", "2", sooner, least=2.0)


if __name__ == "__main__":
    report.main(find)
