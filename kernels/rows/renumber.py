"""Sparse groups with few but large ids: they train only on the ids that occur.

A training's arrays of features are as long as the largest id, even if most ids never occur. So a
copy of the rows renumbers the ids that occur, in ascending order.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer, wrap_memory
from tuskml.kernels.passes import GROUP
from tuskml.kernels.structures import KERNELS

TEXTS = dict.fromkeys(
    (
        "classes",
        "categories",
        "words",
        "interactions",
        "absorbed",
        "cluster",
        "fold",
        "reference",
    ),
    ctypes.c_char_p,
)
"""Fields of `tk_preparing` that are lists of names."""
OF_HISTOGRAM = ("categories", "words", "apart", "features")
"""Those of `tk_histogram_of`."""


@KERNELS.structure(
    "tk_known_levels",
    column=ctypes.c_char_p,
    text=ctypes.c_char_p,
    ends=ctypes.POINTER(ctypes.c_int64),
)
class LevelTable(ctypes.Structure):
    """The C structure `tk_known_levels`."""


@KERNELS.structure("tk_preparing", **TEXTS, known=ctypes.POINTER(LevelTable))
class Preparing(ctypes.Structure):
    """The C structure `tk_preparing`."""


@KERNELS.structure("tk_histogram_of", **dict.fromkeys(OF_HISTOGRAM, ctypes.c_char_p))
class HistogramOf(ctypes.Structure):
    """The C structure `tk_histogram_of`."""


@KERNELS.structure("tk_dealing")
class Dealing(ctypes.Structure):
    """The C structure `tk_dealing`."""


@KERNELS.structure("tk_parted")
class PartOfRows(ctypes.Structure):
    """The C structure `tk_parted`."""


@KERNELS.structure("tk_words")
class Words(ctypes.Structure):
    """The C structure `tk_words`."""


LEAST_WIDTH = 512
"""Up to this width models may have standard errors, and renumbering is not worth it."""
SHARE = 4
"""Rows are worth a copy from this ratio of features to features that occur."""

Ids = NDArray[np.int32]


@dataclass
class Renumbering:
    """Groups (kernels.GROUP), some of them replaced by copies. A context manager that frees these.

    ids: by group, the original ids of the copy's features, ascending. listed: the number of
    coefficients in the models so far, which are lists up to the largest id.
    """

    groups: NDArray[np.void]
    ids: dict[int, Ids]
    copies: NDArray[np.void]
    listed: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        library().tk_free_groups(pointer(self.copies), len(self.copies))


def renumber(
    groups: NDArray[np.void], memory: int, mark: int, hashes: bool = False
) -> Renumbering:
    """Renumbers groups that have few but large ids, in copies charged to the account `memory`.

    mark: a `cancel_count`; hashes: whether the copies have hashes of the original rows, by which
    rows are held out. Raises MemoryError, TuskError and Interrupted.
    """
    wide = np.flatnonzero((groups["kind"] >= 2) & (groups["dim"] > LEAST_WIDTH))
    if not len(wide) or not memory:
        return Renumbering(groups, {}, np.zeros(0, GROUP))
    result = Renumbering(groups.copy(), {}, np.zeros(len(wide), GROUP))
    try:
        for number, place in enumerate(wide.tolist()):
            _renumber(result, place, memory, mark, number, hashes)
    except BaseException:
        result.__exit__()
        raise
    return result


@contextmanager
def renumber_alike(
    parts: NDArray[np.void], ids: dict[int, Ids], memory: int, mark: int
) -> Iterator[NDArray[np.void]]:
    """Renumbers some rows of groups like the groups' copies, until the context ends.

    parts: by group, some of its rows; ids: by group, the ids of its copy; memory, mark: as in
    `renumber`.
    """
    result, copies = parts.copy(), np.zeros(len(ids), GROUP)
    try:
        for number, (place, own) in enumerate(ids.items()):
            _copy(result[place : place + 1], own, memory, mark, copies[number : number + 1])
            result[place] = copies[number]
        yield result
    finally:
        library().tk_free_groups(pointer(copies), len(copies))


def few_occur(groups: NDArray[np.void], memory: int, mark: int) -> list[int]:
    """Indices of the sparse groups that are worth a renumbered copy."""
    wide = np.flatnonzero((groups["kind"] >= 2) & (groups["dim"] > LEAST_WIDTH)).tolist()
    return [
        place
        for place in wide
        if n_trained(groups[place : place + 1], memory, mark) < groups["dim"][place]
    ]


def n_trained(group: NDArray[np.void], memory: int, mark: int) -> int:
    """Number of features of one sparse group, GROUP (1,), after renumbering.

    memory, mark: as in `renumber`.
    """
    dim = int(group["dim"][0])
    if dim <= LEAST_WIDTH:
        return dim
    n = len(_ids(group, memory, mark))
    return dim if SHARE * n > dim else n


def _ids(group: NDArray[np.void], memory: int, mark: int) -> Ids:
    """Distinct ids of a group, GROUP (1,), ascending, charged to the account."""
    handle, at, n = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int64()
    arguments = (
        pointer(group),
        memory,
        mark,
        ctypes.byref(handle),
        ctypes.byref(at),
        ctypes.byref(n),
    )
    check_code(library().tk_ids_that_occur(*arguments))
    return (
        wrap_memory(handle, at.value or 0, n.value, np.int32)
        if at.value
        else np.zeros(0, np.int32)
    )


def _renumber(
    found: Renumbering, place: int, memory: int, mark: int, number: int, hashes: bool
) -> None:
    """Replaces the group by a copy if that is worth it."""
    group = found.groups[place : place + 1]
    ids = _ids(group, memory, mark)
    if not len(ids) or SHARE * len(ids) > group["dim"][0]:
        return
    _copy(group, ids, memory, mark, found.copies[number : number + 1], hashes)
    found.groups[place] = found.copies[number]
    found.ids[place] = ids


def _copy(
    group: NDArray[np.void],
    ids: Ids,
    memory: int,
    mark: int,
    copy: NDArray[np.void],
    hashes: bool = False,
) -> None:
    """Makes `copy` the renumbered rows of a group, both GROUP (1,)."""
    arguments = memory, mark, pointer(ids), len(ids), int(hashes), pointer(copy)
    check_code(library().tk_renumber(pointer(group), *arguments), "a copy of the rows")
