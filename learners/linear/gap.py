"""A lower bound of the hinge's objective, which tells how far a model is from the best one.

By weak duality: for any 0 <= a_i <= c_i with sum a_i y_i = 0 (where there is an intercept) no
weights have an objective below

    D(a) = mean a_i - max_w (g.w - l2/2 ||w||^2 - l1 ||w||_1),    g = mean a_i y_i z_i,

which is mean a_i - sum_j max(|g_j| - l1, 0)^2 / (2 l2) with l2 > 0. Any weights make such an a:
c_i times the slope of the hinge with a corner of some width. It is scaled down by class until the
sums of both classes agree. Two gradients, one per class, are all that is needed. Shapes: G groups,
d features; all is in coordinates of z = x - shift.

Without a penalty g has to vanish and hardly ever does. There the bound holds for weights whose
standardised absolute values add up to at most REACH times those at hand, or REACH; and the hinge
is never below 0. So what dual variables prove is a line: less, the larger the weights at hand are.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import MOST_ROUNDING, ROUNDING, Found, Index, Problem

REACH = 2.0
SELDOM = 20
"""Iterations between two looks at a gap that is not expected to be small."""
CORNERS = tuple(10.0 ** (-k / 2) for k in range(13))
"""Widths of the corner that make dual variables of weights that were not smoothed for."""
FIRST_CORNER = 4
LAST_DIGITS = 10 * ROUNDING
SHARES = (1.0, 0.999, 0.99, 0.9, 0.5)
"""Shares of the dual variables that are tried where l1 > 0: smaller ones may be allowed by it."""


@dataclass(frozen=True)
class DualPoint:
    """Dual variables summed up: total (G,) is the mean of a, pull (G, d) that of a_i y_i z_i."""

    total: Floats
    pull: Floats


def dual_point(problem: Problem, v: Floats, corner: float) -> DualPoint:
    """The dual variables that weights v (G, p) make with a corner of that width."""
    weights = problem.to_caller(v)
    rows = replace(problem.rows, smoothing=corner, loss_only=False)
    one = (replace(rows, class_weight=one_class(problem, high)) for high in (False, True))
    return sum_duals(problem, (each.gradient(weights) for each in one))


def sum_duals(problem: Problem, gradients: Iterable[Floats]) -> DualPoint:
    """The dual variables summed up, from the sums of a gradient over the rows of each class."""
    totals, pulls, d = [], [], problem.d
    for sums in gradients:
        slope = sums[:, d + 2 : d + 3]
        totals.append(np.abs(slope[:, 0]) / sums[:, 1])
        pulls.append((problem.shift * slope - sums[:, 2 : d + 2]) / sums[:, 1:2])
    return balance_classes(problem.rows.fit_intercept, np.array(totals), np.array(pulls))


def balance_classes(fit_intercept: bool, totals: Floats, pulls: Floats) -> DualPoint:
    """The classes' means (2, G) and (2, G, d), that of the heavier class scaled down."""
    if fit_intercept:
        least = totals.min(axis=0)
        share = np.divide(least, totals, where=totals > 0, out=np.zeros_like(totals))
        totals, pulls = totals * share, pulls * share[:, :, None]
    return DualPoint(totals.sum(axis=0), pulls.sum(axis=0))


def one_class(problem: Problem, high: bool) -> Floats:
    """Class weights (G, 2) that zero the rows of the other class."""
    given = problem.rows.class_weight
    weights = np.ones((problem.n_groups, 2)) if given is None else given.copy()
    weights[:, 0 if high else 1] = 0.0
    return weights


