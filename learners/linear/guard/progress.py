"""How many iterations are left, by the errors of those that were made.

log e falls as fast as in the mean of all iterations and of the last half of them: the geometric
mean of what both say. On the fitted half of the bench's data sets, at half of the way, nine of ten
such guesses were 0.5 to 1.3 times what followed.
"""

import math
from collections.abc import Sequence

Point = tuple[int, float]
"""An iteration, and the error before it."""


def iterations_left(points: Sequence[Point], goal: float) -> float:
    """Until the error is at most the goal, by how fast the lowest one fell; inf where it did not.

    points: rising by iteration; at least two.
    """
    of_all, of_half = guesses(points, goal)
    stays = math.isinf(of_all) or math.isinf(of_half)
    return math.inf if stays else math.sqrt(of_all * of_half)


def fewest_left(points: Sequence[Point], goal: float) -> float:
    """The lower guess, of errors that stand still for a while and then fall the faster."""
    return min(guesses(points, goal))


def guesses(points: Sequence[Point], goal: float) -> tuple[float, float]:
    """By all iterations, and by the last half of them; both inf where the lowest error stayed."""
    lowest, logs = math.inf, []
    for _, error in points:
        lowest = min(lowest, max(error, 1e-300))
        logs.append(math.log(lowest))
    last = len(logs) - 1
    found = []
    for first in (0, last // 2):
        fell = logs[first] - logs[last]
        took = points[last][0] - points[first][0]
        left = max(logs[last] - math.log(goal), 0.0)
        found.append(left * took / fell if fell > 0 else math.inf)
    return found[0], found[1]
