"""The models of the task `ordinal`: their weights, standard errors and statuses."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.classes import class_fields
from tuskml.learners.explaining import Document, document
from tuskml.learners.learner import Request
from tuskml.learners.models import (
    MEANINGS,
    Lists,
    Models,
    Strings,
    by_group,
    options_text,
    thin_history,
    threads_text,
)
from tuskml.learners.ordinal.descent import Bools, Problem, State
from tuskml.learners.ordinal.options import CLASSIC, FREQUENCY, OPTIONS, OrdinalOptions
from tuskml.learners.tasks import Task

DEPENDENT = 1e-12
"""Eigenvalue of the curvature, relative to the largest, up to which a weight is not determined."""
STATUSES = tuple(MEANINGS)
UNTOLD = ("format", "link")
ALGORITHM = "Newton's method"


@dataclass(frozen=True)
class Ended:
    """The end of a training of G groups: parted (G,): which have no optimum; count (G, K): the
    weights of levels; widths (G,): features.
    """

    problem: Problem
    state: State
    parted: Bools
    count: Floats
    widths: NDArray[np.int64]


def models_of(ended: Ended, request: Request[Task, OrdinalOptions]) -> Models:
    """The models of groups where they ended."""
    problem, state, options = ended.problem, ended.state, request.options
    n, cuts = len(state.v), problem.levels.cuts
    dependent = state.rank < problem.free
    for g in np.flatnonzero(dependent & ~ended.parted).tolist():
        make_smallest(problem, state, g)
    known = ~dependent & ~ended.parted & state.converged & (options.l2 == 0)
    spread, counted = covariances(problem.of(np.flatnonzero(known)), state, known, options)
    clusters = np.full(n, np.nan)
    clusters[known] = counted
    errors = np.full_like(state.v, np.nan)
    errors[known] = np.sqrt(np.einsum("gqq->gq", spread))
    sizes = cuts + ended.widths
    more = {
        "l2_standardized": (ended.parted, 1 / problem.weight),
        "clusters": (np.isfinite(clusters), clusters),
    }
    more |= members(ended, options) if options.fit else {}
    text = options_json(options)
    status = judge(ended, dependent, options)
    state.converged[ended.parted] = False
    return Models.build(
        problem.rows.groups,
        request.task.name,
        coef=Lists.of_rows(to_caller(problem, state.v), sizes),
        intercept=np.full(n, np.nan),
        std_err=Lists.of_rows(errors, np.where(known, sizes, 0)),
        **class_fields(Lists.of_rows(problem.levels.label, np.full(n, cuts + 1))),
        n_features=ended.widths,
        loss=state.found.objective,
        history=thin_history(state.history, n),
        iterations=state.iterations,
        converged=state.converged.astype(np.uint8),
        status=status,
        plan=plan_of(options, cuts + 1),
        options=by_group(Strings.same(text, n), more),
        **({"covariance": of_features(spread, known, ended)} if options.fit else {}),
    )


def of_features(spread: Floats, known: Bools, ended: Ended) -> Lists:
    """The covariances of the coefficients of features, row by row, for tests of terms; empty
    lists for groups without (G,).
    """
    parts, cuts = [np.empty(0)] * len(known), ended.problem.levels.cuts
    for one, g in zip(spread, np.flatnonzero(known).tolist(), strict=True):
        own = slice(cuts, cuts + int(ended.widths[g]))
        parts[g] = one[own, own].ravel()
    return Lists.of_parts(parts)


def members(ended: Ended, options: OrdinalOptions) -> dict[str, tuple[Bools, Floats]]:
    """The members that `model_fit` reads; the null model has thresholds alone."""
    problem, count = ended.problem, ended.count
    likelihood = -ended.problem.levels.losses(problem.rows, ended.state.v)
    null = 2 * (count * np.log(problem.weight[:, None] / count)).sum(axis=1)
    n, parameters = rows_counted(problem, options), problem.free.astype(float)
    found = {
        "weight": n,
        "parameters": parameters,
        "log_likelihood": likelihood,
        "deviance": -2 * likelihood,
        "null_deviance": null,
    }
    return {name: (np.isfinite(one), one) for name, one in found.items()}


def rows_counted(problem: Problem, options: OrdinalOptions) -> Floats:
    """The rows of each group: the sum of weights that say how often a row is there, (G,)."""
    if options.weight_kind == FREQUENCY:
        return problem.weight
    return np.asarray(problem.rows.groups["n_rows"], np.float64)


def to_caller(problem: Problem, v: Floats) -> Floats:
    """Thresholds and coefficients of features in the caller's units, (G, q)."""
    levels, cuts = problem.levels, problem.levels.cuts
    found = v.copy()
    found[:, cuts:] *= levels.scale
    found[:, :cuts] += np.einsum("gd,gd->g", found[:, cuts:], levels.shift)[:, None]
    return found


