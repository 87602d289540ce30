"""Table 5: placements of groups of which one outweighs a worker, on two workers in threads.

Logistic regression, 4 configurations. Seconds by the clock, in turns: what workers wait counts.
Groups of more than 200,000 rows are cut, so `--tiny` cuts none.
"""

from collections.abc import Iterator

from research import report
from research.kingpin.trainings import seconds, shards
from research.report import Found

PAPER = {"gtp": 2.63, "mtp": 12.6}
"""Minutes over those of Kingpin, by countries."""


def find(scale: float, off: bool = False) -> Iterator[Found]:
    """The seconds of other placements over those of gap. off: gtp instead of gap."""
    ours = "gtp" if off else "gap"
    with shards("one giant", 6, round(2_000_000 * scale)) as (con, source):
        names = list(dict.fromkeys([ours, *PAPER]))
        took = seconds(con, source, names, "logistic", 1, max_iter=10)
    for name, ratio in PAPER.items():
        what = f"logistic: {name} over gap"
        yield Found(what, f"{ratio:.2f}", took[name] / took[ours], "{:.2f}", least=ratio)


if __name__ == "__main__":
    report.main(find)
