"""Growth of a tree by sums over all parts of a group."""

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.trees.boosting import NODE, PART_SPLIT, SIDE, Boost, Growing, SummedArrays
from tuskml.kernels.trees.parted.binning import Bins
from tuskml.kernels.trees.parted.trees import Tree

TOGETHER = 64
"""Largest number of leaves that are divided in one round."""
NO_BRANCHES = Growing(0, 1, 0)


class Grower:
    """Grows one tree after the other.

    boost and bins must outlive it; growing: which branches of forests grow by their rows, and how.
    """

    def __init__(self, boost: Boost, bins: Bins, growing: Growing = NO_BRANCHES) -> None:
        self.boost, self.bins = boost, bins
        self.handle = ctypes.c_void_p()
        arguments = growing, ctypes.byref(self.handle)
        check_code(library().tk_summed_new(boost, bins.struct, *arguments))

    def close(self) -> None:
        """Frees all."""
        library().tk_summed_free(self.handle)

    def begin(
        self, iteration: int, output: int, extent: NDArray[np.void], root: NDArray[np.int64]
    ) -> None:
        """Begins a tree of an output; root: (bins, 3) sums over all rows."""
        arguments = pointer(extent), pointer(np.ascontiguousarray(root))
        check_code(library().tk_summed_begin(self.handle, iteration, output, *arguments))

    def next_leaves(self) -> NDArray[np.void]:
        """PART_SPLIT of the leaves to be divided next; empty if the tree has grown."""
        room = np.zeros(TOGETHER, PART_SPLIT)
        count = library().tk_summed_wanted(self.handle, TOGETHER, pointer(room))
        if count < 0:
            check_code(2)
        return room[:count]

    def take_sums(self, sums: NDArray[np.int64]) -> None:
        """Takes the requested sums, (n, bins, 3)."""
        check_code(library().tk_summed_given(self.handle, pointer(np.ascontiguousarray(sums))))

    def rows_wanted(self) -> NDArray[np.int32]:
        """Leaves whose rows are requested, after the requested splits."""
        room = np.zeros(TOGETHER, np.int32)
        return room[: library().tk_summed_rows_wanted(self.handle, TOGETHER, pointer(room))]

    def take_rows(self, codes: NDArray[np.uint8], addends: NDArray[np.int64]) -> None:
        """Takes codes (n, d) and addends (n, 2) of the next such leaf."""
        arguments = pointer(np.ascontiguousarray(codes)), pointer(np.ascontiguousarray(addends))
        check_code(library().tk_summed_given_rows(self.handle, *arguments, len(codes)))

    def tree(self) -> Tree:
        """The tree that has grown."""
        sizes = np.empty(3, np.int64)
        library().tk_summed_sizes(self.handle, pointer(sizes))
        nodes, codes, sets = sizes.tolist()
        arrays: list[NDArray[Any]] = [
            np.empty(nodes, NODE),
            np.empty(nodes, np.float32),
            np.empty(nodes, np.int64),
            np.empty(nodes, SIDE),
            np.empty((codes, 4), np.uint64),
            np.empty(sets),
        ]
        library().tk_summed_copy(self.handle, SummedArrays(*map(pointer, arrays)))
        return Tree(*arrays)
