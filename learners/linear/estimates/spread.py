"""Iterations that dense rows usually take, by how far their features' variances spread.

The spread is tr(C^2) / d of the features' correlation matrix C (d, d): the mean square of its
eigenvalues, whose mean is 1. It is 1 where features are independent, and grows with what few
common factors make of them; methods that follow gradients take longer the larger it is. The tables
hold what took place on 20,000 to 30,000 rows of 10, 30, 100 and 300 features, some of whose
variance (0 to 97 %) came from a tenth as many factors: geometric means by spread and tolerance.
"""

import math
from itertools import accumulate

from tuskml.optimizer.constants import interpolated
from tuskml.optimizer.curves import Interval

SPREADS = (1.04, 1.72, 3.55, 7.77)
DECADES = (1.0, 2.0, 3.0, 6.0)
FEWER, MORE = 2.0, 5.0
"""How many times less or more it may be: where no sketch was made, ill-conditioned rows and rows
of much leverage take many times what is usual, and none takes as many times less."""

BySpread = tuple[float, float, float, float]
Rows = tuple[BySpread, BySpread, BySpread, BySpread]
"""By decade of the tolerance, by SPREADS."""


def iterations(rows: Rows, spread: float, decades: float) -> Interval:
    """By an algorithm's table, to a tolerance so many powers of ten below 1."""
    point = by_spread(rows, spread, decades)
    return Interval.around(point / FEWER, point, point * MORE)


def by_spread(rows: Rows, spread: float, decades: float) -> float:
    """The table's value; beyond its last spread it grows as before, at most in proportion."""
    within = min(max(spread, SPREADS[0]), SPREADS[-1])
    points = [interpolated(tuple(zip(SPREADS, row, strict=True)), within) for row in rows]
    if spread > SPREADS[-1]:  # and no later decade by less than an earlier one
        powers = accumulate((growth(row) for row in rows), max)
        beyond = spread / SPREADS[-1]
        points = [point * beyond**power for point, power in zip(points, powers, strict=True)]
    return interpolated(tuple(zip(DECADES, points, strict=True)), decades)


def growth(row: BySpread) -> float:
    """The power of the spread that the end of a row of the table follows, from 0 to 1."""
    power = math.log(row[-1] / row[-2]) / math.log(SPREADS[-1] / SPREADS[-2])
    return min(max(power, 0.0), 1.0)
