"""Iterations that dense rows usually take, by how far their features' variances spread.

The spread is tr(C^2) / d of the features' correlation matrix C (d, d): the mean square of its
eigenvalues, whose mean is 1. It is 1 where features are independent, and grows with what few
common factors make of them; methods that follow gradients take longer the larger it is. The tables
hold what took place on 20,000 to 30,000 rows of 10, 30, 100 and 300 features, some of whose
variance (0 to 97 %) came from a tenth as many factors: geometric means by spread and tolerance.
"""

import math
from collections.abc import Mapping
from itertools import accumulate

from tuskml.optimizer.constants import interpolated
from tuskml.optimizer.curves import Interval

SPREADS = (1.04, 1.72, 3.55, 7.77)
DECADES = (1.0, 2.0, 3.0, 6.0)
UNSURE = 2.0
"""How many times more or less it may be."""

BySpread = tuple[float, float, float, float]
Rows = tuple[BySpread, BySpread, BySpread, BySpread]
"""By decade of the tolerance, by SPREADS."""

ITERATIONS: Mapping[tuple[str, str], Rows] = {
    ("newton", "logistic"): (
        (0.5, 0.7, 0.8, 1.0),
        (2.0, 2.0, 2.3, 2.5),
        (3.7, 4.6, 4.1, 3.8),
        (6.6, 6.2, 6.2, 6.6),
    ),
    ("lbfgs", "linear"): (
        (1.0, 3.0, 3.3, 1.6),
        (2.0, 5.8, 9.6, 11.0),
        (2.6, 8.9, 14.0, 29.0),
        (5.4, 16.0, 31.0, 83.0),
    ),
    ("lbfgs", "logistic"): (
        (0.5, 0.8, 0.8, 1.2),
        (3.2, 4.8, 6.9, 5.7),
        (5.0, 7.9, 13.0, 21.0),
        (8.2, 15.0, 29.0, 73.0),
    ),
    ("lbfgs", "svm"): (
        (1.7, 2.4, 3.0, 1.7),
        (6.5, 11.0, 17.0, 17.0),
        (15.0, 23.0, 37.0, 60.0),
        (100.0, 150.0, 250.0, 400.0),
    ),
    ("bgd", "linear"): (
        (2.0, 5.2, 5.4, 2.6),
        (2.7, 10.0, 15.0, 15.0),
        (3.9, 13.0, 22.0, 56.0),
        (6.9, 22.0, 50.0, 170.0),
    ),
    ("bgd", "logistic"): (
        (0.6, 1.3, 1.5, 2.0),
        (3.2, 8.0, 13.0, 6.7),
        (5.0, 13.0, 25.0, 46.0),
        (9.4, 26.0, 51.0, 180.0),
    ),
    ("bgd", "svm"): (
        (2.9, 4.4, 4.8, 4.6),
        (8.4, 19.0, 29.0, 23.0),
        (20.0, 44.0, 72.0, 140.0),
        (260.0, 570.0, 940.0, 1800.0),
    ),
}
"""Of families and tasks; those of svm's last decade are extrapolated."""

PRODUCTS: Mapping[str, Rows] = {
    "linear": (
        (1.0, 3.7, 4.5, 3.1),
        (2.0, 5.8, 8.4, 11.0),
        (3.2, 7.9, 12.0, 16.0),
        (5.4, 13.0, 18.0, 29.0),
    ),
    "logistic": (
        (0.5, 1.9, 1.8, 1.2),
        (2.0, 7.1, 9.4, 6.8),
        (3.9, 10.0, 15.0, 21.0),
        (8.1, 20.0, 28.0, 44.0),
    ),
}
"""Of the curvature with a direction, by conjugate gradients."""


def iterations(family: str, task: str, spread: float, decades: float) -> Interval | None:
    """To a tolerance so many powers of ten below 1; None where nobody has tried."""
    rows = ITERATIONS.get((family, task))
    if rows is None:
        return None
    point = by_spread(rows, spread, decades)
    return Interval.around(point / UNSURE, point, point * UNSURE)


def products(task: str, spread: float, decades: float) -> float | None:
    """Of conjugate gradients, in all; None where nobody has tried."""
    rows = PRODUCTS.get(task)
    return None if rows is None else by_spread(rows, spread, decades)


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
