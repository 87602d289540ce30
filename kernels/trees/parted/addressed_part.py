"""The part that messages of a training of trees address, kept from message to message."""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.parts.dealing import count_hashes
from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.parts.message import Array
from tuskml.kernels.trees.parted.binning import Bins
from tuskml.kernels.trees.parted.trees import TreeList

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
