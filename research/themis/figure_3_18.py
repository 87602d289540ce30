"""Figure 3.18: what an app gains that overstates its rho. A simulation of 64 GPUs."""

from collections.abc import Iterator

import numpy as np

from research import report
from research.report import Found
from research.themis.runs import simulated
from research.themis.simulation.generated import searches
from research.themis.simulation.policies.themis import Themis

APPS, LIARS = 60, (10, 25, 40, 55)


def find(scale: float, off: bool = False) -> Iterator[Found]:
    """Mean gain of liars by factor, in pairs with the same draws. off: claims are not audited,
    as in the thesis, where only payments deter.
    """

    def seconds(said: dict[int, float], seed: int) -> dict[int, float]:
        policy = Themis(said=said, audited=not off)
        run, _ = simulated(searches(APPS, 0.9, 256, 0), 64, policy, seed)
        return {app.number: app.ended - app.arrival for app in run.apps}

    seeds = range(max(1, round(10 * scale)))
    truth = {seed: seconds({}, seed) for seed in seeds}
    for factor, paper in ((1.34, "about 0"), (4.0, "below 0"), (10.0, "below 0")):
        gains = [
            1 - seconds({liar: factor}, seed)[liar] / truth[seed][liar]
            for liar in LIARS
            for seed in seeds
        ]
        what = f"gain of an app that overstates rho {factor:g} times"
        yield Found(what, paper, float(np.mean(gains)), "{:.1%}", most=0.02)


if __name__ == "__main__":
    report.main(find, simulated=True)
