"""The sets of rows that candidates train on, and those that they are judged by.

Where the learner allows it, all sets of a rung train together: each row is then read once for all
models that train on it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.selection.prepared import Groups, Prepared


@dataclass(frozen=True)
class Round:
    """One set of rows: the number of the folds that are held out, these and the others, and how
    many slices of the others are trained on.
    """

    number: int
    out: Sequence[int]
    kept: Sequence[int]
    slices: int


@dataclass(frozen=True)
class Sets:
    """S sets of rows of G groups, which train together.

    Rows are arrays (G * S,) of GROUP, the sets of a group being neighbours. Unless they stay, they
    are valid until the next are asked for.
    """

    part: Prepared
    rounds: Sequence[Round]

    @property
    def numbers(self) -> NDArray[np.intp]:
        """The number of each set among all of the search, (S,)."""
        return np.array([one.number for one in self.rounds], np.intp)

    @property
    def stays(self) -> bool:
        """Whether all rows are linked once, and are valid as long as the sets are used."""
        return len(self.rounds) > 1 and self.part.cells.slices == 1

    @cached_property
    def _linked(self) -> tuple[Groups, Groups, Groups | None, Groups]:
        return self._kept(), self._whole(), self._parts(), self._held()

    def kept(self) -> Groups:
        """The rows that are trained on."""
        return self._linked[0] if self.stays else self._kept()

    def whole(self) -> Groups:
        """All rows that any set has, (G,). They are linked as those of `kept` and `parts` are."""
        return self._linked[1] if self.stays else self._whole()

    def parts(self) -> Groups | None:
        """The rows that each set lacks of the whole group; None unless that is their sum."""
        return self._linked[2] if self.stays else self._parts()

    def held(self) -> Groups:
        """The rows that are held out."""
        return self._linked[3] if self.stays else self._held()

    def parted(self) -> tuple[Groups, tuple[Groups, Groups]]:
        """Of one set all rows together, and the rows that are trained on and those held out."""
        (one,) = self.rounds
        whole, *parts = self.part.cells.linked_apart(one.kept, one.out, one.slices)
        whole["place"] = np.arange(len(whole))
        return whole, (parts[0], parts[1])

    def _kept(self) -> Groups:
        rows = self._rows([one.kept for one in self.rounds], self.rounds[0].slices)
        rows["place"] = np.arange(len(rows))
        return rows

    def _whole(self) -> Groups:
        cells = self.part.cells
        found = cells.in_common([range(cells.folds)], self.rounds[0].slices)
        assert found is not None
        rows = found.ravel()
        rows["place"] = np.arange(len(rows))
        return rows

    def _parts(self) -> Groups | None:
        folds = sorted(fold for one in self.rounds for fold in one.out)
        if folds != list(range(self.part.cells.folds)):
            return None
        return self._rows([one.out for one in self.rounds], self.rounds[0].slices)

    def _held(self) -> Groups:
        return self._rows([one.out for one in self.rounds], None)

    def _rows(self, folds: Sequence[Sequence[int]], slices: int | None) -> Groups:
        if len(folds) == 1:
            return self.part.cells.linked(folds[0], slices)
        rows = self.part.cells.in_common(folds, slices)
        assert rows is not None
        return rows.ravel()


def sets_of(part: Prepared, every: Sequence[Round]) -> Iterator[Sets]:
    """All sets of a rung, those together that can be."""
    candidates = part.search.candidates
    weighs = all(candidates[number].task.weighs_features for number in part.numbers)
    dense = part.near.dense and weighs
    if dense and part.cells.in_common([one.kept for one in every]) is not None:
        yield Sets(part, every)
    else:
        for one in every:
            yield Sets(part, [one])
