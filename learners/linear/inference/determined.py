"""Directions that the rows determine without a penalty: span, least norm, covariances by the
curvature and by the scores.

Where features depend on each other many weights fit equally well. The answer is the one with the
least norm over features centred by their mean and divided by their standard deviation (without an
intercept: by the root of their mean square), as `numpy.linalg.pinv` of such columns gives it. All
numbers here are of all rows, so that the answer depends on nothing else.

Coordinates: u = v sigma, and b = v_d + v.mean for the intercept; sigma and mean are those of z.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.parts.sharded import entry_sums, pass_of_squares
from tuskml.kernels.passes import Floats, Pass, copy_rows
from tuskml.kernels.segments import labels_of
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Index, Problem
from tuskml.learners.linear.request import CLUSTERED, FREQUENCY, SURVEY

Bools = NDArray[np.bool_]
P = TypeVar("P", bound=Problem)

MOST_WEIGHTS = 513
"""Weights up to which matrices (p, p) of rows are made in addition to those of an algorithm."""
CONSTANT = 1e-13
"""Part of its mean square that a feature's variance must exceed to be one."""
DEPENDENT = 1e-13
"""Eigenvalue of the correlations up to which a direction is not there, at least."""
NOTHING = 1e-15
"""Eigenvalue of a curvature, relative to the largest, up to which it is rounding."""
ESTIMABLE = 1e-6
"""Component along undetermined directions below which a coefficient is determined."""
ENTRIES = 1 << 20
"""Entries of matrices (p, p) that are processed at once."""


@dataclass(frozen=True)
class Span:
    """The span of the rows of G groups.

    sigma, mean (G, d): of the features of z, sigma 0 where they are constant; null (G, d, d): the
    projection on the undetermined directions of u; rank (G,): independent directions, the
    intercept counted; seen (G, d): features that are not 0 everywhere; least (G,): the least
    eigenvalue of the features' correlations in a determined direction.
    """

    sigma: Floats
    mean: Floats
    null: Floats
    rank: NDArray[np.int64]
    seen: NDArray[np.bool_]
    least: Floats

    def of(self, which: Index) -> "Span":
        """Selects some of the groups."""
        return Span(*(getattr(self, f.name)[which] for f in fields(Span)))

    @property
    def constant(self) -> NDArray[np.bool_]:
        """Features that occur and never vary, (G, d)."""
        return np.asarray(self.seen & (self.sigma == 0))

    def dependent(self, intercept: bool) -> NDArray[np.bool_]:
        """Groups (G,) whose features that vary depend on each other."""
        return np.asarray(self.rank < (self.sigma > 0).sum(axis=1) + int(intercept))


