"""A part of a group that is boosted: codes, margins and leaves of its rows.

Each message names the state that it needs: a given number of trees, and of the tree that grows
which leaves. If that is missing, as on a worker that has taken the part over, the reply has no
array, and the same message is sent again with the whole state. So a reply depends on the messages
alone, and a repeated message does no harm.

The part that messages address is kept from message to message.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import Floats, check_code, library, pointer
from tuskml.kernels.parts.dealing import count_hashes
from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.parts.message import Array
from tuskml.kernels.passes import Pass
from tuskml.kernels.trees.boosting import (
    EXTENT,
    ONE_SIDE,
    PART_SPLIT,
    Ranks,
    Rules,
    Targets,
    boost_of,
    start_structure,
)
from tuskml.kernels.trees.parted.binning import Bins
from tuskml.kernels.trees.parted.holding import split_held_out
from tuskml.kernels.trees.parted.ranks import LACKS
from tuskml.kernels.trees.parted.trees import BEFORE, TreeList, forest_in

TREES = 4
"""Number of arrays of a message with the grown trees."""
KEPT = "tree"
"""Key of the part in the state kept with the rows."""


class TreePart:
    """A part whose trees grow: a native part, and which tree and leaves of it have sums.

    native: prefix of the functions of such parts; name: of the training; applied: number of trees
    that predictions have.
    """

    native: str
    name: str
    bins: Bins
    outputs: int
    n_rows: int
    applied: int
    handle: ctypes.c_void_p

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a native function of the part."""
        check_code(getattr(library(), f"{self.native}_{name}")(self.handle, *arguments))

    def close(self) -> None:
        """Frees the native part."""
        getattr(library(), f"{self.native}_free")(self.handle)
        self.handle = ctypes.c_void_p()

    def forget(self) -> None:
        """Forgets the growing tree."""
        self.begun, self.leaves = -1, set[int]()

    def sums(self) -> list[Array]:
        """Returns the sums of the labels, (K,)."""
        sums = np.zeros(self.outputs)
        self.call("sums", pointer(sums))
        return [sums]

    def keys(self, given: Mapping[str, Any]) -> list[Array]:
        """Returns the keys of rows in a slice, and the number of rows of each."""
        keys = np.empty(self.n_rows, np.uint64)
        self.call("keys", pointer(keys))
        return count_hashes(keys, given)

    @property
    def number(self) -> tuple[int, ...]:
        """Iteration and output of the next tree."""
        return divmod(self.applied, self.outputs)

    def apply(self, trees: TreeList, first: int, end: int) -> bool:
        """Adds trees to the predictions, from number `first` on; returns False if some are
        missing.
        """
        if not first <= self.applied <= end:
            return False
        while self.applied < end:
            self.call("add", *self.number, *trees.at(self.applied - first))
            self.applied += 1
            self.forget()
        return True

    def n_wanted(self, splits: NDArray[np.void]) -> int:
        """The number of leaves whose sums some splits request."""
        return len(splits)

    def divide(self, splits: NDArray[np.void], summed: bool = True) -> list[Array]:
        """Sums over the requested leaves, (n, bins, 3)."""
        known = self.leaves | {*splits["left"].tolist(), *splits["right"].tolist()}
        if self.begun != self.applied or not set(splits["leaf"].tolist()) <= known:
            return []
        sums = np.empty((self.n_wanted(splits) if summed else 0, self.bins.total, 3), np.int64)
        self.leaves = known
        try:
            self.call("divide", pointer(splits), len(splits), pointer(sums) if summed else None)
        except BaseException:
            self.forget()
            raise
        return [sums]


Kind = TypeVar("Kind", bound=TreePart)


def find_part(
    kind: type[Kind],
    arrays: list[Any],
    given: Mapping[str, Any],
    beside: Beside,
    begin_anew: Callable[[list[Any], TreeList], None],
) -> tuple[Kind | None, list[Any], TreeList]:
    """The part that a message addresses or None, the message's own arrays, and its trees.

    begin_anew: creates the part from the arrays of a message that sets it up.
    """
    end = given["own"] + TREES
    own, trees = arrays[: given["own"]], TreeList(*arrays[given["own"] : end])
    if setup := arrays[end:]:
        begin_anew(setup, trees)
    part = beside.kept.get(KEPT)
    if not isinstance(part, kind) or part.name != given["name"]:
        return None, own, trees
    return part, own, trees


