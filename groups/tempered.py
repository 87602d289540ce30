"""Separable classes, where no penalty was asked for and without one there is no optimum.

They get the least that makes one: l2 = 1 / n on coefficients of features divided by their standard
deviation, as scikit-learn's LogisticRegression has it with C = 1 on scaled features.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from tuskml.groups import determined
from tuskml.udas.algorithms import newton
from tuskml.udas.kernels import Floats, Pass, Triangles
from tuskml.udas.operators import State, run
from tuskml.udas.plan import Plan
from tuskml.udas.problem import Found, Index, Problem, add_to_diagonal

PRECISE = 1e-10
MOST_ITERATIONS = 100


@dataclass(frozen=True)
class Tempered(Problem):
    """The same objective plus sum(ridge w^2) / 2; ridge (G, d) is of coefficients in the caller's
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
        rounding = self.rounding * self._size_of_terms(v, self.to_caller(v)[:, :-1])
        return replace(found, violation=self._violation(found.gradient, v, rounding))

    @property
    def _ridge(self) -> Floats:
        assert self.ridge is not None
        return self.ridge

    def _hessian(self, packed: Triangles) -> Triangles:
        packed = super()._hessian(packed)
        more = np.zeros((self.n_groups, self.d + 1))
        more[:, :-1] = self._ridge * self.scale**2
        add_to_diagonal(packed, more)
        return packed


def temper(
    problem: Problem, state: State, which: Index, plan: Plan, deadline: float | None
) -> None:
    """Leaves some groups at their optimum with the ridge."""
    rows = problem.rows
    here = Pass(
        rows.groups, rows.loss, rows.positive, rows.class_weight, rows.fit_intercept, rows.threads,
        cancel_mark=rows.cancel_mark,
    )  # fmt: skip
    part = problem.on(here).of(which)
    own = {f.name: getattr(part, f.name) for f in fields(Problem)} | {"precise": True}
    penalised = Tempered(**own, ridge=ridge_of(part))
    settings = replace(
        plan, algorithm="newton", base=None, converge="gradient", epsilon=PRECISE,
        max_iter=MOST_ITERATIONS,
    )  # fmt: skip
    start = np.zeros((len(which), problem.d + 1))
    ended = run(penalised, newton.operators(penalised, settings, start, deadline))
    state.v[which] = ended.v
    if problem.rows.sparse and problem.rows.fit_intercept:
        state.v[which] = determined.without_constants(part, ended.v)[0]
    state.objective[which], state.violation[which] = ended.objective, ended.violation
    state.iterations[which] += ended.iterations


def strength(problem: Problem) -> Floats:
    """l2 on standardised coefficients, (G,)."""
    return np.asarray(1.0 / problem.rows.groups["n_rows"])


def ridge_of(problem: Problem) -> Floats:
    """The same by coefficient in the caller's units, (G, d)."""
    sigma, mean = determined.deviations(problem)
    size = np.where(sigma > 0, sigma, np.abs(mean))
    used = problem.scale > 0
    deviation = np.divide(size, problem.scale, where=used, out=np.zeros_like(size))
    return np.asarray(strength(problem)[:, None] * deviation**2)
