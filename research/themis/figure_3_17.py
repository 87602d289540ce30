"""Figure 3.17: errors of apps in their estimates. A simulation of 64 GPUs."""

from collections.abc import Iterator

import numpy as np

from research import report
from research.report import Found
from research.themis.runs import medians
from research.themis.simulation.policies.themis import Themis


def find(scale: float) -> Iterator[Found]:
    """The change of the greatest rho with estimates that are wrong by up to 20 %."""
    wrong = dict(enumerate((1 + np.random.default_rng(1).uniform(-0.2, 0.2, 500)).tolist()))
    exact = medians(Themis, 64, scale)["most"]
    off = medians(lambda: Themis(errors=wrong), 64, scale)["most"]
    yield Found("greatest rho, errors of 20 % over none", "1.108", off / exact, most=1.108)


if __name__ == "__main__":
    report.main(find, simulated=True)
