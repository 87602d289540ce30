"""Statuses and standard errors, from the weights at which a training ended."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import OutOfTime
from tuskml.kernels.passes import Floats, Solution, solve
from tuskml.learners.linear.algorithms import ALGORITHMS, FIRST_CHOICE
from tuskml.learners.linear.algorithms.newton import FLOATS, evaluate
from tuskml.learners.linear.inference import determined, dispersion, separation
from tuskml.learners.linear.inference.determined import MOST_WEIGHTS
from tuskml.learners.linear.inference.last_steps import finish, is_long, polish, refine
from tuskml.learners.linear.inference.limit import Limit, Runaways, runaways_of, soften_directions
from tuskml.learners.linear.inference.tempered import strength, temper
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Index, Problem
from tuskml.learners.linear.request import CLASSIC, LinearOptions, Plan
from tuskml.learners.linear.tasks import LinearTask
from tuskml.learners.models import Lists

Bools = NDArray[np.bool_]
Members = dict[str, tuple[Bools, Floats]]

NEARLY_DEPENDENT = 1e-13
"""Relative pivot below which double precision leaves fewer than two digits of standard errors."""
SUSPECT = 1e-8
"""Relative pivot below which the span of the rows is computed."""
TIGHT = 0.05
"""Relative pivot below which products of floats leave too few digits of standard errors."""
STEEP = 1e-3
"""Relative pivot below which the weights are refined."""
FLAT = 1e-11
"""Least eigenvalue of the features' correlations, from which on a step along its direction changes
bounded gradients by more than the tolerance.
"""
DISPERSION = "dispersion"
ESTIMATED = (DISPERSION, "delta")
"""Parameters of losses that are estimated if the options do not set them."""


@dataclass(frozen=True)
class Inference:
    """The inference on G models at their final weights.

    std_err (G, p): the intercept's first, NaN where it has no meaning; freedom (G,): degrees of
    freedom of its tests, scale (G,): s^2, both NaN if not computed; constant, dependent, parted
    (G,): a feature is constant, features depend on each other, no optimum because rows separate;
    clusters (G,): of rows, NaN unless the errors are by cluster; empty (G,): all counts are 0;
    runaways: of parted groups, what the other rows determine.
    """

    std_err: Floats
    freedom: Floats
    scale: Floats
    constant: Bools
    dependent: Bools
    parted: Bools
    clusters: Floats
    empty: Bools
    runaways: Runaways

    @classmethod
    def none(cls, problem: Problem) -> "Inference":
        n, dense = problem.n_groups, not problem.rows.sparse
        return cls(
            np.full((n, problem.d + 1), np.nan),
            np.full(n, np.nan),
            np.full(n, np.nan),
            np.any(problem.scale == 0, axis=1) & dense,
            np.zeros(n, bool),
            np.zeros(n, bool),
            np.full(n, np.nan),
            nothing_counted(problem),
            [],
        )


def nothing_counted(problem: Problem) -> Bools:
    """Groups (G,) whose counts are all 0, which have no optimum, whatever the penalty, if an
    intercept may run away.
    """
    if not problem.task.counts or not problem.rows.fit_intercept:
        return np.zeros(problem.n_groups, bool)
    return np.asarray(problem.rows.labels()["high"] <= 0)


def wants_inference(problem: Problem) -> bool:
    """Standard errors are those of unpenalised, unweighted maximum likelihood."""
    return problem.task.test is not None and problem.rows.class_weight is None


def infer(
    problem: Problem,
    state: State,
    plan: Plan,
    deadline: float | None = None,
    limited: bool = False,
) -> Inference:
    """Computes standard errors from the inverse curvature at the optimum, and their obstacles.

    The curvature H of the mean loss gives the covariance s2 (n H)^-1, s2 = 1 for the logistic loss
    and the residual variance for the squared one. Where features depend on each other the weights
    become those of the least norm (`determined.py`). deadline: of `time.monotonic()`, for further
    passes; limited: whether the options set the number of iterations.
    """
    seen = Inference.none(problem)
    seen.parted[seen.empty] = True
    if problem.l1 or problem.l2:
        return seen
    which = np.flatnonzero(state.converged & ~seen.empty)
    narrow = problem.d < MOST_WEIGHTS
    if narrow and len(which):
        _infer_some(problem, state, plan, seen, which, deadline)
    if may_part(problem.task) and not state.out_of_time:
        looked = (state.converged & narrow) | seen.empty
        rest = np.flatnonzero(~looked & ~(state.stopped & ~state.converged))
        if len(rest) and narrow and not limited and problem.task.smooth:
            _decide(problem, state, plan, seen, rest, None, deadline)
        elif len(rest):
            part, known = problem.of(rest), separation.completely
            proof = separation.never_counted if problem.task.counts else known
            seen.parted[rest] = proof(part, state.v[rest])
    seen.std_err[seen.parted | ~state.converged] = np.nan
    parted = np.flatnonzero(seen.parted & ~seen.empty)
    if narrow and problem.task.own is None and len(parted) and not state.out_of_time:
        seen.runaways.extend(runaways_of(problem, state, parted, deadline))
        for at, (places, limit) in enumerate(seen.runaways):
            seen.runaways[at] = places, _put_limit(problem, seen, places, limit)
    return seen


def _put_limit(problem: Problem, seen: Inference, places: Index, limit: Limit) -> Limit:
    """Stores standard errors of the finite part; returns the limit with their covariance."""
    seen.freedom[places] = problem.n_rows[places] - limit.rank
    if not wants_inference(problem):
        return limit
    seen.scale[places] = 1.0
    if problem.covariance != CLASSIC:
        given = problem.of(places), limit.v, limit.by_v, limit.rank
        spread, seen.clusters[places] = determined.sandwich_of(*given)
        limit = limit.with_errors(spread)
    spread = limit.covariance(problem.rows.weight[places])
    seen.std_err[places] = np.roll(np.sqrt(np.einsum("gjj->gj", spread)), 1, axis=1)
    return limit


def soften(
    problem: Problem,
    state: State,
    seen: Inference,
    plan: Plan,
    options: LinearOptions,
    deadline: float | None,
) -> Bools:
    """Gives groups without an optimum a finite model; returns which of them got a ridge, (G,).

    If the options have no penalty, a ridge is put on the diverging directions, or on all if
    nothing is determined. Other trainings keep their final weights, except for what is determined.
    Groups of counts that are all 0 get the constant of half a count in all rows.
    """
    ridge, given = np.zeros(problem.n_groups, bool), "l2" in options.given
    if seen.empty.any():
        _half_a_count(problem, state, np.flatnonzero(seen.empty))
    rest = seen.parted & ~seen.empty
    for places, limit in seen.runaways:
        some = np.flatnonzero(~limit.complete)
        which, partly = places[some], limit.of(some)
        rest[which] = False
        if not len(which):
            continue
        part = problem.of(which)
        if given:
            state.v[which] = partly.with_the_rest(state.v[which])
            state.objective[which] = part.objective(state.v[which])
        else:
            features = np.diag(np.append(np.ones(problem.d), 0.0))
            pull = strength(part)[:, None, None] * features
            state.v[which], state.objective[which] = soften_directions(part, partly, pull)
            ridge[which] = True
    which = np.flatnonzero(rest)
    if not given and len(which):
        ridge[which] = temper(problem, state, which, plan, options, deadline)
    return ridge


def _half_a_count(problem: Problem, state: State, which: Index) -> None:
    """Weights of a constant mean that expects half a count of all rows, as `one class` does."""
    part = problem.of(which)
    labels = part.rows.labels()
    state.v[which] = 0.0
    state.v[which, -1] = np.log(0.5 / (labels["weight"] * labels["exposure"]))
    state.objective[which] = part.objective(state.v[which])


def _infer_some(
    problem: Problem,
    state: State,
    plan: Plan,
    seen: Inference,
    which: Index,
    deadline: float | None,
) -> None:
    """As `infer`, for the groups that converged, into seen."""
    part, smooth = problem.of(which), problem.task.test is not None
    if not smooth:
        known = plan.family == FIRST_CHOICE.name or ALGORITHMS[plan.family].proves_gap
        exact = state.hessian is not None or known
        by_gradients = problem.task.own is None and not exact
        if by_gradients and problem.task.smooth:
            finish(problem, state, which, plan.epsilon)
        for some in determined.blocks(len(which), problem.d + 1):
            spanned = determined.span(part.of(some))
            if by_gradients and not problem.task.smooth:
                state.converged[which[some]] &= spanned.least > FLAT
            _settle(problem, state, seen, which[some], spanned, None)
        return
    end = end_of(problem, state, which, plan.threads)
    step, long = None, np.zeros(len(which), bool)
    if end.gradient is not None and state.hessian is None:
        step = solve(end.hessian, end.gradient, plan.threads).step
    if problem.task.expected is not None:
        end = replace(end, hessian=dispersion.as_expected(part, state.v[which]))
    solution = solve(end.hessian, directions(part), plan.threads, inverse=True)
    if may_part(problem.task):
        said = apart(part, state.v[which], end, solution, plan.threads)
        seen.parted[which] = said.parted
        _decide(problem, state, plan, seen, which[said.left], said.near, deadline)
    if step is not None:
        assert end.gradient is not None
        whole = np.flatnonzero(~seen.parted[which])
        polish(problem, state, which[whole], step[whole])
        long = is_long(part, step, end.gradient)
        further = np.flatnonzero(long & ~seen.parted[which])
        if len(further) and problem.task.own is None and not problem.task.flat:
            finish(problem, state, which[further], plan.epsilon)
        end, solution = behind(part, state.v[which], end, long, solution, plan.threads)
    suspect = (solution.rank < free_weights(part)) | (solution.pivot < SUSPECT)
    rough = (solution.pivot < STEEP) | seen.constant[which] | long
    steep = np.flatnonzero(rough & ~suspect & ~seen.parted[which])
    refine(problem, state, which[steep], lambda g: solve(end.hessian[steep], g, plan.threads).step)
    _put(problem, state, seen, which, solution, end.hessian)
    odd = np.flatnonzero(suspect & ~seen.parted[which])  # without an optimum there is no norm
    if not len(odd):
        return
    for block in determined.blocks(len(odd), problem.d + 1):
        some = odd[block]
        spanned = determined.span(part.of(some))
        _settle(problem, state, seen, which[some], spanned, end.hessian[some])
        near = (solution.pivot[some] < NEARLY_DEPENDENT) & ~seen.constant[which[some]]
        seen.dependent[which[some]] |= near & (spanned.rank >= free_weights(part.of(some)))


def behind(
    problem: Problem, v: Floats, end: "End", long: Bools, solution: Solution, threads: int
) -> tuple["End", Solution]:
    """The curvature at weights v (G, p) that a last step led to, and its solution: anew where the
    step was long.
    """
    if not long.any():
        return end, solution
    some, hessian = problem.of(np.flatnonzero(long)), end.hessian.copy()
    hessian[long] = dispersion.curvature(replace(some, precise=True), v[long])
    anew = solve(hessian, directions(problem), threads, inverse=True)
    return replace(end, hessian=hessian), anew


def apart(
    problem: Problem, v: Floats, end: "End", solution: Solution, threads: int
) -> separation.Proof:
    """The proof of separation by Newton's step from the final weights (`separation.py`)."""
    if not as_classes(problem.task) and end.gradient is not None:
        step = solve(end.hessian, end.gradient, threads).step
    else:  # a custom likelihood, or another link
        problem = separation.as_logistic(problem)
        found = problem.evaluate(v, curvature=True)
        solution = solve(np.asarray(found.hessian), found.gradient, threads)
        step = solution.step
    full = solution.rank == free_weights(problem)
    said = separation.verdict(problem, v, step, np.where(full, solution.pivot, 0.0))
    left = ~(said.parted | said.exists)
    near = separation.NewtonEnd((v - step)[left], np.where(full, solution.rank, 0)[left])
    return separation.Proof(said.parted, left, near)


