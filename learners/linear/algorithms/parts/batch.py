"""Shared by algorithms that read all rows in each iteration: known results are reused."""

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.gap import SELDOM
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.planner.cost import LOSS_ALONE, Cost, Costs, Parts
from tuskml.learners.linear.problem import Found, Problem

LOOK_PASSES = 2 + LOSS_ALONE
"""Passes that evaluate the duality gap: a gradient for each class, and the hinge itself."""
LAST_LOOKS = 2
"""Evaluations before the gap is small enough, besides those every SELDOM iterations."""


class Evaluate:
    """Compute: one pass at the weights, unless the line search has just made it."""

    def __init__(self, curvature: bool = False) -> None:
        self.curvature = curvature

    def __call__(self, part: Problem, state: State) -> Found:
        kept, state.found = state.found, None
        if kept is not None:
            return kept
        return part.evaluate(state.v[state.active], self.curvature)


def settle_move(
    state: State, v: Floats, found: Found, moved: NDArray[np.bool_], endless: bool
) -> None:
    """Takes over the result of a line search; a group that found no better point is finished."""
    active = state.active
    state.v[active] = v
    if moved.all() or endless:
        state.found = found
        return
    stuck = active[~moved]
    state.running[stuck] = False
    state.objective[stuck] = found.objective[~moved]
    state.found = found.of(moved)


def cost_of_passes(
    costs: Costs, plan: Plan, searched: float, first: float, weights: float, memory: float
) -> Cost:
    """The cost of iterations that make some passes for the gradient.

    searched: passes an iteration; first: further ones of the first iteration; weights: seconds of
    an iteration's work on weights; memory: bytes.
    """
    gradient = costs.rows_pass("gradient")
    parts = Parts(weights, gradient)
    weights += (searched - 1) * costs.again
    smoothed = len(plan.smoothing) > 1
    look = LOOK_PASSES * gradient * smoothed  # at the gap
    return Cost(
        costs.common() + (len(plan.smoothing) + first / plan.sample_stride) * gradient,
        searched * gradient + weights + look / SELDOM,
        costs.inference(fresh=0.0) + costs.sharpened(plan.smoothing) + LAST_LOOKS * look,
        searched * gradient / plan.sample_stride + weights,
        memory,
        parts=parts,
    )
