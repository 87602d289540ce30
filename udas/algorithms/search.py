"""Backtracking line search for a batch of groups: steps are halved until the objective falls.

Armijo, Minimization of functions having Lipschitz continuous first partial derivatives, 1966.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tuskml.udas.kernels import Floats
from tuskml.udas.problem import Found, Index

SUFFICIENT = 1e-4
SHRINK = 0.5
MOST_TRIALS = 40

Propose = Callable[[Index, Floats], Floats]
Gain = Callable[[Index, Floats], Floats]
Look = Callable[[Index, Floats], Found]


def backtrack(
    look: Look, v: Floats, found: Found, step: Floats, propose: Propose, gain: Gain
) -> tuple[Floats, Found, NDArray[np.bool_]]:
    """Moves each group from v to propose(groups, step), halving its step until that helps.

    look(groups, candidate) evaluates the objective; gain(groups, candidate) is the change of it
    that a linear model promises, negative.
    step (G,) is left at what was accepted. Returns the weights, what was found there, and which
    groups moved; the others found no better point and stay at v.
    """
    pending = np.arange(len(v))
    moved_v, moved_found = v, found
    for trial in range(MOST_TRIALS):
        candidate = propose(pending, step[pending])
        there = look(pending, candidate)
        bound = (
            found.objective[pending] + SUFFICIENT * gain(pending, candidate) + found.slack[pending]
        )
        good = there.objective <= bound
        if trial == 0 and good.all():
            return candidate, there, np.ones(len(v), bool)
        if trial == 0:
            moved_v, moved_found = v.copy(), found.of(pending)
        moved_v[pending[good]] = candidate[good]
        moved_found.put(pending[good], there.of(good))
        pending = pending[~good]
        if not len(pending):
            break
        step[pending] *= SHRINK
    moved = np.ones(len(v), bool)
    moved[pending] = False
    return moved_v, moved_found, moved
