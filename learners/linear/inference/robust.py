"""Standard errors that hold where the variance of the loss's derivative is not what a model says.

The covariance is the sandwich H^-1 S H^-1 of the summed curvature H and the sum S of squared
scores. HC0 (White, A heteroskedasticity-consistent covariance matrix estimator, 1980) is this
itself. HC1 multiplies it by n / (n - p). HC2 and HC3 divide a row's squared score by 1 - h and
(1 - h)^2, h its leverage (MacKinnon and White, Some heteroskedasticity-consistent covariance
matrix estimators, 1985). A row of weight 2 is two rows.

Where rows of one cluster depend on each other, S is the sum over clusters of the squared sums of
their rows' scores (Liang and Zeger, Longitudinal data analysis using generalized linear models,
1986). With c clusters it is multiplied by c / (c - 1) (n - 1) / (n - p), as in Stata's regress and
in statsmodels; one cluster alone has no such errors.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.inference.determined import unpacked
from tuskml.learners.linear.inference.names import CLUSTERED
from tuskml.learners.linear.problem import Problem

POWERS = {"HC0": 0, "HC1": 0, "HC2": 1, "HC3": 2}
"""Of 1 - h, that squared scores are divided by."""


def variances(
    problem: Problem, v: Floats, hessian: Floats, directions: Floats
) -> tuple[Floats, Floats, Floats]:
    """n times the variances of the weights of z (G, d) and of the intercept in the caller's units
    (G,), where the rows determine all weights of features that vary; and the clusters of rows
    (G,), NaN unless the errors are by cluster.

    v (G, p): the weights; hessian: the packed mean curvature there; directions (G, p): the
    intercept is v times these.
    """
    whole = unpacked(hessian)
    lost = ~np.isfinite(whole).all(axis=(1, 2))
    used = np.diagonal(whole, axis1=1, axis2=2) > 0
    found, clusters = sandwich(problem, v, hessian)
    constant = np.einsum("gj,gjk,gk->g", directions, found, directions)
    own = np.diagonal(found, axis1=1, axis2=2)[:, :-1]
    return np.where(used[:, :-1], own, np.nan), np.where(lost, np.nan, constant), clusters


def covariance(problem: Problem, v: Floats, hessian: Floats) -> Floats:
    """n times the covariances (G, p, p) of the weights v, whose diagonal `variances` has."""
    return sandwich(problem, v, hessian)[0]


def sandwich(problem: Problem, v: Floats, hessian: Floats) -> tuple[Floats, Floats]:
    """The same, and the clusters."""
    whole = unpacked(hessian)
    whole[~np.isfinite(whole).all(axis=(1, 2))] = 0.0
    used = (np.diagonal(whole, axis1=1, axis2=2) > 0).sum(axis=1)
    inverse = np.asarray(np.linalg.pinv(whole, rcond=1e-15, hermitian=True), np.float64)
    return sandwich_of(problem, v, inverse, used)


def sandwich_of(
    problem: Problem, v: Floats, inverse: Floats, used: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """The same by the inverse (G, p, p) of the mean curvature; used (G,): weights with one."""
    n = problem.rows.weight
    loss = problem.task.expected if problem.task.expected is not None else problem.rows.loss
    rows = replace(problem.rows, loss=loss)
    given = problem.to_caller(v), problem.shift, problem.scale
    spare = np.maximum(n - used, np.finfo(float).tiny)
    clusters = np.full(len(n), np.nan)
    if problem.covariance == CLUSTERED:
        summed, counted = rows.cluster_scores(*given)
        middle, clusters = unpacked(summed), counted.astype(float)
        factor = by_clusters(n, spare, clusters)
    else:
        row, column = np.tril_indices(inverse.shape[1])
        packed = np.ascontiguousarray(inverse[:, row, column]) / n[:, None]
        middle = unpacked(rows.squared_scores(*given, packed, POWERS[problem.covariance]))
        factor = n / spare if problem.covariance == "HC1" else np.ones(len(n))
    found = inverse @ (middle / n[:, None, None]) @ inverse
    return np.asarray(found * factor[:, None, None]), clusters


def by_clusters(n: Floats, spare: Floats, clusters: Floats) -> Floats:
    """The factor of few clusters, (G,), NaN for one; spare: rows less weights."""
    others = np.where(clusters > 1, clusters - 1, np.nan)
    return np.asarray(clusters / others * (n - 1) / spare)
