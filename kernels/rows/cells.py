"""Rows dealt to folds and slices of folds, and sets of these without a copy of a row."""

import ctypes
from collections.abc import Iterable, Sequence
from typing import Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import cancel_mark, check_code, library, pointer
from tuskml.kernels.passes import Pass
from tuskml.kernels.rows.structures import Dealing
from tuskml.kernels.structures import GROUP

BY_CHANCE, BY_VALUE, BY_ORDER = 0, 1, 2
"""What decides the fold of a row: `tk_deal_by`."""


class Cells:
    """The rows of G groups, each dealt to `folds` folds of `slices` slices.

    A fold has about 1/folds of a group's rows. Slice 0 and slice 1 have 1/2^(slices - 1) of a
    fold's rows each, and every other slice twice as many as the one before it, so that slices
    0 .. s together double with s.
    """

    def __init__(self, cells: NDArray[np.void], folds: int, slices: int) -> None:
        self.cells, self.folds, self.slices = cells, folds, slices

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        library().tk_unlink(pointer(self.cells), self.cells.size)

    def linked(self, folds: Iterable[int], slices: int | None = None) -> NDArray[np.void]:
        """The groups, (G,), with the rows of some folds alone, and of these the first slices.

        They are valid until the next call, and empty where a group has no such row.
        """
        chosen = np.zeros((self.folds, self.slices), np.uint8)
        chosen[list(folds), : self.slices if slices is None else slices] = 1
        out = np.zeros(len(self.cells), GROUP)
        given = len(self.cells), self.folds * self.slices
        library().tk_link(pointer(self.cells), *given, pointer(chosen), pointer(out))
        return out

    def in_common(
        self, sets: Sequence[Sequence[int]], slices: int | None = None
    ) -> NDArray[np.void] | None:
        """The groups with the rows of each of several sets of folds, (G, S), all at a time.

        Like `linked` they are valid until the next call, and neighbours have rows in common. None
        unless the folds of each set follow each other, the first one after the last.
        """
        first = [first_of_run(one, self.folds) for one in sets]
        if None in first:
            return None
        chosen = np.zeros((self.folds, self.slices), np.uint8)
        chosen[:, : self.slices if slices is None else slices] = 1
        cells = self.cells.reshape(-1, self.folds, self.slices)
        used = np.where(chosen, cells["n_rows"], 0)
        heads = np.where(used > 0, cells["head"], 0)
        out = np.repeat(cells[:, 0, :1], len(sets), axis=1)
        for s, one in enumerate(sets):
            turned = np.roll(heads, -(first[s] or 0), axis=1).reshape(len(cells), -1)
            out["head"][:, s] = turned[np.arange(len(cells)), (turned > 0).argmax(axis=1)]
            out["n_rows"][:, s] = used[:, list(one)].sum(axis=(1, 2))
        given = len(self.cells), self.folds * self.slices, pointer(chosen)
        library().tk_ring(pointer(self.cells), *given)
        return out


def first_of_run(folds: Sequence[int], of: int) -> int | None:
    """The fold from which on some folds follow each other, after the last of all the first one."""
    chosen = set(folds)
    begins = [fold for fold in chosen if (fold - 1) % of not in chosen]
    if len(begins) > 1 or not chosen:
        return None
    return begins[0] if begins else 0


class How(TypedDict, total=False):
    """How rows are dealt, apart from by chance.

    slices: of each fold, 1 unless given; by_label: whether the rows of each label are dealt
    evenly; by: BY_VALUE where rows of an equal number FOLDS belong in one fold, BY_ORDER where
    this number is the order of folds.
    """

    slices: int
    by_label: bool
    by: int


def deal(
    groups: NDArray[np.void] | Sequence[NDArray[np.void]],
    folds: int,
    *,
    seed: int = 0,
    threads: int = 1,
    memory: int = 0,
    **given: Unpack[How],
) -> Cells:
    """Copies the rows of groups (GROUP) into cells, by the content of rows and a seed alone.

    memory: address of the account that the copies are charged to. Where there are several forms of
    the same groups, with the same rows in the same order, `groups` are all of them, and the first
    one is dealt: the rows of each are dealt alike. Raises MemoryError and Interrupted.
    """
    forms = [groups] if isinstance(groups, np.ndarray) else groups
    kept = [np.ascontiguousarray(form) for form in forms]
    slices, by = given.get("slices", 1), given.get("by", BY_CHANCE)
    cells = np.zeros((len(kept[0]), folds * slices), GROUP)
    places = (ctypes.c_void_p * len(kept))(*map(pointer, kept))
    at = ctypes.cast(places, ctypes.c_void_p)
    by_label = given.get("by_label", False)
    how = Dealing(seed & (2**64 - 1), folds, slices, by_label, by, len(kept), at)
    rows = Pass(kept[0], 0, None, None, True, threads, cancel_mark=cancel_mark())
    check_code(library().tk_deal(rows.struct, how, memory, pointer(cells)), "a copy of the rows")
    return Cells(cells, folds, slices)
