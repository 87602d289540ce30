"""Parameters of losses besides the weights: the scale of standard errors, the dispersion of
counts.

Standard errors are the root of the diagonal of s^2 (n H)^-1, H the mean curvature. s^2 is 1 for a
likelihood without a scale; the residual variance for the squared loss; Pearson's chi^2 over its
degrees of freedom for the other tests by t (McCullagh and Nelder, Generalized linear models,
1989, 8.3.6); and for `huber`, whose H is then that of the squared loss, k^2 mean(psi^2) /
mean(psi')^2 with psi the loss's derivative (Huber, Robust statistics, 1981, 7.6.1).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats, Pass
from tuskml.learners.linear.inference.last_steps import step_once
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Index, Problem
from tuskml.learners.linear.request import LinearOptions
from tuskml.learners.linear.turns import Turns

LEAST, MOST = 1e-8, 1e8
"""The range of the dispersion of counts; the least one is numerically a Poisson distribution, and
is reported as 0.
"""
ROUNDS, STEPS = 50, 100
SETTLED = 1e-8
"""Change of the dispersion's logarithm."""
FURTHEST = 2.0
"""The largest change of that logarithm in a step."""


def scales(problem: Problem, state: State, which: Index, freedom: Floats) -> Floats:
    """s^2 of some groups, (n,); NaN without degrees of freedom. freedom: (n,)."""
    n = problem.rows.weight[which]
    task = problem.task
    with np.errstate(divide="ignore", invalid="ignore"):
        if task.quadratic:
            found = 2 * n * state.objective[which] / freedom
        elif task.test != "t" and task.parameter != "delta":
            return np.ones(len(which))
        else:
            found = sum_over_rows(residuals(problem), state, which, by_scores=True) / freedom
            if task.parameter == "delta":
                found = found * inverse_flatness(problem, state, which)
        return np.where(freedom > 0, found, np.nan)


def residuals(problem: Problem) -> Problem:
    """The problem whose squared derivatives add up to Pearson's chi^2, or to its like of `huber`.

    Pearson's residual (mu - y) / mu^(p / 2) is the derivative of the loss with power 1 + p / 2.
    """
    if problem.task.own_residuals:
        return problem.on(replace(problem.rows, parameter=np.ones((problem.n_groups, 2))))
    if problem.task.parameter != "power":
        return problem
    assert problem.rows.parameter is not None
    power = problem.rows.parameter * [0.5, 1.0] + [1.0, 0.0]
    return problem.on(replace(problem.rows, parameter=power))


def inverse_flatness(problem: Problem, state: State, which: Index) -> Floats:
    """k^2 / mean(psi')^2, (n,)."""
    n = problem.rows.weight[which]
    bent = sum_over_rows(problem, state, which, by_scores=False) / n
    weights = (problem.scale[which] > 0).sum(axis=1) + int(problem.rows.fit_intercept)
    k = 1 + weights / n * (bent * (1 - bent)) / bent**2
    return np.asarray(k**2 / bent**2)


def sum_over_rows(problem: Problem, state: State, which: Index, by_scores: bool) -> Floats:
    """The sum over rows of the squared derivatives, or of the curvatures, (n,)."""
    part = problem.of(which)
    rows = replace(part.rows, by_scores=by_scores)
    found = rows.curvature(part.to_caller(state.v[which]), part.shift, part.scale, True)
    return np.asarray(found[:, -1])


def as_expected(problem: Problem, v: Floats) -> Floats:
    """The packed mean curvature that standard errors are computed by, (G, p (p + 1) / 2)."""
    assert problem.task.expected is not None
    loss = replace(problem.rows, loss=problem.task.expected)
    return np.asarray(problem.on(loss).evaluate(v, curvature=True).hessian)


def curvature(problem: Problem, v: Floats) -> Floats:
    """The packed mean curvature of the loss that standard errors are computed by."""
    if problem.task.expected is not None:
        return as_expected(problem, v)
    return np.asarray(problem.evaluate(v, curvature=True).hessian)


def by_moments(labels: NDArray[np.void]) -> Floats:
    """A first dispersion of counts, (G,), from the excess of their variance over their mean."""
    mean, variance = labels["mean"], labels["variance"]
    excess = np.divide(variance - mean, mean**2, where=mean > 0, out=np.ones_like(mean))
    return np.asarray(np.clip(excess, 0.01, 100.0))


def likeliest(rows: Pass, weights: Floats, dispersion: Floats) -> Floats:
    """The dispersion with the largest likelihood at the means of weights, both (G,).

    Newton's method on its logarithm, which goes uphill where the likelihood is not concave.
    weights: (G, p) in the caller's units.
    """
    log = np.log(dispersion)
    moving = np.arange(len(log))
    for _ in range(STEPS):
        size = np.exp(-log[moving])
        sums = rows.of(moving).size_likelihood(weights[moving], size)
        slope = -size * sums[:, 1]
        bend = size**2 * sums[:, 2] + size * sums[:, 1]
        step = np.where(bend < 0, -slope / np.minimum(bend, -1e-300), np.sign(slope))
        before = log[moving]
        log[moving] = np.clip(
            before + np.clip(step, -FURTHEST, FURTHEST), np.log(LEAST), np.log(MOST)
        )
        moving = moving[np.abs(log[moving] - before) > SETTLED]
        if not len(moving):
            break
    return np.exp(log)


# Counts whose dispersion is not known: it is estimated between descents.
#
# The joint likelihood is maximised by turns, by the weights for a dispersion and by the
# dispersion for the weights, until neither moves: both are asymptotically independent, so few
# turns suffice (Lawless, Negative binomial and mixed Poisson regression, 1987; Venables and
# Ripley, Modern applied statistics with S, 2002, 7.4).

ENOUGH = 1e-3
"""The logarithm of the dispersion converges to this share of epsilon."""


NOISE, SHRINKS = 1e-5, 0.5
"""Change of that logarithm that may be rounding, which it is where it does not shrink so much."""


def estimates_dispersion(problem: Problem, options: LinearOptions) -> bool:
    """Returns whether the loss has a dispersion that the options do not set."""
    return problem.task.parameter == "dispersion" and options.dispersion is None


def with_dispersion(
    problem: Problem, state: State, options: LinearOptions, turns: Turns
) -> tuple[Problem, State]:
    """The problem with the likeliest dispersion, and where the descent for it ended.

    state: of the descent for the first one. A group whose dispersion has settled stays as it is.
    """
    least, last = max(ENOUGH * options.epsilon, SETTLED), np.full(problem.n_groups, np.inf)
    moving = np.arange(problem.n_groups)
    for _ in range(ROUNDS):
        step_once(problem, state, moving)
        rows, part = problem.rows, problem.of(moving)
        assert rows.parameter is not None
        parameter = rows.parameter.copy()
        before = parameter[moving, 0]
        found = likeliest(part.rows, part.to_caller(state.v[moving]), before)
        change = np.abs(np.log(found / before))
        rounded = (change < NOISE) & (change > SHRINKS * last[moving])
        last[moving] = change
        moved = (change > least) & ~rounded
        off = moved | turns.cut_short(state, moving)
        state.converged[moving[moved]] = False  # unless it goes on and then settles
        moving, found = moving[off], found[off]
        going = turns.left(state)[moving] > 0
        moving, found = moving[going], found[going]
        if not len(moving) or state.out_of_time:
            break
        parameter[moving, 0] = found
        problem = problem.on(replace(rows, parameter=parameter))
        turns.descend(problem, state, moving)
    else:
        state.converged[moving] = False
    return problem, state
