"""L-BFGS: the inverse curvature is estimated from the last ten moves.

Liu and Nocedal, On the limited memory BFGS method for large scale optimization, 1989, with
backtracking and cautious updates (a move whose curvature is not positive is not remembered). With
l1 > 0, OWL-QN: Andrew and Gao, Scalable training of L1-regularized log-linear models, 2007.
"""

from dataclasses import dataclass

import numpy as np

from tuskml.udas.algorithms.batch import Evaluate, settle_move
from tuskml.udas.algorithms.search import backtrack
from tuskml.udas.kernels import Floats
from tuskml.udas.operators import (
    Budget,
    Operators,
    StartAt,
    State,
    Tolerance,
    all_rows,
    as_given,
)
from tuskml.udas.plan import Plan
from tuskml.udas.problem import Found, Index, Problem

MEMORY = 10


@dataclass
class Moves:
    """The last moves s and changes of the gradient y, (MEMORY, G, p), newest at `newest`.

    rho = 1 / s'y is 0 where a group has no such move; guess (G, p) is the inverse curvature before
    any move, None: 1, and gamma (G,) scales it.
    """

    s: Floats
    y: Floats
    rho: Floats
    gamma: Floats
    guess: Floats | None
    newest: int = -1

    @classmethod
    def none(cls, shape: tuple[int, int], guess: Floats | None) -> "Moves":
        return cls(
            np.zeros((MEMORY, *shape)),
            np.zeros((MEMORY, *shape)),
            np.zeros((MEMORY, shape[0])),
            np.zeros(shape[0]),
            guess,
        )

    def guessed(self, groups: Index, y: Floats) -> Floats:
        """The inverse curvature, as it is guessed, times y (len(groups), p)."""
        return y if self.guess is None else y * self.guess[groups]

    def remember(self, groups: Index, s: Floats, y: Floats) -> None:
        """Overwrites the oldest move of all groups by the newest of some."""
        sy, yy, ss = (np.einsum("gp,gp->g", *pair) for pair in ((s, y), (y, y), (s, s)))
        curved = sy > 1e-10 * np.sqrt(ss * yy)
        self.newest = (self.newest + 1) % MEMORY
        self.rho[self.newest] = 0.0
        kept = groups[curved]
        self.s[self.newest, kept] = s[curved]
        self.y[self.newest, kept] = y[curved]
        self.rho[self.newest, kept] = 1.0 / sy[curved]
        if self.guess is not None:
            yy = np.einsum("gp,gp->g", y, self.guessed(groups, y))
        self.gamma[kept] = sy[curved] / yy[curved]

    def times(self, groups: Index, gradient: Floats) -> Floats:
        """The estimated inverse curvature times the gradient, by the two-loop recursion."""
        order = [(self.newest - age) % MEMORY for age in range(MEMORY)]
        order = [k for k in order if self.rho[k].any()]
        whole = len(groups) == self.s.shape[1]
        q = gradient.copy()
        alphas, moved = {}, np.empty_like(q)
        for k in order:
            s, y = (a[k] if whole else a[k][groups] for a in (self.s, self.y))
            alphas[k] = self.rho[k][groups] * np.einsum("gp,gp->g", s, q)
            q -= np.multiply(y, alphas[k][:, None], out=moved)
        q = self.guessed(groups, q) * self.gamma[groups][:, None]
        for k in reversed(order):
            s, y = (a[k] if whole else a[k][groups] for a in (self.s, self.y))
            beta = self.rho[k][groups] * np.einsum("gp,gp->g", y, q)
            q += np.multiply(s, (alphas[k] - beta)[:, None], out=moved)
        return q


def first_guess(problem: Problem) -> Floats | None:
    """The inverse curvature (G, p) before anything is known of sparse rows; None for dense ones.

    A feature's values are at most 1 where it occurs; `frequency` says how often. That makes up
    the curvature's diagonal, of which this is one over the root: with one over all of it the
    objective is lower at a given tolerance, but the gradient's largest component, by which
    convergence is judged and which is a frequent feature's, takes longer to fall.
    """
    if problem.frequency is None:
        return None
    bend = problem.task.steepest
    diagonal = np.full((problem.n_groups, problem.d + 1), bend)
    diagonal[:, :-1] = bend * problem.frequency + problem.l2 * problem.scale**2
    return np.asarray(1.0 / np.sqrt(diagonal))


def pseudo_gradient(part: Problem, v: Floats, gradient: Floats) -> Floats:
    """The smallest subgradient of the whole objective (Andrew and Gao, equation 4)."""
    if not part.l1:
        return gradient
    at = part.thresholds()
    rested = np.sign(gradient) * np.maximum(np.abs(gradient) - at, 0.0)
    return np.where(v != 0, gradient + at * np.sign(v), rested)


class QuasiNewtonStep:
    """Update: along minus the estimated inverse curvature times the gradient."""

    def __init__(self, plan: Plan, guess: Floats | None) -> None:
        self.endless = plan.epsilon == 0
        self.guess = guess

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert found is not None
        active = state.active
        v, slope = state.v[active], pseudo_gradient(part, state.v[active], found.gradient)
        moves = state.memory.get("moves") or Moves.none(state.v.shape, self.guess)
        state.memory["moves"] = moves
        new = moves.gamma[active] == 0
        direction, step = self._direction(part, moves, active, slope, new)
        orthant = np.where(v != 0, np.sign(v), -np.sign(slope))

        def propose(which: Index, by: Floats) -> Floats:
            candidate = v[which] + by[:, None] * direction[which]
            if part.l1:
                crossed = candidate * orthant[which] < 0
                crossed[:, -1] = False
                candidate[crossed] = 0.0
            return candidate

        def gain(which: Index, candidate: Floats) -> Floats:
            return np.asarray(np.einsum("gp,gp->g", candidate - v[which], slope[which]))

        def look(which: Index, candidate: Floats) -> Found:
            return part.of(which).evaluate(candidate)

        new_v, there, moved = backtrack(look, v, found, step, propose, gain)
        moves.remember(active, new_v - v, there.gradient - found.gradient)
        settle_move(state, new_v, there, moved, self.endless)

    @staticmethod
    def _direction(
        part: Problem, moves: Moves, active: Index, slope: Floats, new: np.ndarray
    ) -> tuple[Floats, Floats]:
        """Where to go and how far first; steepest descent where nothing is remembered."""
        direction = -moves.guessed(active, slope)
        step = np.ones(len(slope))
        if moves.guess is None:
            length = np.sqrt(np.einsum("gp,gp->g", slope, slope))
            step /= np.maximum(
                1.0, length if part.weight_unit is None else length / part.weight_unit
            )
        if not new.all():
            known = ~new
            quasi = -moves.times(active, slope)
            if part.l1:
                quasi[:, :-1][(quasi * slope >= 0)[:, :-1]] = 0.0
            direction[known], step[known] = quasi[known], 1.0
        uphill = np.einsum("gp,gp->g", direction, slope) >= 0
        direction[uphill] = -slope[uphill]
        return direction, step


def operators(problem: Problem, plan: Plan, start: Floats, deadline: float | None) -> Operators:
    """L-BFGS as a choice of operators."""
    return Operators(
        as_given,
        StartAt(start),
        all_rows,
        Evaluate(),
        QuasiNewtonStep(plan, first_guess(problem)),
        Tolerance.of(problem, plan),
        Budget(plan.max_iter, deadline),
    )
