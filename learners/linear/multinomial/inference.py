"""Standard errors and statuses of multinomial models, and whether the loss has an optimum.

Without a penalty it has none if and only if there is a direction u, with weights u_k for each
class, along which no margin of a row's own class y against another, m_y - m_k, falls, and some
grow (Albert and Anderson, On the existence of maximum likelihood estimates in logistic regression
models, 1984, section 5). As with two classes (`inference/separation.py`), Newton's step s = H^-1 g
proves either:

* g is the sum of z (p_k - [k = y]), and H s = g. So the numbers t_k = p_k (1 - (m_k - m)) of the
  classes k other than y, with the margins m_k = z.s_k and their mean m by probability, satisfy
  sum t_k z.(u_y - u_k) = 0 for every u. Where all are above 0 no such u exists.
* Where all m_y - m_k at the weights are above 0, the weights are such a direction. Where none
  falls along -s, -s is one.
"""

import math
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import OutOfTime
from tuskml.kernels.passes import Floats, solve
from tuskml.learners.linear.inference import determined, limit, separation
from tuskml.learners.linear.inference.determined import (
    MOST_WEIGHTS,
    by_clusters,
    of_few_rows,
)
from tuskml.learners.linear.inference.goodness import NAMES
from tuskml.learners.linear.inference.last_steps import polish
from tuskml.learners.linear.inference.limit import Frame, Limit, Runaways
from tuskml.learners.linear.inference.outcome import Members
from tuskml.learners.linear.inference.separation import Verdict
from tuskml.learners.linear.inference.tempered import strength
from tuskml.learners.linear.multinomial.problem import SoftmaxProblem, root, spread
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Index, Problem
from tuskml.learners.linear.request import CLASSIC, FREQUENCY, LinearOptions

Bools = NDArray[np.bool_]


def drop_class_weights(problem: SoftmaxProblem) -> SoftmaxProblem:
    """The same rows without weights of classes, which do not affect the existence of an
    optimum.
    """
    classes = replace(problem.softmax, weight=None)
    return replace(problem, classes=classes, gradient_unit=None)


def completely(problem: SoftmaxProblem, v: Floats) -> Bools:
    """Tests for which groups (G,) the weights v predict the class of every row."""
    return np.asarray(along(problem, v, np.zeros_like(v)).least_margin > 0)


def verdict(problem: Problem, v: Floats, step: Floats, pivot: Floats) -> Verdict:
    """Decides from Newton's step (G, K p) at v (G, K p); pivot (G,) as returned by `solve`."""
    return separation.judge_margins(
        along(problem, v, step, np.full(len(v), separation.GONE)), pivot
    )


def along(
    problem: Problem, v: Floats, step: Floats, far: Floats | None = None
) -> separation.Reach:
    """Evaluates the margins along a step (G, K p) at v (G, K p), as for two classes."""
    assert isinstance(problem, SoftmaxProblem)
    weights, moves = (problem.blocks(problem.to_caller(one)) for one in (v, step))
    beyond = np.full(len(v), np.inf) if far is None else far
    found = problem.softmax.reach(problem.rows, weights, moves, beyond)
    return separation.Reach(*(np.ascontiguousarray(column) for column in found.T))


def find_separated(
    problem: SoftmaxProblem,
    state: State,
    which: Index,
    curvature: Floats,
    threads: int,
    deadline: float | None,
) -> Bools:
    """Tests which of some groups (n,) have no optimum. Past the deadline they count as undecided.

    curvature (n, K p, K p): summed, at their weights, without weights of classes.
    """
    part = problem.of(which)
    assert isinstance(part, SoftmaxProblem)
    part, v = drop_class_weights(part), state.v[which]
    packed = part.pack_curvature(curvature, part.rows.weight)
    solution = solve(packed, part.evaluate(v).gradient, threads)
    whole = solution.rank == np.count_nonzero(part.find_used(), axis=(1, 2))
    said = verdict(part, v, solution.step, np.where(whole, solution.pivot, 0.0))
    rest, found = np.flatnonzero(~(said.exists | said.parted)), said.parted
    if not len(rest):
        return found
    timed = replace(part, rows=replace(part.rows, deadline=deadline))
    try:
        found[rest] = separation.decide(timed.of(rest), np.zeros_like(v[rest]), threads, verdict)
    except OutOfTime:
        late = which[rest]
        state.out_of_time, state.running[late], state.converged[late] = True, True, False
    return found


