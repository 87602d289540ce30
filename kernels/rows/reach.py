"""How far margins are from the other side, and how far they move along a direction."""

import numpy as np

from tuskml.kernels.library import Floats, check_code, library, pointer
from tuskml.kernels.parts.sharded import ShardedPass, least_or_most
from tuskml.kernels.passes import Pass


def margin_reach(rows: Pass, weights: Floats, direction: Floats, far: Floats) -> Floats:
    """Over each group's rows, (G, 4): the least y m, the least and the largest move y (z.u) and
    the largest (1 - q) |z.u|; weights, direction: (G, d + 1), in the caller's units.

    Counts of 0 have y = -1 and the share |z.u|, others the move |z.u| alone. far (G,): margins
    y m above which rows do not count.
    """
    if isinstance(rows, ShardedPass) and rows.n_groups:
        found = rows.asked("margin_reach", weights, direction, far)
        return least_or_most([one[0] for one in found], REACH_LEAST)
    out = np.empty((rows.n_groups, 4))
    weights, direction = np.ascontiguousarray(weights), np.ascontiguousarray(direction)
    far = np.ascontiguousarray(far)
    given = pointer(weights), pointer(direction), pointer(far), pointer(out)
    check_code(library().tk_margin_reach(rows.struct, *given))
    return out


REACH_LEAST = (True, True, False, False)
"""Which of the four is a least one."""
