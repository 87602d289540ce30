"""Remarks of packers on groups: NULLs in rows that were left out, and numbers that were rounded
(`udas/rowblock/remarks.h`).
"""

import ctypes
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuskml.learners.models import Models, Strings

LABEL, FEATURES, WEIGHT, OFFSET, INDICES, VALUES, FAULT = range(-1, -8, -1)
"""`enum tusk_argument`."""
WORDS = {
    LABEL: "label is NULL",
    FEATURES: "features are NULL",
    WEIGHT: "weight is NULL or 0",
    OFFSET: "offset is NULL",
    INDICES: "an index is NULL",
    VALUES: "a value is NULL",
    FAULT: "a number is not allowed",
}
MOST_NAMED = 20
"""Columns in a note; of others it says how many they are."""

REMARK: Any = np.dtype(
    [("group", "i8"), ("column", "i8"), ("gaps", "i8"), ("rounded", "i8"), ("name", "u8")]
)
"""`tusk_remark`."""


class Place(NamedTuple):
    """A column of the features, by its index from 0 on and its name, or an argument."""

    column: int
    name: str | None

    def __str__(self) -> str:
        if self.column < 0:
            return WORDS[self.column]
        return f"{self.subject} is NULL"

    @property
    def subject(self) -> str:
        """The column as a sentence calls it."""
        return f"feature {self.column + 1}" if self.name is None else f"column '{self.name}'"


@dataclass
class Remarks:
    """The remarks on one group: in how many rows that were left out each column was NULL, and
    which columns have numbers that were rounded."""

    gaps: dict[Place, int] = field(default_factory=dict)
    rounded: set[Place] = field(default_factory=set)

    def add(self, other: "Remarks") -> None:
        """Adds those on other rows of the group."""
        for place, n in other.gaps.items():
            self.gaps[place] = self.gaps.get(place, 0) + n
        self.rounded |= other.rounded

    def as_json(self) -> dict[str, Any]:
        """The remarks as JSON for another process."""
        return {
            "gaps": [[*place, n] for place, n in self.gaps.items()],
            "rounded": [[*place] for place in self.rounded],
        }

    @classmethod
    def of_json(cls, given: Mapping[str, Any]) -> "Remarks":
        """Restores the remarks of another process."""
        return cls(
            {Place(column, name): n for column, name, n in given["gaps"]},
            {Place(column, name) for column, name in given["rounded"]},
        )

    def note(self, n_rows: int, n_skipped: int, names: Sequence[str] = ()) -> str | None:
        """The sentence that a model has; names: those of the features of lists."""
        if not n_rows or not n_skipped or not self.gaps:
            return None
        whole = n_rows + n_skipped
        most = sorted(self.gaps.items(), key=lambda one: (-one[1], one[0].column))
        told = []
        for place, n in most[:MOST_NAMED]:
            listed = place.name is None and 0 <= place.column < len(names)
            what = Place(place.column, names[place.column]) if listed else place
            told.append(f"{what} in {n:,} ({share(n, whole)})")
        if len(most) > MOST_NAMED:
            told.append(f"{len(most) - MOST_NAMED:,} more columns in fewer")
        return (
            f"{n_skipped:,} of {whole:,} rows were skipped ({share(n_skipped, whole)}): "
            + ", ".join(told)
        )


def name_features(note: str, names: Sequence[str]) -> str:
    """A note on features of lists with their names instead of their numbers."""

    def name(found: re.Match[str]) -> str:
        place = int(found[1]) - 1
        return f"column '{names[place]}'" if place < len(names) else found[0]

    return re.sub(r"(?<=[:,] )feature (\d+)(?= is NULL)", name, note)


def gaps_in(note: str | None) -> dict[str, int]:
    """Reads in how many rows a note says that each column or argument was NULL."""
    places = (note or "").partition("): ")[2]
    found = re.findall(r"(?:^|(?<=, ))(.+?) in ([\d,]+) \([^)]*%\)", places)
    return {place: int(n.replace(",", "")) for place, n in found}