def _decide(
    problem: Problem,
    state: State,
    plan: Plan,
    seen: Inference,
    which: Index,
    near: separation.NewtonEnd | None,
    deadline: float | None,
) -> None:
    """Decides whether the rows of some groups separate, into seen; past the deadline they count as
    undecided. near: the end of Newton's step.
    """
    if not len(which):
        return
    part = separation.as_logistic(problem) if as_classes(problem.task) else problem
    rows = replace(part.rows, deadline=deadline)
    try:
        some = part.on(rows).of(which)
        begin = separation.begin(some)
        seen.parted[which] = separation.decide(some, begin, plan.threads, ended=near)
    except OutOfTime:
        state.out_of_time, state.running[which], state.converged[which] = True, True, False


def note_members(
    problem: Problem, seen: Inference, n_rows: NDArray[np.int64], ridge: Bools, intervals: bool
) -> Members:
    """Members of options that some of the groups have: which groups and the values, (G,) each.

    freedom: where it is not the rows less the standard errors, since rows were held out or weights
    have none that count, errors are by cluster, or the model keeps intervals; clusters: of rows,
    one less than which are the degrees of freedom of a t; l2_standardized: of groups with the
    ridge of `tempered.py`;
    dispersion: of counts, or s^2 of `gamma`; residual_variance: s^2 of `linear`, for intervals;
    delta: the threshold of `huber`.
    """
    known = ~np.isnan(seen.std_err)
    clustered, freedom = np.isfinite(seen.clusters), seen.freedom
    if problem.task.test == "t":
        freedom = np.where(clustered, seen.clusters - 1, freedom)
    odd = known.any(axis=1) & (freedom != n_rows - known.sum(axis=1))
    if intervals and problem.task.test == "t":
        odd = np.isfinite(freedom)
    found = {"freedom": (odd, freedom)}
    if intervals and problem.task.quadratic:
        found["residual_variance"] = np.isfinite(seen.scale), seen.scale
    if ridge.any():
        found["l2_standardized"] = ridge, strength(problem)
    found["clusters"] = (clustered, seen.clusters)
    parameter = problem.task.parameter
    if parameter in ESTIMATED and problem.rows.parameter is not None:
        value = problem.rows.parameter[:, 0]
        if parameter == DISPERSION:
            value = np.where(value > dispersion.LEAST, value, 0.0)
        found[parameter] = (np.ones(len(odd), bool), value)
    elif problem.task.test == "t" and problem.task.expected is not None:
        found[DISPERSION] = (np.isfinite(seen.scale), seen.scale)
    return found