def runaways_of(
    problem: SoftmaxProblem, state: State, which: Index, deadline: float | None
) -> Runaways:
    """As for two classes (`inference/limit.py`); weights of classes change the estimates."""
    given, found = limit.by_processor(problem, deadline), []
    try:
        for block in determined.blocks(len(which), state.v.shape[1]):
            places = which[block]
            part = given.of(places)
            assert isinstance(part, SoftmaxProblem)
            frame = frame_of(part)
            v, settled = limit.follow_newton(part, np.zeros_like(state.v[places]), frame, along)
            bent = determined.unpack_triangles(
                np.asarray(part.evaluate(v, curvature=True).hessian)
            )
            found.append((places, limit.limit_of(frame, v, settled, bent, bent)))
    except OutOfTime:
        state.out_of_time = True
    return found


def frame_of(problem: SoftmaxProblem) -> Frame:
    """The frame of all classes except the first, whose weights are 0."""
    others = np.diag(np.append(0.0, np.ones(problem.softmax.n_classes - 1)))
    each = limit.frame_of(problem)
    return Frame(*(np.kron(others, getattr(each, f.name)) for f in fields(Frame)))


def soften(problem: SoftmaxProblem, state: State, runaways: Runaways) -> Bools:
    """Puts the ridge of two classes on diverging directions; returns which groups (G,) got it. The
    weights sum to 0 over classes.
    """
    ridge, k = np.zeros(problem.n_groups, bool), problem.softmax.n_classes
    features = np.diag(np.append(np.ones(problem.d), 0.0))
    others = np.diag(np.append(0.0, np.ones(k - 1)))
    pull = np.kron(others @ (np.eye(k) - 1 / k) @ others, features)
    for places, limits in runaways:
        some = np.flatnonzero(limits.settled)
        if not len(some):
            continue
        part = problem.of(places[some])
        by = strength(part)[:, None, None] * pull
        found = limit.soften_directions(part, limits.of(some), by)
        state.v[places[some]], state.objective[places[some]] = found
        ridge[places[some]] = True
    return ridge


def leave_directions(problem: SoftmaxProblem, state: State, runaways: Runaways) -> None:
    """Leaves diverging directions where the training ended, and moves the rest to its optimum."""
    for places, limits in runaways:
        some = np.flatnonzero(~limits.complete)
        which = places[some]
        if not len(which):
            continue
        state.v[which] = limits.of(some).with_the_rest(state.v[which])
        state.objective[which] = problem.of(which).objective(state.v[which])


DEPENDENT = 1e-12
"""Eigenvalue of the curvature, relative to the largest, up to which a weight is not determined."""


@dataclass(frozen=True)
class Errors:
    """std_err (G, K, p): each class's intercept first, relative to the first class, whose own are
    NaN; dependent (G,): features depend on each other; parted (G,): there is no optimum, since a
    direction separates classes; clusters (G,): NaN unless requested; spreads: covariances of
    groups' coefficients (`problem.py`), if requested; roots: their roots, likewise; runaways: of
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
        found.parted[rest] = completely(part, state.v[rest])
    found.std_err[found.parted | ~state.converged] = np.nan
    parted = np.flatnonzero(found.parted)
    if k * p < MOST_WEIGHTS and len(parted) and not state.out_of_time:
        found.runaways.extend(runaways_of(problem, state, parted, deadline))
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
    plain = drop_class_weights(part)
    curvature = plain.curvature(part.blocks(part.to_caller(state.v[which])))
    given = curvature, threads, deadline
    found.parted[which] = find_separated(problem, state, which, *given)
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
