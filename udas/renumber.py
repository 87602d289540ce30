"""Sparse groups whose ids are few and large: trained as if only what occurs were there.

All that a training keeps of a feature, be it seen or not, is as long as the largest id. So ids
that occur are numbered anew, rising, in a copy of the rows.
"""

import ctypes
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuskml.udas.kernels import GROUP
from tuskml.udas.library import check_code, library, pointer

LEAST_WIDTH = 1 << 16
"""Features up to which all of them are cheap."""
SHARE = 4
"""Features for each that occurs, from which on rows are worth a copy."""

Ids = NDArray[np.int32]


@dataclass
class Renumbered:
    """Groups (kernels.GROUP) in whose place others train; a context, at whose end copies go.

    ids: by the group's place the ids, rising, that its features were before; listed: coefficients
    of their models so far, as lists up to the largest id.
    """

    groups: NDArray[np.void]
    ids: dict[int, Ids]
    copies: NDArray[np.void]
    handles: list[Any]
    listed: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        library().tk_free_groups(pointer(self.copies), ctypes.c_int64(len(self.copies)))
        self.ids.clear()
        while self.handles:
            library().tk_charged_free(self.handles.pop())


def renumbered(groups: NDArray[np.void], memory: int, mark: int) -> Renumbered:
    """The groups, those with few of many ids as copies that `memory`, the account, is charged for.

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


def _renumber(found: Renumbered, place: int, memory: int, mark: int, number: int) -> None:
    """Puts a copy in the group's place, where that is worth it."""
    group = ctypes.c_void_p(found.groups.ctypes.data + place * GROUP.itemsize)
    handle, at, n = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int64()
    account, since = ctypes.c_void_p(memory), ctypes.c_int64(mark)
    check_code(
        library().tk_ids_that_occur(
            group, account, since, ctypes.byref(handle), ctypes.byref(at), ctypes.byref(n)
        )
    )
    found.handles.append(handle)
    if not n.value or SHARE * n.value > found.groups["dim"][place]:
        library().tk_charged_free(found.handles.pop())
        return
    copy = ctypes.c_void_p(found.copies.ctypes.data + number * GROUP.itemsize)
    check_code(library().tk_renumber(group, account, since, at, n, copy))
    found.groups[place] = found.copies[number]
    memory_of_ids: Any = (ctypes.c_int32 * n.value).from_address(at.value or 0)
    found.ids[place] = np.frombuffer(memory_of_ids, np.int32)
