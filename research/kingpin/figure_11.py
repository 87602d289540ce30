"""Figure 11: two groups with most of the rows, and trees of them on two workers in threads.

The rows of a worker are counted by the product's placement for the paper's four workers.
"""

from collections.abc import Iterator

import numpy as np

from research import report
from research.kingpin.trainings import seconds, shards
from research.report import Found
from tuskml.schedule.placement import evenly, rows_by_worker


def find(scale: float) -> Iterator[Found]:
    """Rows that a worker must hold, and the seconds of gtp over those of gap."""
    sizes = np.array([10_000_000, 2_000_000, 20_000, 10_000, 5_000, 2_000])
    most = rows_by_worker(evenly(sizes, 4), 4).max()
    more = float(sizes.max() / most)
    yield Found("rows of the fullest worker, gtp over gap", "gtp: no memory", more, least=2.0)
    with shards("giants", 6, round(700_000 * scale)) as (con, source):
        took = seconds(con, source, ["gap", "gtp"], "gbdt", 1)
    ratio = took["gtp"] / took["gap"]
    yield Found("gbdt: gtp, which has memory here, over gap", "", ratio, "{:.2f}")


if __name__ == "__main__":
    report.main(find)
