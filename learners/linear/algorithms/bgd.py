"""Batch gradient descent: v -= step * gradient, then the proximal step of the l1 part.

schedule `line_search` finds the step by backtracking, from the step of Barzilai and Borwein
(Two-point step size gradient methods, 1988). Such steps do not lower the objective each time: they
are shortened only where it would be higher than in all of the last iterations (Raydan, The
Barzilai and Borwein gradient method for the large scale unconstrained minimization problem, 1997).
The other schedules shrink a given first step.
"""

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.kernels.speculated import Method
from tuskml.learners.linear.algorithms.parts.algorithm import VECTOR_WIDTHS, Algorithm, Beside
from tuskml.learners.linear.algorithms.parts.batch import (
    Bounds,
    Evaluate,
    backtrack,
    cost_of_passes,
    settle_move,
)
from tuskml.learners.linear.operators import Operators, StartAt, State, on_all_rows
from tuskml.learners.linear.planner.cost import TYPICAL, Cost, Costs
from tuskml.learners.linear.planner.curves import Interval, Question
from tuskml.learners.linear.planner.iterations import ByModel, Usual, between_corners
from tuskml.learners.linear.problem import Found, Index, Problem, curvature_bound
from tuskml.learners.linear.request import Plan
from tuskml.learners.options.kinds import POWERS


def first_steps(plan: Plan, problem: Problem) -> Floats:
    """The step of the first iteration by group, (G,)."""
    if plan.step == "auto":
        return 1.0 / curvature_bound(problem)
    return np.full(problem.n_groups, float(plan.step))


class ScheduledStep:
    """Update: the step shrinks by a schedule, whatever the objective does."""

    def __init__(self, plan: Plan, problem: Problem) -> None:
        self.first = first_steps(plan, problem)
        self.power = POWERS[plan.schedule]

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert found is not None
        active = state.active
        step = self.first[active] / (state.iteration + 1) ** self.power
        v = state.v[active] - step[:, None] * found.gradient
        state.v[active] = part.proximal(v, step)
        state.known[active] = False


LAST = 10
"""Iterations whose highest objective is not to be passed."""


class SearchedStep:
    """Update: backtracking from the Barzilai-Borwein step.

    Where a training ends by anything else than the gradient the objective falls each time.
    """

    def __init__(self, plan: Plan, problem: Problem) -> None:
        self.step = first_steps(plan, problem).copy()
        self.endless = plan.epsilon == 0
        self.last = LAST if plan.converge == "gradient" and plan.epsilon > 0 else 1

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert found is not None
        active = state.active
        v, gradient = state.v[active], found.gradient
        step = self.step[active]

        def propose(which: Index, by: Floats) -> Floats:
            moved = v[which] - by[:, None] * gradient[which]
            return part.of(which).proximal(moved, by)

        def gain(which: Index, candidate: Floats) -> Floats:
            change = candidate - v[which]
            return np.asarray(-np.einsum("gp,gp->g", change, change) / step[which])

        def look(which: Index, candidate: Floats) -> Found:
            return part.of(which).evaluate(candidate)

        highest = np.nanmax([seen[active] for seen in state.history[-self.last :]], axis=0)
        new_v, there, moved = backtrack(look, v, found, step, propose, gain, Bounds(highest))
        self.step[active] = next_step(new_v - v, there.gradient - gradient, step)
        settle_move(state, new_v, there, moved, self.endless)


def next_step(change: Floats, change_of_gradient: Floats, step: Floats) -> Floats:
    """The step s's / s'y, which would have been right for the last move."""
    sy = np.einsum("gp,gp->g", change, change_of_gradient)
    ss = np.einsum("gp,gp->g", change, change)
    fitting = sy > 1e-14 * ss
    return np.where(fitting, ss / np.where(fitting, sy, 1.0), 2 * step)


SMOOTH = ((1, 3, 4, 10), (2, 8, 32, 120), (5, 30, 130, 1000))
CORNERED = ((2, 7, 14, 60), (4, 14, 75, 400), (8, 40, 1000, 10000))
SPARSE = {
    "linear": ((1.5, 8, 15, 80), (4, 15, 35, 200), (7, 30, 90, 900)),
    "logistic": ((0.3, 1.5, 10, 70), (0.6, 4.5, 25, 190), (1.5, 8, 65, 900)),
    "svm": ((0.5, 25, 60, 200), (5, 110, 250, 1500), (9, 600, 2000, 8000)),
}
BY_SPREAD = {
    "linear": (
        (2.0, 5.2, 5.4, 2.6),
        (2.7, 10.0, 15.0, 15.0),
        (3.9, 13.0, 22.0, 56.0),
        (6.9, 22.0, 50.0, 170.0),
    ),
    "logistic": (
        (0.6, 1.3, 1.5, 2.0),
        (3.2, 8.0, 13.0, 6.7),
        (5.0, 13.0, 25.0, 46.0),
        (9.4, 26.0, 51.0, 180.0),
    ),
    "svm": (
        (2.9, 4.4, 4.8, 4.6),
        (8.4, 19.0, 29.0, 23.0),
        (20.0, 44.0, 72.0, 140.0),
        (260.0, 570.0, 940.0, 1800.0),
    ),
}
"""Iterations by decade of the tolerance; svm's last decade is extrapolated."""
BY_MODEL = ByModel(3.67, 0.65, 3.0, 1.05, 0.21, 0.07, 0.84, high=60.0)
"""Fitted to 73 trainings on sets of `scripts/bench/planner/truth_*.py` except the last half: if
each set is judged by a fit without it, 81 % are within a factor of two. Nearly collinear features
need up to 36 times as many, where `lbfgs` needs up to four times as many.
"""
USUAL = Usual(
    SMOOTH,
    CORNERED,
    SPARSE,
    BY_SPREAD,
    stretched=0.7,
    method=Method.SPECTRAL_STEPS,
    bent=1.1,
    by_model=BY_MODEL,
    apart=Interval(40, 300, 2000),
    constant=Interval(4, 10, 60),
)
BACKTRACKED, BACKTRACKED_SPARSE = 1.15, 1.5
"""Passes per iteration with line search, more where features were not scaled alike; the hinge
excepted.
"""


class Bgd(Algorithm):
    name = "bgd"
    multinomial = True
    title = "batch gradient descent with Barzilai and Borwein's steps"
    source = "Barzilai and Borwein 1988, Raydan 1997"
    by_parts = True
    max_iter = 1000
    line_search = True
    stepped = True
    vectors = 10
    beside = Beside(0.9, 1.7, 4.0)
    lighter = 0.8
    step_widths = VECTOR_WIDTHS

    def operators(
        self, problem: Problem, plan: Plan, start: Floats, deadline: float | None
    ) -> Operators:
        """There is nothing to sample."""
        searched = plan.schedule == "line_search"
        step = SearchedStep(plan, problem) if searched else ScheduledStep(plan, problem)
        return on_all_rows(problem, plan, deadline, StartAt(start), Evaluate(), step)

    def cost(
        self, costs: Costs, plan: Plan, iterations: float = TYPICAL, on_sample: float = 0.0
    ) -> Cost:
        often = costs.question.seen.sparse and costs.question.task.smooth
        searched = BACKTRACKED_SPARSE if often else BACKTRACKED
        searched = searched if plan.schedule == "line_search" else 1.0
        return cost_of_passes(costs, plan, searched, 0.0, costs.on_weights(), self.memory(costs))

    def usual(self, question: Question, k: float) -> Interval:
        return between_corners(question, USUAL.iterations(question, k))


ALGORITHM = Bgd()
