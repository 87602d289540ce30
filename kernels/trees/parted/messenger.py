"""Requests to all parts of a group for the growth of trees.

A part that lacks the current state gets all of it, for example on a worker that took the part
over.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.parts.message import Array
from tuskml.kernels.parts.sharded import ShardedPass
from tuskml.kernels.trees.boosting import PART_SPLIT, Rules, Targets
from tuskml.kernels.trees.parted.binning import Bins
from tuskml.kernels.trees.parted.trees import Tree, join_trees

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
