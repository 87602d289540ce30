"""The multinomial objective: log sum_k exp(m_k) - m_y, with a margin m_k = w_k.x + b_k per class.

v is (G, K p): the weights of one class after another, each as in `Problem`. Adding the same to the
weights of all classes changes no probability. Without a penalty the first class is the reference,
whose weights are 0 (as in statsmodels' MNLogit); with one all classes have weights, and only the
first class's intercept is 0 until the end (as in scikit-learn).

Tests of whole terms take covariances and likelihood ratios. With K classes, a term of w features
has (K - 1) w coefficients, relative to the first class.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats, Triangles
from tuskml.kernels.softmax import Softmax, Steps
from tuskml.learners.linear.inference.determined import MOST_WEIGHTS, POWERS, rows_for_scores
from tuskml.learners.linear.inference.ratios import ratios_of
from tuskml.learners.linear.inference.roots import pack_triangles, root_of, triangle
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Found, Index, Problem, add_to_diagonal
from tuskml.learners.linear.request import CLUSTERED, FREQUENCY
from tuskml.learners.models import Lists


@dataclass(frozen=True)
class SoftmaxProblem(Problem):
    """The objective for K classes."""

    classes: Softmax | None = None

    @property
    def softmax(self) -> Softmax:
        """The classes."""
        assert self.classes is not None
        return self.classes

    @property
    def p(self) -> int:
        """Weights of one class."""
        return self.d + 1

    @property
    def has_penalty(self) -> bool:
        """Returns whether there is a penalty, so that all classes have weights."""
        return self.l1 > 0 or self.l2 > 0

    def of(self, which: Index) -> Problem:
        part = super().of(which)
        if part is self:
            return part
        return replace(part, classes=self.softmax.of(which))  # type: ignore[call-arg]

    def blocks(self, v: Floats) -> Floats:
        """(G, K p) by class, (G, K, p)."""
        return v.reshape(len(v), self.softmax.n_classes, self.p)

    def to_caller(self, v: Floats) -> Floats:
        """Weights in the caller's units, each class's intercept last, (G, K p)."""
        given = self.blocks(v)
        weights = np.empty_like(given)
        weights[:, :, :-1] = given[:, :, :-1] * self.scale[:, None, :]
        moved = np.einsum("gkd,gd->gk", weights[:, :, :-1], self.shift)
        weights[:, :, -1] = given[:, :, -1] - moved
        return weights.reshape(v.shape)

    def from_caller(self, weights: Floats) -> Floats:
        """The inverse of `to_caller`, of weights that have the same probabilities."""
        given = self.blocks(weights).copy()
        if not self.has_penalty:
            given -= given[:, :1]
        given[:, :, -1] -= given[:, :1, -1]
        v, used = np.zeros_like(given), self.scale > 0
        kept = np.where(used[:, None, :], given[:, :, :-1], 0.0)
        np.divide(kept, self.scale[:, None, :], out=v[:, :, :-1], where=used[:, None, :])
        v[:, :, -1] = given[:, :, -1] + np.einsum("gkd,gd->gk", kept, self.shift)
        v[:, :, -1] -= v[:, :1, -1]
        return v.reshape(weights.shape)

    def free(self) -> Floats:
        """1 for coordinates that move and 0 for others, (K p,)."""
        found = np.ones((self.softmax.n_classes, self.p))
        found[0, 0 if not self.has_penalty else self.d :] = 0.0
        if not self.rows.fit_intercept:
            found[:, -1] = 0.0
        return found.ravel()

    def thresholds(self) -> Floats:
        out = np.zeros((self.n_groups, self.softmax.n_classes, self.p))
        out[:, :, :-1] = self.l1 * self.scale[:, None, :]
        return out.reshape(self.n_groups, -1)

    def penalty(self, coef: Floats) -> Floats:
        """The penalty of coefficients (G, K, d) in the caller's units."""
        return super().penalty(coef.reshape(len(coef), -1))

    def penalty_at(self, v: Floats) -> Floats:
        return self.penalty(self.blocks(self.to_caller(v))[:, :, :-1])

    @property
    def step_rows(self) -> Steps:
        return Steps(self.softmax, self.rows, not self.has_penalty)

    def evaluate(self, v: Floats, curvature: bool = False) -> Found:
        weights = self.blocks(self.to_caller(v))
        sums = self.softmax.gradient(self.rows, weights)
        n, coef = sums[:, 1], weights[:, :, :-1]
        slopes = sums[:, 2:].reshape(weights.shape) / n[:, None, None]
        gradient = slopes.copy()
        moved = slopes[:, :, -1:] * self.shift[:, None, :]
        gradient[:, :, :-1] = (slopes[:, :, :-1] - moved + self.l2 * coef) * self.scale[:, None, :]
        flat = gradient.reshape(v.shape) * self.free()
        objective = sums[:, 0] / n + self.penalty(coef)
        rounding = self._rounding(v, coef)
        return Found(
            objective,
            flat,
            self._violation(flat, v, rounding),
            self._slack(objective, rounding),
            self.pack_curvature_by_weights(weights, n) if curvature else None,
        )

    def objective(self, v: Floats) -> Floats:
        weights = self.blocks(self.to_caller(v))
        sums = self.softmax.gradient(replace(self.rows, loss_only=True), weights)
        objective: Floats = sums[:, 0] / sums[:, 1] + self.penalty(weights[:, :, :-1])
        return objective

    def find_used(self) -> NDArray[np.bool_]:
        """Tests which weights the rows alone determine, (G, K, p): of features that vary, and the
        intercept, except those of the first class.
        """
        found = np.empty((self.n_groups, self.softmax.n_classes, self.p), bool)
        found[:, :, :-1] = self.scale[:, None, :] > 0
        found[:, :, -1] = self.rows.fit_intercept
        found[:, 0] = False
        return found

    def pack_curvature(self, curvature: Floats, n: Floats) -> Floats:
        """The lower triangle of the curvature (G, K p, K p) of the mean loss by free weights."""
        free = self.free()
        whole = curvature / n[:, None, None] * (free[:, None] * free)
        row, column = np.tril_indices(whole.shape[1])
        return np.ascontiguousarray(whole[:, row, column])

    def pack_curvature_by_weights(self, weights: Floats, n: Floats) -> Triangles:
        """The lower triangle of the curvature by v, (G, K p (K p + 1) / 2)."""
        free, packed = self.free(), self.pack_curvature(self.curvature(weights), n)
        if self.l2:
            more = np.zeros_like(weights)
            more[:, :, :-1] = self.l2 * self.scale[:, None, :] ** 2
            add_to_diagonal(packed, more.reshape(len(packed), -1) * free)
        return packed

    def squared_scores(self, weights: Floats, inverse: Floats) -> tuple[Floats, Floats | None]:
        """The summed squares of rows' scores by z (G, K p, K p), or of clusters' and the number
        of these (G,); weights: (G, K, p); inverse (G, K p, K p): of the summed curvature.
        """
        size, leverage = weights.shape[1] * self.p, None
        row, column = np.tril_indices(size)
        clustered = self.covariance == CLUSTERED
        to_z = self.shift, self.scale
        with rows_for_scores(self.rows, FREQUENCY if clustered else self.weight_kind) as (
            rows,
            squared,
        ):
            if POWERS.get(self.covariance):
                packed = np.ascontiguousarray(inverse[:, row, column])
                leverage = packed, POWERS[self.covariance], squared
            packed, clusters = self.softmax.scores(rows, weights, to_z, clustered, leverage)
        whole = np.empty((len(weights), size, size))
        whole[:, row, column] = whole[:, column, row] = packed
        return whole, None if clusters is None else clusters.astype(float)

    def curvature(self, weights: Floats) -> Floats:
        """The summed curvature of the loss by z, (G, K p, K p); weights: (G, K, p)."""
        g, k, p = weights.shape
        sums = self.softmax.curvature(self.rows, weights, self.shift, self.scale)
        whole = np.empty((g, k, p, k, p))
        row, column = np.tril_indices(p)
        for pair, (a, b) in enumerate(zip(*np.tril_indices(k), strict=True)):
            block = np.empty((g, p, p))
            block[:, row, column] = block[:, column, row] = sums[:, pair]
            whole[:, a, :, b, :] = whole[:, b, :, a, :] = block
        return whole.reshape(g, k * p, k * p)


