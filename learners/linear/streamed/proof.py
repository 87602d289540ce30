"""The end of a training whose rows are read by row group, on rows that are held out.

At the hinge no small gradient shows the optimum, but a duality gap does. Dual variables that
weights make of rows which they were not trained on prove little: the gradient there has the
sample's noise, which a small l2 divides. So the held-out rows are trained on by themselves, once,
until the gap is within a quarter of `epsilon`. What that proves is below every objective on these
rows, and weights that come within half of `epsilon` of it are optimal there up to that tolerance.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.learners.linear.descent import to_the_gap
from tuskml.learners.linear.gap import gaps, move_bound, wants_gap
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.planner.planning import plan_for
from tuskml.learners.linear.problem import Found, Index, Problem
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.streamed import skipping

BY = "lbfgs"
"""The algorithm that trains on the held-out rows."""
SHARE = 0.5
"""Its tolerance as a share of epsilon."""


def least_objective(problem: Problem, request: Request, deadline: float | None) -> State | None:
    """The final state of a training on the problem's rows, with the proof in `below` and `line`.

    None if it did not converge.
    """
    options = replace(
        request.options,
        algorithm=BY,
        sampler=None,
        epsilon=SHARE * request.options.epsilon,
        max_iter=None,
        given=frozenset(),
    )
    rows = problem.rows
    plan = plan_for(rows.groups, replace(request, options=options))
    plan = replace(plan, sample_stride=1, threads=rows.threads)
    start = np.zeros((problem.n_groups, problem.d + 1))
    return to_the_gap(problem, start, plan, deadline)


@dataclass
class WithinProved:
    """Converge: the objective on held-out rows is within epsilon / 2 of the least one there.

    problem: of these rows; best: the proof there, None before the first evaluation; failed: True
    if there is none, so that no evaluation ends the training.
    """

    problem: Problem
    request: Request
    deadline: float | None
    best: State | None = None
    failed: bool = False

    def __call__(self, state: State, active: Index, found: Found | None) -> NDArray[np.bool_]:
        if found is not None and self.best is None and not self.failed:
            self.best = least_objective(self.problem, self.request, self.deadline)
            self.failed = self.best is None
        if found is None or self.best is None:
            return np.zeros(len(active), bool)
        state.below, state.line = self.best.below.copy(), self.best.line
        move_bound(self.problem, state, active)
        left = gaps(state, active, found.objective)
        state.gaps_seen.append((state.iteration, float(left.max(initial=0.0))))
        return np.asarray(left <= self.request.options.epsilon / 2)


def confirmed(problem: Problem, request: Request, state: State, others: NDArray[np.void]) -> bool:
    """Returns whether the criterion is nearly met on rows of a row group that had no part in it.

    others: as `Pass.groups`.
    """
    elsewhere = problem.on(replace(problem.rows, groups=others))
    found, epsilon = elsewhere.evaluate(state.v), skipping.CONFIRMED * request.options.epsilon
    if not wants_gap(problem, request.options.converge, epsilon):
        return bool((found.violation <= epsilon).all())
    looser = replace(request, options=replace(request.options, epsilon=epsilon))
    proved = WithinProved(elsewhere, looser, None)
    return bool(proved(state, np.arange(problem.n_groups), found).all())
