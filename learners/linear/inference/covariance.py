"""Covariances of a model's coefficients, for tests of several of them at once.

They are those whose diagonal is the squared standard errors: s^2 (n H)^-1 of the mean curvature H
on the span of the rows (`determined.py`), or the sandwich (`robust.py`).
"""

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.inference import determined, dispersion, robust
from tuskml.learners.linear.inference.names import CLASSIC
from tuskml.learners.linear.inference.outcome import Inference, end_of
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Index, Problem
from tuskml.learners.models import Lists


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
        out[which[block]] = _of_some(problem, state, seen, which[block], threads)
    for places, limit in seen.runaways:
        out[places] = limit.covariance(problem.rows.weight[places])[:, :-1, :-1]
    lost = ~np.isfinite(seen.std_err[:, 1:])
    out[lost] = np.nan
    out.transpose(0, 2, 1)[lost] = np.nan
    return Lists.of_rows(out.reshape(n, d * d), np.full(n, d * d))


def _of_some(
    problem: Problem, state: State, seen: Inference, which: Index, threads: int
) -> Floats:
    """The same of some groups, (n, d, d)."""
    part, v = problem.of(which), state.v[which]
    hessian = end_of(problem, state, which, threads).hessian
    if problem.task.expected is not None:
        hessian = dispersion.as_expected(part, v)
    if problem.covariance == CLASSIC:
        spanned = determined.span(part)
        inverse = determined.curved(spanned, hessian, problem.rows.fit_intercept).inverse
        sigma = spanned.sigma
        unit = np.divide(part.scale, sigma, where=sigma > 0, out=np.zeros_like(sigma))
        share = seen.scale[which] / part.rows.weight
        found = inverse[:, :-1, :-1] * share[:, None, None]
    else:
        unit = part.scale
        found = robust.covariance(part, v, hessian)[:, :-1, :-1] / part.rows.weight[:, None, None]
    return np.asarray(found * unit[:, :, None] * unit[:, None, :])
