"""Newton's method for the hinge: a primal-dual interior-point method.

Its systems are those of Newton's method with other curvatures by row (`native/interior.cpp`), so
an iteration costs what one of newton costs, and some ten to thirty are enough for any data and
any penalty: unlike those of a smoothed corner they do not grow with the condition of the problem.
Each iteration solves the system twice: for the step to the optimum itself, which tells how far it
would come, and for one that stays off the bounds by as much less (Mehrotra 1992).

The dual variables give a bound below every objective (`gap.py`). As in dcd, what is found as
violation is twice the gap, and the best weights that were looked at are the answer.
"""

import numpy as np

from tuskml.udas.gap import DualPoint, balanced, bound
from tuskml.udas.interior import AFFINE, CORRECTED, DUAL_HIGH, DUAL_LOW, Interior
from tuskml.udas.kernels import Floats, solve
from tuskml.udas.operators import Budget, Operators, State, Tolerance, all_rows, as_given
from tuskml.udas.plan import Plan
from tuskml.udas.problem import ROUNDING, Found, Problem, add_to_diagonal, clear_last_row

NOT_QUITE = 0.995
"""Of the step to the nearest bound."""
NEAR = 10.0
"""Times the tolerance, below which what products of variables say of the gap is looked into."""


class StageInterior:
    """Stage: variables in the middle of their bounds, for the weights of the start."""

    def __init__(self, start: Floats) -> None:
        self.start = start

    def __call__(self, problem: Problem) -> State:
        state = State.at(self.start)
        state.memory["inside"] = Interior.of_rows(problem.rows, problem.to_caller(state.v))
        state.memory["weights"] = state.v.copy()
        state.memory["least"] = np.full(len(state.v), np.inf)
        state.memory["below"] = np.zeros(len(state.v))
        return state


class InteriorGap:
    """Compute: the objective, and the gap where it may be small."""

    def __init__(self, plan: Plan) -> None:
        self.epsilon = plan.epsilon

    def __call__(self, part: Problem, state: State) -> Found:
        active, memory = state.active, state.memory
        inside, v = memory["inside"].of(active), memory["weights"][active]
        coef = part.to_caller(v)[:, :-1]
        objective = inside.groups["loss"] + part.penalty(coef)
        better = objective < memory["least"][active]
        memory["least"][active[better]] = objective[better]
        state.v[active[better]] = v[better]
        near = np.flatnonzero(inside.groups["product"] <= NEAR * max(self.epsilon, ROUNDING))
        if len(near):
            found = dual_bound(part.of(near), inside.of(near), v[near])
            which = active[near]
            memory["below"][which] = np.maximum(memory["below"][which], found)
        best = memory["least"][active]
        slack = ROUNDING * np.maximum(np.abs(best), 1.0)
        gap = np.maximum(best - memory["below"][active] - slack, 0.0)
        return Found(best, np.full_like(v, np.nan), 2 * gap, slack)


def dual_bound(part: Problem, inside: Interior, v: Floats) -> Floats:
    """The bound below every objective that the dual variables make, (G,)."""
    d = part.d
    totals, pulls = [], []
    for mode in (DUAL_LOW, DUAL_HIGH):
        sums = inside.gradient(part.rows, mode)
        slope = sums[:, d + 2 : d + 3]
        totals.append(np.abs(slope[:, 0]) / sums[:, 1])
        pulls.append((part.shift * slope - sums[:, 2 : d + 2]) / sums[:, 1:2])
    at: DualPoint = balanced(part.rows.fit_intercept, np.array(totals), np.array(pulls))
    return bound(part, at, v)


class InteriorStep:
    """Update: the corrected step, as long as all variables stay within their bounds."""

    def __init__(self, plan: Plan) -> None:
        self.threads = plan.threads

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        active, memory = state.active, state.memory
        inside, v = memory["inside"].of(active), memory["weights"][active]
        curved = 1.0 * part.l2 * part.scale**2
        sums, packed = inside.curvature(part.rows, part.shift, part.scale)
        hessian = packed / sums[:, 1:2]
        if part.l2:
            add_to_diagonal(hessian, np.pad(curved, ((0, 0), (0, 1))))
        if not part.rows.fit_intercept:
            clear_last_row(hessian, part.d + 1)
        before = inside.groups["product"].copy()

        def towards(sums: Floats, mode: int) -> Floats:
            side = right_side(part, sums)
            side[:, :-1] += curved * v[:, :-1]
            step = -solve(hessian, side, self.threads).step
            inside.aim(part.rows, part.to_caller(step), mode)
            return step

        towards(sums, AFFINE)
        after = inside.groups["product"]
        share = np.divide(after, before, where=before > 0, out=np.zeros_like(before))
        inside.groups["target"] = np.clip(share, 0.0, 1.0) ** 3 * before
        step = towards(inside.gradient(part.rows, CORRECTED), CORRECTED)
        length = inside.groups["step"]
        np.minimum(NOT_QUITE * length, 1.0, out=length)
        inside.move(part.rows)
        memory["weights"][active] = v + length[:, None] * step
        memory["inside"].groups[active] = inside.groups
        self._give_up(state, length)

    @staticmethod
    def _give_up(state: State, length: Floats) -> None:
        """A group that cannot move is at the end of its arithmetic."""
        stuck = ~(length > 1e-10)
        state.running[state.active[stuck]] = False


def right_side(part: Problem, sums: Floats) -> Floats:
    """Sums over rows (G, d + 3) as a gradient in coordinates of v, (G, p)."""
    d, n = part.d, sums[:, 1:2]
    slope = sums[:, d + 2 : d + 3] / n
    out = np.empty((len(sums), d + 1))
    out[:, :d] = (sums[:, 2 : d + 2] / n - part.shift * slope) * part.scale
    out[:, d:] = slope if part.rows.fit_intercept else 0.0
    return out


def operators(problem: Problem, plan: Plan, start: Floats, deadline: float | None) -> Operators:
    """The interior-point method as a choice of operators."""
    return Operators(
        as_given,
        StageInterior(start),
        all_rows,
        InteriorGap(plan),
        InteriorStep(plan),
        Tolerance.of(problem, plan),
        Budget(plan.max_iter, deadline),
    )
