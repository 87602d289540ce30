"""Sparse groups with ids beyond 31 bits: a copy of the rows numbers the ids that occur.

So a training's memory depends on how many ids occur, never on the largest one. The ids are sorted
and a number is a place among them, which keeps the order of the features.
"""

import ctypes
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels.library import check_code, library, pointer, wrap_memory
from tuskml.kernels.passes import GROUP

Ids = NDArray[np.int64]
NO_IDS: Ids = np.zeros(0, np.int64)
MOST_NUMBERS = 2**31 - 2
"""Largest number of distinct ids in one group."""


@dataclass
class Vocabulary:
    """A copy of one group, GROUP (1,), whose ids are indices into `ids`.

    A context manager that frees it. ids: int64, ascending.
    """

    groups: NDArray[np.void]
    ids: Ids

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        library().tk_free_groups(pointer(self.groups), len(self.groups))


def number_ids(
    group: NDArray[np.void], more: Ids, memory: int, mark: int, hashes: bool = False
) -> Vocabulary:
    """Copies one sparse group, GROUP (1,), charged to the account `memory`.

    more: further int64 ids that get numbers; mark: a `cancel_count`; hashes: as in
    `renumber.renumber`. Raises DataError if there are more than MOST_NUMBERS ids, MemoryError,
    TuskError and Interrupted.
    """
    lib, more = library(), np.ascontiguousarray(more, np.int64)
    handle, at, n = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int64(len(more))
    outputs = ctypes.byref(handle), ctypes.byref(at), ctypes.byref(n)
    check_code(lib.tk_vocabulary(pointer(group), pointer(more), memory, mark, *outputs))
    ids = wrap_memory(handle, at.value, n.value, np.int64) if at.value else NO_IDS
    if n.value > MOST_NUMBERS:
        raise DataError(f"{n.value} feature ids occur in a group, expected at most {MOST_NUMBERS}")
    copy = np.zeros(1, GROUP)
    arguments = memory, mark, pointer(ids), n, int(hashes), pointer(copy)
    check_code(lib.tk_number(pointer(group), *arguments), "a copy of the rows")
    return Vocabulary(copy, ids)
