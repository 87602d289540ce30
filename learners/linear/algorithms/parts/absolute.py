"""The l1 penalty in the interior-point method of the hinge.

l1 |w| is 2 l1 max(w, 0) - l1 w. So each coefficient w has the variables that a row has: a dual
variable a, 0 < a < 2 l1; an excess e > 0, which becomes max(w, 0); and a slack s = e - w > 0. At
the optimum a s = 0 and (2 l1 - a) e = 0. Rows have a share of 1 / n in the objective, coefficients
a whole one: the products of these count n times.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.problem import Index, Problem

BESIDE = 1e-2
"""How far the variables begin from their bounds, as a share of a coefficient that moves margins by
one of a feature's deviation.
"""


class Changes(NamedTuple):
    """Changes of variables, (G, d)."""

    a: Floats
    s: Floats
    e: Floats


@dataclass
class Absolute:
    """Variables of the coefficients of G groups, (G, d).

    l1: the penalty; n (G, 1): numbers of rows; used (G, d): whether a coefficient may differ from
    0.
    """

    l1: float
    n: Floats
    used: NDArray[np.bool_]
    a: Floats
    s: Floats
    e: Floats

    @classmethod
    def of(cls, problem: Problem, coef: Floats, unit: Floats) -> "Absolute":
        """The variables at the start; coef: in the caller's units; unit: of margins, (G,)."""
        used = problem.scale > 0
        beside = np.where(used, BESIDE * unit[:, None] * problem.scale, 1.0)
        n = problem.rows.groups["n_rows"].astype(float)[:, None]
        excess = np.maximum(coef, 0.0) + beside
        return cls(problem.l1, n, used, np.full_like(coef, problem.l1), excess - coef, excess)

    def some(self, which: Index) -> "Absolute":
        """The variables of some groups, copied."""
        return Absolute(
            self.l1,
            self.n[which],
            self.used[which],
            self.a[which],
            self.s[which],
            self.e[which],
        )

    def put(self, which: Index, other: "Absolute") -> None:
        """Takes over the variables of some groups."""
        self.a[which], self.s[which], self.e[which] = other.a, other.s, other.e

    @property
    def room(self) -> Floats:
        """The dual variables' distance from their upper bound."""
        return 2 * self.l1 - self.a

    def product(self) -> Floats:
        """What the products add to those of the rows, (G,)."""
        each = self.a * self.s + self.room * self.e
        return np.asarray((self.n * each).sum(axis=1, where=self.used))

    @property
    def count(self) -> Floats:
        """How many products there are, as the rows have two each, (G,)."""
        return np.asarray(2.0 * self.used.sum(axis=1))

    def vanishing(self, unit: Floats) -> NDArray[np.bool_]:
        """Tests which coefficients are 0 at the optimum, (G, d): both of their variables that
        vanish there are smaller by now than the dual ones that do not.

        unit (G, d): what the coefficients are in.
        """
        size = np.where(self.used, unit, 1.0)
        return np.asarray(
            (self.e / size < self.room / self.l1) & (self.s / size < self.a / self.l1)
        )

    def curvature(self) -> Floats:
        """The curvature by coefficient."""
        return np.where(self.used, 1.0 / (self.s / self.a + self.e / self.room), 0.0)

    def residuals(
        self, target: Floats | None = None, bent: Changes | None = None
    ) -> tuple[Floats, Floats]:
        """What both products lack, each (G, d); target (G,): of a row's products."""
        lower, upper = -self.a * self.s, -self.room * self.e
        if target is not None and bent is not None:
            aim = target[:, None] / self.n
            lower = lower + aim - bent.a * bent.s
            upper = upper + aim + bent.a * bent.e
        return lower, upper

    def slope(self, residuals: tuple[Floats, Floats]) -> Floats:
        """The right side of the system for the step."""
        pull = self.curvature() * (residuals[0] / self.a - residuals[1] / self.room)
        return np.where(self.used, self.a - self.l1 + pull, 0.0)

    def changes(self, residuals: tuple[Floats, Floats], step: Floats) -> Changes:
        """The changes that go with a step of the coefficients."""
        lower, upper = residuals
        a = self.curvature() * (lower / self.a - upper / self.room + step)
        return Changes(a, (lower - self.s * a) / self.a, (upper + self.e * a) / self.room)

    def longest(self, by: Changes) -> Floats:
        """The longest part of the changes at which all variables keep to their bounds, (G,)."""
        found = np.full(len(self.a), np.inf)
        for x, change in ((self.a, by.a), (self.room, -by.a), (self.s, by.s), (self.e, by.e)):
            falls = self.used & (change < 0)
            part = np.divide(-x, change, where=falls, out=np.full_like(x, np.inf))
            found = np.minimum(found, part.min(axis=1, initial=np.inf))
        return found

    def after(self, by: Changes, length: Floats) -> "Absolute":
        """The variables after a part (G,) of the changes."""
        part = np.where(self.used, length[:, None], 0.0)
        return replace(
            self, a=self.a + part * by.a, s=self.s + part * by.s, e=self.e + part * by.e
        )