def unpack(triangles: Floats, q: int) -> Floats:
    """Symmetric matrices (G, q, q) from their lower triangles."""
    row, column = np.tril_indices(q)
    whole = np.empty((len(triangles), q, q))
    whole[:, row, column] = whole[:, column, row] = triangles
    return whole


def make_smallest(problem: Problem, state: State, g: int) -> None:
    """Takes the least squared coefficients among the weights that fit a group equally well."""
    cuts, q = problem.levels.cuts, state.v.shape[1]
    used = np.append(np.ones(cuts, bool), problem.levels.scale[g] > 0)
    curvature = unpack(state.found.curvature[[g]], q)[0][np.ix_(used, used)]
    unit = np.sqrt(np.maximum(np.diag(curvature), np.finfo(float).tiny))
    size, vectors = np.linalg.eigh(curvature / unit / unit[:, None])
    null = vectors[:, size <= DEPENDENT * size[-1]] / unit[:, None]
    v = state.v[g, used]
    away = np.linalg.lstsq(null[cuts:], v[cuts:], rcond=None)[0]
    state.v[g, used] = v - null @ away


def covariances(
    problem: Problem, state: State, known: Bools, options: OrdinalOptions
) -> tuple[Floats, Floats]:
    """The covariances of thresholds and coefficients, (n, q, q), NaN for features that never
    vary: the inverse of the observed information, as R's `polr` has it, or the sandwich of the
    squared scores of rows or clusters (MacKinnon and White 1985); and the number of clusters (n,).
    known (G,): which groups of the state.
    """
    levels, cuts, q = problem.levels, problem.levels.cuts, state.v.shape[1]
    if not known.any():
        return np.empty((0, q, q)), np.empty(0)
    whole = unpack(state.found.curvature[known], q) * problem.weight[:, None, None]
    fixed = np.concatenate([np.zeros((len(whole), cuts), bool), levels.scale == 0], axis=1)
    group, place = np.nonzero(fixed)
    whole[group, place, place] = 1.0
    units = np.zeros_like(whole)
    units[:, range(q), range(q)] = 1.0
    units[:, range(cuts, q), range(cuts, q)] = levels.scale
    units[:, :cuts, cuts:] = (levels.shift * levels.scale)[:, None, :]
    inverse = np.linalg.inv(whole)
    clusters = np.full(len(whole), np.nan)
    if options.is_robust:
        squares, factor, clusters = squared_scores(problem, state.v[known], options)
        inverse = factor[:, None, None] * inverse @ squares @ inverse
    covariance = units @ inverse @ units.transpose(0, 2, 1)
    return np.where(fixed[:, None] | fixed[:, :, None], np.nan, covariance), clusters


