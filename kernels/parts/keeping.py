"""Copies of rows for as long as their group is trained by parts."""

import numpy as np

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import OwnedRows, Pass
from tuskml.kernels.structures import GROUP


def kept(rows: Pass, memory: int) -> OwnedRows:
    """The rows in the order in which they lie; memory: address of the account for the copy."""
    copy = np.zeros(rows.n_groups, GROUP)
    check_code(library().tk_keep(rows.struct, memory, pointer(copy)))
    return OwnedRows(copy)
