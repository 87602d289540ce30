"""The lasso by concurrent updates, simulated on one worker: what figures 4, 10 and 11 use."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scheduled_data import Problem, problem
from scheduled_lasso import GOALS, run_updates

from research import report

ROWS = 463
"""As Alzheimer's disease's set has; neighbouring columns are correlated, as its are."""
RANDOM, PRIORITY, BOTH = "random", "priority", "priority and dependencies"


@dataclass(frozen=True)
class Progress:
    """Passes over the data until the objective is within a thousandth of the least one, and
    seconds; infinite where it never was.
    """

    passes: float
    seconds: float


def made(scale: float) -> Problem:
    """The rows."""
    return problem(ROWS, max(500, round(6_000 * scale)), 0.1)


def progress(data: Problem, at_once: int, *orders: str) -> dict[str, Progress]:
    """Of each order, with so many concurrent updates."""
    with report.quietly():
        found = run_updates(data, [at_once], list(orders))
    return {one["approach"]: of(one["reached"][f"{GOALS[-1]:g}"], data) for one in found}


def of(reached: tuple[float, ...] | None, data: Problem) -> Progress:
    """The progress of a run."""
    if reached is None:
        return Progress(math.inf, math.inf)
    return Progress(reached[0] / data.x.size, reached[2])
