"""Iterations to a tolerance, from the errors that an algorithm showed on a sample.

Algorithm 1 of Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD
2017, section 5, generalised: the paper fits T(e) = a / e; here three shapes are fitted to the
sequence, e_i the error after i iterations, and the best one is continued to the tolerance:

* sublinear: log e_i = log a - q log i, q = 1 being the paper's;
* linear: log e_i = log a - r i;
* superlinear: the drops log e_i - log e_(i+1) grow by a factor, the order of convergence.

Nocedal and Wright, Numerical Optimization, 2006, appendix A.2, defines the rates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHAPES = ("sublinear", "linear", "superlinear")
LEAST_POINTS = 5
LEAST_DROPS = 3
MOST_ITERATIONS = 10**7
LEAST_GROWTH = 1.25
"""Of the drops, where a sequence may be called superlinear."""
SPREAD = 2.0
"""Standard errors on either side of the point."""
SLOW_PENALTY = 1.25
LEAST_RATE = {"linear": 1e-4, "sublinear": 0.5}
"""A method that converges at all does no worse: 1 / sqrt(i) is that of plain stochastic steps."""


def decades(epsilon: float) -> float:
    """How many powers of ten the tolerance is below 1."""
    return max(-math.log10(max(epsilon, 1e-15)), 0.5)


@dataclass(frozen=True)
class Interval:
    """Iterations: low <= point <= high."""

    low: float
    point: float
    high: float

    @classmethod
    def around(cls, low: float, point: float, high: float) -> "Interval":
        """The same, in order and within what can be counted."""
        low, point, high = (min(max(x, 0.0), MOST_ITERATIONS) for x in (low, point, high))
        return cls(min(low, point), point, max(high, point))

    def scaled(self, by: float) -> "Interval":
        return Interval(self.low * by, self.point * by, self.high * by)


@dataclass(frozen=True)
class Curve:
    """A fitted sequence of errors by iteration from 0.

    A straight shape goes through `middle`, a point of (i or log i, log e), and falls by `rate`;
    the superlinear one goes on from the last error, `middle` holding its place and the last drop,
    and `rate` the factor by which drops grow. residual: root mean square of log e; doubt: the
    standard error of rate.
    """

    shape: str
    errors: tuple[float, ...]
    middle: tuple[float, float]
    rate: float
    residual: float
    doubt: float

    def iterations(self, tolerance: float) -> Interval:
        """Iterations until the error is at most `tolerance` > 0.

        What the sequence itself reached is not extrapolated.
        """
        for number, error in enumerate(self.errors):
            if error <= tolerance:
                return Interval.around(number, number, number)
        goal, slack = math.log(tolerance), SPREAD * self.residual
        ends = [
            (goal + slack, self.rate + SPREAD * self.doubt),
            (goal, self.rate),
            (goal - slack, max(self.rate - SPREAD * self.doubt, self.rate / 4)),
        ]
        low, point, high = (max(self._reach(*end), len(self.errors)) for end in ends)
        return Interval.around(low, point, high)

    def _reach(self, goal: float, rate: float) -> float:
        """Where the continued shape meets log e = goal."""
        if self.shape == "superlinear":
            return self._reach_by_drops(goal, rate)
        x = self.middle[0] + (self.middle[1] - goal) / rate
        return x if self.shape == "linear" else math.exp(min(x, 30.0))

    def _reach_by_drops(self, goal: float, growth: float) -> float:
        at, drop = math.log(self.errors[-1]), self.middle[1]
        number = len(self.errors) - 1
        while at > goal:
            drop *= max(growth, 1.0)
            at, number = at - drop, number + 1
        return number


def usable(errors: Sequence[float]) -> tuple[float, ...]:
    """The errors that are numbers; a zero counts as the least of doubles."""
    known = np.asarray(errors, float)
    return tuple(np.maximum(known[np.isfinite(known)], 1e-300).tolist())


def fit(errors: Sequence[float]) -> Curve | None:
    """The shape that fits best; None where less than five errors are known or none fell."""
    known = usable(errors)
    if len(known) < LEAST_POINTS or min(known) >= known[0]:
        return None
    points = records(known)
    curves = [straight(known, points, shape) for shape in ("linear", "sublinear")]
    curves.append(superlinear(known))
    fitting = [curve for curve in curves if curve is not None]
    return min(fitting, key=misfit, default=None)


def misfit(curve: Curve) -> float:
    """The residual; a sublinear curve, which promises least, must fit clearly better."""
    return curve.residual * (SLOW_PENALTY if curve.shape == "sublinear" else 1.0)


def records(errors: tuple[float, ...]) -> Floats:
    """(k, 2): the iterations that went below all before, their errors, and where that stands now.

    What a line search leaves is not monotone, and what counts is the first error that is low
    enough. The first third, where a run has not settled, is left out if three points remain.
    """
    lowest = np.minimum.accumulate(np.array(errors))
    i = np.flatnonzero(np.append(True, lowest[1:] < lowest[:-1]))
    if i[-1] < len(errors) - 1:
        i = np.append(i, len(errors) - 1)
    i = i[i > 0]
    settled = i[i >= len(errors) // 3]
    i = settled if len(settled) >= LEAST_DROPS else i[-LEAST_DROPS:]
    return np.stack([i.astype(float), lowest[i]], axis=1)


def straight(errors: tuple[float, ...], points: Floats, shape: str) -> Curve | None:
    """log e by i or by log i; None where there are less than three points for a line.

    points: `records` of the errors.
    """
    if len(points) < LEAST_DROPS:
        return None
    x: Floats = np.log(points[:, 0]) if shape == "sublinear" else points[:, 0]
    y: Floats = np.log(points[:, 1])
    middle = float(x.sum()) / len(x), float(y.sum()) / len(y)
    off = x - middle[0]
    spread = float(off @ off)
    slope = float(off @ y) / spread
    left = y - middle[1] - slope * off
    residual = math.sqrt(float(left @ left) / (len(x) - 2))
    rate = max(-slope, LEAST_RATE[shape])
    return Curve(shape, errors, middle, rate, residual, residual / math.sqrt(spread))


def superlinear(errors: tuple[float, ...]) -> Curve | None:
    """Drops that grow by a factor; None where they do not."""
    if len(errors) <= LEAST_DROPS or any(a <= b for a, b in pairwise(errors)):
        return None
    logs = np.log(np.array(errors))
    drops = logs[:-1] - logs[1:]
    if (drops <= 0).any():
        return None
    growth = drops[1:] / drops[:-1]
    factor = float(np.exp(np.log(growth).mean()))
    if factor < LEAST_GROWTH or growth.min() < 1:
        return None
    wrong = drops[1:] - drops[:-1] * factor
    residual = math.sqrt(float(wrong @ wrong) / len(wrong))
    doubt = float(np.abs(growth - factor).max()) / 2
    middle = (len(errors) - 1.0, float(drops[-1]))
    return Curve("superlinear", errors, middle, factor, residual, doubt)