def free_part(beside: Beside) -> None:
    """Frees the part, before another one replaces it."""
    old = beside.kept.pop(KEPT, None)
    if old is not None:
        old.close()


SETUP = 14
"""Number of arrays of a message that set up a part."""
NOWHERE, EVERY = -2, -1
"""Special values of a tree's number: rows are in no leaves, or all rows are in one."""


class Part(TreePart):
    """The rows of a part, their margins after some trees, and the leaves of the next tree.

    name: of their training.
    """

    native = "tk_part"

    def __init__(
        self, rows: Pass, name: str, given: Mapping[str, Any], arrays: list[Any], beside: Beside
    ) -> None:
        bound, first, missing, by_level, classes, base, *own = arrays
        before, own = own[:BEFORE], own[BEFORE:]
        rows, held = split_held_out(rows, own[:2], given["hold"], beside)
        self.bins = Bins(bound, first, missing, by_level)
        self.outputs = len(base)
        targets = Targets(classes)
        boost = boost_of(Rules(**given["rules"]), targets, held)
        self.handle = ctypes.c_void_p()
        extent = np.array(given["extent"])
        arguments = pointer(extent), beside.memory, ctypes.byref(self.handle)
        check_code(library().tk_part_new(rows.struct, boost, self.bins.struct, *arguments))
        self.name, self.told, self.drawn_for = name, False, -1
        self.n_rows = int(rows.groups["n_rows"][0])
        try:
            self.start(base, before)
            if given["draws"]:
                self.tell_apart(*own[2:4])
        except BaseException:
            self.close()
            raise

    def start(self, base: Floats, before: Sequence[Any]) -> None:
        """Starts from margins (K,) and earlier trees, as from `trees.of_forest`."""
        forest = forest_in(base, before)
        started = None if forest is None else ctypes.byref(start_structure(forest))
        arguments = pointer(np.ascontiguousarray(base)), started
        self.call("start", *arguments)
        self.first = 0 if forest is None else forest.iterations
        self.applied, self.measured = 0, -1
        self.forget()

    def forget(self) -> None:
        super().forget()
        self.placed = NOWHERE

    @property
    def number(self) -> tuple[int, ...]:
        """Output of the next tree."""
        return (self.applied % self.outputs,)

    def losses(self) -> list[Array]:
        """The C structure `tk_part_losses`."""
        losses = np.empty(4)
        self.call("losses", pointer(losses))
        self.measured = self.applied
        return [losses]

    def tell_apart(self, keys: NDArray[np.uint64], before: NDArray[np.int64]) -> list[Array]:
        """Stores the rows that earlier parts also have, and how often."""
        self.call("tell_apart", pointer(keys), pointer(before), len(keys))
        self.told = True
        return [np.ones(1)]

    def draw(self, extent: Floats, by: NDArray[np.uint8]) -> None:
        """Draws the rows of the next iteration by their gradients."""
        iteration = self.first + self.applied // self.outputs
        extent, sides = np.ascontiguousarray(extent), one_side_of(by)
        self.call("draw", iteration, pointer(extent), pointer(sides))
        self.drawn_for = iteration

    def begin(
        self, extent: Floats, drawn: bool, by: NDArray[np.uint8] | None = None
    ) -> list[Array]:
        """Sums over the rows of the next tree, (1, bins, 3).

        drawn: over the drawn rows, or else all; by: the rows drawn by gradients.
        """
        iteration, output = divmod(self.applied, self.outputs)
        if self.outputs > 1 and self.measured != self.applied - output:
            return []
        if by is not None and self.drawn_for != self.first + iteration:
            if output:  # gradients were those before the first tree of the iteration
                return []
            self.draw(extent, by)
        sums = np.empty((1, self.bins.total, 3), np.int64)
        arguments = pointer(np.ascontiguousarray(extent)), pointer(sums)
        number = self.first + iteration if drawn else -1
        self.call("begin", number, output, *arguments)
        self.begun, self.leaves, self.placed = self.applied, {0}, NOWHERE
        return [sums]

    def divide(self, splits: NDArray[np.void], summed: bool = True) -> list[Array]:
        found = super().divide(splits, summed)
        if found:
            self.placed = NOWHERE
        return found

    def place(self, tree: int, arrays: Sequence[Any]) -> bool:
        """Finds the leaf of each row in a tree, or EVERY; returns False if it has not grown."""
        if self.placed == tree:
            return True
        if tree not in (EVERY, self.begun):
            return False
        whole = [np.ascontiguousarray(one) for one in arrays]
        self.call("leaves", tree == EVERY, *map(pointer, whole))
        self.leaves, self.placed = set(), tree
        return True

    def ranks(self, own: Sequence[Any], given: Mapping[str, Any], after: bool) -> list[Array]:
        """Counts keys by some of their bits (`ranks.py`); after: finds the next greater keys."""
        first, about = own[0], own[1:]
        ranks = Ranks(given["of"], given["known"], given["bits"], pointer(first), len(first))
        extent = np.ones(len(EXTENT.fields or ()))
        if given["of"] == LACKS:
            if not self.place(EVERY if given["every"] else given["tree"], about):
                return []
        else:
            if self.outputs > 1 and self.measured != self.applied:
                return []
            extent, by = np.ascontiguousarray(about[0]), one_side_of(about[1])
            ranks.iteration, ranks.least = given["iteration"], float(by["least"][0])
        if after:
            next_keys = np.empty(len(first), np.uint64)
            self.call("next", ranks, pointer(next_keys))
            return [next_keys]
        kind = np.float64 if given["weighs"] else np.int64
        counts = np.empty((len(first), 1 << given["bits"]), kind)
        to = (None, pointer(counts)) if given["weighs"] else (pointer(counts), None)
        self.call("ranks", ranks, pointer(extent), *to)
        return [counts]


