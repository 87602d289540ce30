"""Sums over the entries of sparse rows, feature by feature."""

import numpy as np

from tuskml.kernels.library import Floats, check_code, library, pointer
from tuskml.kernels.parts.sharded import ShardedPass, added, squared
from tuskml.kernels.passes import Pass


def entry_sums(rows: Pass) -> tuple[Floats, Floats]:
    """The sums (G, d + 1) of sparse features and of 1, and (G, d + 2) of their squares, of 1 and
    of the weights of rows, by one pass over the entries.
    """
    if isinstance(rows, ShardedPass) and rows.n_groups:
        found = rows.asked("entry_sums")
        return added([one[0] for one in found]), added([one[1] for one in found])
    n, d = rows.n_groups, rows.n_features
    nothing, direction = np.zeros((n, d + 1)), np.zeros((n, d + 1))
    direction[:, -1] = 1.0
    sums, squares = np.empty((n, d + 1)), np.empty((n, d + 2))
    offset = rows.first_rows
    given = pointer(nothing), pointer(direction), pointer(offset), pointer(None)
    call = library().tk_curvature_times
    check_code(call(squared(rows).struct, *given, pointer(sums), pointer(squares)))
    return sums, squares
