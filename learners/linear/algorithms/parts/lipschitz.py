"""The Lipschitz constant of a gradient, whose inverse is a step that lowers the objective."""

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.problem import Problem


def curvature_bound(problem: Problem) -> Floats:
    """About the gradient's Lipschitz constant by group, (G,): l'' at most times the mean ||z||^2.

    Dense z have unit variance; sparse ones about one in each of their entries.
    """
    loss = problem.task.steepest
    if not problem.task.smooth and problem.rows.smoothing > 0:
        loss = 1.0 / problem.rows.smoothing
    norm = np.full(problem.n_groups, float(problem.d))
    if problem.rows.sparse:
        norm = problem.rows.entries() / problem.rows.groups["n_rows"]
    return weighted(problem) * loss * (norm + 1.0)


def weighted(problem: Problem) -> Floats:
    """A power of 4 (G,) close to both class weights if both are well above or below 1; else 1."""
    weight = problem.rows.class_weight
    if weight is None:
        return np.ones(problem.n_groups)
    near = np.clip(1.0, weight.min(axis=1), weight.max(axis=1))
    return np.asarray(4.0 ** np.round(np.log2(near) / 2))
