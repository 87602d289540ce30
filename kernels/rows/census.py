"""Counts of the columns of rows with names that lie in several parts.

Each part counts its own rows, and the sums determine the preparation everywhere: which levels a
category has, what fills gaps, which combinations and words have a feature. So a group in parts is
prepared like one on a single worker, up to the last digits of means.
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.rows.prepare import (
    CLASSES,
    ERROR_SIZE,
    JSON,
    LEVELS,
    NAMES,
    REFUSED,
    UNLIKE,
    KnownLevels,
    PreparedRows,
    level_structures,
    levels_of,
    prepare,
)
from tuskml.kernels.rows.renumber import Preparing

OWN = ("threads", "cancel_mark", "census", "known", "n_known")
"""Fields of `Preparing` that are specific to a part, or sent separately."""
LISTS = ("classes", "categories", "words", "interactions", "reference")
"""Fields that are lists of names; their lengths are the fields with prefix n_."""
OTHER_COLUMNS = (
    "columns of a group have other names or types in another file, expected the same everywhere"
)


class Census:
    """Counts in the kernels' memory, for the length of a context."""

    def __enter__(self) -> Self:
        self.handle = library().tk_census_new()
        if not self.handle:
            raise MemoryError("no memory for the counts of columns")
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        library().tk_census_free(self.handle)

    def add(self, counts: bytes) -> None:
        """Adds the counts of another part. Raises DataError if its columns differ."""
        code = library().tk_census_add(self.handle, counts, len(counts))
        if code == REFUSED:
            raise DataError(OTHER_COLUMNS)
        check_code(code)

    def data(self) -> bytes:
        """The counts as bytes, for another part."""
        n = library().tk_census_bytes(self.handle, None, 0)
        held = ctypes.create_string_buffer(max(n, 0))
        if n < 0 or library().tk_census_bytes(self.handle, held, n) < 0:
            raise MemoryError("no memory for the counts of columns")
        return held.raw


def count_columns(group: NDArray[np.void], how: Preparing, known: bytes) -> bytes:
    """Counts the columns of a group (1,) with rows; empty if it has none.

    known: empty, or the counts of all parts, for a second round that counts combinations.
    """
    if not group["parts"].any():
        return b""
    error = ctypes.create_string_buffer(ERROR_SIZE)
    group = np.ascontiguousarray(group)
    with Census() as mine, Census() as every:
        if known:
            every.add(known)
        options = with_census(how, every if known else None)
        code = library().tk_census_count(mine.handle, pointer(group), options, error)
        if code == REFUSED:
            raise DataError(error.value.decode(errors="replace"))
        check_code(code)
        return mine.data()


def sum_counts(counts: Sequence[bytes]) -> bytes:
    """Sum of the counts of all parts, in order; empty if no part has rows."""
    there = [one for one in counts if one]
    if not there:
        return b""
    with Census() as census:
        for one in there:
            census.add(one)
        return census.data()


@contextmanager
def in_parts(
    groups: NDArray[np.void], how: Preparing, memory: int, counts: bytes
) -> Iterator[PreparedRows]:
    """Copies of the rows of a part, prepared by the counts of all parts (`prepare`)."""
    with Census() as census:
        census.add(counts)
        prepared = prepare(groups, with_census(how, census), memory)
    with prepared:
        yield prepared


def with_census(how: Preparing, census: Census | None) -> Preparing:
    """Options with the counts of all parts; both must outlive the result."""
    how = Preparing.from_buffer_copy(how)
    how.census = None if census is None else census.handle
    return how


def as_json(how: Preparing) -> dict[str, Any]:
    """The options common to all parts, for `from_json`."""
    fields = {name: getattr(how, name) for name, *_ in how._fields_ if name not in OWN}
    fields = {key: one.decode() if isinstance(one, bytes) else one for key, one in fields.items()}
    fields |= {name: join_names(how, name, fields[f"n_{name}"]) for name in LISTS}
    return fields | {"known": [astuple(one) for one in levels_of(how)]}


def join_names(how: Preparing, name: str, n: int) -> str | None:
    """Names of a list, each followed by a character of code 0."""
    at = ctypes.c_void_p.from_buffer(how, getattr(Preparing, name).offset).value
    if at is None:
        return None
    levels = []
    for _ in range(n):
        levels.append(ctypes.string_at(at).decode())
        at += len(levels[-1].encode()) + 1
    return "".join(f"{one}\0" for one in levels)


def from_json(given: Mapping[str, Any], threads: int, cancel_mark: int) -> Preparing:
    """The options at a part, which has `threads` threads."""
    fields: dict[str, Any] = {
        key: one.encode() if isinstance(one, str) else one for key, one in given.items()
    }
    entries: list[Any] = given["known"]
    known = [KnownLevels(name, tuple(levels), *flags) for name, levels, *flags in entries]
    fields |= {"n_known": len(known), "known": level_structures(known)}
    return Preparing(**fields, threads=threads, cancel_mark=cancel_mark)


KEPT = (NAMES, JSON, CLASSES, LEVELS, UNLIKE)
"""The texts that are sent."""


class PreparationTexts:
    """Texts of `PreparedRows` about a group, and the features of its categories; equal in all
    parts.
    """

    def __init__(self, texts: Sequence[bytes], categories: Sequence[tuple[int, int]]) -> None:
        self._texts, self._categories = texts, tuple(categories)

    @staticmethod
    def arrays(prepared: PreparedRows) -> list[NDArray[Any]]:
        """Serialises as arrays, for `of_arrays`."""
        texts = [prepared.text(which, 0).encode() for which in KEPT]
        numbers = np.array(prepared.categories(0), np.int64).reshape(-1, 2)
        return [*(np.frombuffer(text, np.uint8) for text in texts), numbers]

    @classmethod
    def of_arrays(cls, arrays: Sequence[Any]) -> Self:
        """Restores from arrays."""
        *texts, numbers = arrays
        return cls([one.tobytes() for one in texts], [tuple(pair) for pair in numbers.tolist()])

    def text(self, which: int, group: int) -> str:
        """See `Prepared.text`."""
        return self._texts[KEPT.index(which)].decode()

    def texts(self, which: int, group: int) -> tuple[str, ...]:
        """See `Prepared.texts`."""
        return tuple(self.text(which, group).split("\0")[:-1])

    def categories(self, group: int) -> tuple[tuple[int, int], ...]:
        """See `Prepared.categories`."""
        return self._categories

    def levels(self) -> tuple[bytes, ...] | None:
        """See `Prepared.levels`."""
        return (self._texts[LEVELS],) if self._texts[LEVELS] else None
