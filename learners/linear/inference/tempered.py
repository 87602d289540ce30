"""A ridge for rows that separate, if the options have no penalty and there is no optimum without
one.

The least ridge that makes one: l2 = 1 / n on coefficients of features divided by their standard
deviation, as scikit-learn's LogisticRegression has it with C = 1 on scaled features.
"""

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.parts.sharded import anew
from tuskml.kernels.passes import Floats, Triangles
from tuskml.learners.linear.algorithms import FIRST_CHOICE, LAST_CHOICE
from tuskml.learners.linear.algorithms.parts.algorithm import Algorithm
from tuskml.learners.linear.inference import determined
from tuskml.learners.linear.operators import Operators, State, run
from tuskml.learners.linear.problem import Found, Index, Problem, add_to_diagonal
from tuskml.learners.linear.request import LinearOptions, Plan

PRECISE, MOST_ITERATIONS = 1e-10, 100
"""Tolerance and iterations of newton, for groups of few features."""
WIDE_PRECISE, MOST_WIDE_ITERATIONS = 1e-8, 1000
"""The same for groups where a matrix of weights by weights would cost far more than the training.
"""


@dataclass(frozen=True)
class RidgeProblem(Problem):
    """The objective plus sum(ridge w^2) / 2; ridge (G, d) is for coefficients in the caller's
    units.
    """

    ridge: Floats | None = None

    def of(self, which: Index) -> Problem:
        part = super().of(which)
        if part is self or self.ridge is None:
            return part
        return replace(part, ridge=self.ridge[which])  # type: ignore[call-arg]

    def penalty(self, coef: Floats) -> Floats:
        return np.asarray(0.5 * np.einsum("gd,gd,gd->g", self._ridge, coef, coef))

    def evaluate(self, v: Floats, curvature: bool = False) -> Found:
        found = super().evaluate(v, curvature)
        pull = self._ridge * self.scale**2 * v[:, :-1]
        found.gradient[:, :-1] += pull
        rounding = self._rounding(v, self.to_caller(v)[:, :-1])
        return replace(found, violation=self._violation(found.gradient, v, rounding))

    @property
    def _ridge(self) -> Floats:
        assert self.ridge is not None
        return self.ridge

    def with_penalty(self, packed: Triangles, sign: float = 1.0) -> Triangles:
        packed = super().with_penalty(packed, sign)
        more = np.zeros((self.n_groups, self.d + 1))
        more[:, :-1] = sign * self._ridge * self.scale**2
        add_to_diagonal(packed, more)
        return packed


def temper(
    problem: Problem,
    state: State,
    which: Index,
    plan: Plan,
    options: LinearOptions,
    deadline: float | None,
) -> NDArray[np.bool_]:
    """Moves some groups to their optimum with the ridge; returns which of them reached it in time,
    (n,). The others stay where they are.

    Where features are too many for Newton's steps, all iterations of a group together stay within
    the option, and none gets the ridge if another algorithm was named.
    """
    rows, few = problem.rows, problem.d < determined.MOST_WEIGHTS
    if not few and options.algorithm not in ("auto", LAST_CHOICE.name):
        return np.zeros(len(which), bool)
    usual = MOST_ITERATIONS if few else MOST_WIDE_ITERATIONS
    most = np.full(len(which), usual)
    if not few and options.max_iter is not None:
        most = np.clip(options.max_iter - state.iterations[which], 0, usual)
    given = rows.loss, rows.positive, rows.class_weight, rows.fit_intercept, rows.open
    fresh = replace(anew(rows, *given), parameter=rows.parameter)
    part = problem.on(fresh).of(which)
    penalised = with_ridge(part)
    start = np.zeros((len(which), problem.d + 1))
    operators = descent(penalised, plan, start, deadline, int(most.max(initial=0)))
    ended = run(penalised, operators, most=most)
    v = ended.v
    if penalised.scale is not part.scale:
        v = part.from_caller(penalised.to_caller(v))
    arrived = ~(ended.running & ((most < usual) | ended.out_of_time))
    there = which[arrived]
    state.v[there] = v[arrived]
    state.objective[there] = ended.objective[arrived]
    state.violation[there] = ended.violation[arrived]
    state.iterations[there] += ended.iterations[arrived]
    return arrived


def with_ridge(problem: Problem) -> RidgeProblem:
    """The problem with the ridge; of many features in coordinates where that is the same for all,
    which quasi-Newton steps get on with best.
    """
    deviation = determined.deviations(problem)
    ridge = strength(problem)[:, None] * deviation**2
    own = {f.name: getattr(problem, f.name) for f in fields(Problem)} | {"precise": True}
    if problem.d >= determined.MOST_WEIGHTS:
        used = deviation > 0
        own["scale"] = np.divide(1.0, deviation, where=used, out=np.zeros_like(deviation))
        own["frequency"] = None
    return RidgeProblem(**own, ridge=ridge)


def descent(
    problem: Problem, plan: Plan, start: Floats, deadline: float | None, most: int
) -> Operators:
    """The operators that reach the optimum, for any algorithm of the plan; most: iterations."""
    few, chosen = problem.d < determined.MOST_WEIGHTS, solver(problem)
    settings = replace(
        plan,
        algorithm=chosen.name,
        base=None,
        converge="gradient",
        epsilon=PRECISE if few else WIDE_PRECISE,
        max_iter=most,
    )
    return chosen.operators(problem, settings, start, deadline)


def solver(problem: Problem) -> Algorithm:
    """The algorithm that finds the weights with the ridge."""
    return FIRST_CHOICE if problem.d < determined.MOST_WEIGHTS else LAST_CHOICE


def strength(problem: Problem) -> Floats:
    """l2 on standardised coefficients, (G,): of rows by their weights, or by their number."""
    return np.asarray(1.0 / np.maximum(problem.rows.weight, problem.rows.groups["n_rows"]))