def free_weights(problem: Problem) -> NDArray[np.int64]:
    """Weights (G,) of features that vary in the rows seen, and of the intercept."""
    return np.asarray((problem.scale > 0).sum(axis=1) + int(problem.rows.fit_intercept))


def directions(problem: Problem) -> Floats:
    """The intercept in the caller's units is v times this, (G, p): (-scale * centre, 1)."""
    direction = np.ones((problem.n_groups, problem.d + 1))
    direction[:, :-1] = -problem.scale * problem.centre
    return direction


def _put(
    problem: Problem,
    state: State,
    seen: Inference,
    which: Index,
    solution: Solution,
    hessian: Floats,
) -> None:
    """Standard errors of groups all of whose weights the rows determine."""
    part = problem.of(which)
    assert solution.inverse_diagonal is not None
    constant = np.einsum("gp,gp->g", directions(part), solution.step)
    own = solution.inverse_diagonal[:, :-1]
    if problem.covariance != CLASSIC and wants_inference(problem):
        given = state.v[which], hessian, directions(part)
        own, constant, seen.clusters[which] = determined.variances(part, *given)
    _put_variances(problem, state, seen, which, own, constant, solution.rank)


def _settle(
    problem: Problem,
    state: State,
    seen: Inference,
    which: Index,
    spanned: determined.Span,
    hessian: Floats | None,
) -> None:
    """Least norm and standard errors where the rows may not determine all weights."""
    part, intercept = problem.of(which), problem.rows.fit_intercept
    lacking = np.flatnonzero(spanned.rank < problem.d + int(intercept))
    if len(lacking):
        moved = determined.least_norm(spanned.of(lacking), state.v[which[lacking]])
        state.v[which[lacking]] = moved
    seen.constant[which] |= spanned.constant.any(axis=1) & intercept
    seen.dependent[which] = spanned.dependent(intercept)
    if hessian is None:
        return
    finite = np.flatnonzero(np.isfinite(hessian).all(axis=1))  # huge weights of classes overflow
    seen.std_err[which] = np.nan
    if not len(finite):
        return
    part, which = part.of(finite), which[finite]
    spanned, hessian = spanned.of(finite), hessian[finite]
    bent = determined.curvature_on_span(spanned, hessian, intercept)
    whole = np.flatnonzero(~seen.parted[which])
    refine(problem, state, which[whole], bent.of(whole).step)
    _put_variances(problem, state, seen, which, *bent.variances(part), spanned.rank)
    if problem.covariance != CLASSIC:
        seen.std_err[which] = np.nan


