"""Data for tests of whole terms of multinomial models: covariances and likelihood ratios.

With K classes, a term of w features has (K - 1) w coefficients, relative to the first class.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.inference.determined import MOST_WEIGHTS
from tuskml.learners.linear.inference.ratios import ratios_of
from tuskml.learners.linear.inference.roots import pack_triangles, root_of, triangle
from tuskml.learners.linear.multinomial.problem import SoftmaxProblem
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Index
from tuskml.learners.models import Lists

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
