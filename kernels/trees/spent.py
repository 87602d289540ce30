"""Memory of large groups of trees that is freed early."""

from tuskml.kernels.library import library
from tuskml.kernels.passes import Pass

LARGE = 1 << 21
"""Cells of a group that several threads train, `LARGE` of `native/trees/bins.hpp`."""


def spend(rows: Pass) -> None:
    """Frees the memory of the features of large groups, which are not read again.

    Labels and weights stay. Smaller groups share pages, so theirs stay too.
    """
    library().tk_spend(rows.struct, LARGE)
