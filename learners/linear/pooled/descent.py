"""Newton's method for groups that share weights, or are drawn to given ones.

Complete pooling: one vector of weights w for all groups, an intercept b + u_g for each. Minimise

    sum_g sum_i loss(w.x_i + b + u_g, y_i) + n l2/2 ||w||^2 + 1/2 sum_g u_g^2:

the group is a category, whose effects u_g are normal with variance 1, or with that of the
residuals where the loss is squared. Each Newton step is one pass over all groups; the effects are
eliminated from its system.

Partial pooling: weights v_g for each group, drawn to those of complete pooling. Minimise

    sum_i loss(v_g.z_i, y_i) + k/2 ||v_g - v0_g||^2

over standardised features z with a 1 behind them: the posterior mode of normal differences with
variance 1/k, in the same units (A. Gelman, J. Hill, Data analysis using regression and
multilevel/hierarchical models, 2007, 12 and 13). k, the strength, says how many rows the weights
of complete pooling are worth.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.problem import Problem

MOST_STEPS = 50
TOLERANCE = 1e-8
"""Share of a Newton step's predicted decrease, per row and relative to the size of a loss."""
MOST_HALVINGS = 30
ROUNDING = 1e-12


@dataclass(frozen=True)
class Sums:
    """Sums over the rows of each group at some weights: value (V,), gradient (V, p), curvature
    (V, p, p), by standardised weights.
    """

    value: Floats
    gradient: Floats
    curvature: Floats


def sums_at(problem: Problem, v: Floats) -> Sums:
    """Sums of one pass at v (V, p); 0 for groups without rows."""
    with np.errstate(all="ignore"):  # of groups without rows
        found = problem.evaluate(v, curvature=True)
    n = problem.rows.groups["n_rows"].astype(np.float64)
    some = n > 0
    packed = np.asarray(found.hessian)
    p = v.shape[1]
    full = np.zeros((len(v), p, p))
    low = np.tril_indices(p)
    full[:, low[0], low[1]] = full[:, low[1], low[0]] = packed
    return Sums(
        np.where(some, found.objective * n, 0.0),
        np.where(some[:, None], found.gradient * n[:, None], 0.0),
        np.where(some[:, None, None], full * n[:, None, None], 0.0),
    )


def values_at(problem: Problem, v: Floats) -> Floats:
    """Sums of losses alone, (V,)."""
    n = problem.rows.groups["n_rows"]
    with np.errstate(all="ignore"):
        return np.where(n > 0, problem.objective(v) * n, 0.0)


def completely(problem: Problem, sets: int, l2: float, size_of_loss: float) -> Floats:
    """Weights (G * S, p) of complete pooling in each of S sets of rows of the groups.

    Neighbours among the problem's groups are the sets of one group.
    """
    p = problem.d + 1
    n = problem.rows.groups["n_rows"].reshape(-1, sets).sum(axis=0)
    ridge = np.zeros((sets, p))
    ridge[:, :-1] = n[:, None] * l2 * problem.scale[:sets] ** 2
    shared, own = np.zeros((sets, p)), np.zeros((problem.n_groups // sets, sets))

    def weights(shared: Floats, own: Floats) -> Floats:
        v = np.repeat(shared[None], len(own), axis=0)
        v[:, :, -1] += own
        return np.asarray(v.reshape(-1, p))

    def penalties(shared: Floats, own: Floats) -> Floats:
        return np.asarray((ridge * shared**2).sum(axis=1) + (own**2).sum(axis=0)) / 2

    for _ in range(MOST_STEPS):
        found = sums_at(problem, weights(shared, own))
        total = found.value.reshape(-1, sets).sum(axis=0) + penalties(shared, own)
        slope = found.gradient.reshape(-1, sets, p)
        pull, own_pull = slope.sum(axis=0) + ridge * shared, slope[:, :, -1] + own
        step, steps = _arrow(found.curvature.reshape(-1, sets, p, p), ridge, pull, own_pull)
        promised = (step * pull).sum(axis=1) + (steps * own_pull).sum(axis=0)
        size = (promised > TOLERANCE * size_of_loss * n).astype(float)
        if not size.any():
            break
        for _ in range(MOST_HALVINGS):
            near, apart = shared - size[:, None] * step, own - size * steps
            there = values_at(problem, weights(near, apart)).reshape(-1, sets).sum(axis=0)
            worse = there + penalties(near, apart) > total + ROUNDING * np.abs(total)
            if not (worse & (size > 0)).any():
                break
            size[worse] /= 2
        shared, own = near, apart
    return weights(shared, own)


def _arrow(
    curvature: Floats, ridge: Floats, pull: Floats, own_pull: Floats
) -> tuple[Floats, Floats]:
    """Newton's steps of the shared weights (S, p) and of the effects (G, S).

    curvature: (G, S, p, p); pull, own_pull: their gradients. The system is an arrow: an effect
    meets the shared weights and itself alone.
    """
    p = pull.shape[1]
    across = curvature[:, :, -1]
    pivot = across[:, :, -1] + 1.0
    left = curvature.sum(axis=0) - np.einsum("gsi,gsj,gs->sij", across, across, 1 / pivot)
    left[:, np.arange(p), np.arange(p)] += ridge
    right = pull - np.einsum("gsi,gs->si", across, own_pull / pivot)
    step = solved(left, right)
    return step, (own_pull - np.einsum("gsi,si->gs", across, step)) / pivot


def partially(
    problem: Problem, centre: Floats, strength: float, size_of_loss: float, start: Floats
) -> Floats:
    """Weights (V, p) that are drawn to `centre`, beginning at `start`."""
    v = start.copy()
    p = v.shape[1]
    least = TOLERANCE * size_of_loss * np.maximum(problem.rows.groups["n_rows"], 1)
    going = np.arange(len(v))
    for _ in range(MOST_STEPS):
        part, middle, here = problem.of(going), centre[going], v[going]
        found = sums_at(part, here)
        left = found.curvature + strength * np.eye(p)
        right = found.gradient + strength * (here - middle)
        step = solved(left, right)
        promised = (step * right).sum(axis=1)
        size = (promised > least[going]).astype(float)
        total = found.value + strength * ((here - middle) ** 2).sum(axis=1) / 2
        moved = here
        for _ in range(MOST_HALVINGS):
            moved = here - size[:, None] * step
            there = values_at(part, moved) + strength * ((moved - middle) ** 2).sum(axis=1) / 2
            worse = (there > total + ROUNDING * np.abs(total)) & (size > 0)
            if not worse.any():
                break
            size[worse] /= 2
        v[going] = moved
        going = going[size > 0]
        if not len(going):
            break
    return v


def solved(left: Floats, right: Floats) -> Floats:
    """The solutions (V, p) of systems (V, p, p); a feature that never varies gets 0."""
    p = right.shape[1]
    zero = left[:, np.arange(p), np.arange(p)] <= 0
    fixed: NDArray[np.float64] = left.copy()
    fixed[:, np.arange(p), np.arange(p)] += zero
    return np.asarray(np.linalg.solve(fixed, np.where(zero, 0.0, right)[:, :, None])[:, :, 0])
