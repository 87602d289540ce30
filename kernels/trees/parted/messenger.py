"""Requests to all parts of a group for the growth of trees.

A part that lacks the current state gets all of it, for example on a worker that took the part
over.

`Summed` grows a tree by sums over all parts.
"""

import ctypes
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.parts.message import Array
from tuskml.kernels.parts.sharded import ShardedPass
from tuskml.kernels.trees.boosting import (
    NODE,
    PART_SPLIT,
    SIDE,
    Boost,
    Growing,
    Rules,
    SummedArrays,
    Targets,
)
from tuskml.kernels.trees.parted.binning import Bins
from tuskml.kernels.trees.parted.trees import Tree, join_trees

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


NOTHING: list[Array | None] = [None, None]
"""Stands for a part's unknown state of equal rows."""


class Messenger(ABC):
    """Requests to parts, and the state that they depend on.

    method: of the messages; trees: those grown so far; splits: of the tree that grows; begun:
    whether one grows; earlier: for each part its rows that earlier parts also have, by the keys by
    which rows are drawn; name: of this training, as a part may serve several, such as those of a
    search.
    """

    method: ClassVar[str]

    def __init__(self, rows: ShardedPass, rules: Rules, targets: Targets, bins: Bins) -> None:
        self.rows, self.rules, self.targets, self.bins = rows, rules, targets, bins
        self.trees: list[Tree] = []
        self.splits: NDArray[np.void] = np.zeros(0, PART_SPLIT)
        self.earlier = list[list[Array]]()
        self.begun, self.name = False, secrets.token_hex(8)

    @abstractmethod
    def arguments_of(
        self, do: str, arrays: Sequence[Array | None], first: int, anew: bool = False
    ) -> dict[str, Any]:
        """Arguments of a message that has the trees from `first` on."""

    @abstractmethod
    def setup(self, place: int) -> list[Array | None]:
        """Arrays with which one part starts."""

    def ask(self, do: str, *arrays: Array | None) -> list[Array]:
        """Reply of each part: an array each."""
        return [one[0] for one in self.answers(do, *arrays)]

    def sum_replies(self, do: str, *arrays: Array | None, **given: Any) -> Array:
        """Sum of the parts' replies: of integers, which a worker may add for its parts."""
        return sum_terms([one[0] for one in self.answers(do, *arrays, adds=True, **given)])

    def answers(self, do: str, *arrays: Array | None, **given: Any) -> list[list[Array]]:
        """Replies of all parts; those that need the whole state are asked twice."""
        first = max(0, len(self.trees) - self.targets.outputs)
        trees = join_trees(self.trees[first:])
        fields = self.arguments_of(do, arrays, first)
        replies = self.rows.ask(self.method, *arrays, *trees, **fields, **given)
        lost = [place for place, one in enumerate(replies) if one[0] is None]
        if lost:
            trees = join_trees(self.trees)
            each = {at: [*arrays, *trees, *self.setup(at)] for at in lost}
            given |= self.arguments_of(do, arrays, 0, anew=True)
            again = self.rows.ask_each(self.method, each, **given)
            for place, one in zip(lost, again, strict=True):
                replies[place] = one
        return replies

    def tell_each(self, do: str, each: Sequence[list[Array]]) -> None:
        """Sends each part its own arrays."""
        none = join_trees([])
        arrays = {place: [*own, *none] for place, own in enumerate(each)}
        self.rows.ask_each(self.method, arrays, **self.arguments_of(do, each[0], 0))


def sum_terms(terms: Sequence[Array]) -> Array:
    """Sum from the first term to the last, in order."""
    total: Array = reduce(np.add, terms)
    return total
