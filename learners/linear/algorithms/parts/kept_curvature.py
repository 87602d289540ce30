"""Newton's steps with a kept curvature: corrected by gradients, started from a similar objective.

The differences of gradients along the steps since a curvature was summed correct it, as those of
L-BFGS correct its first one (J. Nocedal, Updating quasi-Newton matrices with limited storage,
1980; Nocedal and Wright, Numerical Optimization, 2006, algorithm 7.4). A pass for the gradient
alone then gains several digits where a kept curvature alone gains one.

A descent may start with the curvature of a similar objective. Newton's step with an old curvature
is that of the chord method (Nocedal and Wright, section 11.1), which shrinks the error by a
smaller factor the closer the curvatures are. A pass for the gradient tells whether they are close
enough.

Many small groups that start with a curvature descend in one kernel. Operations on arrays with an
item per group and entry of a curvature take longer than reading the rows of small groups. So each
group makes all its passes and steps by itself (`kernels/native/newton/chord.cpp`), by the same
rules. If a group needs more than that, the loop of operators continues from its weights.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.newton import ChordResult, Coordinates, Rules, descend
from tuskml.kernels.passes import Floats, Pass, Triangles, counts_all, solve
from tuskml.learners.linear.algorithms.parts.batch import Evaluate
from tuskml.learners.linear.operators import State, Tolerance
from tuskml.learners.linear.problem import Before, Found, Index, Problem
from tuskml.learners.near import Near

MOST_PAIRS = 5
LEAST_BEND = 1e-10
"""Product of a step and a change of gradients, relative to their lengths, that exceeds rounding.
"""
Solve = Callable[[Floats], Floats]


@dataclass
class Pair:
    """A step and the change of the gradient along it, (G, p); rate (G,): 1 / s'y, 0: unknown."""

    step: Floats
    change: Floats
    rate: Floats


class Pairs:
    """The steps of G groups since their curvatures were summed; before: the first one's start."""

    def __init__(self, before: Before | None = None) -> None:
        self.pairs: list[Pair] = []
        self.v = None if before is None else before.v.copy()
        self.gradient = None if before is None else before.gradient.copy()
        self.iteration = -1  # of the last pair

    def direction(self, state: State, active: Index, gradient: Floats, solve: Solve) -> Floats:
        """The step (n, p) back from the weights of the active groups, where gradients are so.

        solve: by the curvature that is kept. With several calls of an iteration groups differ.
        """
        self._note(state, active, gradient)
        q, sizes = gradient.copy(), []
        for pair in reversed(self.pairs):
            size = pair.rate[active] * np.einsum("gp,gp->g", pair.step[active], q)
            q -= size[:, None] * pair.change[active]
            sizes.append(size)
        found = solve(q)
        for pair, size in zip(self.pairs, reversed(sizes), strict=True):
            less = pair.rate[active] * np.einsum("gp,gp->g", pair.change[active], found)
            found = found + (size - less)[:, None] * pair.step[active]
        return found

    def _note(self, state: State, active: Index, gradient: Floats) -> None:
        """Adds the last step of groups that keep their curvature, and forgets those of others."""
        stale = state.stale[active]
        for pair in self.pairs:
            pair.rate[active[~stale]] = 0.0
        if self.v is None or self.gradient is None:
            self.v, self.gradient = state.v.copy(), np.zeros_like(state.v)
        elif stale.any():
            some = active[stale]
            step, change = state.v[some] - self.v[some], gradient[stale] - self.gradient[some]
            self._add(state, some, step, change)
        self.v[active], self.gradient[active] = state.v[active], gradient

    def _add(self, state: State, some: Index, step: Floats, change: Floats) -> None:
        """Adds a step of some groups to those of the others in the same iteration."""
        if self.iteration != state.iteration:
            empty = np.zeros_like(state.v), np.zeros_like(state.v), np.zeros(len(state.v))
            self.pairs = [*self.pairs, Pair(*empty)][-MOST_PAIRS:]
            self.iteration = state.iteration
        bend = np.einsum("gp,gp->g", step, change)
        length = np.linalg.norm(step, axis=1) * np.linalg.norm(change, axis=1)
        usable, pair = bend > LEAST_BEND * length, self.pairs[-1]
        pair.step[some], pair.change[some] = step, change
        pair.rate[some] = np.divide(1.0, bend, where=usable, out=np.zeros_like(bend))


class LastStep(Tolerance):
    """Converge: if one more step is certain to converge, it is taken without evaluating its
    result.

    The violation is then at most `enough`, and would be at most epsilon if the last step shrank it
    by the same factor as the one before, which used less curvature.
    """

    def __init__(self, goal: Tolerance, enough: float, update: "Steps") -> None:
        super().__init__(goal.criterion, goal.epsilon, goal.unit)
        self.enough, self.update = enough, update
        self.ended: NDArray[np.bool_] | None = None  # groups (G,) that are at an end already

    def __call__(self, state: State, active: Index, found: Found | None) -> NDArray[np.bool_]:
        done = super().__call__(state, active, found)
        if self.ended is not None:
            done = done | self.ended[active]
        before = self.update.violation
        if found is None or before is None:
            return done
        now = found.violation
        last = ~done & (now <= self.enough) & (now * now <= self.epsilon * before[active])
        last &= state.left()[active] > 0
        if last.any():
            which = np.flatnonzero(last)
            state.v[active[which]] -= self.update.step_of(state, active[which], found.of(which))
            state.iterations[active[which]] += 1
            state.stale[active[which]] = True  # the curvature is that of where the step began
        return np.asarray(done | last)


