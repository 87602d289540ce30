"""Table 2: seconds of the offline vertical partitioning of 10,000 rows, by K.

The paper's sample is 1 % of its rows, 10,000 of `skewed` and 5,000 of `splice`; ours is by
`partition_model`, blocks of rare features included.
"""

from collections.abc import Iterator

import numpy as np
import partition

from research import report
from research.report import Found
from tuskml.partitioner import partition_model


def find(scale: float) -> Iterator[Found]:
    """Processor seconds, and how K lengthens them."""
    rows = max(500, round(5_000 * scale))
    for name in partition.DATA:
        ids = partition.DATA[name](rows)
        start = np.arange(0, ids.size + 1, ids.shape[1])
        for top in (100, 1000):
            seconds = report.processor_seconds(
                lambda: partition_model(start, ids.ravel(), top=top, sample=rows, threads=1)  # noqa: B023
            )
            paper = partition.TABLE_2[name][top]
            yield Found(f"{name}, K = {top:,}: seconds", f"{paper:,}", seconds, most=paper)


if __name__ == "__main__":
    report.main(find)