def share(n: int, whole: int) -> str:
    """The share of some rows in percent; 0% and 100% stand only for none and all."""
    percent = 100 * n / whole
    shown = f"{percent:.1f}" if 0.05 <= percent < 99.95 or n in (0, whole) else ""
    return f"{shown.removesuffix('.0')}%" if shown else ("<0.1%" if percent < 50 else ">99.9%")


ROUNDED = (
    "of more digits than a double keeps, expected at most 15, or times in microseconds, since "
    "others are rounded and would become the same"
)
"""A sentence's parts on numbers that are names."""
ROUNDED_LABELS = f"labels are numbers {ROUNDED}: cast the label to text"
_CURRENT: ContextVar[dict[int, Remarks]] = ContextVar("remarks")


def remarks_of(address: int | None, n: int) -> dict[int, Remarks]:
    """The remarks of a batch, by the index of the group; groups without any are missing."""
    found: dict[int, Remarks] = {}
    if not n or not address:
        return found
    memory: Any = (ctypes.c_char * (n * REMARK.itemsize)).from_address(address)
    names: dict[int, str] = {0: ""}
    for group, column, gaps, rounded, name in np.frombuffer(memory, REMARK).tolist():
        if name not in names:
            names[name] = ctypes.string_at(name).decode(errors="replace")
        one = found.setdefault(group, Remarks())
        place = Place(column, names[name] if name else None)
        if gaps:
            one.gaps[place] = gaps
        if rounded:
            one.rounded.add(place)
    return found


@contextmanager
def current(remarks: dict[int, Remarks]) -> Iterator[None]:
    """Makes these the remarks on the groups that receivers of rows get meanwhile."""
    token = _CURRENT.set(remarks)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def receive_remarks(group: int = 0) -> Remarks:
    """The remarks on a group that a receiver of rows has got, which it may add to."""
    return _CURRENT.get({}).setdefault(group, Remarks())


def at(remarks: Mapping[int, Remarks], places: NDArray[np.intp]) -> dict[int, Remarks]:
    """The remarks on some groups, renumbered by their position in `places`."""
    if not remarks:
        return {}
    numbers = {place: k for k, place in enumerate(places.tolist())}
    return {numbers[g]: one for g, one in remarks.items() if g in numbers}


def with_notes(
    models: Models, remarks: Mapping[int, Remarks], before: NDArray[np.int64] | None = None
) -> Models:
    """The models with their notes; remarks: by the number of the model; before: the rows that
    packers skipped, (n,), where trainings may have left out others."""
    others = np.zeros(len(models.group), np.int64) if before is None else models.n_skipped - before
    found = set(remarks) | set(np.flatnonzero(others > 0).tolist())
    if not found:
        return models
    pool, code = list(models.note.pool), models.note.code.copy()
    for k in sorted(found):
        one = Remarks(dict(remarks[k].gaps)) if k in remarks else Remarks()
        if others[k] > 0:
            one.add(Remarks({Place(FAULT, None): int(others[k])}))
        names = models.features.code[k]
        listed = models.features.pool[names] if names >= 0 else ()
        text = one.note(int(models.n_rows[k]), int(models.n_skipped[k]), listed)
        if text is not None:
            before_it = "" if code[k] < 0 else f"{pool[code[k]]}; "
            code[k] = len(pool)
            pool.append(before_it + text)
    return replace(models, note=Strings(tuple(pool), code))


def note_of_levels(texts: Sequence[str]) -> str:
    """A sentence about categories whose levels hardly repeat; texts: of each its name, "" of the
    label, how many levels it has, and "1" where these are texts of numbers."""
    found = []
    for name, n, numbers in list(zip(*[iter(texts)] * 3, strict=True))[:MOST_NAMED]:
        what = f"column '{name}'" if name else "label"
        each, instead = (
            ("levels", "leave it out, or cast dates to DATE")
            if name
            else ("classes", "expected fewer")
        )
        found.append(
            f"{what} is text of numbers with {int(n):,} {each}: cast it to DOUBLE"
            if numbers == "1"
            else f"{what} has {int(n):,} {each}, which hardly repeat: {instead}"
        )
    return ", ".join(found)
