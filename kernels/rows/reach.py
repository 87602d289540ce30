"""How far margins are from the other side, and how far they move along a direction."""

import numpy as np

from tuskml.kernels.library import Floats, check_code, library, pointer
from tuskml.kernels.parts.sharded import ShardedPass, least_or_most
from tuskml.kernels.passes import Pass


def margin_reach(rows: Pass, weights: Floats, direction: Floats) -> Floats:
    """Over each group's rows, (G, 4): the least y m, the least and the largest move y (z.u) and
    the largest (1 - q) |z.u|; weights, direction: (G, d + 1), in the caller's units.
    """
    if isinstance(rows, ShardedPass) and rows.n_groups:
        found = rows.asked("margin_reach", weights, direction)
        return least_or_most([one[0] for one in found], REACH_LEAST)
    out = np.empty((rows.n_groups, 4))
    weights, direction = np.ascontiguousarray(weights), np.ascontiguousarray(direction)
    given = pointer(weights), pointer(direction), pointer(out)
    check_code(library().tk_margin_reach(rows.struct, *given))
    return out


REACH_LEAST = (True, True, False, False)
"""Which of the four is a least one."""
