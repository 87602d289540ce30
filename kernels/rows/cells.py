"""Rows dealt to folds and slices of folds, and sets of these without copying rows."""

import ctypes
from collections.abc import Iterable, Sequence
from typing import Self, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import cancel_mark, check_code, library, pointer
from tuskml.kernels.passes import Pass
from tuskml.kernels.rows.renumber import Dealing
from tuskml.kernels.structures import GROUP

BY_CHANCE, BY_VALUE, BY_ORDER = 0, 1, 2
"""Criteria for the fold of a row: `tk_deal_by`."""


class Cells:
    """The rows of G groups, each dealt to `folds` folds of `slices` slices.

    A fold has about 1/folds of a group's rows; with a gap, `folds` counts stretches of them. Slice
    0 and slice 1 have 1/2^(slices - 1) of a fold's rows each, and every other slice twice as many
    as the one before it, so that slices 0 .. s together double with s.
    """

    def __init__(self, cells: NDArray[np.void], folds: int, slices: int) -> None:
        self.cells, self.folds, self.slices = cells, folds, slices

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        library().tk_unlink(pointer(self.cells), self.cells.size)

    def link(self, folds: Iterable[int], slices: int | None = None) -> NDArray[np.void]:
        """The groups, (G,), with the rows of some folds, restricted to the first slices.

        They are valid until the next call, and empty if a group has no such row.
        """
        return self._link(self._choose(folds, slices))

    def link_apart(
        self, kept: Iterable[int], held: Iterable[int], slices: int | None = None
    ) -> tuple[NDArray[np.void], NDArray[np.void], NDArray[np.void]]:
        """Three sets of groups at a time: rows of both kinds of folds, of kept ones, and of
        held-out ones.

        Only the first slices of the kept folds count, and held-out folds are later ones. Kept rows
        are a prefix, so their number says where they end.
        """
        first, later = self._choose(kept, slices), self._choose(held, None)
        whole = self._link(first | later)
        cells = self.cells.reshape(len(whole), -1)
        ends = [self._ends(cells, one.ravel() > 0, whole) for one in (first, later)]
        return whole, ends[0], ends[1]

    @staticmethod
    def _ends(
        cells: NDArray[np.void], chosen: NDArray[np.bool_], whole: NDArray[np.void]
    ) -> NDArray[np.void]:
        """Groups that begin with the first nonempty chosen cell, and end by their number of
        rows.
        """
        out, n_rows = whole.copy(), cells["n_rows"] * chosen
        begin = cells["head"][np.arange(len(cells)), (n_rows > 0).argmax(axis=1)]
        out["n_rows"] = n_rows.sum(axis=1)
        out["head"] = np.where(out["n_rows"] > 0, begin, 0)
        return out

    def _choose(self, folds: Iterable[int], slices: int | None) -> NDArray[np.uint8]:
        chosen = np.zeros((self.folds, self.slices), np.uint8)
        chosen[list(folds), : self.slices if slices is None else slices] = 1
        return chosen

    def _link(self, chosen: NDArray[np.uint8]) -> NDArray[np.void]:
        out = np.zeros(len(self.cells), GROUP)
        sizes = len(out), chosen.size
        library().tk_link(pointer(self.cells), *sizes, pointer(chosen), pointer(out))
        return out

    def marks(self, group: int, folds: Iterable[int]) -> NDArray[np.float64]:
        """The numbers FOLDS of a group's rows of some folds, which the copies have kept."""
        marks = []
        for cell in self.cells.reshape(len(self.cells), self.folds, -1)[
            group, list(folds)
        ].ravel():
            out = np.empty(int(cell["n_rows"]))
            library().tk_marks(pointer(np.array([cell])), pointer(out))
            marks.append(out)
        return np.concatenate(marks)

    def in_common(
        self, sets: Sequence[Sequence[int]], slices: int | None = None
    ) -> NDArray[np.void] | None:
        """The groups with the rows of each of several sets of folds, (G, S), all at a time.

        Like `link` they are valid until the next call, and neighbours have rows in common. None
        unless the folds of each set are consecutive, cyclically.
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
        arguments = len(self.cells), self.folds * self.slices, pointer(chosen)
        library().tk_ring(pointer(self.cells), *arguments)
        return out


def first_of_run(folds: Sequence[int], of: int) -> int | None:
    """First fold of a cyclically consecutive run of folds, or None."""
    chosen = set(folds)
    begins = [fold for fold in chosen if (fold - 1) % of not in chosen]
    if len(begins) > 1 or not chosen:
        return None
    return begins[0] if begins else 0


class How(TypedDict, total=False):
    """Options of dealing.

    slices: of each fold, by default 1; by_label: whether the rows of each label are dealt evenly;
    by: BY_VALUE if rows of an equal number FOLDS belong in one fold, BY_ORDER if this number is
    the order of folds; held: for two folds the approximate number of rows of the second one, by
    group; gap: by order, rows within this distance of a later fold have cells of their own, as
    `tk_dealing` says; keeps_marks: whether the copies have FOLDS.
    """

    slices: int
    by_label: bool
    by: int
    held: NDArray[np.int64] | None
    gap: float | None
    keeps_marks: bool


class _Dealing:
    """The options as a structure for kernels, with the arrays that it points to."""

    def __init__(self, forms: Sequence[NDArray[np.void]], folds: int, seed: int, how: How) -> None:
        self.forms, held, gap = forms, how.get("held"), how.get("gap")
        self.held = None if held is None else np.ascontiguousarray(held, np.int64)
        self.places = (ctypes.c_void_p * len(forms))(*map(pointer, forms))
        self.stretches = folds if gap is None else folds**2
        self.struct = Dealing(
            seed & (2**64 - 1),
            folds,
            how.get("slices", 1),
            how.get("by_label", False),
            how.get("by", BY_CHANCE),
            how.get("keeps_marks", False),
            gap is not None,
            gap or 0.0,
            pointer(self.held),
            len(forms),
            ctypes.cast(self.places, ctypes.c_void_p),
        )


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

    memory: address of the account that the copies are charged to. With several forms of the same
    groups, with the same rows in the same order, `groups` are all of them: the first one
    determines the cells of all. Raises MemoryError and Interrupted.
    """
    forms = [groups] if isinstance(groups, np.ndarray) else groups
    contiguous = [np.ascontiguousarray(form) for form in forms]
    how = _Dealing(contiguous, folds, seed, given)
    cells = np.zeros((len(contiguous[0]), how.stretches * how.struct.slices), GROUP)
    rows = Pass(contiguous[0], threads=threads, cancel_mark=cancel_mark())
    check_code(
        library().tk_deal(rows.struct, how.struct, memory, pointer(cells)), "a copy of the rows"
    )
    return Cells(cells, how.stretches, how.struct.slices)


def stretches_of(
    groups: NDArray[np.void], folds: int, *, seed: int = 0, threads: int = 1, **given: Unpack[How]
) -> NDArray[np.int32]:
    """Stretch to which `deal` deals each row, groups concatenated, in order."""
    how = _Dealing([np.ascontiguousarray(groups)], folds, seed, given)
    out = np.empty(int(groups["n_rows"].sum()), np.int32)
    rows = Pass(how.forms[0], threads=threads, cancel_mark=cancel_mark())
    check_code(library().tk_stretches(rows.struct, how.struct, pointer(out)))
    return out
