"""Figures 2.7 to 2.9: gains by a query's duration, plans and switches. A simulation."""

from collections.abc import Iterator

import numpy as np

from research import report
from research.qoop.model import Rules
from research.qoop.profiles import world
from research.report import Found


def find(scale: float) -> Iterator[Found]:
    """Mean gains of long queries, of those with many plans, over the others'; high volatility."""
    k = round(500 * scale)
    rules = Rules(0.2)
    by_work = {work: world("high", k, work=work).gains(rules).mean() for work in (300.0, 3000.0)}
    longer = float(by_work[3000.0] / by_work[300.0])
    yield Found("gain of queries 10 times as long over the short", "above 1", longer, least=1.02)
    few, many = (world("high", k, plans=n).gains(rules) for n in (2, 8))
    more = float(many.mean() / few.mean())
    yield Found("gain with 8 plans over that with 2", "above 1", more, least=1.02)
    tail = float(np.percentile(many, 90))
    yield Found("gain of one query in ten, 8 plans", "above 3.3", tail, least=3.3)


if __name__ == "__main__":
    report.main(find, simulated=True)