Again = Callable[[SoftmaxProblem, Floats], State]
"""Descends from weights v (G, K p)."""


def spread(problem: SoftmaxProblem, inverse: Floats) -> Floats:
    """The covariance (K - 1, d, K - 1, d) of one group's coefficients in the caller's units, NaN
    of features that never vary; inverse (K p, K p): that of all weights v.
    """
    k, p, unit = problem.softmax.n_classes, problem.p, problem.scale[0]
    found: Floats = inverse.reshape(k, p, k, p)[1:, :-1, 1:, :-1] * unit[:, None, None] * unit
    found[:, unit == 0] = np.nan
    found[..., unit == 0] = np.nan
    return found


def covariances(
    problem: SoftmaxProblem, spreads: Mapping[int, Floats], widths: NDArray[np.int64]
) -> Lists:
    """The covariances of G groups, row by row, NaN where unknown; empty lists for too many
    weights.

    widths (G,): features.
    """
    others, d = problem.softmax.n_classes - 1, problem.d
    if problem.softmax.n_classes * problem.p >= MOST_WEIGHTS:
        d = 0
    unknown = np.full((others, d, others, d), np.nan)
    parts = [
        spreads.get(g, unknown)[:, :own, :, :own].ravel() for g, own in enumerate(widths.tolist())
    ]
    return Lists.of_parts(parts)


