"""Sparse groups with few but large ids: they train only on the ids that occur.

A training's arrays of features are as long as the largest id, even if most ids never occur. So a
copy of the rows renumbers the ids that occur, in ascending order.
"""

import ctypes
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import GROUP

LEAST_WIDTH = 1 << 16
"""Up to this many features, renumbering is not worth it."""
SHARE = 4
"""Rows are worth a copy from this ratio of features to features that occur."""

Ids = NDArray[np.int32]


@dataclass
class Renumbered:
    """Groups (kernels.GROUP), some of them replaced by copies. A context, which frees the copies.

    ids: by group, the original ids of the copy's features, ascending. listed: the number of
    coefficients in the models made so far, which are lists up to the largest id.
    """

    groups: NDArray[np.void]
    ids: dict[int, Ids]
    copies: NDArray[np.void]
    handles: list[Any]
    listed: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        library().tk_free_groups(pointer(self.copies), len(self.copies))
        self.ids.clear()
        while self.handles:
            library().tk_charged_free(self.handles.pop())


def renumbered(groups: NDArray[np.void], memory: int, mark: int) -> Renumbered:
    """The groups. Those with few of many ids are copies, charged to the account `memory`.

    mark: a `cancel_count`. Raises MemoryError, TuskError and Interrupted.
    """
    wide = np.flatnonzero((groups["kind"] >= 2) & (groups["dim"] > LEAST_WIDTH))
    if not len(wide) or not memory:
        return Renumbered(groups, {}, np.zeros(0, GROUP), [])
    found = Renumbered(groups.copy(), {}, np.zeros(len(wide), GROUP), [])
    try:
        for number, place in enumerate(wide.tolist()):
            _renumber(found, place, memory, mark, number)
    except BaseException:
        found.__exit__()
        raise
    return found


def n_trained(group: NDArray[np.void], memory: int, mark: int) -> int:
    """How many features one sparse group, GROUP (1,), has once its ids are numbered anew.

    memory, mark: as in `renumbered`.
    """
    dim = int(group["dim"][0])
    if dim <= LEAST_WIDTH:
        return dim
    handle, at, n = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int64()
    given = pointer(group), memory, mark, ctypes.byref(handle), ctypes.byref(at), ctypes.byref(n)
    check_code(library().tk_ids_that_occur(*given))
    library().tk_charged_free(handle)
    return dim if SHARE * n.value > dim else n.value


def _renumber(found: Renumbered, place: int, memory: int, mark: int, number: int) -> None:
    """Replaces the group by a copy if that is worth it."""
    group = found.groups.ctypes.data + place * GROUP.itemsize
    handle, at, n = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int64()
    account, since = memory, mark
    check_code(
        library().tk_ids_that_occur(
            group, account, since, ctypes.byref(handle), ctypes.byref(at), ctypes.byref(n)
        )
    )
    found.handles.append(handle)
    if not n.value or SHARE * n.value > found.groups["dim"][place]:
        library().tk_charged_free(found.handles.pop())
        return
    copy = found.copies.ctypes.data + number * GROUP.itemsize
    check_code(library().tk_renumber(group, account, since, at, n, copy))
    found.groups[place] = found.copies[number]
    memory_of_ids: Any = (ctypes.c_int32 * n.value).from_address(at.value or 0)
    found.ids[place] = np.frombuffer(memory_of_ids, np.int32)