class Steps:
    """The parts of an Update that `LastStep` reads: the previous violations (G,), and steps."""

    violation: Floats | None = None

    def step_of(self, state: State, active: Index, found: Found) -> Floats:
        """The step (n, p) from the weights of some groups."""
        raise NotImplementedError


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
        systems = keep_systems(part, v, state.hessian[ended], near)
    near.keep(places, part.to_caller(v), systems)


def keep_systems(part: Problem, v: Floats, hessian: Floats, near: Near) -> Floats:
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
        positive=repeat_by_part(rows.positive, number),
        class_weight=repeat_by_part(rows.class_weight, number),
        parameter=repeat_by_part(rows.parameter, number),
        common=False,
    )
    weights, shift = repeat_by_part(part.to_caller(v), number), repeat_by_part(part.shift, number)
    scale = repeat_by_part(part.scale, number)
    sums, packed = apart.curvature_apart(weights, shift, scale, False)
    each = np.asarray(packed).reshape(len(v), number, -1)
    weight = sums[:, 1].reshape(len(v), number, 1)
    slopes = sums[:, 2 : part.d + 3].reshape(len(v), number, -1)
    whole = weight.sum(axis=1)
    near.keep_slopes(places, slopes.sum(axis=1) / whole)
    near.keep_parts(places, without(each, weight), without(slopes, weight))
    return np.asarray(each.sum(axis=1) / whole)


def without(each: Floats, weight: Floats) -> Floats:
    """Means over sets without each of their parts, (n * number, k).

    each: sums of the parts, (n, number, k); weight: of their rows, (n, number, 1).
    """
    rest = weight.sum(axis=1, keepdims=True) - weight
    means = (each.sum(axis=1, keepdims=True) - each) / rest
    return np.asarray(means.reshape(-1, each.shape[2]))


def take_newton_step(problem: Problem, v: Floats, near: Near | None) -> tuple[Problem, Floats]:
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


def repeat_by_part(values: Any, times: int) -> Any:
    """Values of each group, once for each of its parts."""
    return None if values is None else np.ascontiguousarray(values.repeat(times, axis=0))


MOST_ROWS = 1 << 14
"""Rows of a group: the passes of larger ones share the threads."""
MOST_FEATURES = 256
MOST_PASSES = 10


@dataclass(frozen=True)
class Steepness:
    """A violation above `far`, one that shrank by less than `slow`, or a lesser pivot asks for
    another curvature.
    """

    far: float
    slow: float
    pivot: float


class Chord:
    """Moves its groups to their optimum, or as close as one curvature suffices."""

    def __init__(self, goal: LastStep, steepness: Steepness) -> None:
        self.goal, self.steepness = goal, steepness

    def __call__(
        self, part: Problem, state: State, hessian: Triangles, known: NDArray[np.bool_]
    ) -> Found | None:
        """The last pass's results; the slack of groups that did not move is NaN.

        known: (G,), which of the groups have a curvature.
        """
        if not fits(part) or not isinstance(hessian, np.ndarray):
            return None
        which = np.flatnonzero(known & (part.rows.groups["n_rows"] <= MOST_ROWS))
        if not len(which):
            return None
        before = part.before
        arrived = descend(
            part.rows,
            which,
            state.v,
            hessian,
            coordinates(part),
            None if before is None else (before.v, before.gradient, before.violation),
            self.rules(),
        )
        self._note(state, arrived)
        seen = arrived.objective, arrived.gradient, arrived.violation, arrived.slack
        return Found(*seen, hessian)

    def rules(self) -> Rules:
        """The rules for ending a group and for returning it to the loop."""
        goal, steep = self.goal, self.steepness
        given = goal.epsilon, goal.enough, steep.far, steep.slow, steep.pivot
        return Rules(*given, MOST_PASSES)

    def _note(self, state: State, arrived: ChordResult) -> None:
        """Notes iterations, previous objectives, and the state from which the loop continues."""
        state.iterations += arrived.steps
        looks = (~np.isnan(arrived.history)).sum(axis=0)
        for number in range(int(looks.max(initial=0)) - 1):
            state.history.append(np.where(number < looks - 1, arrived.history[number], np.nan))
        self.goal.ended = arrived.ended
        some = np.flatnonzero((arrived.steps > 0) & ~arrived.ended)
        if len(some):
            update = self.goal.update
            if update.violation is None:
                update.violation = np.full(len(state.v), np.inf)
            update.violation[some] = arrived.last[some]


def fits(part: Problem) -> bool:
    """Returns whether the kernel has such rows and losses."""
    rows = part.rows
    return (
        type(rows) is Pass
        and not rows.sparse
        and rows.open is None
        and not counts_all(rows.meter)
        and rows.stride == 1
        and rows.smoothing == 0
        and not part.task.flat
        and not part.task.quadratic
        and not part.l1
        and part.d <= MOST_FEATURES
    )


def coordinates(part: Problem) -> Coordinates:
    """The coordinates of the problem."""
    units = part.label_size, part.gradient_unit, part.weight_unit
    return Coordinates(part.shift, part.scale, part.l2, *units)
