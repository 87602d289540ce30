"""What the algorithms that read all rows an iteration share: what is known is kept."""

import numpy as np
from numpy.typing import NDArray

from tuskml.udas.kernels import Floats
from tuskml.udas.operators import State
from tuskml.udas.problem import Found, Problem


class Evaluate:
    """Compute: one pass at the weights, unless the line search has just made it."""

    def __init__(self, curvature: bool = False) -> None:
        self.curvature = curvature

    def __call__(self, part: Problem, state: State) -> Found:
        kept = state.memory.pop("found", None)
        if isinstance(kept, Found):
            return kept
        return part.evaluate(state.v[state.active], self.curvature)


def settle_move(
    state: State, v: Floats, found: Found, moved: NDArray[np.bool_], endless: bool
) -> None:
    """Takes over what a line search arrived at; a group that found no better point is finished."""
    active = state.active
    state.v[active] = v
    if moved.all() or endless:
        state.memory["found"] = found
        return
    stuck = active[~moved]
    state.running[stuck] = False
    state.objective[stuck] = found.objective[~moved]
    state.memory["found"] = found.of(moved)
