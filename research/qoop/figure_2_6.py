"""Figure 2.6: how much sooner queries end with re-planning, by volatility. A simulation.

Queries are those of the abstract model. `trainings` are the product's candidates for linear models
on 16 cores, by the planner's estimates, under the same profiles.
"""

from collections.abc import Iterator

import numpy as np

import tuskml
from research import report
from research.qoop.model import Rules
from research.qoop.profiles import world
from research.qoop.replanned import CORES, PROBLEMS, PROFILES, STEPS, estimated, profile
from research.report import Found

PAPER = {"low": (1.08, 58), "medium": (1.11, 62), "high": (1.47, 66)}


def find(scale: float, off: bool = False) -> Iterator[Found]:
    """Median gains and the part that gains. off: plans are not switched."""
    for name, (median, part) in PAPER.items():
        gains = world(name, round(1000 * scale)).gains(Rules(0.2, switches=not off))
        middle = float(np.median(gains))
        yield Found(f"{name} volatility, median gain", f"{median}", middle, least=median)
        some = float(100 * (gains > 1.01).mean())
        yield Found(f"{name}, queries that gain", f"{part} %", some, "{:.0f} %", least=part)
    with tuskml.connect() as con, report.quietly():
        con.execute("SET enable_progress_bar = false")
        rows = round(PROBLEMS[2][0] * min(scale, 1.0))
        problem = estimated(con, (rows, *PROBLEMS[2][1:]), memory=False)
    draws, found = np.random.default_rng(1), []
    each = float(problem.seconds[0, CORES // 2].min()) / 60
    for _ in range(round(100 * scale)):
        given = profile(draws, PROFILES["high"], CORES, STEPS)
        first, ours = (
            problem.run(given, np.zeros(STEPS, np.int64), each, policy)
            for policy in (False, not off)
        )
        found.append(first / ours)
    middle = float(np.median(found))
    yield Found("trainings, high volatility, median gain", "1.47", middle, least=1.4)


if __name__ == "__main__":
    report.main(find, simulated=True)
