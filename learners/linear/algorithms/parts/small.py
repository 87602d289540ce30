"""Newton's method for many small groups of sparse rows: each descends on one thread, in one call.

An iteration of all groups together writes and reads their curvatures several times, and these are
larger than the rows of such groups. In a call of its own a group's curvature and factor stay in a
cache, the factor is kept as long as the curvature, and threads wait for each other only at the
end. On a GPU it is `fused.py`.
"""

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.newton import Newton
from tuskml.kernels.passes import Floats, Pass, counts_all
from tuskml.learners.linear.algorithms.parts.fused import AT_ONCE, NewtonInPlace
from tuskml.learners.linear.problem import Found, Problem
from tuskml.learners.linear.request import Plan

DAMPING = 0.1
"""Damping, times the gradient in its unit, for a loss that may have no curvature."""
LEAST_GROUPS = 16
"""With fewer groups some threads have no work."""
MOST_ROWS = 1 << 14
"""Rows of a group, so that one group's descent takes milliseconds."""
MOST_AT_ONCE = 100
"""Iterations of a call, each of which has an objective of each group."""
MOST_FEATURES = 512
"""Features, so that a curvature and its factor fit in a cache."""


def update(problem: Problem, plan: Plan, deadline: float | None) -> NewtonInPlace | None:
    """The Update for such groups; None for those that are not for this kernel."""
    if not fits(problem, plan):
        return None

    def launch(
        part: Problem, v: Floats, epsilon: float, most: int
    ) -> tuple[Floats, Found, NDArray[np.int64], NDArray[np.int64], Floats]:
        return descents(part, v, epsilon, most, deadline)

    return NewtonInPlace(plan, launch, MOST_AT_ONCE if deadline is None else AT_ONCE)


def fits(problem: Problem, plan: Plan) -> bool:
    """Returns whether these groups are for this kernel."""
    rows = problem.rows
    plain = type(problem) is Problem and type(rows) is Pass and rows.open is None
    own = plan.base is not None or plan.sampler is not None or plan.transform is not None
    return (
        plain
        and not own
        and rows.sparse
        and not counts_all(rows.meter)
        and rows.stride == 1
        and rows.n_groups >= LEAST_GROUPS
        and rows.n_features <= MOST_FEATURES
        and int(rows.groups["n_rows"].max()) <= MOST_ROWS
        and problem.begun is None
        and problem.task.smooth
        and not plan.canonical
        and plan.converge == "gradient"
        and plan.epsilon > 0
    )


def descents(
    part: Problem, v: Floats, epsilon: float, most: int, deadline: float | None
) -> tuple[Floats, Found, NDArray[np.int64], NDArray[np.int64], Floats]:
    """Runs the descents from v (G, p).

    Returns the weights, the results there, iterations (G,), whether the last found no better point
    (G,), and objectives by iteration (G, most).
    """
    rows, n = part.rows, part.n_groups
    v, seen, gradient = v.copy(), np.empty((n, 3)), np.empty_like(v)
    done, stuck = np.empty(n, np.int64), np.empty(n, np.int64)
    history = np.empty((n, most))
    shift, scale = np.ascontiguousarray(part.shift), np.ascontiguousarray(part.scale)
    given = [shift, scale, part.label_size, part.gradient_unit, part.weight_unit]
    out = [v, seen, gradient, done, stuck, history]
    how = Newton(
        *map(pointer, given),
        part.l2,
        epsilon,
        DAMPING if part.task.flat else 0.0,
        part.task.quadratic,
        most,
        deadline or 0.0,
        *map(pointer, out),
    )
    check_code(library().tk_newton_groups(rows.struct, how))
    found = Found(seen[:, 0].copy(), gradient, seen[:, 1].copy(), seen[:, 2].copy())
    return v, found, done, stuck, history