def answer_message(
    rows: Pass, arrays: list[Any], given: Mapping[str, Any], beside: Beside
) -> list[Any]:
    """Reply to a message of `boosting.BoostingRequests`; None if the part lacks the state."""
    begin_anew = partial(began_anew, rows, given, beside)
    part, own, trees = find_part(Part, arrays, given, beside, begin_anew)
    if part is None:
        return [None]
    if given["do"] == "tell":
        return part.tell_apart(*own)
    known = part.told or not given["draws"]
    there = known and part.apply(trees, given["first"], given["tree"])
    reply = ANSWERS[given["do"]](part, own, given) if there else []
    return [*reply] or [None]


def start_losses(part: Part, own: list[Any], given: Mapping[str, Any]) -> list[Array]:
    """Losses at the given initial margins."""
    part.start(own[0], own[1:])
    return part.losses()


ANSWERS: dict[str, Callable[[Part, list[Any], Mapping[str, Any]], list[Array]]] = {
    "sums": lambda part, _, __: part.sums(),
    "keys": lambda part, _, given: part.keys(given),
    "start": start_losses,
    "losses": lambda part, _, __: part.losses(),
    "begin": lambda part, own, given: part.begin(own[0], given["drawn"], own[1]),
    "ranks": lambda part, own, given: part.ranks(own, given, after=False),
    "next": lambda part, own, given: part.ranks(own, given, after=True),
    "divide": lambda part, own, _: part.divide(splits_of(own[0])),
}


def one_side_of(array: NDArray[np.uint8]) -> NDArray[np.void]:
    """Views an array of a message as ONE_SIDE."""
    return np.frombuffer(array.tobytes(), ONE_SIDE).copy()


def splits_of(array: NDArray[np.uint8]) -> NDArray[np.void]:
    """Views an array of a message as PART_SPLIT."""
    return np.frombuffer(array.tobytes(), PART_SPLIT).copy()


def began_anew(
    rows: Pass, message: Mapping[str, Any], beside: Beside, setup: list[Any], trees: TreeList
) -> None:
    """Keeps a part with the state before the message: it has all trees."""
    setup_fields = message["setup"]
    free_part(beside)
    part = Part(rows, message["name"], setup_fields, setup[:SETUP], beside)
    beside.kept[KEPT] = part
    done, by, extent = setup_fields["trees"], setup[SETUP - 1], np.array(setup_fields["extent"])
    part.apply(trees, 0, done - done % part.outputs)
    if part.outputs > 1:
        part.losses()
    if by is not None:
        part.draw(extent, by)
    part.apply(trees, 0, done)
    if setup_fields["begun"]:
        extent, splits = setup[SETUP:]
        part.begin(extent, setup_fields["drawn"], by)
        part.divide(splits_of(splits), summed=False)
