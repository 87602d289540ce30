"""Figure 2.14: gains with wrong estimates of work. A simulation."""

from collections.abc import Iterator

import numpy as np

from research import report
from research.qoop.model import Rules
from research.qoop.profiles import world
from research.report import Found


def find(scale: float) -> Iterator[Found]:
    """Mean gains with estimates that are wrong by up to 25 %."""
    for name, least in (("low", 1.18), ("high", 1.4)):
        some = world(name, round(500 * scale))
        wrong = np.random.default_rng(3).uniform(0.75, 1.25, some.queries.work.shape)
        gain = float(some.gains(Rules(0.2, estimates=wrong)).mean())
        yield Found(f"{name} volatility, mean gain, errors of 25 %", f"{least}", gain, least=least)


if __name__ == "__main__":
    report.main(find, simulated=True)
