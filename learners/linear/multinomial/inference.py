"""Standard errors and statuses of multinomial models."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats, solve
from tuskml.learners.linear.inference.determined import (
    MOST_WEIGHTS,
    by_clusters,
    of_few_rows,
)
from tuskml.learners.linear.inference.goodness import NAMES
from tuskml.learners.linear.inference.last_steps import polish
from tuskml.learners.linear.inference.limit import Limit, Runaways
from tuskml.learners.linear.inference.outcome import Members
from tuskml.learners.linear.multinomial import separation
from tuskml.learners.linear.multinomial.problem import SoftmaxProblem
from tuskml.learners.linear.multinomial.terms import root, spread
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Index
from tuskml.learners.linear.request import CLASSIC, FREQUENCY, LinearOptions

DEPENDENT = 1e-12
"""Eigenvalue of the curvature, relative to the largest, up to which a weight is not determined."""


@dataclass(frozen=True)
class Errors:
    """std_err (G, K, p): each class's intercept first, relative to the first class, whose own are
    NaN; dependent (G,): features depend on each other; parted (G,): there is no optimum, since a
    direction separates classes; clusters (G,): NaN unless requested; spreads: covariances of
    groups' coefficients (`terms.py`), if requested; roots: their roots, likewise; runaways: of
    parted groups, what the other rows determine.
    """

    std_err: Floats
    dependent: NDArray[np.bool_]
    parted: NDArray[np.bool_]
    clusters: Floats
    spreads: dict[int, Floats] | None = None
    roots: dict[int, Floats] | None = None
    runaways: Runaways = field(default_factory=list)

    def of_group(self, g: int, found: "GroupErrors", problem: SoftmaxProblem) -> None:
        """Stores the errors of one group."""
        self.std_err[g], self.dependent[g], self.clusters[g] = (
            found.std_err,
            found.dependent,
            found.clusters,
        )
        if self.spreads is not None and found.inverse is not None:
            self.spreads[g] = spread(problem, found.inverse)
        if self.roots is not None and found.inverse is not None:
            self.roots[g] = root(problem, found.inverse)


@dataclass(frozen=True)
class GroupErrors:
    """The errors of one group: std_err (K, p); inverse (K p, K p): the covariance of v, if
    known.
    """

    std_err: Floats
    dependent: bool = False
    clusters: float = math.nan
    inverse: Floats | None = None


def infer(
    problem: SoftmaxProblem,
    state: State,
    threads: int,
    deadline: float | None,
    options: LinearOptions | None = None,
) -> Errors:
    """Standard errors, the root of the diagonal of the inverse curvature, as in statsmodels'
    MNLogit, or of the sandwich (`inference/determined.py`). NaN with a penalty or class weights,
    and where a training did not converge or has nothing to converge to. options: those that say
    what is kept.
    """
    n, k, p = problem.n_groups, problem.softmax.n_classes, problem.p
    lost = np.full((n, k, p), np.nan)
    found = Errors(lost, np.zeros(n, bool), np.zeros(n, bool), np.full(n, np.nan))
    if options is not None:
        spreads, roots = options.fit, options.intervals is not None
        found = replace(found, spreads={} if spreads else None, roots={} if roots else None)
    if problem.has_penalty:
        return found
    looked = state.converged & (k * p < MOST_WEIGHTS)
    which = np.flatnonzero(looked)
    if len(which):
        _infer_some(problem, state, found, which, threads, deadline)
    rest = np.flatnonzero(~looked & ~(state.stopped & ~state.converged))
    if len(rest) and not state.out_of_time:
        part = problem.of(rest)
        assert isinstance(part, SoftmaxProblem)
        found.parted[rest] = separation.completely(part, state.v[rest])
    found.std_err[found.parted | ~state.converged] = np.nan
    parted = np.flatnonzero(found.parted)
    if k * p < MOST_WEIGHTS and len(parted) and not state.out_of_time:
        found.runaways.extend(separation.runaways_of(problem, state, parted, deadline))
        for places, limit in found.runaways:
            _put_limit(problem, found, places, limit)
    return found


def _put_limit(problem: SoftmaxProblem, found: Errors, places: Index, limit: Limit) -> None:
    """Stores standard errors of the finite part."""
    if problem.softmax.weight is not None:
        return
    if problem.covariance != CLASSIC:
        limit = _robust(problem, found, places, limit)
    spread = limit.covariance(problem.rows.weight[places])
    shape = len(places), problem.softmax.n_classes, problem.p
    own = np.sqrt(np.einsum("gjj->gj", spread)).reshape(shape)
    found.std_err[places] = np.roll(own, 1, axis=2)
    if found.spreads is not None:
        whole = spread.reshape(*shape, *shape[1:])
        for place, one in zip(places.tolist(), whole, strict=True):
            found.spreads[place] = one[1:, :-1, 1:, :-1]


def _robust(problem: SoftmaxProblem, found: Errors, places: Index, limit: Limit) -> Limit:
    """The limit with the covariance of the sandwich."""
    inverse, n = limit.by_v, problem.rows.weight[places]
    for i, place in enumerate(places.tolist()):
        some = problem.of(np.array([place]))
        assert isinstance(some, SoftmaxProblem)
        weights = some.blocks(some.to_caller(limit.v[[i]]))
        given = weights, inverse[i] / n[i], int(limit.rank[i])
        inverse[i], found.clusters[place] = sandwich(some, *given)
        inverse[i] *= n[i]
    return limit.with_errors(inverse)


def _infer_some(
    problem: SoftmaxProblem,
    state: State,
    found: Errors,
    which: Index,
    threads: int,
    deadline: float | None,
) -> None:
    """As `infer`, for groups that converged, into found."""
    part = problem.of(which)
    assert isinstance(part, SoftmaxProblem)
    plain = separation.drop_class_weights(part)
    curvature = plain.curvature(part.blocks(part.to_caller(state.v[which])))
    given = curvature, threads, deadline
    found.parted[which] = separation.find_separated(problem, state, which, *given)
    if problem.softmax.weight is not None:
        return
    if state.hessian is None:
        packed = part.pack_curvature(curvature, part.rows.weight)
        step = solve(packed, part.evaluate(state.v[which]).gradient, threads).step
        whole = np.flatnonzero(~found.parted[which])
        polish(problem, state, which[whole], step[whole])
    for i in np.flatnonzero(~found.parted[which]).tolist():
        g, some = which[i], part.of(np.array([i]))
        assert isinstance(some, SoftmaxProblem)
        found.of_group(int(g), _of_group(some, state.v[[g]], curvature[i]), some)


def _of_group(problem: SoftmaxProblem, v: Floats, whole: Floats) -> GroupErrors:
    """The errors of one group; whole (K p, K p): the summed curvature."""
    k, p = problem.softmax.n_classes, problem.p
    weights, free = problem.blocks(problem.to_caller(v)), problem.find_used().ravel()
    used, curvature = problem.find_used()[0, -1], whole[np.ix_(free, free)]
    unit = np.sqrt(np.maximum(np.diag(curvature), np.finfo(float).tiny))
    curvature = curvature / unit / unit[:, None]  # that of features in any units
    size = np.linalg.eigvalsh(curvature)
    out = np.full((k, p), np.nan)
    if not len(size) or size[0] <= DEPENDENT * size[-1]:
        return GroupErrors(out, bool(len(size)))
    inverse = np.zeros((k * p, k * p))
    inverse[np.ix_(free, free)] = np.linalg.inv(curvature) / unit / unit[:, None]
    clusters = math.nan
    if problem.covariance != CLASSIC:
        inverse, clusters = sandwich(problem, weights, inverse, int(free.sum()))
    units = np.diag(np.concatenate([problem.scale[0], [1.0]]))
    units[-1, :-1] = -problem.scale[0] * problem.centre[0]
    for c in range(1, k):
        block = inverse[c * p : (c + 1) * p, c * p : (c + 1) * p]
        own = np.sqrt(np.diag(units @ block @ units.T))
        out[c] = np.where(np.roll(used, 1), np.roll(own, 1), np.nan)
    return GroupErrors(out, False, clusters, inverse)


def sandwich(
    problem: SoftmaxProblem, weights: Floats, inverse: Floats, free: int
) -> tuple[Floats, float]:
    """The robust covariance (K p, K p) of a group, and its clusters; inverse: of the summed
    curvature, free: how many weights are.
    """
    squares, counted = problem.squared_scores(weights, inverse[None])
    n = problem.n_rows
    spare = np.maximum(n - free, np.finfo(float).tiny)
    factor = of_few_rows(problem.covariance, n, spare)
    if counted is not None:
        factor = by_clusters(n, spare, counted)
    clusters = math.nan if counted is None else float(counted[0])
    return factor[0] * inverse @ squares[0] @ inverse, clusters


def members(problem: SoftmaxProblem, state: State, counts: Floats) -> Members:
    """The members that `model_fit` reads; counts (G, K): weights of the rows of each class."""
    softmax, weights = problem.softmax, problem.blocks(problem.to_caller(state.v))
    own = counts if softmax.weight is None else counts * softmax.weight
    losses = softmax.gradient(replace(problem.rows, loss_only=True), weights)[:, 0]
    share = own / own.sum(axis=1, keepdims=True)
    if not problem.rows.fit_intercept:
        share = np.full_like(own, 1 / softmax.n_classes)
    nulls = -(own * np.log(share)).sum(axis=1)
    used = (problem.scale > 0).sum(axis=1) + int(problem.rows.fit_intercept)
    n = counts.sum(axis=1) if problem.weight_kind == FREQUENCY else problem.n_rows
    values = (
        n, (softmax.n_classes - 1.0) * used, -losses, 2 * losses, 2 * nulls
    )  # fmt: skip
    return {name: (np.isfinite(one), one) for name, one in zip(NAMES, values, strict=True)}