def _put_variances(
    problem: Problem,
    state: State,
    seen: Inference,
    which: Index,
    own: Floats,
    constant: Floats,
    rank: NDArray[np.int64],
) -> None:
    """Stores standard errors and their degrees of freedom.

    own (n, d) and constant (n,): variances without the factor s2 / n (robust ones: 1 / n) of z's
    weights, whose squares in the caller's units may overflow, and of the intercept in the caller's
    units.
    """
    if not wants_inference(problem):
        return
    n = problem.rows.weight[which]
    freedom = problem.n_rows[which] - rank
    variance = dispersion.scales(problem, state, which, freedom.astype(float))
    seen.scale[which] = variance
    variance = variance if problem.covariance == CLASSIC else np.where(freedom > 0, 1.0, np.nan)
    with np.errstate(invalid="ignore"):
        scaled = np.sqrt(own * (variance / n)[:, None]) * problem.scale[which]
        seen.std_err[which, 0] = np.sqrt(constant * variance / n)
    seen.std_err[which, 1:] = np.where(own > 0, scaled, np.nan)
    if not problem.rows.fit_intercept:
        seen.std_err[which, 0] = np.nan
    seen.freedom[which] = freedom


@dataclass(frozen=True)
class End:
    """The curvature where groups ended: packed hessian, and the gradient (G, p) where needed."""

    hessian: Floats
    gradient: Floats | None


