"""Copies of groups without some of their rows."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import cancel_mark, check_code, library, pointer
from tuskml.kernels.passes import SQUARED, OwnedRows, Pass
from tuskml.kernels.structures import GROUP
from tuskml.schedule import budget


def leaks(groups: NDArray[np.void], least: int) -> NDArray[np.int32]:
    """The index from 1 on of the first feature of each group that is the label in all rows, (G,),
    or the label times a number plus a number; 0 where there is none, or there are fewer rows."""
    rows = Pass(groups, SQUARED, None, None, True, budget.threads(), cancel_mark=cancel_mark())
    found = np.zeros(len(groups), np.int32)
    check_code(library().tk_leaks(rows.struct, least, pointer(found)))
    return found


def chosen_rows(
    groups: NDArray[np.void], chosen: Sequence[NDArray[np.bool_]], memory: int
) -> OwnedRows:
    """The chosen rows of each group, (n,), in the order in which they lie.

    memory: address of the account that the copies are charged to.
    """
    rows = Pass(groups, SQUARED, None, None, True, budget.threads(), cancel_mark=cancel_mark())
    taken = np.ascontiguousarray(np.concatenate(chosen), np.uint8)
    copies = np.zeros(len(groups), GROUP)
    check_code(library().tk_choose(rows.struct, memory, pointer(taken), pointer(copies)))
    copies["n_skipped"] = groups["n_skipped"]
    return OwnedRows(copies)
