"""Sizes of gradients that do not depend on how the features lean on each other.

Where a loss has no curvature but at its corner, Newton's step is damped, and a training ends by
its gradient. By coordinate a gradient along nearly collinear features is small far from the
optimum. In the metric of the rows, sqrt(g' C^-1 g) with C = mean(z z'), it is as large as along
any other direction: an affine change of the features changes neither it nor a step that is damped
by C.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats, Triangles, solve
from tuskml.learners.linear.operators import Converge, State, Tolerance
from tuskml.learners.linear.problem import Found, Index, Problem
from tuskml.learners.linear.tasks import LINEAR

MOST_FEATURES = 2048
"""With more features the metric would take longer than the steps of algorithms without curvature.
"""


class Metric:
    """The metric C of the rows of G groups, as packed triangles (G, p (p + 1) / 2)."""

    def __init__(self, triangles: Triangles, threads: int) -> None:
        self.triangles, self.threads = triangles, threads

    def size(self, which: Index, gradient: Floats) -> Floats:
        """The norm (n,) of gradients (n, p) of these groups."""
        step = solve(self.triangles[which], gradient, self.threads).step
        return np.asarray(np.sqrt(np.maximum(np.einsum("gp,gp->g", step, gradient), 0.0)))


class InMetric(Tolerance):
    """Converge: the gradient is small in the metric of the rows too."""

    def __init__(self, goal: Tolerance, problem: Problem, metric: Metric) -> None:
        super().__init__(goal.criterion, goal.epsilon, goal.unit)
        self.problem, self.metric = problem, metric

    def __call__(self, state: State, active: Index, found: Found | None) -> NDArray[np.bool_]:
        done = super().__call__(state, active, found)
        if found is None or self.criterion != "gradient" or not done.any():
            return done
        which = np.flatnonzero(done)
        size = self.metric.size(active[which], found.gradient[which])
        unit = self.problem.of(active[which]).in_gradient_units(size)
        done[which[unit > self.epsilon]] = False
        return done


def in_metric(problem: Problem, goal: Converge, threads: int) -> Converge:
    """Returns the criterion in the metric of the rows, where the goal is one of gradients."""
    if not isinstance(goal, Tolerance) or isinstance(goal, InMetric):
        return goal
    metric = metric_of(problem, threads)
    return goal if metric is None else InMetric(goal, problem, metric)


def metric_of(problem: Problem, threads: int) -> Metric | None:
    """Returns the metric of rows in memory, for a loss that is flat outside a corner."""
    known = problem.task.own is None and problem.rows.open is None
    if not problem.task.flat or not known or problem.d > MOST_FEATURES:
        return None
    task = LINEAR["linear"]
    rows = replace(problem.rows, loss=task.loss, smoothing=0.0)
    squared = replace(problem, task=task, rows=rows, l2=0.0, precise=True)
    origin = np.zeros((problem.n_groups, problem.d + 1))
    found = squared.evaluate(origin, curvature=True).hessian
    return Metric(found, threads) if isinstance(found, np.ndarray) else None
