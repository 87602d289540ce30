"""Passes over rows with a custom loss, or over chosen rows (`native/linear/open.cpp`).

The kernels compute the margins of up to 65,536 rows, of any number of groups, call the loss once
for all of them, and sum up.
"""

import ctypes
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuskml.errors import OperatorError
from tuskml.kernels import structures
from tuskml.kernels.library import CANCELLED, check_code

Floats = NDArray[np.float64]
Values = Callable[[Floats, Floats], Any]
"""Margins (n,) and labels (n,) to (n,) values."""

LOSS_FAILED = 4
CALL = ctypes.CFUNCTYPE(
    ctypes.c_int, *[ctypes.c_void_p] * 2, ctypes.c_int64, *[ctypes.c_void_p] * 3
)


@dataclass(frozen=True)
class OwnLoss:
    """A loss by its functions of margins and labels, or by a compiled function's address.

    curvature may be None; address is a C function `tk_loss` of `kernels/native/linear/api.h`.
    """

    name: str
    loss: Values | None
    derivative: Values | None
    curvature: Values | None
    address: int | None = None
    curved: bool = False

    def parts(self) -> list[tuple[str, Values | None]]:
        """The functions and their names, in the kernels' order."""
        return [
            ("loss", self.loss),
            ("derivative", self.derivative),
            ("curvature", self.curvature),
        ]

    def answer(self, part: str, function: Values, margin: Floats, label: Floats) -> Floats:
        """Calls one of the functions. Raises an OperatorError that names the mistake."""
        try:
            with np.errstate(all="ignore"):
                values = np.asarray(function(margin, label), np.float64)
        except MemoryError:
            raise
        except Exception as error:
            raise OperatorError(f"task '{self.name}': {part} {error_text(error)}") from error
        if values.shape not in ((), margin.shape):
            raise OperatorError(
                f"task '{self.name}': {part} returned an array of shape {values.shape}, "
                f"expected {margin.shape}, that of the margins"
            )
        return values


@dataclass(frozen=True)
class RowChoice:
    """Row numbers to read, row[offset[g]:offset[g + 1]] of group g, from 0, and their weights."""

    offset: NDArray[np.int64]
    row: NDArray[np.int64]
    weight: Floats | None

    def of(self, which: NDArray[np.intp]) -> "RowChoice":
        """The chosen rows of some of the groups."""
        counts = np.diff(self.offset)[which]
        offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        places = np.repeat(self.offset[which] - offset[:-1], counts) + np.arange(offset[-1])
        weight = None if self.weight is None else self.weight[places]
        return RowChoice(offset, self.row[places], weight)


def check_row_choice(
    rows: ArrayLike, weights: ArrayLike | None, n_rows: NDArray[np.int64]
) -> RowChoice:
    """Checks the row numbers of each group, which must not be empty. Raises OperatorError."""
    row, counts = flat(rows, "rows")
    if len(counts) != len(n_rows) or not counts.all():
        raise OperatorError(
            f"rows are of {np.count_nonzero(counts)} groups, expected at least one row of each of "
            f"{len(n_rows)} groups"
        )
    if row.dtype.kind not in "iu":
        raise OperatorError(f"rows are of type {row.dtype}, expected whole numbers")
    row = row.astype(np.int64)
    wrong = (row < 0) | (row >= np.repeat(n_rows, counts))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        most = int(np.repeat(n_rows, counts)[at]) - 1
        raise OperatorError(f"rows has {row[at]}, expected 0 to {most} in this group")
    offset = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    if weights is None:
        return RowChoice(offset, np.ascontiguousarray(row), None)
    weight, weight_counts = flat(weights, "weights")
    if not np.array_equal(counts, weight_counts):
        raise OperatorError(
            f"there are {weight_counts.sum()} weights for {counts.sum()} rows, "
            "expected one per row"
        )
    weight = weight.astype(np.float64)
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise OperatorError("weights are negative or not finite, expected numbers of at least 0")
    return RowChoice(offset, np.ascontiguousarray(row), np.ascontiguousarray(weight))


def flat(given: ArrayLike, what: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Concatenates the groups' arrays; returns also the length of each."""
    if isinstance(given, np.ndarray) and given.ndim == 2:
        return given.ravel(), np.full(given.shape[0], given.shape[1], np.int64)
    if not isinstance(given, list | tuple) or not given:
        raise OperatorError(f"{what} are {given!r:.60}, expected an array (G, k) or G arrays")
    arrays = [np.asarray(one) for one in given]
    if any(one.ndim != 1 for one in arrays):
        raise OperatorError(
            f"{what} are not one array per group, expected an array (G, k) or those"
        )
    return np.concatenate(arrays), np.array([len(one) for one in arrays], np.int64)


@dataclass(frozen=True)
class Open:
    """Differences from an ordinary pass: a custom loss, chosen rows, or both."""

    loss: OwnLoss | None = None
    chosen: RowChoice | None = None

    def of(self, which: NDArray[np.intp]) -> "Open":
        """The differences for some of the groups."""
        return self if self.chosen is None else Open(self.loss, self.chosen.of(which))


class Calling:
    """An `Open` in the kernels' form. It keeps the memory of its pointers alive."""

    def __init__(self, opened: Open) -> None:
        self.failure: BaseException | None = None
        self.answered = ctypes.c_int32()
        self.struct = structures.Open()
        own, chosen = opened.loss, opened.chosen
        if own is not None and own.address is not None:
            self.struct.loss, self.struct.any_thread = own.address, 1
        elif own is not None:
            self.own = own
            self.callback = CALL(self._answer)
            self.struct.loss = ctypes.cast(self.callback, ctypes.c_void_p)
            self.struct.answered = ctypes.addressof(self.answered)
        if chosen is not None:
            self.alive = chosen
            self.struct.offset, self.struct.row = chosen.offset.ctypes.data, chosen.row.ctypes.data
            if chosen.weight is not None:
                self.struct.weight = chosen.weight.ctypes.data

    def _answer(self, margin: int, label: int, n: int, *out: int | None) -> int:
        try:
            m, y = _view(margin, n), _view(label, n)
            m.flags.writeable = y.flags.writeable = False
            for (part, function), place in zip(self.own.parts(), out, strict=True):
                if place is not None and function is not None:
                    _view(place, n)[:] = self.own.answer(part, function, m, y)
            self.answered.value = 1
        except BaseException as error:
            self.failure = error
            return 1
        return 0

    def check(self, code: int) -> int:
        """Returns the kernel's code, or raises the loss's error."""
        if code == LOSS_FAILED:
            if self.failure is not None:
                raise self.failure
            if not self.struct.any_thread:  # Ctrl-C arrived on the way to the function or back
                check_code(CANCELLED)
            raise OperatorError("the compiled loss did not return 0")
        return code


def error_text(error: BaseException) -> str:
    """Text of the error, and the line of the user's file that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "it cannot be shown"
    where = f" in {frames[-1].filename}, line {frames[-1].lineno}" if len(frames) > 1 else ""
    return f"raised {type(error).__name__}{': ' if text else ''}{text}{where}"


def _view(place: int, n: int) -> Floats:
    memory: Any = (ctypes.c_double * n).from_address(place)
    view: Floats = np.frombuffer(memory, np.float64)
    return view