def lower_bound(problem: Problem, at: DualPoint, v: Floats) -> Floats:
    """The least objective that any weights may have, (G,); without a penalty, see above."""
    total, l1, l2 = at.total, problem.l1, problem.l2
    pull = felt(problem, at)
    if not l1 and not l2:
        found = total - reach(v) * steepest(problem, at)
    elif not l1:
        squared = np.einsum("gd,gd->g", pull, pull) / l2
        best = np.divide(total, squared, where=squared > 0, out=np.ones_like(total))
        share = np.minimum(best, 1.0)
        found = share * total - share**2 * squared / 2
    else:
        largest = np.maximum(pull.max(axis=1, initial=0.0), l1)
        found = np.maximum(l1 / largest * total, total - (largest - l1) * worst(problem) / l1)
        for share in SHARES if l2 else ():
            excess = np.maximum(share * pull - l1, 0.0)
            less = np.einsum("gd,gd->g", excess, excess) / (2 * l2)
            found = np.maximum(found, share * total - less)
    return np.asarray(np.maximum(found, 0.0))


def felt(problem: Problem, at: DualPoint) -> Floats:
    """The absolute pull (G, d), less its rounding."""
    pull = np.maximum(np.abs(at.pull) - at.total[:, None] * rounding(problem), 0.0)
    pull[problem.scale == 0] = 0.0
    return pull


def reach(v: Floats) -> Floats:
    """The largest weights for which a bound without a penalty holds, (G,)."""
    return np.asarray(REACH * np.maximum(np.abs(v[:, :-1]).sum(axis=1), 1.0))


def steepest(problem: Problem, at: DualPoint) -> Floats:
    """The decrease of the bound without a penalty per unit of weights, (G,)."""
    return np.asarray((felt(problem, at) * problem.scale).max(axis=1, initial=0.0))


def rounding(problem: Problem) -> Floats:
    """Rounding error of feature means (G, d); it dominates for tiny penalties."""
    deviation = np.divide(
        1.0, problem.scale, where=problem.scale > 0, out=np.zeros_like(problem.scale)
    )
    found = LAST_DIGITS * (np.abs(problem.shift) + deviation)
    return np.asarray(np.minimum(found, MOST_ROUNDING * deviation))


def worst(problem: Problem) -> Floats:
    """An upper bound of the optimal objective, (G,): at most the loss of weights that are all
    0.
    """
    given = problem.rows.class_weight
    return np.ones(problem.n_groups) if given is None else np.asarray(given.max(axis=1))


def raise_bound(problem: Problem, state: State, which: Index, corner: float) -> None:
    """Keeps the bound of some groups where their weights make a higher one."""
    part = problem.of(which)
    keep_bound(part, state, which, dual_point(part, state.v[which], corner))


def keep_bound(part: Problem, state: State, which: Index, at: DualPoint) -> None:
    """Keeps the bound of dual variables of part, which has the groups `which`."""
    if part.l1 or part.l2:
        state.below[which] = np.maximum(state.below[which], lower_bound(part, at, state.v[which]))
        return
    if state.line is None:
        state.line = np.zeros((len(state.v), 2))
    line = state.line
    found = np.stack([at.total, steepest(part, at)], axis=1)
    size = reach(state.v[which])
    higher = found[:, 0] - size * found[:, 1] > line[which, 0] - size * line[which, 1]
    line[which[higher]] = found[higher]
    move_bound(part, state, which)


def move_bound(problem: Problem, state: State, which: Index) -> None:
    """Moves the bound of some groups to their present weights, if there is no penalty."""
    line = state.line
    if line is not None and not (problem.l1 or problem.l2):
        moved = line[which, 0] - reach(state.v[which]) * line[which, 1]
        state.below[which] = np.maximum(moved, 0.0)


def gaps(state: State, which: Index, objective: Floats) -> Floats:
    """The differences of objectives of some groups to their bounds, less rounding."""
    slack = ROUNDING * np.maximum(np.abs(objective), 1.0)
    return np.asarray(np.maximum(objective - state.below[which] - slack, 0.0))


def wants_gap(problem: Problem, converge: str, epsilon: float) -> bool:
    """Returns whether a training ends by its gap: that of the hinge, unless another criterion was
    named.
    """
    hinge = problem.task.name == "svm" and problem.rows.open is None
    return hinge and converge == "gradient" and epsilon > 0


