"""Newton's method for ordinal regression (the objective: `kernels/native/ordinal/api.h`).

All groups of a batch take a step together, with one kernel call. A step is halved until the
objective falls by a part of what its slope promises and thresholds rise (Nocedal and Wright,
Numerical Optimization, 2006, 3.1); the objective is convex, so that this ends at its minimum.
"""

import time
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.ordinal import Levels
from tuskml.kernels.passes import Floats, Pass, Solution, solve

Bools = NDArray[np.bool_]
ENOUGH, MOST_HALVINGS = 1e-4, 40
"""The part of the promised fall of the objective that a step needs; halvings of a step."""
ROUNDING = 1e-14
"""Relative rounding of the objective."""
PROVED, STEPS_TO_PROVE = 0.5, 30
"""Share of a derivative up to which a step proves that there is an optimum, beyond rounding, and
Newton's steps within which it does, if there is one: near it they vanish quadratically, and along
a direction without one the share stays 1.
"""


@dataclass(frozen=True)
class Problem:
    """The mean loss of G groups plus sum(penalty v^2) / 2; penalty (G, q), unit (G,): that of
    gradients; weight (G,): the sum of the rows' weights.
    """

    rows: Pass
    levels: Levels
    penalty: Floats
    weight: Floats
    unit: Floats

    def of(self, which: NDArray[np.intp]) -> "Problem":
        """The problem of some of the groups."""
        if len(which) == len(self.weight):
            return self
        own = {name: getattr(self, name)[which] for name in ("penalty", "weight", "unit")}
        return replace(self, rows=self.rows.of(which), levels=self.levels.of(which), **own)

    @property
    def free(self) -> NDArray[np.int64]:
        """The number of weights of each group that rows can determine, (G,)."""
        return np.asarray(self.levels.cuts + (self.levels.scale > 0).sum(axis=1))

    def evaluate(self, v: Floats) -> "Found":
        """Makes one pass over the rows at v."""
        loss, gradient, curvature = self.levels.sums(self.rows, v)
        n, pull = self.weight[:, None], self.penalty * v
        packed, j = curvature / n, np.arange(v.shape[1])
        packed[:, j * (j + 3) // 2] += self.penalty
        objective = loss / self.weight + (pull * v).sum(axis=1) / 2
        return Found(objective, gradient / n + pull, packed)


@dataclass(frozen=True)
class Found:
    """The objective (G,), its gradient (G, q) and the lower triangle of its curvature."""

    objective: Floats
    gradient: Floats
    curvature: Floats

    def of(self, which: NDArray[np.intp]) -> "Found":
        """The results of some of the groups."""
        return Found(self.objective[which], self.gradient[which], self.curvature[which])

    def put(self, which: NDArray[np.intp], other: "Found") -> None:
        """Overwrites the results of some of the groups."""
        self.objective[which], self.gradient[which] = other.objective, other.gradient
        self.curvature[which] = other.curvature


@dataclass
class State:
    """Where the trainings of G groups are: v (G, q), what was found there, iterations (G,), and
    whether they converged, and ran out of time; rank (G,): of the curvature at the start, where
    every row has some; history: the objectives, NaN of groups at rest.
    """

    v: Floats
    found: Found
    iterations: NDArray[np.int64]
    converged: Bools
    rank: NDArray[np.int64]
    late: bool = False
    history: list[Floats] = field(default_factory=list)


def descend(
    problem: Problem, v: Floats, epsilon: float, most: int, deadline: float | None
) -> State:
    """Minimises from v, until no coordinate of the gradient exceeds epsilon in its unit.

    A last step follows, after which Newton's method has all digits.
    """
    n = len(v)
    value = problem.evaluate(v)
    rank = newton_step(problem, value).rank
    state = State(v, value, np.zeros(n, np.int64), np.zeros(n, bool), rank)
    active = np.arange(n)
    for _ in range(most):
        if deadline is not None and time.monotonic() > deadline:
            state.late = True
            break
        at_optimum = violations(problem, state)[active] <= epsilon
        if epsilon > 0:
            state.converged[active[at_optimum]] = True
        improved = step(problem, state, active)
        state.iterations[active] += 1
        objective = np.full(n, np.nan)
        objective[active] = state.found.objective[active]
        state.history.append(objective)
        ends = ~improved if epsilon == 0 else at_optimum | ~improved
        active = active[~ends]
        if not len(active):
            break
    state.converged |= violations(problem, state) <= epsilon
    return state


def violations(problem: Problem, state: State) -> Floats:
    """The largest coordinate of each group's gradient, in its unit, (G,)."""
    return np.asarray(np.abs(state.found.gradient).max(axis=1) / problem.unit)


def step(problem: Problem, state: State, which: NDArray[np.intp]) -> Bools:
    """Takes Newton's step in some groups, and returns which of them improved, (n,)."""
    part, found = problem.of(which), state.found.of(which)
    direction = newton_step(part, found).step
    promised = np.einsum("gq,gq->g", direction, found.gradient)
    slack = ROUNDING * (1 + np.abs(found.objective))
    length, improved, left = 1.0, np.zeros(len(which), bool), np.arange(len(which))
    for _ in range(MOST_HALVINGS):
        candidate = state.v[which[left]] - length * direction[left]
        there = part.of(left).evaluate(candidate)
        most = found.objective[left] - ENOUGH * length * promised[left] + slack[left]
        good = np.flatnonzero(there.objective <= most)
        state.v[which[left[good]]] = candidate[good]
        state.found.put(which[left[good]], there.of(good))
        improved[left[good]] = True
        left = np.delete(left, good)
        if not len(left):
            break
        length /= 2
    return improved


def newton_step(problem: Problem, found: Found) -> Solution:
    """Newton's step, which is subtracted."""
    mark, threads = problem.rows.cancel_mark, problem.rows.threads
    return solve(found.curvature, found.gradient, threads, cancel_mark=mark)


def separable(problem: Problem, state: State, deadline: float | None) -> Bools:
    """Tests which groups have no optimum, (G,), after steps on until that is certain.

    Newton's step proves that there is one, or that there is none (`tk_ordinal_reach`). There is
    none either where the proof never comes, or the curvature vanishes along a direction.
    """
    parted, left = np.zeros(len(state.v), bool), np.arange(len(state.v))
    for _ in range(STEPS_TO_PROVE):
        part, found = problem.of(left), state.found.of(left)
        solution = newton_step(part, found)
        move, share = part.levels.reach(part.rows, state.v[left], solution.step).T
        none = (move > 0) | (solution.rank < state.rank[left])
        parted[left[none]] = True
        left = left[~none & ~(share < PROVED)]
        if not len(left) or (deadline is not None and time.monotonic() > deadline):
            break
        left = left[step(problem, state, left)]
    parted[left] = True
    return parted
