"""From where the weights ended to what a person is told: status, standard errors."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.models import Strings
from tuskml.groups.statuses import MEANINGS
from tuskml.udas.algorithms.newton import evaluate
from tuskml.udas.kernels import KINDS, Floats, solve
from tuskml.udas.operators import State
from tuskml.udas.plan import Plan
from tuskml.udas.problem import Problem
from tuskml.udas.tasks import Task

STATUSES = tuple(MEANINGS)
"""In rising order of what a person must know first."""

SEPARATED_LOSS = 1e-4
"""Mean log-loss below which the classes are apart: without a penalty there is no optimum."""
SEPARATED_ERROR = 1e2
"""Standard error of a standardised coefficient that only (quasi-)separation explains."""
NEARLY_DEPENDENT = 1e-9
"""Relative pivot below which double precision leaves too few digits."""
EXACT_IN_FLOAT = 2.0**24
"""Up to which 32-bit floats hold every whole number."""
ROUNDING = 1e-4
"""Share of a feature's variance by its rounding, which moves a slope by as much."""
MOST_WEIGHTS = 513


@dataclass(frozen=True)
class Inference:
    """std_err (G, p), intercept first, NaN where it has no meaning; rank of the curvature (G,)."""

    std_err: Floats
    rank: NDArray[np.int64] | None
    pivot: Floats
    conditioned: Floats


def wants_inference(problem: Problem) -> bool:
    """Standard errors are those of unpenalised, unweighted maximum likelihood."""
    return (
        problem.task.test is not None
        and not problem.l1
        and not problem.l2
        and problem.rows.class_weight is None
        and problem.d < MOST_WEIGHTS
    )


def infer(problem: Problem, state: State, plan: Plan) -> Inference:
    """Standard errors from the inverse curvature at the optimum.

    The curvature H of the mean loss gives the covariance s2 (n H)^-1, s2 = 1 for the logistic
    loss and the residual variance for the squared one; the intercept's in the caller's units is
    c' cov c with c = (-scale * shift, 1).
    """
    n_groups, p = state.v.shape
    none = Inference(
        np.full((n_groups, p), np.nan), None, np.ones(n_groups), np.zeros((n_groups, p))
    )
    if not wants_inference(problem) or not state.converged.any():
        return none
    hessian = hessian_at(problem, state)
    direction = np.ones((n_groups, p))
    direction[:, :-1] = -problem.scale * problem.shift
    solution = solve(hessian, direction, plan.threads, inverse=True)
    assert solution.inverse_diagonal is not None
    n = problem.rows.groups["n_rows"].astype(float)
    variance = residual_variance(problem, state, solution.rank) / n
    with np.errstate(invalid="ignore"):
        conditioned = np.sqrt(solution.inverse_diagonal * variance[:, None])
        constant = np.sqrt(np.einsum("gp,gp->g", direction, solution.step) * variance)
    std_err = np.empty((n_groups, p))
    std_err[:, 0] = constant if problem.rows.fit_intercept else np.nan
    std_err[:, 1:] = conditioned[:, :-1] * problem.scale
    std_err[~state.converged] = conditioned[~state.converged] = np.nan
    return Inference(std_err, solution.rank, solution.pivot, conditioned)


def hessian_at(problem: Problem, state: State) -> Floats:
    """The curvature where the weights ended, as Newton left it or by one more pass."""
    kept = state.memory.get("hessian")
    stale = state.memory.get("stale", np.full(len(state.v), kept is None)) | ~state.known
    renewed = np.flatnonzero(stale & state.converged)
    if kept is None:
        p = problem.d + 1
        kept = np.zeros((len(state.v), p * (p + 1) // 2))
    if len(renewed):
        everywhere = np.full(len(state.v), "hessian" not in state.memory)
        precise = state.memory.get("precise", everywhere)[renewed]
        every = np.ones(len(renewed), bool)
        found = evaluate(problem.of(renewed), state.v[renewed], kept[renewed], every, precise)
        kept[renewed] = found.hessian
    return np.asarray(kept)


def residual_variance(problem: Problem, state: State, rank: NDArray[np.int64]) -> Floats:
    """2 n loss / (n - rank) for the squared loss, NaN without degrees of freedom; else 1."""
    if not problem.task.quadratic:
        return np.ones(len(rank))
    n = problem.rows.groups["n_rows"].astype(float)
    freedom = n - rank
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(freedom > 0, 2 * n * state.objective / freedom, np.nan)


def judge(problem: Problem, state: State, plan: Plan, seen: Inference) -> Strings:
    """One status a group; also withdraws `converged` where there is no optimum to converge to."""
    n_groups = len(state.v)
    code = np.zeros(n_groups, np.int32)
    used = problem.scale > 0
    free = used.sum(axis=1) + int(problem.rows.fit_intercept)

    def mark(where: NDArray[np.bool_], status: str) -> None:
        np.maximum(code, np.where(where, STATUSES.index(status), 0), out=code)

    if not problem.rows.sparse:
        mark(np.any(~used, axis=1), "constant feature")
    if seen.rank is not None:
        dependent = (seen.rank < free) | (seen.pivot < NEARLY_DEPENDENT)
        mark(state.converged & dependent, "collinear features")
    mark(rounded(problem), "rounded feature")
    if state.out_of_time:
        mark(~state.converged & state.running, "time limit")
    elif plan.epsilon > 0:
        mark(~state.converged, "not converged")
    stopped = state.memory.get("early_stop")
    if stopped is not None:
        code[stopped & ~state.converged] = STATUSES.index("early stop")
    if not problem.l2 and not problem.l1:
        if not problem.rows.sparse:
            weights = problem.d + int(problem.rows.fit_intercept)
            mark(problem.rows.groups["n_rows"] < weights, "too few rows")
        if likely_classes(problem.task):
            apart = state.objective < SEPARATED_LOSS
            apart |= (seen.conditioned > SEPARATED_ERROR).any(axis=1)
            mark(apart, "separable")
            state.converged[apart] = False
    return Strings(STATUSES, code)


def likely_classes(task: Task) -> bool:
    """Whether the loss is a likelihood of two classes, which has no optimum where they part.

    Other losses of classes, such as a squared hinge, have one there.
    """
    return task.classifies and "logistic" in (task.name, task.response) and task.test is not None


def rounded(problem: Problem) -> NDArray[np.bool_]:
    """Groups with a feature whose 32-bit floats lost much of what it varies by, of shape (G,).

    DuckDB makes a FLOAT[] of `[FLOAT, BIGINT]`. A step u between floats is an error of variance
    u^2 / 12, and such errors in a feature shrink its slope by their share of its variance (Fuller,
    Measurement Error Models, 1987, 1.1).
    """
    if KINDS[problem.rows.groups["kind"][0]] != "dense float32":
        return np.zeros(problem.rows.n_groups, bool)
    center = np.minimum(np.abs(problem.shift), np.finfo(np.float32).max).astype(np.float32)
    error = (np.spacing(center).astype(float) * problem.scale) ** 2 / 12
    lost: NDArray[np.bool_] = np.any((center > EXACT_IN_FLOAT) & (error > ROUNDING), axis=1)
    return lost