def root(problem: SoftmaxProblem, inverse: Floats) -> Floats:
    """A root (K - 1, p, (K - 1) p) of the covariance of one group's coefficients, each class's
    intercept first, in the caller's units, 0 of features that never vary; inverse as in `spread`.
    """
    k, p, unit = problem.softmax.n_classes, problem.p, problem.scale[0]
    own = root_of(inverse[None, p:, p:])[0].reshape(k - 1, p, (k - 1) * p)
    away = np.einsum("d,kdq->kq", -unit * problem.centre[0], own[:, :-1])
    first = (own[:, -1] + away) * float(problem.rows.fit_intercept)
    return np.concatenate([first[:, None], own[:, :-1] * unit[:, None]], axis=1)


def triangles(roots: Mapping[int, Floats], widths: NDArray[np.int64]) -> Lists:
    """The rows of the triangles of groups with a root, one after another; empty lists for others.
    widths (G,): features.
    """
    parts = [np.empty(0)] * len(widths)
    for g, found in roots.items():
        rows = found[:, : 1 + widths[g]].reshape(-1, found.shape[2])
        whole = np.zeros((1, len(rows), max(rows.shape)))
        whole[0, :, : rows.shape[1]] = rows
        lower = pack_triangles(triangle(whole)[:, :, : len(rows)])[0]
        parts[g] = lower if np.isfinite(lower).all() else parts[g]
    return Lists.of_parts(parts)


def likelihood_ratios(
    problem: SoftmaxProblem,
    v: Floats,
    usable: Index,
    widths: NDArray[np.int64],
    again: Again,
    over: Callable[[], bool],
) -> Lists:
    """Degrees of freedom and statistic of each term, as of two classes (`inference/ratios.py`).

    usable: groups whose weights v (G, K p) have the greatest likelihood; widths: features of each
    term, (G, T), -1 behind a group's last one.
    """

    def statistic(which: Index, dropped: NDArray[np.bool_]) -> Floats:
        part = problem.of(which)
        assert isinstance(part, SoftmaxProblem)
        return statistics(part, v[which], dropped, again)

    return ratios_of(problem, usable, widths, statistic, over, problem.softmax.n_classes - 1)


def statistics(
    problem: SoftmaxProblem, v: Floats, dropped: NDArray[np.bool_], again: Again
) -> Floats:
    """2 log(L / L0), (G,); dropped: features that L0 is without, (G, d)."""
    begin = problem.blocks(v).copy()
    begin[:, :, :-1][np.broadcast_to(dropped[:, None, :], begin[:, :, :-1].shape)] = 0.0
    fresh = replace(problem, begun=None, before=None)
    less = replace(fresh, scale=np.where(dropped, 0.0, problem.scale))
    state = again(less, begin.reshape(v.shape))
    ratio = 2 * problem.rows.weight * (less.objective(state.v) - problem.objective(v))
    return np.where(state.converged, np.maximum(ratio, 0.0), np.nan)
