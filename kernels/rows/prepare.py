"""Rows with names, expanded into the dense or sparse rows that all other kernels read."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import GROUP
from tuskml.kernels.rows.renumber import LevelTable, Preparing
from tuskml.kernels.structures import INT64, KERNELS

REFUSED = KERNELS.constant("TK_REFUSED")
"""`TK_REFUSED`."""
ERROR_SIZE = 1024
NAMES, JSON, CLASSES, LEVELS, MARKS, UNLIKE = range(6)
"""Texts of a prepared group."""


class Texts(Protocol):
    """Texts about prepared groups."""

    def text(self, which: int, group: int) -> str:
        """A text of a group, "" if it has none; names end with a character of code 0 each."""

    def texts(self, which: int, group: int) -> tuple[str, ...]:
        """Splits a text into names."""

    def levels(self) -> tuple[bytes, ...] | None:
        """For each group a byte per feature, 1 if values are numbers of levels; None if no group
        has any.
        """

    def categories(self, group: int) -> tuple[tuple[int, int], ...]:
        """First feature of each category of a group, and its number of features."""


@dataclass(frozen=True)
class KnownLevels:
    """Levels of a category in a fixed order, from 0 on, before its rows are read.

    column: the name of the feature; missing: whether NULLs have a number too, even if none occurs;
    closed: whether other levels have none.
    """

    column: str
    levels: tuple[str, ...]
    missing: bool = False
    closed: bool = False


def level_structures(all_known: Sequence[KnownLevels]) -> "ctypes.Array[LevelTable] | None":
    """Levels as an array of C structures; None if there are none."""
    levels = []
    for one in all_known:
        texts = [level.encode() for level in one.levels]
        ends = (INT64 * len(texts))(*accumulate(map(len, texts)))
        text = b"".join(texts)
        flags = (int(one.missing), int(one.closed))
        levels.append(LevelTable(one.column.encode(), text, ends, len(texts), *flags))
    return (LevelTable * len(levels))(*levels) if levels else None


def levels_of(how: Preparing) -> list[KnownLevels]:
    """The inverse of `level_structures`."""
    result = []
    for one in how.known[: how.n_known]:
        ends = one.ends[: one.n]
        at = ctypes.c_void_p.from_buffer(one, LevelTable.text.offset).value or 0
        text = ctypes.string_at(at, ends[-1] if ends else 0)
        begins = [0, *ends[:-1]]
        levels = [text[a:b].decode() for a, b in zip(begins, ends, strict=False)]
        flags = (bool(one.missing), bool(one.closed))
        result.append(KnownLevels(one.column.decode(), tuple(levels), *flags))
    return result


@dataclass
class PreparedRows:
    """Copies of groups (kernels.GROUP), freed at the end of the context, and texts about them."""

    groups: NDArray[np.void]
    handle: Any

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        library().tk_free_groups(pointer(self.groups), len(self.groups))
        library().tk_prepared_free(self.handle)

    def text(self, which: int, group: int) -> str:
        """A text of a group, "" if it has none; names end with a character of code 0 each."""
        at = ctypes.c_void_p()
        size = library().tk_prepared_text(self.handle, which, group, ctypes.byref(at))
        return ctypes.string_at(at.value or 0, size).decode() if size else ""

    def levels(self) -> tuple[bytes, ...] | None:
        """For each group a byte per feature, 1 if values are numbers of levels; None if no group
        has any.
        """
        texts = [self.text(LEVELS, group) for group in range(len(self.groups))]
        if not any(texts):
            return None
        width = self.groups["dim"].tolist()
        return tuple(text.encode() or bytes(n) for text, n in zip(texts, width, strict=True))

    def texts(self, which: int, group: int) -> tuple[str, ...]:
        """Splits a text into names."""
        return tuple(self.text(which, group).split("\0")[:-1])

    def categories(self, group: int) -> tuple[tuple[int, int], ...]:
        """First feature of each category of a group, and its number of features."""
        n = ctypes.c_int64()
        at = library().tk_prepared_categories(self.handle, group, ctypes.byref(n))
        numbers = (ctypes.c_int32 * (2 * n.value)).from_address(at) if n.value else ()
        return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def prepare(groups: NDArray[np.void], how: Preparing, memory: int) -> PreparedRows:
    """Expands groups whose rows have names or text labels.

    memory: address of the account that the copies are charged to. Raises DataError, MemoryError,
    TuskError and Interrupted.
    """
    copies = np.zeros(len(groups), GROUP)
    handle = ctypes.c_void_p()
    error = ctypes.create_string_buffer(ERROR_SIZE)
    contiguous = np.ascontiguousarray(groups)
    code = library().tk_prepare(
        pointer(contiguous),
        len(contiguous),
        how,
        memory,
        pointer(copies),
        ctypes.byref(handle),
        error,
    )
    if code == REFUSED:
        raise DataError(error.value.decode(errors="replace"))
    check_code(code)
    return PreparedRows(copies, handle)
