"""The objective of a batch of groups, in coordinates that condition it.

Minimise over w (d features) and b, for each group by itself,

    F(w, b) = mean_i loss(w.x_i + b, y_i) + l2/2 ||w||^2 + l1 ||w||_1.

Algorithms move v, the weights of z = (x - shift) * scale with the intercept last: w = v * scale,
b = v_d - w.shift. With shift the mean and scale one over the standard deviation, features in any
units converge alike, and the objective stays the caller's. Shapes: G groups, d features and
p = d + 1.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuskml.kernels import segments
from tuskml.kernels.open_rows import Open, check_row_choice
from tuskml.kernels.passes import Floats, Pass, Triangles
from tuskml.kernels.softmax import Steps
from tuskml.learners.linear.tasks import LinearTask

Index = NDArray[np.intp]

ROUNDING = 4e-15
"""Rounding left after summing terms of size 1 to zero in double."""
MOST_ROUNDING = 1e-6
"""The largest share of a gradient's unit that counts as rounding: with more, no optimum is known.
"""


@dataclass(frozen=True)
class Found:
    """The result of a pass at v: objective and violation (G,), gradient (G, p), packed hessian.

    gradient and hessian are those of the smooth part in coordinates of v; violation is the largest
    violation of the optimality condition by a coordinate of v beyond rounding, in gradient units
    of the problem; slack bounds the rounding of the objective. For algorithms that know the
    duality gap violation is twice that, and the corner's gradient NaN.
    """

    objective: Floats
    gradient: Floats
    violation: Floats
    slack: Floats
    hessian: Triangles | None = None

    def of(self, which: NDArray[np.bool_] | Index) -> "Found":
        """Selects some of the groups."""
        return Found(
            self.objective[which],
            self.gradient[which],
            self.violation[which],
            self.slack[which],
            None if self.hessian is None else self.hessian[which],
        )

    def put(self, which: Index, other: "Found") -> None:
        """Overwrites the results of some of the groups."""
        self.objective[which] = other.objective
        self.gradient[which] = other.gradient
        self.violation[which] = other.violation
        self.slack[which] = other.slack
        if self.hessian is not None and other.hessian is not None:
            self.hessian[which] = other.hessian


def violations(gradient: Floats, at: Floats, l1: Floats | float) -> Floats:
    """|smallest subgradient| of the smooth part plus l1 |at|, by coordinate."""
    if np.ndim(l1) == 0 and not l1:
        return np.abs(gradient)
    pushed = np.abs(gradient + l1 * np.sign(at))
    resting = np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(at != 0, pushed, resting)


@functools.cache
def diagonal(p: int) -> Index:
    """Indices of the diagonal in a packed lower triangle; not to be written."""
    j = np.arange(p)
    return j * (j + 1) // 2 + j


def diagonal_in(packed: NDArray[np.float64]) -> Index:
    """Indices of the diagonal in triangles (G, p (p + 1) / 2)."""
    return diagonal(round((2 * packed.shape[1]) ** 0.5 - 0.5))


def add_to_diagonal(packed: Triangles, more: Floats) -> None:
    """Adds more, (G, p) or (G, 1), to the diagonals of packed lower triangles."""
    if isinstance(packed, np.ndarray):
        packed[:, diagonal_in(packed)] += more
    else:
        packed.add_to_diagonal(more)


def diagonal_of(packed: NDArray[np.float64]) -> Floats:
    """The diagonals (G, p) of packed lower triangles, copied."""
    return np.asarray(packed[:, diagonal_in(packed)])


def clear_last_row(packed: Triangles, p: int) -> None:
    """Takes the last of p coordinates out of the systems."""
    if isinstance(packed, np.ndarray):
        packed[:, packed.shape[1] - p :] = 0.0
    else:
        packed.clear_last_row()


def room_for(packed: Triangles, n: int) -> Triangles:
    """Memory for n triangles of the same size where these are, not yet written."""
    if isinstance(packed, np.ndarray):
        return np.empty((n, packed.shape[1]))
    return packed.room(n)


@dataclass(frozen=True)
class Before:
    """The previous weights v and gradients there, (G, p), and violations (G,), NaN for groups that
    made no step from there: their weights are those of the start, and their gradients 0.
    """

    v: Floats
    gradient: Floats
    violation: Floats


@dataclass(frozen=True)
class Problem:
    """Rows and objective of G groups; shift and scale are (G, d), label_size (G,): None is 1.

    weight_unit and gradient_unit, (G,), None is 1: the units of changes of v and of gradients by
    v, so that convergence does not depend on the units of labels or of class weights. covariance:
    the kind of standard errors, `inference/determined.py` has the others; weight_kind: as the
    option of this name. begun: packed curvatures
    (G, p (p + 1) / 2) without a penalty, from near the start of a descent, NaN for groups without
    one; before: what is known of the weights a step before the start. Both are None where groups
    are taken out.
    """

    rows: Pass
    task: LinearTask
    l1: float
    l2: float
    shift: Floats
    scale: Floats
    frequency: Floats | None = None
    label_size: Floats | None = None
    precise: bool = False
    weight_unit: Floats | None = None
    gradient_unit: Floats | None = None
    covariance: str = "classic"
    weight_kind: str = "frequency"
    begun: Floats | None = None
    before: Before | None = None
    spread: Floats | None = None

    @property
    def n_rows(self) -> Floats:
        """The rows of each group by which degrees of freedom are counted, (G,)."""
        if self.weight_kind == "frequency":
            return self.rows.weight
        return np.asarray(self.rows.groups["n_rows"], np.float64)

    @property
    def n_groups(self) -> int:
        return len(self.shift)

    @property
    def d(self) -> int:
        return int(self.shift.shape[1])

    def of(self, which: Index) -> "Problem":
        """Selects some of the groups."""
        if len(which) == self.n_groups:
            return self
        return replace(
            self,
            rows=self.rows.of(which),
            shift=self.shift[which],
            scale=self.scale[which],
            frequency=None if self.frequency is None else self.frequency[which],
            label_size=None if self.label_size is None else self.label_size[which],
            weight_unit=None if self.weight_unit is None else self.weight_unit[which],
            gradient_unit=None if self.gradient_unit is None else self.gradient_unit[which],
            begun=None,
            before=None,
            spread=None if self.spread is None else self.spread[which],
        )

    def on(self, rows: Pass) -> "Problem":
        """The objective on other rows of the same groups."""
        return replace(self, rows=rows)

    def take(self, rows: ArrayLike, weights: ArrayLike | None = None) -> "Problem":
        """The objective on chosen rows, whose losses count by their weights.

        rows: (G, k), or a list of G arrays, of row numbers from 0, any number of times; weights:
        of the same shape, None: 1. The mean loss is sum(weights * loss) / k: an unbiased estimate
        of that of all n rows if row i is drawn with probability p_i and has weight 1 / (n p_i).
        Raises OperatorError.
        """
        chosen = check_row_choice(rows, weights, self.rows.groups["n_rows"])
        own = None if self.rows.open is None else self.rows.open.loss
        return self.on(replace(self.rows, open=Open(own, chosen)))

    def chunks(self, group: int) -> Iterator[tuple[int, Any, NDArray[np.float64]]]:
        """A group's rows where they lie: number of the first one, features and labels.

        Features are (n, d), float32 or float64; of sparse rows (starts (n + 1,), ids, values). All
        are views: not to be written, and good while the training lasts.
        """
        yield from segments.chunks(self.rows.groups[group])

    def to_caller(self, v: Floats) -> Floats:
        """Weights in the caller's units, the intercept last."""
        weights = np.empty_like(v)
        np.multiply(v[:, :-1], self.scale, out=weights[:, :-1])
        weights[:, -1] = v[:, -1] - np.einsum("gd,gd->g", weights[:, :-1], self.shift)
        return weights

    @property
    def centre(self) -> Floats:
        """The shift of features in original units, before rows were moved, (G, d)."""
        origin = self.rows.origin
        return self.shift if origin is None else self.shift + origin[:, :-1]

    def as_given(self, v: Floats) -> Floats:
        """`to_caller` for the original features and labels, before rows were moved."""
        weights = self.to_caller(v)
        return weights if self.rows.origin is None else self._move(weights, -1.0)

    def from_given(self, weights: Floats) -> Floats:
        """The inverse of `as_given`."""
        moved = weights if self.rows.origin is None else self._move(weights.copy(), 1.0)
        return self.from_caller(moved)

    def _move(self, weights: Floats, sign: float) -> Floats:
        """Changes weights (G, K p) of K classes, or of one, to those of rows less sign times the
        origin.
        """
        origin = self.rows.origin
        assert origin is not None
        each = weights.reshape(len(weights), -1, self.d + 1)
        moved = np.einsum("gkd,gd->gk", each[:, :, :-1], origin[:, :-1]) - origin[:, -1:]
        each[:, :, -1] += sign * moved
        return weights

    def from_caller(self, weights: Floats) -> Floats:
        """The inverse of `to_caller`."""
        v = np.empty_like(weights)
        used = self.scale > 0
        np.divide(weights[:, :-1], self.scale, out=v[:, :-1], where=used)
        v[:, :-1][~used] = 0.0
        kept = np.where(used, weights[:, :-1], 0.0)
        v[:, -1] = weights[:, -1] + np.einsum("gd,gd->g", kept, self.shift)
        return v

    def thresholds(self) -> Floats:
        """The l1 weight of each coordinate of v, (G, p)."""
        out = np.zeros((self.n_groups, self.d + 1))
        out[:, :-1] = self.l1 * self.scale
        return out

    def penalty(self, coef: Floats) -> Floats:
        """The penalty of coefficients in the caller's units."""
        total = np.zeros(len(coef))
        if self.l2:
            total += 0.5 * self.l2 * np.einsum("gd,gd->g", coef, coef)
        if self.l1:
            total += self.l1 * np.abs(coef).sum(axis=1)
        return total

    def penalty_at(self, v: Floats) -> Floats:
        """The penalty of weights v, (G,)."""
        return self.penalty(self.to_caller(v)[:, :-1])

    @property
    def step_rows(self) -> Pass | Steps:
        """The object that runs stochastic epochs on the rows."""
        return self.rows

    def evaluate(self, v: Floats, curvature: bool = False) -> Found:
        """Makes one pass over the rows at v."""
        weights = self.to_caller(v)
        if curvature:
            given = weights, self.shift, self.scale, self.precise
            sums, packed = self.rows.curvature_apart(*given)
        else:
            sums = self.rows.gradient(weights)
        n = sums[:, 1:2]
        coef = weights[:, : self.d]
        gradient = self.smooth_gradient(sums[:, 2 : self.d + 3] / n, weights)
        objective = sums[:, 0] / n[:, 0] + self.penalty(coef)
        rounding = self._rounding(v, coef)
        return Found(
            objective,
            gradient,
            self._violation(gradient, v, rounding),
            self._slack(objective, rounding),
            self.with_penalty(packed / n) if curvature else None,
        )

    def smooth_gradient(self, slopes: Floats, weights: Floats) -> Floats:
        """The gradient by v of the mean loss and the l2 part, (G, p); slopes: of the mean loss by
        weights in the caller's units, which are these weights.
        """
        d = self.d
        gradient = np.empty_like(weights)
        gradient[:, :d] = (slopes[:, :d] - self.shift * slopes[:, d:]) * self.scale
        if self.l2:
            gradient[:, :d] += self.l2 * self.scale * weights[:, :d]
        gradient[:, d:] = slopes[:, d:] if self.rows.fit_intercept else 0.0
        return gradient

    def violation(self, gradient: Floats, v: Floats) -> Floats:
        """The largest violation of optimality at v, (G,), as of `Found`."""
        coef = self.to_caller(v)[:, :-1]
        return self._violation(gradient, v, self._rounding(v, coef))

    def _rounding(self, v: Floats, coef: Floats) -> Floats:
        """The rounding error of residuals or margins at weights v (G, p), (G,), from the terms of
        their sums. coef: of features in the caller's units, of one class or of all.
        """
        by_class = coef.reshape(len(coef), -1, self.d)
        terms = np.abs(v).sum(axis=1) + np.abs(by_class * self.shift[:, None]).sum(axis=(1, 2))
        size = 1.0 if self.label_size is None else self.label_size
        return np.asarray(ROUNDING * (terms + size))

    def _in_gradient(self, rounding: Floats) -> Floats:
        """The error of gradients where margins have the error `rounding`, (G,).

        Slopes of losses change by as much times the curvature, whose mean is in the units.
        """
        gradient, margin = self._units
        return np.asarray(np.minimum(rounding / margin, MOST_ROUNDING) * gradient)

    @property
    def _units(self) -> tuple[Floats | float, Floats | float]:
        """The units of gradients and of margins, (G,)."""
        gradient, margin = self.gradient_unit, self.weight_unit
        return 1.0 if gradient is None else gradient, 1.0 if margin is None else margin

    def _slack(self, objective: Floats, rounding: Floats) -> Floats:
        """Residuals that are off by `rounding` change a sum of their squares by less; the slopes
        of other losses are about the gradient's unit.
        """
        size = np.abs(objective)
        gradient, _ = self._units
        change = rounding * np.maximum(gradient, 0.0 if self.task.of_label else 1.0)
        if self.task.quadratic:
            change = np.sqrt(2 * size) * rounding + rounding**2
        return ROUNDING * size + change

    def objective(self, v: Floats) -> Floats:
        """The objective at v alone, (G,), in a cheaper pass than `evaluate`."""
        weights = self.to_caller(v)
        sums = replace(self.rows, loss_only=True).gradient(weights)
        objective: Floats = sums[:, 0] / sums[:, 1] + self.penalty(weights[:, :-1])
        return objective

    def _violation(self, gradient: Floats, v: Floats, rounding: Floats) -> Floats:
        """The largest violation in gradient units, beyond the rounding of margins."""
        worst = violations(gradient, v, self.thresholds() if self.l1 else 0.0).max(axis=1)
        return self.in_gradient_units(np.maximum(worst - self._in_gradient(rounding), 0.0))

    def in_gradient_units(self, size: Floats) -> Floats:
        """Sizes of gradients by v, (G,), as the tolerance measures them."""
        return size if self.gradient_unit is None else size / self.gradient_unit

    def with_penalty(self, packed: Triangles, sign: float = 1.0) -> Triangles:
        """Curvatures with the penalty's, which is added to them there; sign: -1 takes it away."""
        if self.l2:
            more = np.zeros((self.n_groups, self.d + 1))
            more[:, :-1] = sign * self.l2 * self.scale**2
            add_to_diagonal(packed, more)
        if not self.rows.fit_intercept:
            clear_last_row(packed, self.d + 1)
        return packed

    def proximal(self, v: Floats, step: Floats) -> Floats:
        """The proximal step of the l1 part: soft thresholding."""
        if not self.l1:
            return v
        return np.sign(v) * np.maximum(np.abs(v) - step[:, None] * self.thresholds(), 0.0)


def curvature_bound(problem: Problem) -> Floats:
    """About the gradient's Lipschitz constant by group, (G,): l'' at most times the mean ||z||^2.

    Dense z have unit variance; sparse ones about one in each of their entries.
    """
    loss = problem.task.steepest
    if not problem.task.smooth and problem.rows.smoothing > 0:
        loss = 1.0 / problem.rows.smoothing
    norm = np.full(problem.n_groups, float(problem.d))
    if problem.rows.sparse:
        norm = problem.rows.entries() / problem.rows.groups["n_rows"]
    return common_class_weight(problem) * loss * (norm + 1.0)


def common_class_weight(problem: Problem) -> Floats:
    """A power of 4 (G,) close to both class weights if both are well above or below 1; else 1."""
    weight = problem.rows.class_weight
    if weight is None:
        return np.ones(problem.n_groups)
    near = np.clip(1.0, weight.min(axis=1), weight.max(axis=1))
    return np.asarray(4.0 ** np.round(np.log2(near) / 2))
