"""Standard errors and statuses of multinomial models."""

import math

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.inference.determined import MOST_WEIGHTS
from tuskml.learners.linear.multinomial.problem import SoftmaxProblem
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.plan import Plan
from tuskml.learners.models import Strings
from tuskml.learners.statuses import MEANINGS

STATUSES = tuple(MEANINGS)
DEPENDENT = 1e-10
"""Eigenvalue of the curvature, relative to the largest, up to which a weight is not determined."""


def std_errs(problem: SoftmaxProblem, state: State) -> tuple[Floats, NDArray[np.bool_]]:
    """Standard errors (G, K, p), each class's intercept first, against the first class, whose own
    are NaN; and which groups have features that depend on each other.

    They are the root of the diagonal of the inverse curvature, as in statsmodels' MNLogit. NaN
    with a penalty or class weights, and where a training did not converge.
    """
    n, k, p = problem.n_groups, problem.softmax.n_classes, problem.p
    found, dependent = np.full((n, k, p), np.nan), np.zeros(n, bool)
    if problem.penalised or problem.softmax.weight is not None or k * p >= MOST_WEIGHTS:
        return found, dependent
    for g in np.flatnonzero(state.converged).tolist():
        some = problem.of(np.array([g]))
        assert isinstance(some, SoftmaxProblem)
        found[g], dependent[g] = _of_group(some, state.v[[g]])
    return found, dependent


def _of_group(problem: SoftmaxProblem, v: Floats) -> tuple[Floats, bool]:
    """The same of one group."""
    k, p = problem.softmax.n_classes, problem.p
    weights = problem.blocks(problem.to_caller(v))
    used = np.concatenate([problem.scale[0] > 0, [problem.rows.fit_intercept]])
    free = np.tile(used, k)
    free[:p] = False
    curvature = problem.curvature(weights)[0][np.ix_(free, free)]
    size = np.linalg.eigvalsh(curvature)
    out = np.full((k, p), np.nan)
    if not len(size) or size[0] <= DEPENDENT * size[-1]:
        return out, bool(len(size))
    inverse = np.zeros((k * p, k * p))
    inverse[np.ix_(free, free)] = np.linalg.inv(curvature)
    units = np.diag(np.concatenate([problem.scale[0], [1.0]]))
    units[-1, :-1] = -problem.scale[0] * problem.shift[0]
    for c in range(1, k):
        block = inverse[c * p : (c + 1) * p, c * p : (c + 1) * p]
        own = np.sqrt(np.diag(units @ block @ units.T))
        out[c] = np.where(np.roll(used, 1), np.roll(own, 1), np.nan)
    return out, False


def judge(
    problem: SoftmaxProblem, state: State, plan: Plan, dependent: NDArray[np.bool_]
) -> Strings:
    """One status per group. Where all rows together lose less than log 2, each row's own class is
    its likeliest: the classes are apart, and without a penalty there is no optimum.
    """
    code = np.zeros(problem.n_groups, np.int32)
    n_rows = problem.rows.weight

    def mark(where: NDArray[np.bool_], status: str) -> None:
        np.maximum(code, np.where(where, STATUSES.index(status), 0), out=code)

    dense = not problem.rows.sparse
    mark(np.any(problem.scale == 0, axis=1) & dense, "constant feature")
    mark(state.converged & dependent, "collinear features")
    if plan.epsilon > 0:
        mark(~state.converged, "not converged")
    if state.out_of_time:
        mark(~state.converged & state.running, "time limit")
    if not problem.penalised:
        if dense:
            weights = (problem.softmax.n_classes - 1) * (problem.d + 1)
            mark(n_rows < weights, "too few rows")
        apart = n_rows * state.objective < math.log(2)
        mark(apart, "separable")
        state.converged[apart] = False
    return Strings(STATUSES, code)
