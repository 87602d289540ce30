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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.kernels.speculated import Method, Tridiagonal, speculate, speculate_apart
from tuskml.learners.linear.request import LinearOptions
from tuskml.learners.linear.tasks import LinearTask

LEAST_POINTS = 5
LEAST_DROPS = 3
MOST_ITERATIONS = 10**7
LEAST_GROWTH = 1.25
"""The growth of the drops from which a sequence may count as superlinear."""
SPREAD = 2.0
"""Standard errors on either side of the point."""
SLOW_PENALTY = 1.25
LEAST_RATE = {"linear": 1e-4, "sublinear": 0.5}
"""A method that converges at all does no worse: 1 / sqrt(i) is that of plain stochastic steps."""


def decades(epsilon: float) -> float:
    """The powers of ten by which the tolerance is below 1."""
    return max(-math.log10(max(epsilon, 1e-15)), 0.5)


@dataclass(frozen=True)
class Interval:
    """Iterations: low <= point <= high."""

    low: float
    point: float
    high: float

    @classmethod
    def around(cls, low: float, point: float, high: float) -> "Interval":
        """Makes an interval with ends in order and clipped to the range of iterations."""
        low, point, high = (min(max(x, 0.0), MOST_ITERATIONS) for x in (low, point, high))
        return cls(min(low, point), point, max(high, point))

    def scale(self, by: float) -> "Interval":
        return Interval(self.low * by, self.point * by, self.high * by)


@dataclass(frozen=True)
class Curve:
    """A fitted sequence of errors by iteration from 0.

    A straight shape goes through `middle`, a point of (i or log i, log e), and falls by `rate`;
    the superlinear one continues from the last error, `middle` holding its index and the last
    drop, and `rate` the factor by which drops grow. residual: root mean square of log e; doubt:
    the standard error of rate.
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
        """The iteration where the continued shape meets log e = goal."""
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
    """The iterations whose error is below all before, (k, 2), with their errors.

    Errors of a line search are not monotone, and the first error that is low enough counts. The
    first third, where a run has not settled, is left out if three points remain.
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


MOST = 400
"""Iterations of a method on the model; beyond, a curve that is fitted to them is continued."""


FEWER = 120
"""The same if some of the eigenvalues are unknown."""


LEAST_TOLERANCE = 1e-9


UNSURE = 1.6
"""The factor by which the iterations are uncertain."""


LEAST_EIGENVALUE = 1e-12


def shrunk(eigenvalues: Floats, ratio: float) -> Floats:
    """Eigenvalues (p,), rising, of a sample with `ratio` variables for each row, corrected.

    Ledoit and Wolf's quadratic-inverse shrinkage for ratio < 1. Their sum stays the same.
    """
    p = len(eigenvalues)
    known = eigenvalues > LEAST_EIGENVALUE * max(float(eigenvalues[-1]), 1e-300)
    if not 0 < ratio < 1 or np.count_nonzero(known) < 2:
        return eigenvalues
    inverse = 1.0 / eigenvalues[known]
    smooth = min(ratio**2, 1 / ratio**2) ** 0.35 / p**0.35
    apart = inverse[:, None] - inverse[None, :]
    below = apart**2 + (smooth * inverse[:, None]) ** 2
    real = (inverse[:, None] * apart / below).mean(axis=0)
    imaginary = (inverse[:, None] ** 2 * smooth / below).mean(axis=0)
    bent = (
        (1 - ratio) ** 2 * inverse
        + 2 * ratio * (1 - ratio) * inverse * real
        + ratio**2 * inverse * (real**2 + imaginary**2)
    )
    out = eigenvalues.copy()
    out[known] = 1.0 / bent
    out[known] *= eigenvalues[known].sum() / out[known].sum()
    return out


