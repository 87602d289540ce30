"""Cholesky factors of the covariances of coefficients, which models keep for intervals.

A root B of a covariance, B B', keeps twice the digits of the covariance itself where features are
far from 0 for what they vary by: the variance of the intercept is then the difference of large
numbers. Roots are made in coordinates in which features are centred, of size 1, and only then go
to the caller's units. Triangles make them unique and half as large.
"""

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.inference import determined, dispersion
from tuskml.learners.linear.inference.outcome import Inference, end_of
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Index, Problem
from tuskml.learners.linear.request import CLASSIC
from tuskml.learners.models import Lists


def roots(
    problem: Problem, state: State, seen: Inference, threads: int, widths: NDArray[np.int64]
) -> Lists:
    """The rows of the triangles of G groups, the intercept's first; empty lists for groups whose
    rows say nothing of errors, or separate, or have too many features. widths (G,): features.
    """
    p = problem.d + 1
    if p > determined.MOST_WEIGHTS:
        return Lists.none(problem.n_groups)
    out = np.full((problem.n_groups, p * (p + 1) // 2), np.nan)
    known = np.isfinite(seen.std_err).any(axis=1)
    if problem.covariance == CLASSIC:  # rows may determine sums of coefficients, and none of them
        known |= np.isfinite(seen.scale)
    which = np.flatnonzero(known & state.converged & ~seen.parted)
    for block in determined.blocks(len(which), p):
        found = _roots_of(problem, state, seen, which[block], threads)
        out[which[block]] = pack_triangles(triangle(found))
    sizes = (widths + 1) * (widths + 2) // 2
    return Lists.of_rows(out, np.where(np.isfinite(out).all(axis=1), sizes, 0))


def _roots_of(
    problem: Problem, state: State, seen: Inference, which: Index, threads: int
) -> Floats:
    """Roots (n, p, p) of some groups, the intercept's row first, in the caller's units."""
    part, v = problem.of(which), state.v[which]
    hessian = end_of(problem, state, which, threads).hessian
    if problem.task.expected is not None:
        hessian = dispersion.as_expected(part, v)
    lost = np.asarray(~np.isfinite(hessian).all(axis=1))
    hessian = np.where(lost[:, None], 0.0, hessian)
    spanned, intercept = determined.span(part), problem.rows.fit_intercept
    if problem.covariance == CLASSIC:
        own = determined.root(spanned, hessian, intercept)
        own = own * np.sqrt(seen.scale[which])[:, None, None]
    else:
        own = root_of(to_own(spanned, determined.covariance(part, v, hessian)))
    own = own / np.sqrt(part.rows.weight)[:, None, None]
    own[lost] = np.nan
    sigma = spanned.sigma
    unit = np.divide(1.0, sigma, where=sigma > 0, out=np.zeros_like(sigma))
    away = -(spanned.mean + part.scale * part.centre) * unit
    first = own[:, -1] + np.einsum("gj,gjk->gk", away, own[:, :-1])
    rest = own[:, :-1] * (part.scale * unit)[:, :, None]
    return np.concatenate([first[:, None] if intercept else 0 * first[:, None], rest], axis=1)


def to_own(spanned: determined.Span, covariance: Floats) -> Floats:
    """The covariance (G, p, p) of weights v as that of (u, b) (`determined.py`)."""
    turn = np.zeros_like(covariance)
    d = spanned.sigma.shape[1]
    turn[:, range(d), range(d)] = spanned.sigma
    turn[:, d, :d], turn[:, d, d] = spanned.mean, 1.0
    return np.asarray(turn @ covariance @ turn.transpose(0, 2, 1))


def root_of(covariance: Floats) -> Floats:
    """A root (G, p, p) of covariances, whose rows have an error relative to their own size."""
    unit = np.sqrt(np.maximum(np.einsum("gjj->gj", covariance), 0.0))
    scale = np.divide(1.0, unit, where=unit > 0, out=np.zeros_like(unit))
    size, direction = np.linalg.eigh(covariance * scale[:, :, None] * scale[:, None, :])
    found = direction * np.sqrt(np.maximum(size, 0.0))[:, None, :]
    return np.asarray(found * unit[:, :, None])


def triangle(root: Floats) -> Floats:
    """The lower triangle L (G, p, p) of a root B (G, p, q) with L L' = B B'; NaN where it has
    one.
    """
    lost = np.asarray(~np.isfinite(root).all(axis=(1, 2)))
    whole: Floats = np.where(lost[:, None, None], 0.0, root)
    upper = np.asarray(np.linalg.qr(whole.transpose(0, 2, 1), mode="r"))
    sign = np.where(np.einsum("gjj->gj", upper) < 0, -1.0, 1.0)
    found = (upper * sign[:, :, None]).transpose(0, 2, 1)
    return np.where(lost[:, None, None], np.nan, found)


def pack_triangles(lower: Floats) -> Floats:
    """The rows of triangles (G, p, p), one after another, (G, p (p + 1) / 2)."""
    row, column = np.tril_indices(lower.shape[1])
    return np.asarray(lower[:, row, column])
