"""Goodness of fit of a likelihood, as `model_fit` shows it.

The deviance is twice the difference of the log-likelihood to that of a model with a parameter per
row; the null deviance is that of the best constant (McCullagh and Nelder, Generalized linear
models, 1989, 2.3). All sums are by the rows' weights. Without a penalty, `parameters` counts the
coefficients that the rows determine, the intercept and an estimated parameter, as R does: the
variance of `linear`, the scale of `gamma` or the dispersion of counts.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.kernels.segments import labels_of
from tuskml.learners.linear.inference.dispersion import estimates_dispersion
from tuskml.learners.linear.inference.outcome import Inference, Members
from tuskml.learners.linear.objective import best_constant
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import FREQUENCY, LinearOptions
from tuskml.learners.linear.tasks import LinearTask

NEARLY_POISSON = 1e-5
"""Count times dispersion, below which a series has all digits."""
STEPS = 50
SETTLED = 1e-12
"""Change of the best constant."""


@dataclass(frozen=True)
class Sums:
    """Weighted sums over the labels y of n rows: n, log y!, y log y, log y, the terms of counts'
    size 1/a, for tweedie with power p (in a's position) y^(2 - p) / ((p - 1) (2 - p)), and 1 / y.
    """

    n: float
    factorial: float
    y_log_y: float
    log_y: float
    sized: float
    saturated: float
    powered: float
    inverse: float


def sums_of(group: np.void, a: float) -> Sums:
    """The sums of a group (passes.GROUP); a: the dispersion of counts or tweedie's power, NaN
    without one."""
    from scipy.special import gammaln, xlogy  # slow to import, seldom needed

    found = np.zeros(8)
    with np.errstate(divide="ignore", invalid="ignore"):
        for y, weight in labels_of(group):
            size = 1 / a
            terms = (
                np.ones(len(y)),
                gammaln(y + 1),
                xlogy(y, y),
                np.log(y),
                rising(y, a),
                (y + size) * np.log1p(a * y),
                y ** (2 - a) / ((a - 1) * (2 - a)),
                1 / y,
            )
            found += [float(np.sum(one if weight is None else weight * one)) for one in terms]
    return Sums(*found.tolist())


def rising(y: Floats, a: float) -> Floats:
    """log(Gamma(y + 1 / a) / Gamma(1 / a)) + y log a, by the first terms of a series where the
    functions would differ by less than their rounding.
    """
    from scipy.special import gammaln

    near = y * (y - 1) * (a / 2 - a * a * (2 * y - 1) / 12)
    far = gammaln(y + 1 / a) - gammaln(1 / a) + y * np.log(a)
    return np.where((y + 1) * a < NEARLY_POISSON, near, far)


def log_likelihood(task: LinearTask, loss: float, s: Sums, scale: float) -> float:
    """The log-likelihood of a group whose losses are summed; scale: the dispersion of `gamma`,
    which as in R is the deviance per row.
    """
    if task.name == "linear":
        return float(-s.n / 2 * (np.log(2 * np.pi * 2 * loss / s.n) + 1))
    if task.name == "poisson" or task.parameter == "dispersion":
        return -loss - s.factorial + (s.sized if task.parameter else 0.0)
    if task.parameter == "power":  # an infinite series, which R leaves out too
        return math.nan
    if task.name == "inverse_gaussian":
        return -0.5 * (s.n * (math.log(2 * math.pi * scale) + 1) + 3 * s.log_y)
    if task.name == "gamma":
        k = 1 / scale
        known = s.n * (k * np.log(k) - math.lgamma(k)) + (k - 1) * s.log_y
        return float(known - k * loss)
    return -loss


def of_precisions(group: np.void, loss: float) -> float:
    """The log-likelihood of numbers whose variances are one number over their weights."""
    n, logs = int(group["n_rows"]), 0.0
    for _, weight in labels_of(group):
        logs += 0.0 if weight is None else float(np.sum(np.log(weight)))
    return -n / 2 * (math.log(2 * math.pi * 2 * loss / n) + 1) + logs / 2


def saturated_loss(task: LinearTask, s: Sums, y: float) -> float:
    """The summed loss of a model with a parameter per row; y: the sum of the labels."""
    if task.name == "poisson":
        return y - s.y_log_y
    if task.parameter == "dispersion":
        return s.saturated - s.y_log_y
    if task.parameter == "power":
        return s.powered
    if task.name == "inverse_gaussian":
        return -s.inverse / 2
    return s.n + s.log_y if task.name == "gamma" else 0.0


def null_margin(problem: Problem, labels: NDArray[np.void]) -> Floats:
    """Weights (G, p) of the best constant, by Newton's method from a first one."""
    v = np.zeros((problem.n_groups, problem.d + 1))
    if not problem.rows.fit_intercept:
        return v
    v[:, -1] = best_constant(problem, labels)
    none = np.zeros_like(problem.scale)
    moves = problem.task.response == "exp" or problem.task.offset or problem.task.link
    for _ in range(STEPS if moves else 0):
        sums = problem.rows.curvature(v, none, none, True)
        step = sums[:, problem.d + 2] / sums[:, -1]
        v[:, -1] -= np.clip(step, -2.0, 2.0)
        if np.abs(step).max() < SETTLED:
            break
    return v


def members(
    problem: Problem,
    state: State,
    seen: Inference,
    labels: NDArray[np.void],
    options: LinearOptions,
) -> Members:
    """The members of a model's options that `model_fit` reads."""
    task, rows, n = problem.task, problem.rows, problem.n_rows
    weights = problem.to_caller(state.v)
    summed = replace(rows, loss_only=True)
    losses = summed.gradient(weights)[:, 0]
    nulls = summed.gradient(null_margin(problem, labels))[:, 0]
    given = rows.parameter
    a = np.full(len(n), np.nan) if given is None else given[:, 0]
    found: dict[str, Any] = {name: np.empty(len(n)) for name in NAMES}
    found["weight"] = n
    used = (problem.scale > 0).sum(axis=1) + int(rows.fit_intercept)
    found["parameters"] = np.where(np.isnan(seen.freedom), used, n - seen.freedom)
    found["parameters"] += estimates_dispersion(problem, options) or task.test == "t"
    for g in range(len(n)):
        s = sums_of(rows.groups[g], float(a[g]))
        least = saturated_loss(task, s, float(s.n * labels["mean"][g]))
        deviance = 2 * (losses[g] - least)
        found["log_likelihood"][g] = log_likelihood(task, losses[g], s, deviance / s.n)
        if task.name == "linear" and problem.weight_kind != FREQUENCY:
            found["log_likelihood"][g] = of_precisions(rows.groups[g], float(losses[g]))
        found["deviance"][g] = deviance
        found["null_deviance"][g] = 2 * (nulls[g] - least)
    return {name: (np.isfinite(one), one) for name, one in found.items()}


NAMES = ("weight", "parameters", "log_likelihood", "deviance", "null_deviance")
