"""Counts of the columns of rows with names that lie in several places.

Each place counts its own rows, and the sums say everywhere what the rows become: which levels a
category has, what fills gaps, which combinations and words have a feature. So a group in parts is
prepared as one in a single place, but for the last digits of means.
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
    Prepared,
    known_in,
    known_levels,
    prepare,
)
from tuskml.kernels.rows.structures import Preparing

OWN = ("threads", "cancel_mark", "census", "known", "n_known")
"""Fields of `Preparing` that are a place's own, or told in another way."""
LISTS = ("classes", "categories", "words", "interactions", "reference")
"""Fields that are several names, whose number is the field n_ and the name."""
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
        """Adds those of another place. DataError where they are of other columns."""
        code = library().tk_census_add(self.handle, counts, len(counts))
        if code == REFUSED:
            raise DataError(OTHER_COLUMNS)
        check_code(code)

    def data(self) -> bytes:
        """The counts, for another place."""
        n = library().tk_census_bytes(self.handle, None, 0)
        held = ctypes.create_string_buffer(max(n, 0))
        if n < 0 or library().tk_census_bytes(self.handle, held, n) < 0:
            raise MemoryError("no memory for the counts of columns")
        return held.raw


def counted(group: NDArray[np.void], how: Preparing, known: bytes) -> bytes:
    """The counts of a group (1,) with rows; nothing where it has none.

    known: nothing, or those of all places, for a second round that counts combinations.
    """
    if not group["parts"].any():
        return b""
    error = ctypes.create_string_buffer(ERROR_SIZE)
    group = np.ascontiguousarray(group)
    with Census() as mine, Census() as every:
        if known:
            every.add(known)
        asked = with_census(how, every if known else None)
        code = library().tk_census_count(mine.handle, pointer(group), asked, error)
        if code == REFUSED:
            raise DataError(error.value.decode(errors="replace"))
        check_code(code)
        return mine.data()


def summed(counts: Sequence[bytes]) -> bytes:
    """The counts of all places, added in their order; nothing where no place has rows."""
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
) -> Iterator[Prepared]:
    """Copies of the rows of a part, as the counts of all parts have it (`prepare`)."""
    with Census() as census:
        census.add(counts)
        prepared = prepare(groups, with_census(how, census), memory)
    with prepared:
        yield prepared


def with_census(how: Preparing, census: Census | None) -> Preparing:
    """The same with the counts of all places; both have to stay for as long as it is used."""
    how = Preparing.from_buffer_copy(how)
    how.census = None if census is None else census.handle
    return how


def as_json(how: Preparing) -> dict[str, Any]:
    """What all places have in common, for `from_json`."""
    given = {name: getattr(how, name) for name, *_ in how._fields_ if name not in OWN}
    given = {key: one.decode() if isinstance(one, bytes) else one for key, one in given.items()}
    given |= {name: listed(how, name, given[f"n_{name}"]) for name in LISTS}
    return given | {"known": [astuple(one) for one in known_in(how)]}


def listed(how: Preparing, name: str, n: int) -> str | None:
    """The names of a list, each with a character of code 0 behind it."""
    at = ctypes.c_void_p.from_buffer(how, getattr(Preparing, name).offset).value
    if at is None:
        return None
    found = []
    for _ in range(n):
        found.append(ctypes.string_at(at).decode())
        at += len(found[-1].encode()) + 1
    return "".join(f"{one}\0" for one in found)


def from_json(given: Mapping[str, Any], threads: int, cancel_mark: int) -> Preparing:
    """The same at a place, which has a given number of threads."""
    fields: dict[str, Any] = {
        key: one.encode() if isinstance(one, str) else one for key, one in given.items()
    }
    told: list[Any] = given["known"]
    known = [KnownLevels(name, tuple(levels), gaps) for name, levels, gaps in told]
    fields |= {"n_known": len(known), "known": known_levels(known)}
    return Preparing(**fields, threads=threads, cancel_mark=cancel_mark)


KEPT = (NAMES, JSON, CLASSES, LEVELS, UNLIKE)
"""The texts that travel."""


class Told:
    """What `Prepared` has of a group: texts, and where its categories lie; all places agree."""

    def __init__(self, texts: Sequence[bytes], categories: Sequence[tuple[int, int]]) -> None:
        self._texts, self._categories = texts, tuple(categories)

    @staticmethod
    def arrays(prepared: Prepared) -> list[NDArray[Any]]:
        """As arrays, for `of_arrays`."""
        texts = [prepared.text(which, 0).encode() for which in KEPT]
        numbers = np.array(prepared.categories(0), np.int64).reshape(-1, 2)
        return [*(np.frombuffer(text, np.uint8) for text in texts), numbers]

    @classmethod
    def of_arrays(cls, arrays: Sequence[Any]) -> Self:
        """Makes a census from arrays."""
        *texts, numbers = arrays
        return cls([one.tobytes() for one in texts], [tuple(pair) for pair in numbers.tolist()])

    def text(self, which: int, group: int) -> str:
        """As `Prepared.text`."""
        return self._texts[KEPT.index(which)].decode()

    def texts(self, which: int, group: int) -> tuple[str, ...]:
        """As `Prepared.texts`."""
        return tuple(self.text(which, group).split("\0")[:-1])

    def categories(self, group: int) -> tuple[tuple[int, int], ...]:
        """As `Prepared.categories`."""
        return self._categories

    def levels(self) -> tuple[bytes, ...] | None:
        """As `Prepared.levels`."""
        return (self._texts[LEVELS],) if self._texts[LEVELS] else None
