"""A descent that starts with the curvature of a similar objective.

Newton's step with an old curvature is that of the chord method (Nocedal and Wright, Numerical
Optimization, 2006, section 11.1), which shrinks the error by a smaller factor the closer the
curvatures are. A pass for the gradient tells whether they are close enough.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats, Pass, Triangles, solve
from tuskml.learners.linear.algorithms.parts.batch import Evaluate
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Before, Found, Problem
from tuskml.learners.near import Near

AT_ONCE = 256
"""Groups whose parts have their curvatures summed together."""
SURE = 1e-5
"""Relative pivot below which a step that is not evaluated is not taken."""
FARTHEST = 1.0
"""The longest such step, relative to the size of weights and to 1."""
Look = Callable[[Problem, Floats, Triangles, NDArray[np.bool_], NDArray[np.bool_]], Found]
Apart = Callable[[Problem, State, Triangles, NDArray[np.bool_]], Found | None]


class EvaluateNear(Evaluate):
    """Compute: like `Evaluate` with a curvature, but first for the gradient alone for groups that
    have a curvature and are closer to their optimum than `far`.

    apart: moves some of the groups separately and returns their results; the slack of the others
    is NaN, and it returns None if there are only others.
    """

    def __init__(self, begun: Floats, look: Look, far: float, apart: Apart | None = None) -> None:
        super().__init__(curvature=True)
        self.begun: Floats | None = begun
        self.look, self.far, self.apart = look, far, apart

    def __call__(self, part: Problem, state: State) -> Found:
        if self.begun is None or state.found is not None:
            return super().__call__(part, state)
        hessian, self.begun = part.with_penalty(self.begun), None
        v, known = state.v, np.isfinite(np.asarray(hessian)[:, 0])
        found = None if self.apart is None else self.apart(part, state, hessian, known)
        if found is None:
            found = self.look(part, v, hessian, ~known, np.zeros(len(v), bool))
        left = np.flatnonzero(np.isnan(found.slack))
        if len(left):
            given = part.of(left), v[left], hessian[left], ~known[left]
            found.put(left, self.look(*given, np.zeros(len(left), bool)))
        far = np.flatnonzero(known & ~(found.violation <= self.far))
        if len(far):
            found.put(far, part.of(far).evaluate(v[far], curvature=True))
            known[far] = False
        state.stale[:] = known
        return found


def knowing(problem: Problem, near: Near | None) -> Problem:
    """The problem with the curvatures that its groups start with, NaN where unknown.

    So a group makes the same steps whether or not its neighbours have one.
    """
    rows = problem.rows
    if near is None or rows.sparse or not lends(problem) or problem.task.flat:
        return problem
    p = problem.d + 1
    begun = near.curvature(rows.groups["place"], p)
    if begun is None:
        begun = np.full((problem.n_groups, p * (p + 1) // 2), np.nan)
    return replace(problem, begun=begun)


def lends(problem: Problem) -> bool:
    """Returns whether the curvatures of such rows are left to others: of built-in losses, in
    memory.
    """
    return type(problem.rows) is Pass and problem.rows.open is None


def leave(problem: Problem, state: State, near: Near | None) -> None:
    """Leaves weights and curvatures of those that converged to other trainings."""
    if near is None or problem.rows.sparse:
        return
    ended = np.flatnonzero(state.converged)
    if not len(ended):
        return
    part, v = problem.of(ended), state.v[ended]
    places = part.rows.groups["place"].astype(np.intp)
    systems = None
    if isinstance(state.hessian, np.ndarray) and near.keeps() and lends(problem):
        systems = left_systems(part, v, state.hessian[ended], near)
    near.left(places, part.to_caller(v), systems)


def left_systems(part: Problem, v: Floats, hessian: Floats, near: Near) -> Floats:
    """The curvatures of groups at v without a penalty; also stores those of all rows but each
    part.
    """
    if near.parts.rows is None or not near.keeps(near.parts.number):
        return np.asarray(part.with_penalty(hessian, -1.0))
    for first in range(0, len(v), AT_ONCE):
        some = np.arange(first, min(first + AT_ONCE, len(v)))
        hessian[some] = leave_parts(part.of(some), v[some], near)
    return hessian


def leave_parts(part: Problem, v: Floats, near: Near) -> Floats:
    """Leaves the curvatures (n * number, T) of groups without each of their parts, by one pass.

    Returns those of the whole groups, (n, T).
    """
    number, rows = near.parts.number, part.rows
    places = rows.groups["place"].astype(np.intp)
    assert near.parts.rows is not None
    apart = replace(
        rows,
        groups=np.ascontiguousarray(near.parts.rows[near.parts.of(places)]),
        positive=repeated(rows.positive, number),
        class_weight=repeated(rows.class_weight, number),
        parameter=repeated(rows.parameter, number),
        common=False,
    )
    weights, shift = repeated(part.to_caller(v), number), repeated(part.shift, number)
    scale = repeated(part.scale, number)
    sums, packed = apart.curvature_apart(weights, shift, scale, False)
    each = np.asarray(packed).reshape(len(v), number, -1)
    weight = sums[:, 1].reshape(len(v), number, 1)
    slopes = sums[:, 2 : part.d + 3].reshape(len(v), number, -1)
    whole = weight.sum(axis=1)
    near.left_slopes(places, slopes.sum(axis=1) / whole)
    near.left_parts(places, without(each, weight), without(slopes, weight))
    return np.asarray(each.sum(axis=1) / whole)


def without(each: Floats, weight: Floats) -> Floats:
    """Means over sets without each of their parts, (n * number, k).

    each: sums of the parts, (n, number, k); weight: of their rows, (n, number, 1).
    """
    rest = weight.sum(axis=1, keepdims=True) - weight
    means = (each.sum(axis=1, keepdims=True) - each) / rest
    return np.asarray(means.reshape(-1, each.shape[2]))


def stepped(problem: Problem, v: Floats, near: Near | None) -> tuple[Problem, Floats]:
    """The weights (G, p) after a Newton step that reads no rows, and the problem with the distance
    of v from an optimum.

    For a set without some rows, the gradient and the curvature at the optimum of all rows follow
    from those of the rows left out (D. Pregibon, Logistic regression diagnostics, 1981); for
    another penalty, from those of the rows and the penalty's own.
    """
    rows, begun = problem.rows, problem.begun
    if near is None or begun is None:
        return problem, v
    slopes = near.slope(rows.groups["place"].astype(np.intp), v.shape[1])
    if slopes is None:
        return problem, v
    some = np.flatnonzero(np.isfinite(slopes).all(axis=1) & np.isfinite(begun).all(axis=1))
    if not len(some):
        return problem, v
    part, at = problem.of(some), v[some]
    gradient = part.smooth_gradient(slopes[some], part.to_caller(at))
    hessian = part.with_penalty(begun[some])
    solution = solve(hessian, gradient, rows.threads)
    used = (part.scale > 0).sum(axis=1) + int(rows.fit_intercept)
    sure = (solution.rank == used) & (solution.pivot > SURE)
    sure &= np.abs(solution.step).max(axis=1) <= FARTHEST * (1.0 + np.abs(at).max(axis=1))
    there, gradients, violated = v.copy(), np.zeros_like(v), np.full(len(v), np.nan)
    there[some[sure]] -= solution.step[sure]
    gradients[some[sure]] = gradient[sure]
    violated[some[sure]] = part.violation(gradient, at)[sure]
    return replace(problem, before=Before(v, gradients, violated)), there


def repeated(values: Any, times: int) -> Any:
    """Values of each group, once for each of its parts."""
    return None if values is None else np.ascontiguousarray(values.repeat(times, axis=0))
