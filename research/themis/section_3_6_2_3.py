"""Section 3.6.2.3: seconds of an auction of 256 GPUs among 16 apps, payments included."""

import statistics
from collections.abc import Iterator

import numpy as np

from research import report
from research.report import Found
from research.themis.pieces import capacity
from research.themis.simulation.machines import mixed
from research.themis.solver import tables
from tuskml.schedule.fair.auction import partial_allocation
from tuskml.schedule.fair.solving import greedily


def find(scale: float) -> Iterator[Found]:
    """Processor milliseconds: median and 95th percentile."""
    room = capacity(np.array(mixed(256).sizes))
    took = []
    for seed in range(max(5, round(20 * scale))):
        bids = tables(16, seed)
        took.append(
            1e3
            * report.processor_seconds(lambda bids=bids: partial_allocation(bids, room, greedily))
        )
    yield Found("median ms of an auction", "354", statistics.median(took), most=354)
    tail = float(np.quantile(took, 0.95))
    yield Found("95th percentile, ms", "1,398", tail, most=1398)


if __name__ == "__main__":
    report.main(find)
