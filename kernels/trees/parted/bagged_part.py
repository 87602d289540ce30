"""A part of a group in a random forest: codes of its rows, and out-of-bag predictions.

As in `part.py`, a reply depends on the messages alone: each names the state that it needs, and if
that is missing, it is sent again with the whole state.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import Floats, check_code, library, pointer
from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.parts.message import Array
from tuskml.kernels.passes import Pass
from tuskml.kernels.trees.boosting import Rules, Targets, boost_of
from tuskml.kernels.trees.parted.binning import Bins
from tuskml.kernels.trees.parted.part import KEPT, TreePart, find_part, free_part, splits_of
from tuskml.kernels.trees.parted.trees import TreeList

CODED, APART, PLACED, STARTED = range(4)
"""Stages of a part: codes of its rows, distinct keys, their indices among those of all parts, and
the means of the labels.
"""
SETUP = 9
"""Number of arrays of a message that set up a part."""


class BaggedPart(TreePart):
    """The rows of a part.

    name: of their training.
    """

    native = "tk_bagged"

    def __init__(
        self, rows: Pass, name: str, given: Mapping[str, Any], arrays: list[Any], beside: Beside
    ) -> None:
        bound, first, missing, by_level, classes = arrays
        self.bins, targets = Bins(bound, first, missing, by_level), Targets(classes)
        self.outputs = targets.outputs
        boost = boost_of(Rules(**given["rules"]), targets)
        self.handle = ctypes.c_void_p()
        extent = np.array(given["extent"])
        arguments = pointer(extent), beside.memory, ctypes.byref(self.handle)
        check_code(library().tk_bagged_new(rows.struct, boost, self.bins.struct, *arguments))
        self.n_rows, self.width = (int(rows.groups[one][0]) for one in ("n_rows", "dim"))
        self.name, self.stage, self.applied = name, CODED, 0
        self.sorted = np.zeros(0, np.uint64)
        self.forget()

    def tell_apart(self, keys: NDArray[np.uint64], before: NDArray[np.int64]) -> list[Array]:
        """Makes the keys of rows distinct by the number of equal rows in earlier parts."""
        self.sorted = np.empty(self.n_rows, np.uint64)
        self.call("tell_apart", pointer(keys), pointer(before), len(keys), pointer(self.sorted))
        self.stage = APART
        return [np.ones(1)]

    def in_slice(self, given: Mapping[str, Any]) -> list[Array]:
        """Keys of a slice, rising."""
        if not given["bits"]:
            return [self.sorted]
        first = self.sorted >> np.uint64(64 - given["bits"])
        begin = np.searchsorted(first, given["slice"], "left")
        return [self.sorted[begin : np.searchsorted(first, given["slice"], "right")]]

    def place(self, places: NDArray[np.uint32], all_rows: int) -> list[Array]:
        """Stores the indices of the keys among those of all parts."""
        self.call("place", pointer(places), all_rows)
        self.stage, self.sorted = PLACED, self.sorted[:0]
        return [np.ones(1)]

    def start(self, means: Floats, total: float) -> list[Array]:
        """The C structure `tk_bagged_start`."""
        out = np.empty(1 + self.outputs)
        self.call("start", pointer(np.ascontiguousarray(means)), total, pointer(out))
        self.stage = STARTED
        return [out]

    def begin(self, extent: Floats) -> list[Array]:
        """Sums over the rows that the next tree draws, (1, bins, 3)."""
        sums = np.empty((1, self.bins.total, 3), np.int64)
        self.call("begin", *self.number, pointer(np.ascontiguousarray(extent)), pointer(sums))
        self.begun, self.leaves = self.applied, {0}
        return [sums]

    def n_wanted(self, splits: NDArray[np.void]) -> int:
        return int((splits["wanted"] >= 0).sum())

    def rows(self, splits: NDArray[np.void], leaves: NDArray[np.int32]) -> list[Array]:
        """Counts the drawn rows of leaves, (n,), after some splits; returns also their codes and
        addends.
        """
        if not self.divide(splits, summed=False) or not set(leaves.tolist()) <= self.leaves:
            return []
        request = self.handle, pointer(leaves), len(leaves)
        n, counts = library().tk_bagged_count(*request), np.empty(len(leaves), np.int64)
        reply = [counts, np.empty((n, self.width), np.uint8), np.empty((n, 2), np.int64)]
        library().tk_bagged_rows(*request, *map(pointer, reply))
        return reply

    def losses(self) -> list[Array]:
        """The C structure `tk_bagged_losses`."""
        losses = np.empty(2)
        library().tk_bagged_losses(self.handle, pointer(losses))
        return [losses]


def answer_message(
    rows: Pass, arrays: list[Any], given: Mapping[str, Any], beside: Beside
) -> list[Any]:
    """Reply to a message of `bagging.BaggingRequests`; None if the part lacks the state."""
    begin_anew = partial(began_anew, rows, given, beside)
    part, own, trees = find_part(BaggedPart, arrays, given, beside, begin_anew)
    if part is None:
        return [None]
    there = part.stage >= given["stage"] and part.apply(trees, given["first"], given["tree"])
    reply = ANSWERS[given["do"]](part, own, given) if there else []
    return [*reply] or [None]


ANSWERS: dict[str, Callable[[BaggedPart, Sequence[Any], Mapping[str, Any]], list[Array]]] = {
    "sums": lambda part, _, __: part.sums(),
    "keys": lambda part, _, given: part.keys(given),
    "tell": lambda part, own, __: part.tell_apart(*own),
    "sorted": lambda part, _, given: part.in_slice(given),
    "place": lambda part, own, given: part.place(own[0], given["all_rows"]),
    "start": lambda part, own, given: part.start(own[0], given["total"]),
    "begin": lambda part, own, __: part.begin(own[0]),
    "divide": lambda part, own, __: part.divide(splits_of(own[0])),
    "rows": lambda part, own, __: part.rows(splits_of(own[0]), own[1]),
    "losses": lambda part, _, __: part.losses(),
}


def began_anew(
    rows: Pass, message: Mapping[str, Any], beside: Beside, setup: list[Any], trees: TreeList
) -> None:
    """Keeps a part with the state before the message: it has all trees."""
    setup_fields = message["setup"]
    free_part(beside)
    keys, before, places, means = setup[SETUP - 4 : SETUP]
    beside.kept[KEPT] = part = BaggedPart(
        rows, message["name"], setup_fields, setup[: SETUP - 4], beside
    )
    if keys is not None:
        part.tell_apart(keys, before)
    if places is not None:
        part.place(places, message["all_rows"])
    if means is not None:
        part.start(means, message["total"])
        part.apply(trees, 0, message["tree"])
    if len(setup) > SETUP:
        extent, splits = setup[SETUP:]
        part.begin(extent)
        part.divide(splits_of(splits), summed=False)