def end_of(problem: Problem, state: State, which: Index, threads: int) -> End:
    """The curvature where the weights of some groups ended, as Newton left it or by one pass."""
    part, kept = problem.of(which), state.hessian
    n, p = len(which), problem.d + 1
    if kept is None:
        hessian, renew, precise = (
            np.zeros((n, p * (p + 1) // 2)),
            np.ones(n, bool),
            np.ones(n, bool),
        )
    else:
        hessian = np.array(kept[which])
        renew, precise = state.stale[which] | ~state.known[which], state.precise[which]
        if problem.rows.groups["kind"][0] in FLOATS:
            rough = solve(hessian, np.zeros((n, p)), threads)
            loose = (rough.pivot < TIGHT) | (rough.rank < free_weights(part))
            renew, precise = renew | (loose & ~precise), precise | loose
    gradient = None
    if renew.any() or may_part(problem.task):
        found = evaluate(part, state.v[which], hessian, renew, precise)
        hessian, gradient = np.asarray(found.hessian), found.gradient
    return End(hessian, gradient)


def as_classes(task: LinearTask) -> bool:
    """Returns whether the proofs of separation are about the logistic loss of the same rows."""
    return task.own is not None or task.link is not None


def may_part(task: LinearTask) -> bool:
    """Returns whether the loss is a likelihood of two classes or of counts, which has no optimum
    where rows separate.

    Other losses of classes, such as a squared hinge, have one there.
    """
    classes = task.classifies and "logistic" in (task.name, task.response)
    return task.counts or (classes and task.test is not None)


# Covariances of a model's coefficients, for tests of several of them at once.
#
# They are those whose diagonal is the squared standard errors: s^2 (n H)^-1 of the mean curvature
# H on the span of the rows (`determined.py`), or the sandwich.


def covariances(problem: Problem, state: State, seen: Inference, threads: int) -> Lists | None:
    """Matrices (d, d) of G groups, row by row, in the caller's units; NaN where a coefficient has
    no standard error. None for too many features.
    """
    n, d = problem.n_groups, problem.d
    if d >= determined.MOST_WEIGHTS:
        return None
    out = np.full((n, d, d), np.nan)
    which = np.flatnonzero(np.isfinite(seen.std_err[:, 1:]).any(axis=1) & ~seen.parted)
    for block in determined.blocks(len(which), d + 1):
        out[which[block]] = _covariance_of(problem, state, seen, which[block], threads)
    for places, limit in seen.runaways:
        out[places] = limit.covariance(problem.rows.weight[places])[:, :-1, :-1]
    lost = ~np.isfinite(seen.std_err[:, 1:])
    out[lost] = np.nan
    out.transpose(0, 2, 1)[lost] = np.nan
    return Lists.of_rows(out.reshape(n, d * d), np.full(n, d * d))


def _covariance_of(
    problem: Problem, state: State, seen: Inference, which: Index, threads: int
) -> Floats:
    """The covariances of some groups, (n, d, d)."""
    part, v = problem.of(which), state.v[which]
    hessian = end_of(problem, state, which, threads).hessian
    if problem.task.expected is not None:
        hessian = dispersion.as_expected(part, v)
    if problem.covariance == CLASSIC:
        spanned = determined.span(part)
        inverse = determined.curvature_on_span(
            spanned, hessian, problem.rows.fit_intercept
        ).inverse
        sigma = spanned.sigma
        unit = np.divide(part.scale, sigma, where=sigma > 0, out=np.zeros_like(sigma))
        share = seen.scale[which] / part.rows.weight
        found = inverse[:, :-1, :-1] * share[:, None, None]
    else:
        unit = part.scale
        found = (
            determined.covariance(part, v, hessian)[:, :-1, :-1] / part.rows.weight[:, None, None]
        )
    return np.asarray(found * unit[:, :, None] * unit[:, None, :])
