"""Figures 8 and 13: bytes that workers read from storage, by placement.

Counted on the links of two workers in threads. What the paper's Ray keeps on disks and in memory
is not measured.
"""

from collections.abc import Iterator

from slow_link import linked

from research import report
from research.kingpin.trainings import CONFIGURATIONS, shards, train
from research.report import Found


def find(scale: float) -> Iterator[Found]:
    """Bytes over those of gap: mtp reads a group once for each configuration."""
    rows = round(300_000 * scale)
    with shards("one giant", 18, rows) as (con, source):
        link, read = linked(con, float("inf")), {}
        for name in ("gap", "gtp", "mtp"):
            link.carried = 0
            train(con, f"slow://{source}", name, "logistic", max_iter=3)
            read[name] = link.carried
    yield Found("MB read with gap", "", read["gap"] / 1e6)
    for name, paper, least, most in (
        ("gtp", "1", 0.5, 1.5),
        ("mtp", f"{CONFIGURATIONS} with as many configurations", 2.0, None),
    ):
        yield Found(f"{name} over gap", paper, read[name] / read["gap"], "{:.2f}", least, most)


if __name__ == "__main__":
    report.main(find)
