"""The policy of re-planning, without knowledge of what the plans are.

Mahajan, Scheduler-driven Strategies for Fair and Efficient Data Analytics Systems, 2021, chapter
2: whenever its resources change, a query goes on by the plan that takes least of those that can
run, as if they never changed again (pseudocode 2). What a plan has done is kept, so that a query
that comes back to it goes on where it left off. Plans that need more than another one and do not
at least halve its work are not considered. Whatever the resources do, such a query ends before one
that knows all of them has run the best single plan four times, and twice where no plan was dropped
(theorem 2.2); no policy that does not know the future does better than twice (theorem 2.1).
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

HYSTERESIS = 0.2
"""By how much a plan has to take less than the one that runs, as a part of what it takes itself.
Of 10 to 25 % that figure 2.15 finds good. Estimates that are off by less change no plan."""

Floats = NDArray[np.float64]


def worth_considering(need: Sequence[float], work: Sequence[float]) -> list[bool]:
    """Which of n plans are considered (lines 1 to 3); need, work: (n,), in any order.

    Work is compared with that of the plan which needs next less and is considered itself: of a
    long row of plans, each a little lighter than the one before, the lightest would else be left
    out beside one that takes many times more. Of plans that need the same all are considered,
    since which of them takes least is seen whenever they run.
    """
    order = sorted(range(len(need)), key=lambda i: (need[i], work[i]))
    considered = [False] * len(need)
    least, below, at = math.inf, math.inf, -math.inf
    for i in order:
        if need[i] > at:
            below, at = least, need[i]
        if work[i] <= below / 2:
            considered[i] = True
            least = min(least, work[i])
    return considered


def next_plan(
    left: Sequence[float], running: int | None, hysteresis: float = HYSTERESIS
) -> int | None:
    """The plan to go on by (line 4); None where none can run.

    left: seconds that are left of each plan with the resources of now, infinite where it cannot
    run, those that need least first, which wins among equals; running: the plan that runs now,
    None before the first.
    """
    best = min(range(len(left)), key=lambda i: left[i], default=None)
    if best is None or math.isinf(left[best]):
        return None
    if running is None or math.isinf(left[running]):
        return best
    return best if left[best] * (1 + hysteresis) < left[running] else running


def choices(left: Floats, running: NDArray[np.int64], hysteresis: float) -> NDArray[np.int64]:
    """`next_plan` for k queries at once, (k,); left: (k, n); running: (k,), -1: none. -1: none."""
    rows = np.arange(len(left))
    best = np.argmin(left, axis=1)
    now = np.where(running < 0, np.inf, left[rows, running])
    better = left[rows, best] * (1 + hysteresis) < now
    chosen = np.where(better | np.isinf(now), best, running)
    return np.where(np.isinf(left[rows, best]), -1, chosen)