@dataclass
class WithinGap:
    """Converge: the objective is proved to be within epsilon / 2 of the least.

    Looks cost three passes: where the corner is smoothed, there is one as soon as the gradient
    says that the gap may be small, and every SELDOM iterations. `problem` is of all groups.
    Where it is not smoothed, groups walk along CORNERS: corner (G,), the place they are at; turn
    (G,), which way they go; before (G,), their bounds at the last place.
    """

    problem: Problem
    epsilon: float
    corner: NDArray[np.int64] = field(init=False)
    turn: NDArray[np.int64] = field(init=False)
    before: Floats = field(init=False)

    def __post_init__(self) -> None:
        n = self.problem.n_groups
        self.corner, self.turn = np.full(n, FIRST_CORNER), np.ones(n, np.int64)
        self.before = np.zeros(n)

    def __call__(self, state: State, active: Index, found: Found | None) -> NDArray[np.bool_]:
        done = np.zeros(len(active), bool)
        if found is None:
            return done
        if self.problem.rows.smoothing > 0:
            due = np.flatnonzero(self._near(active, found) | (state.iteration % SELDOM == 0))
            done[due] = self._smooth(state, active[due])
        else:
            for corner in sorted(set(self.corner[active].tolist())):
                which = active[self.corner[active] == corner]
                raise_bound(self.problem, state, which, CORNERS[corner])
            self._turn(state, active)
            done[:] = self._within(state, active, found.objective)
        return done

    def _within(self, state: State, which: Index, objective: Floats) -> NDArray[np.bool_]:
        """Tests whose gaps are small enough; notes the largest one."""
        left = gaps(state, which, objective)
        state.gaps_seen.append((state.iteration, float(left.max(initial=0.0))))
        return np.asarray(left <= self.epsilon / 2)

    def _near(self, active: Index, found: Found) -> NDArray[np.bool_]:
        """Tests where the smoothed problem's gap is small; with l2 alone it is the gradient's."""
        if self.problem.l1 or not self.problem.l2:
            return np.asarray(found.violation <= self.epsilon)
        scale = self.problem.scale[active]
        used = scale > 0
        plain = np.divide(found.gradient[:, :-1], scale, where=used, out=np.zeros_like(scale))
        gap = np.einsum("gd,gd->g", plain, plain) / (2 * self.problem.l2)
        return np.asarray(gap <= self.epsilon / 2)

    def _smooth(self, state: State, which: Index) -> NDArray[np.bool_]:
        if not len(which):
            return np.zeros(0, bool)
        raise_bound(self.problem, state, which, self.problem.rows.smoothing)
        return self._within(state, which, sharp(self.problem, state, which))

    def _turn(self, state: State, active: Index) -> None:
        """Goes on to the neighbouring corner, back where the bound has not risen."""
        risen = state.below[active] > self.before[active]
        self.turn[active] *= np.where(risen, 1, -1)
        self.before[active] = state.below[active]
        moved = self.corner[active] + self.turn[active]
        self.corner[active] = np.clip(moved, 0, len(CORNERS) - 1)


def sharp(problem: Problem, state: State, which: Index) -> Floats:
    """The objective of some groups with the hinge's corner as it is."""
    part = problem.of(which)
    return part.on(replace(part.rows, smoothing=0.0)).objective(state.v[which])


def settle_gap(problem: Problem, state: State, corner: float, epsilon: float) -> None:
    """Sets what converged from the gap of the final weights, or another algorithm's bound.

    corner: that of the last stage, 0 without one. Raises a bound once more where it is not known
    to suffice. state.objective is that of the hinge itself.
    """
    move_bound(problem, state, np.arange(len(state.v)))
    for width in (corner,) if corner > 0 else CORNERS:
        every = np.arange(len(state.v))
        open_ = every[gaps(state, every, state.objective) > epsilon / 2]
        if len(open_):
            raise_bound(problem, state, open_, width)
    state.converged = gaps(state, np.arange(len(state.v)), state.objective) <= epsilon / 2
