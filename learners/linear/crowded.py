"""Features with crowded values: a few rows lie so far away that they alone set the deviation.

Among dates in seconds, say, one is 0. Standardised by all rows, the others differ by so little
that a descent may end before it has seen them. Often the far rows do not matter at the optimum,
where a classifier is certain of them. So a descent goes on from its end in units of the crowd, and
the result is taken where it is an optimum, or better than before.
"""

from dataclasses import replace
from typing import TypeVar

import numpy as np

from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.turns import Turns

CROWDED = 1e-2
"""The largest share of a feature's deviation that the spread of crowded values is."""
ROUNDING = 1e-9
"""The share of an objective that rounding may change."""
DESCENTS = 5
"""A descent may stop short while far rows hold it back, and go on once they are passed."""

P = TypeVar("P", bound=Problem)


def go_on_in_crowds(problem: P, state: State, turns: Turns) -> tuple[P, State]:
    """The problem and the state of a descent, which goes on where features are crowded.

    Groups that get further have the shift and the scale of their crowds from then on.
    """
    if problem.spread is None or not problem.task.saturates or state.out_of_time:
        return problem, state
    crowded = (problem.spread > 0) & (problem.spread * problem.scale < CROWDED)
    which = np.flatnonzero(crowded.any(axis=1))
    if not len(which):
        return problem, state
    far, crowded, spread = problem.of(which), crowded[which], problem.spread[which]
    near = replace(
        far,
        shift=np.where(crowded, 0.0, far.shift),
        scale=np.where(crowded, 1.0 / np.where(crowded, spread, 1.0), far.scale),
    )
    before = far.objective(state.v[which])
    ended, after = State.at(near.from_caller(far.to_caller(state.v[which]))), before.copy()
    ended.iterations, going = state.iterations[which], np.arange(len(which))
    of_these = replace(turns, before=turns.spent(state)[which])
    for _ in range(DESCENTS):
        of_these.descend(near, ended, going, last=True)
        at, after[going] = after[going], near.of(going).objective(ended.v[going])
        further = after[going] < at - ROUNDING * np.abs(at)
        going = going[further & ~ended.converged[going]]
        if not len(going) or ended.out_of_time:
            break
    state.iterations[which] = ended.iterations
    slack = ROUNDING * np.abs(before)
    better = (after < before - slack) | (ended.converged & (after <= before + slack))
    better = np.isfinite(after) & (better | ~np.isfinite(before))
    if not better.any():
        return problem, state
    taken = which[better]
    shift, scale = problem.shift.copy(), problem.scale.copy()
    shift[taken], scale[taken] = near.shift[better], near.scale[better]
    for name in ("v", "violation", "converged", "diverged", "running", "known"):
        getattr(state, name)[taken] = getattr(ended, name)[better]
    state.objective[taken] = after[better]
    state.hessian = state.found = None  # in other coordinates
    return replace(problem, shift=shift, scale=scale), state
