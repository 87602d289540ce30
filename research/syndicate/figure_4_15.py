"""Figures 4.15 and 4.16: the fastest execution of an exchange by its size, of 128 workers.

By the product's cost model of exchanges, for the hosts of table 4.1.
"""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.syndicate import dlrm
from tuskml.schedule.exchange.plan import Option, alone

PATTERNS = {"tree": "treed", "ring": "scattered"}
"""Here a ring is a reduce-scatter and an all-gather."""


def find(scale: float) -> Iterator[Found]:
    """The pattern that is fastest alone on the faster channel."""
    net = dlrm.cluster()

    def seconds(kind: str, size: float, pattern: str) -> float:
        return alone(net, kind, size, Option(pattern))

    for size, paper, other in ((1e4, "tree", "ring"), (3e8, "ring", "tree")):
        took = {name: seconds("all_reduce", size, PATTERNS[name]) for name in PATTERNS}
        what = f"all-reduce of {size / 1e6:g} MB, {other} over {paper}"
        yield Found(what, f"{paper} is faster", took[other] / took[paper], least=1.0)
    for size, paper in ((1e4, 1), (1e9, 4)):
        by = {count: seconds("all_to_all", size, f"splined{count}") for count in (1, 2, 4)}
        what = f"all-to-all of {size / 1e6:g} MB: fastest number of splines"
        best = float(min(by, key=lambda count: by[count]))
        yield Found(what, f"{paper}", best, least=paper, most=paper)


if __name__ == "__main__":
    report.main(find, simulated=True)