def squared_scores(
    problem: Problem, v: Floats, options: OrdinalOptions
) -> tuple[Floats, Floats, Floats]:
    """The summed squares of scores (n, q, q), of rows or of clusters' sums (Liang and Zeger 1986),
    the factor of few of them (n,), and the number of clusters (n,), NaN without.
    """
    q = v.shape[1]
    if options.cluster is not None:
        squares, counted = problem.levels.cluster_scores(problem.rows, v)
        return unpack(squares, q), *of_few_clusters(problem, counted, options)
    by = 1 if options.weight_kind == FREQUENCY else 2
    squares = problem.levels.sums(problem.rows, v, by)[2]
    return unpack(squares, q), of_few_rows(problem, options), np.full(len(v), np.nan)


def of_few_clusters(
    problem: Problem, counted: NDArray[np.int64], options: OrdinalOptions
) -> tuple[Floats, Floats]:
    """The factor of robust covariances by c clusters, c / (c - 1) (n - 1) / (n - p) as in
    statsmodels, NaN for one cluster, and c itself (n,).
    """
    n, clusters = rows_counted(problem, options), counted.astype(float)
    others = np.where(clusters > 1, clusters - 1, np.nan)
    return clusters / others * (n - 1) / np.maximum(n - problem.free, 1), clusters


def of_few_rows(problem: Problem, options: OrdinalOptions) -> Floats:
    """The factor of robust covariances, (G,)."""
    n = rows_counted(problem, options)
    if options.covariance == CLASSIC:  # of rows that stand for others
        return np.asarray(n / np.maximum(n - 1, 1))
    return n / np.maximum(n - problem.free, 1) if options.covariance == "HC1" else np.ones(len(n))


def judge(ended: Ended, dependent: Bools, options: OrdinalOptions) -> Strings:
    """The status of each group."""
    problem, state = ended.problem, ended.state
    code = np.zeros(len(state.v), np.int32)

    def mark(where: Bools, status: str) -> None:
        np.maximum(code, np.where(where, STATUSES.index(status), 0), out=code)

    if not problem.rows.sparse:
        mark((problem.levels.scale == 0).any(axis=1), "constant feature")
    mark(state.converged & dependent, "collinear features")
    if options.epsilon > 0:
        mark(~state.converged, "time limit" if state.late else "not converged")
    if not options.l2:
        mark(problem.rows.groups["n_rows"] < problem.free, "too few rows")
    mark(ended.parted, "separable")
    return Strings(STATUSES, code)


def one_level(
    groups: NDArray[np.void],
    label: Floats,
    widths: NDArray[np.int64],
    request: Request[Task, OrdinalOptions],
) -> Models:
    """The models of groups whose rows all have one level, label (G, 1)."""
    n = len(groups)
    return Models.build(
        groups,
        request.task.name,
        intercept=np.full(n, np.nan),
        **class_fields(Lists.of_rows(label, np.ones(n, np.int64))),
        n_features=widths,
        status="one class",
        plan="constant",
        options=options_json(request.options),
    )


def plan_of(options: OrdinalOptions, levels: int) -> str:
    """Describes the training in one line."""
    return f"{ALGORITHM}, {options.link}, {levels} levels, {threads_text(options)}"


def options_json(options: OrdinalOptions) -> str:
    """The options in force, as JSON that starts with the version of the format."""
    names = (name for name in OPTIONS.by_name if name not in UNTOLD)
    link = {} if options.link == "logit" else {"link": options.link}
    return options_text(options, names, max_iter=options.iterations, **link)


def explain(group: NDArray[np.void], request: Request[Task, OrdinalOptions]) -> Document:
    """Explains the training of one group."""
    options = request.options
    return document(
        group,
        request.task.name,
        f"mean {request.task.formula}",
        request.reading,
        plan={
            "algorithm": ALGORITHM,
            "description": f"{ALGORITHM}, {options.link}, {threads_text(options)}",
            "because": "the objective is convex, and its only algorithm has few iterations",
            "order": "all rows in each iteration",
            "threads": options.threads,
            "max_iter": options.iterations,
            "epsilon": options.epsilon,
            "converge": "gradient",
            "time": options.time,
        },
    )
