"""Large groups of trees, and how they give the memory of their features back."""

from tuskml.kernels.library import library
from tuskml.kernels.passes import Pass

LARGE = 1 << 21
"""Cells of a group that several threads train, `LARGE` of `native/trees/bins.hpp`."""


def spend(rows: Pass) -> None:
    """Gives back the memory of the features of large groups, which nobody reads again.

    Labels and weights stay. Smaller groups share pages, so theirs stay too.
    """
    library().tk_spend(rows.struct, LARGE)