@dataclass(frozen=True)
class Sketch:
    """A quadratic model of one problem at its start.

    curvature: as Lanczos' method saw it from the gradient (k steps); largest: the gradient's
    largest component by weight; unit: that of gradients; step: the first one of steepest descent,
    by the Lipschitz bound; length: the unit of the start's gradient for the first step of
    quasi-Newton methods, infinite where that is 1; ratio: weights for each row of the sample, 0
    where all rows were seen; most: iterations that a method makes on it; scaled: of the methods
    that precondition, by their own weights.
    """

    curvature: Tridiagonal
    largest: float
    unit: float
    step: float
    length: float
    ratio: float = 0.0
    most: int = MOST
    runs: dict[Method, tuple[float, Floats]] = field(default_factory=dict, compare=False)
    scaled: dict[Method, "Sketch"] = field(default_factory=dict)

    @property
    def norm(self) -> float:
        return self.curvature.size

    @cached_property
    def spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues (k,), and the gradient's components along their vectors, (k,)."""
        values, along = self.curvature.quadrature()
        values = np.maximum(values, 0.0)
        return shrunk(values, self.ratio) if self.is_corrected else values, along

    @property
    def is_corrected(self) -> bool:
        """Returns whether the eigenvalues are no longer those that were seen: all were, of a
        sample.
        """
        steps, p = self.curvature.basis.shape
        return steps == p and self.ratio > 0

    def errors(self, method: Method, least: float = LEAST_TOLERANCE) -> Floats:
        """The largest component of the gradient by iteration, as the tolerance has it.

        They end where it is at most `least`, or later.
        """
        known = self.runs.get(method)
        if known is None or known[0] > least:
            first, ends = self.step, least * self.unit
            if method is Method.QUASI_NEWTON:
                first = 1.0 / max(1.0, self.norm / self.length)
            norms, largest = speculate(method, self.curvature, first, ends, self.most)
            if self.is_corrected:
                largest = self._correct(method, first, norms, largest)
            known = self.runs[method] = least, largest / self.unit
        return known[1]

    def _correct(self, method: Method, first: float, norms: Floats, largest: Floats) -> Floats:
        """Iterations by the corrected eigenvalues, whose vectors are unknown.

        The largest component is assumed to be the same share of the norm as at the same decrease
        of the norm by the eigenvalues that were seen.
        """
        ends = 0.5 * float(norms.min())
        found = speculate_apart(method, *self.spectrum, first, ends, self.most)
        fallen = np.minimum.accumulate(norms)[::-1]
        return np.asarray(found * np.interp(found, fallen, (largest / norms)[::-1]))

    def iterations(
        self, method: Method, tolerance: float, bent: float = 0.0, times: float = 1.0
    ) -> Interval:
        """Iterations until the largest component is at most the tolerance.

        bent: further iterations of an objective that is not quadratic; times: a factor on the
        result.
        """
        errors = self.scaled.get(method, self).errors(method, tolerance)
        below = np.flatnonzero(errors <= tolerance)
        if len(below):
            point = times * float(below[0]) + bent
            return Interval.around(point / UNSURE, point, point * UNSURE)
        curve = fit(errors.tolist())
        most = float(len(errors))
        point = max(most, most if curve is None else times * curve.iterations(tolerance).point)
        return Interval.around(most / UNSURE, point, 4 * point)

    def flow(self, tolerance: float) -> float:
        """The time that the gradient's flow dv/dt = -gradient takes to the tolerance."""
        share = self.largest / max(self.norm, 1e-300)
        goal = tolerance * self.unit / max(share, 1e-300)
        eigenvalue, along = self.spectrum
        energy = along**2

        def remaining(t: float) -> float:
            return float(np.sqrt(energy @ np.exp(-2 * np.minimum(eigenvalue * t, 350.0))))

        low, high = 0.0, 1.0
        while remaining(high) > goal and high < 1e15:
            low, high = high, 4 * high
        for _ in range(12):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if remaining(middle) > goal else (low, middle)
        return high


# The planner's inputs, shared by all candidate plans of one training: statistics of the rows, a
# sketch of them, options and memory.


@dataclass(frozen=True)
class Statistics:
    """Statistics of a batch of groups with the same number of features.

    most_rows: of the largest group, as a power of two; the others, for cost estimates, are 0 where
    not counted: rows and entries (values of the features) of all groups. on_disk: bytes of spilled
    rows that a pass has to read.
    """

    most_rows: int
    n_features: int
    sparse: bool
    rows: int = 0
    entries: int = 0
    groups: int = 1
    double: bool = False
    on_disk: float = 0.0

    @property
    def storage(self) -> str:
        """The storage of the rows, as in `tuskml.kernels.passes.KINDS`."""
        return f"{'sparse' if self.sparse else 'dense'} float{64 if self.double else 32}"


@dataclass(frozen=True)
class CustomSeconds:
    """Measured seconds of custom code on all rows: before and in an iteration, or a pass.

    failure: why it could not be measured.
    """

    setup: float
    iteration: float
    failure: str | None


@dataclass(frozen=True)
class AtCorner:
    """Iterations of a method at the hinge, from a sample of the rows.

    ended: whether it converged, else it takes more; unsure: the uncertainty factor; whole: whether
    that was to the requested tolerance.
    """

    iterations: float
    ended: bool
    unsure: float = 2.0
    whole: bool = False


@dataclass(frozen=True)
class Question:
    """Data shared by all candidates of one training.

    length: mean squared length of the centred rows, and spread: of dense features' variances
    (`iterations.py`), if known; spread_with_l2: including the penalty; rarer: the rarer class's
    share of the rows, at the hinge; sketch: a model of the objective (`curves.py`); corner:
    results of methods at the hinge on a sample (`trials.py`); measured: timings that replace
    estimates, by algorithm or as "pass gradient" and "pass curvature"; spent: seconds of a
    completed pass that only plans starting with the curvature use; gpu: whether the rows are on
    one; room: bytes that a plan may take in addition to the rows; shown: results of batches of the
    same call (`trials.py`).
    """

    task: LinearTask
    options: LinearOptions
    seen: Statistics
    threads: int
    measured: Mapping[str, CustomSeconds] = field(default_factory=dict)
    length: float | None = None
    spread: float | None = None
    spread_with_l2: float | None = None
    rarer: float | None = None
    sketch: Sketch | None = None
    corner: Mapping[Method, AtCorner] = field(default_factory=dict)
    spent: float = 0.0
    gpu: bool = False
    room: float = math.inf
    shown: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def has_penalty(self) -> bool:
        """Returns whether large weights cost."""
        return self.options.l1 > 0 or self.options.l2 > 0

    @property
    def rows_of_one(self) -> float:
        """Rows of a group, in the mean; at least 1."""
        return max(self.seen.rows / max(self.seen.groups, 1), 1.0)

    @property
    def wide(self) -> bool:
        """Returns whether sparse rows are fewer than their features."""
        return self.seen.sparse and self.seen.n_features > self.rows_of_one