def blocks(n: int, p: int) -> Iterator[Index]:
    """The numbers of n groups, in parts whose matrices (p, p) do not take much memory."""
    each = max(1, ENTRIES // (p * p))
    for first in range(0, n, each):
        yield np.arange(first, min(first + each, n))


def span(problem: Problem) -> Span:
    """The span of the rows of each group, by one pass over them."""
    parts = [
        span_of(products(problem.of(some)), problem.rows.fit_intercept)
        for some in blocks(problem.n_groups, problem.d + 1)
    ]
    if len(parts) == 1:
        return parts[0]
    names = [f.name for f in fields(Span)]
    return Span(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def deviations(problem: Problem) -> Floats:
    """The deviations of features in the caller's units, (G, d), by one pass over the rows.

    For constant features it is their size.
    """
    if problem.d >= MOST_WEIGHTS:
        return _wide_deviations(problem)
    parts = [
        _spread(products(problem.of(some)), problem.rows.fit_intercept)
        for some in blocks(problem.n_groups, problem.d + 1)
    ]
    sigma, mean = (np.concatenate([getattr(p, name) for p in parts]) for name in ("sigma", "mean"))
    size, used = np.where(sigma > 0, sigma, np.abs(mean)), problem.scale > 0
    return np.asarray(np.divide(size, problem.scale, where=used, out=np.zeros_like(size)))


def _wide_deviations(problem: Problem) -> Floats:
    """As `deviations`, without matrices (p, p)."""
    rows = problem.rows
    if rows.sparse:
        mean, square = moments(rows)
        variance = square - mean**2
    else:
        mean, deviation = rows.feature_moments(int(rows.groups["n_rows"].max()))
        variance = deviation**2
        square = variance + mean**2
    if not rows.fit_intercept:
        variance = square
    varies = np.isfinite(variance) & (variance > CONSTANT * square)
    size = np.where(varies, np.sqrt(np.maximum(variance, 0.0)), np.abs(mean))
    return np.where(problem.scale > 0, size, 0.0)


def products(problem: Problem) -> Floats:
    """Mean products (G, p, p) of the features of z and a constant 1."""
    rows = problem.rows
    nothing = np.zeros((problem.n_groups, problem.d + 1))
    sums = pass_of_squares(rows).curvature(nothing, problem.shift, problem.scale, precise=True)
    return unpack_triangles(sums[:, problem.d + 3 :]) / sums[:, 1, None, None]


def unpack_triangles(packed: Floats) -> Floats:
    """Symmetric matrices (G, p, p) from their packed lower triangles."""
    p = round((2 * packed.shape[1]) ** 0.5 - 0.5)
    full = np.zeros((len(packed), p, p))
    row, column = np.tril_indices(p)
    full[:, row, column] = full[:, column, row] = packed
    return full


@dataclass(frozen=True)
class Spread:
    """square, mean, variance and sigma (G, d) of features of z; sigma 0: it never varies."""

    square: Floats
    mean: Floats
    variance: Floats
    sigma: Floats


def _spread(moments: Floats, intercept: bool) -> Spread:
    d = moments.shape[1] - 1
    square = np.einsum("gjj->gj", moments)[:, :d]
    mean = moments[:, d, :d] if intercept else np.zeros_like(square)
    variance = square - mean**2
    varies = np.isfinite(variance) & (variance > CONSTANT * square)
    return Spread(square, mean, variance, np.sqrt(np.where(varies, variance, 0.0)))


def span_of(moments: Floats, intercept: bool) -> Span:
    """The span of rows whose `products` are given."""
    seen = _spread(moments, intercept)
    square, mean, variance, sigma = seen.square, seen.mean, seen.variance, seen.sigma
    d, varies = square.shape[1], sigma > 0
    inverse = np.divide(1.0, sigma, where=varies, out=np.zeros_like(sigma))
    centred = moments[:, :d, :d] - mean[:, :, None] * mean[:, None, :]
    both = np.nan_to_num(centred) * inverse[:, :, None] * inverse[:, None, :]
    size, direction = np.linalg.eigh(both)
    largest = size.max(axis=1, initial=0.0)
    far = np.divide(square, variance, where=varies, out=np.ones_like(square)).max(
        axis=1, initial=1.0
    )
    rounding = np.finfo(float).eps * np.maximum(8 * d * largest, 16 * far)
    absent = size <= np.maximum(DEPENDENT, rounding)[:, None]
    null = (direction * absent[:, None, :]) @ direction.transpose(0, 2, 1)
    rank = (~absent).sum(axis=1) + int(intercept)
    least = np.where(absent, np.inf, size).min(axis=1, initial=np.inf)
    return Span(sigma, mean, null, rank, square > 0, least)


def without_constants(problem: P, state: State) -> tuple[P, Bools]:
    """The problem with scale 0 for features that never vary, as `describe` has it for dense rows
    alone, and which groups (G,) have such features that occur. Their weights move to the intercept
    in state; without an intercept only features of zeros never vary.
    """
    rows, d, v = problem.rows, problem.d, state.v
    if not rows.sparse:
        return problem, np.any(problem.scale == 0, axis=1)
    count, largest = rows.counts_of_features
    zero, mean = largest == 0, np.zeros_like(largest)
    constant = zero
    everywhere = rows.fit_intercept & (count >= rows.groups["n_rows"][:, None])
    if everywhere.any() or rows.has_weights:  # rows may weigh nothing
        mean, square = moments(rows)
        zero = square == 0
        spread = np.abs(square - mean**2)  # ids that rows repeat make it negative
        constant = zero | (rows.fit_intercept & (spread <= CONSTANT * square))
    if not constant.any():
        return problem, np.zeros(problem.n_groups, bool)
    weights = problem.to_caller(v).copy()
    each = weights.reshape(len(v), -1, d + 1)
    given = np.where(constant[:, None], each[:, :, :-1], 0.0)
    each[:, :, :-1] -= given
    each[:, :, -1] += np.einsum("gkd,gd->gk", given, mean)
    problem = replace(problem, scale=np.where(constant, 0.0, problem.scale))
    state.v[:] = problem.from_caller(weights)
    moved = np.flatnonzero((constant & ~zero).any(axis=1))
    state.stale[moved] = True
    if len(moved) and (problem.l1 or problem.l2):
        state.objective[moved] = problem.of(moved).objective(state.v[moved])
    return problem, np.asarray((constant & (count > 0)).any(axis=1))


def moments(rows: Pass) -> tuple[Floats, Floats]:
    """Mean and mean square (G, d) of sparse features, by one pass over their entries."""
    sums, squares = entry_sums(rows)
    return sums[:, :-1] / squares[:, -1:], squares[:, :-2] / squares[:, -1:]


def to_own(spanned: Span, v: Floats) -> Floats:
    """(u, b) of weights v, each (G, p)."""
    own = np.empty_like(v)
    own[:, :-1] = v[:, :-1] * spanned.sigma
    own[:, -1] = v[:, -1] + np.einsum("gd,gd->g", v[:, :-1], spanned.mean)
    return own


def to_v(spanned: Span, own: Floats) -> Floats:
    """The inverse of `to_own`; features that never vary weigh nothing."""
    v = np.zeros_like(own)
    np.divide(own[:, :-1], spanned.sigma, where=spanned.sigma > 0, out=v[:, :-1])
    v[:, -1] = own[:, -1] - np.einsum("gd,gd->g", v[:, :-1], spanned.mean)
    return v


def least_norm(spanned: Span, v: Floats) -> Floats:
    """The weights with the least norm that make the same margins as v, (G, p)."""
    own = to_own(spanned, v)
    own[:, :-1] -= np.einsum("gjk,gk->gj", spanned.null, own[:, :-1])
    return to_v(spanned, own)


@dataclass(frozen=True)
class SpanCurvature:
    """The curvature H on a span: inverse (G, p, p) of H in coordinates (u, b), 0 off the span."""

    spanned: Span
    inverse: Floats

    def of(self, which: Index) -> "SpanCurvature":
        """Selects some of the groups."""
        return SpanCurvature(self.spanned.of(which), self.inverse[which])

    def step(self, gradient: Floats) -> Floats:
        """H^-1 gradient on the span, in coordinates of v like the gradient, both (G, p)."""
        found = np.einsum("gjk,gk->gj", self.inverse, _gradient(self.spanned, gradient))
        return to_v(self.spanned, found)

    def variances(self, problem: Problem) -> tuple[Floats, Floats]:
        """Variances of weights of z (G, d) and of the intercept in the caller's units (G,),
        without the factor s^2 / n; NaN where the rows do not determine them.
        """
        s = self.spanned
        unit = np.divide(1.0, s.sigma, where=s.sigma > 0, out=np.zeros_like(s.sigma))
        own = np.einsum("gjj->gj", self.inverse)[:, :-1] * unit**2
        free = np.einsum("gjj->gj", s.null) > ESTIMABLE**2
        direction = np.ones((len(own), problem.d + 1))
        direction[:, :-1] = -(s.mean + problem.scale * problem.centre) * unit
        constant = np.einsum("gj,gjk,gk->g", direction, self.inverse, direction)
        astray = np.einsum("gjk,gk->gj", s.null, direction[:, :-1])
        size = np.sqrt(np.einsum("gj,gj->g", direction, direction))
        lost = np.sqrt(np.einsum("gj,gj->g", astray, astray)) > ESTIMABLE * size
        return np.where(free, np.nan, own), np.where(lost, np.nan, constant)


def _gradient(s: Span, gradient: Floats) -> Floats:
    """A gradient by v as one by (u, b)."""
    own = gradient.copy()
    own[:, :-1] -= s.mean * gradient[:, -1:]
    return np.asarray(to_v_like(s, own))


def to_v_like(s: Span, own: Floats) -> Floats:
    """Features' items divided by sigma, 0 where that is 0."""
    out = own.copy()
    out[:, :-1] = np.divide(own[:, :-1], s.sigma, where=s.sigma > 0, out=np.zeros_like(s.sigma))
    return out


def curvature_on_span(spanned: Span, hessian: Floats, intercept: bool) -> SpanCurvature:
    """The curvature of packed triangles (G, p (p + 1) / 2), by v, on the span."""
    on, h = _on_span(spanned, hessian, intercept)
    whole = np.linalg.pinv(h, rcond=NOTHING, hermitian=True)
    return SpanCurvature(spanned, on @ whole @ on)


def root(spanned: Span, hessian: Floats, intercept: bool) -> Floats:
    """A root (G, p, p) of the inverse of `curvature_on_span`, root root', its rows by (u, b)."""
    on, h = _on_span(spanned, hessian, intercept)
    size, direction = np.linalg.eigh(h)
    there = size > NOTHING * size[:, -1:]
    length = np.where(there, 1 / np.sqrt(np.where(there, size, 1.0)), 0.0)
    return np.asarray(on @ (direction * length[:, None, :]))


def _on_span(spanned: Span, hessian: Floats, intercept: bool) -> tuple[Floats, Floats]:
    """The projection (G, p, p) on the span in (u, b), and the curvature there, of about the same
    size off the span.
    """
    h = unpack_triangles(hessian)
    unit = np.divide(1.0, spanned.sigma, where=spanned.sigma > 0, out=np.zeros_like(spanned.sigma))
    h[:, :-1, :] -= spanned.mean[:, :, None] * h[:, -1:, :]
    h[:, :, :-1] -= h[:, :, -1:] * spanned.mean[:, None, :]
    h[:, :-1, :] *= unit[:, :, None]
    h[:, :, :-1] *= unit[:, None, :]
    p = h.shape[1]
    off = np.zeros_like(h)
    off[:, :-1, :-1] = spanned.null
    off[:, -1, -1] = 0.0 if intercept else 1.0
    on = np.eye(p) - off
    size = np.maximum(np.einsum("gjj->g", h) / p, np.finfo(float).tiny)[:, None, None]
    return on, on @ h @ on + size * off


# Standard errors that hold where the variance of the loss's derivative differs from the model's.
#
# The covariance is the sandwich H^-1 S H^-1 of the summed curvature H and the sum S of squared
# scores. HC0 (White, A heteroskedasticity-consistent covariance matrix estimator, 1980) is this
# itself. HC1 multiplies it by n / (n - p). HC2 and HC3 divide a row's squared score by 1 - h and
# (1 - h)^2, h its leverage (MacKinnon and White, Some heteroskedasticity-consistent covariance
# matrix estimators, 1985). A row of weight 2 is two rows, or by option `weight_kind` one row whose
# score is twice as large (Binder, On the variances of asymptotically normal estimators from
# complex surveys, 1983).
#
# Where rows of one cluster depend on each other, S is the sum over clusters of the squared sums of
# their rows' scores (Liang and Zeger, Longitudinal data analysis using generalized linear models,
# 1986). With c clusters it is multiplied by c / (c - 1) (n - 1) / (n - p), as in Stata's regress
# and in statsmodels; one cluster alone has no such errors.

POWERS = {"HC0": 0, "HC1": 0, "HC2": 1, "HC3": 2, SURVEY: 0}
"""The power of 1 - h that divides squared scores."""


def variances(
    problem: Problem, v: Floats, hessian: Floats, directions: Floats
) -> tuple[Floats, Floats, Floats]:
    """n times the variances of the weights of z (G, d) and of the intercept in the caller's units
    (G,), where the rows determine all weights of features that vary; and the clusters of rows
    (G,), NaN unless the errors are by cluster.

    v (G, p): the weights; hessian: the packed mean curvature there; directions (G, p): the
    intercept is v times these.
    """
    whole = unpack_triangles(hessian)
    lost = ~np.isfinite(whole).all(axis=(1, 2))
    used = np.diagonal(whole, axis1=1, axis2=2) > 0
    found, clusters = sandwich(problem, v, hessian)
    constant = np.einsum("gj,gjk,gk->g", directions, found, directions)
    own = np.diagonal(found, axis1=1, axis2=2)[:, :-1]
    return np.where(used[:, :-1], own, np.nan), np.where(lost, np.nan, constant), clusters


def covariance(problem: Problem, v: Floats, hessian: Floats) -> Floats:
    """n times the covariances (G, p, p) of the weights v, with the diagonal of `variances`."""
    return sandwich(problem, v, hessian)[0]


def sandwich(problem: Problem, v: Floats, hessian: Floats) -> tuple[Floats, Floats]:
    """The sandwich by the packed hessian, and the number of clusters (G,)."""
    whole = unpack_triangles(hessian)
    whole[~np.isfinite(whole).all(axis=(1, 2))] = 0.0
    used = (np.diagonal(whole, axis1=1, axis2=2) > 0).sum(axis=1)
    inverse = np.asarray(np.linalg.pinv(whole, rcond=1e-15, hermitian=True), np.float64)
    return sandwich_of(problem, v, inverse, used)


def sandwich_of(
    problem: Problem, v: Floats, inverse: Floats, used: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """The sandwich by the inverse (G, p, p) of the mean curvature; used (G,): weights with one."""
    n = problem.rows.weight
    loss = problem.task.expected if problem.task.expected is not None else problem.rows.loss
    rows = replace(problem.rows, loss=loss)
    given = problem.to_caller(v), problem.shift, problem.scale
    spare = np.maximum(problem.n_rows - used, np.finfo(float).tiny)
    clusters = np.full(len(n), np.nan)
    if problem.covariance == CLUSTERED:
        summed, counted = rows.cluster_scores(*given)
        middle, clusters = unpack_triangles(summed), counted.astype(float)
        factor = by_clusters(problem.n_rows, spare, clusters)
    else:
        row, column = np.tril_indices(inverse.shape[1])
        packed = np.ascontiguousarray(inverse[:, row, column]) / n[:, None]
        with rows_for_scores(rows, problem.weight_kind) as (alone, squared):
            power = POWERS[problem.covariance]
            middle = unpack_triangles(alone.squared_scores(*given, packed, power, squared))
        factor = of_few_rows(problem.covariance, problem.n_rows, spare)
    found = inverse @ (middle / n[:, None, None]) @ inverse
    return np.asarray(found * factor[:, None, None]), clusters


@contextmanager
def rows_for_scores(rows: Pass, kind: str) -> Iterator[tuple[Pass, bool]]:
    """The rows whose squared scores are summed, and whether their weights are squared: a row of
    weight w and score s counts as w rows, with w s^2, or by weights of other kinds as one with
    (w s)^2, as if its weight were w^2.
    """
    if kind == FREQUENCY or not rows.has_weights:
        yield rows, False
        return
    memory = 0 if rows.charges is None else rows.charges.memory
    every = [np.ones(n, bool) for n in rows.groups["n_rows"].tolist()]
    with copy_rows(rows.groups, every, memory) as copies:
        for group in copies:
            for _, weight in labels_of(group):
                assert weight is not None
                np.square(weight, out=weight)
        yield replace(rows, groups=copies), True


def of_few_rows(covariance: str, n: Floats, spare: Floats) -> Floats:
    """The factor of few rows, (G,), by the kind of standard errors; spare: rows less weights."""
    if covariance == SURVEY:
        return np.asarray(n / np.maximum(n - 1, np.finfo(float).tiny))
    return np.asarray(n / spare) if covariance == "HC1" else np.ones(len(n))


def by_clusters(n: Floats, spare: Floats, clusters: Floats) -> Floats:
    """The factor of few clusters, (G,), NaN for one; spare: rows less weights."""
    others = np.where(clusters > 1, clusters - 1, np.nan)
    return np.asarray(clusters / others * (n - 1) / spare)
