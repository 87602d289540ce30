"""Test on a few rows whether rare features co-occur, before features are ordered by affinity.

Some rows are marked, and with them the features that only one marked row has. Further rows are
then searched for marked features. The two features of a pair are *met together* if a further row
has both and the same row was marked for both. Were features independent, two hits of a row would
belong to the same marked row by chance alone; `lift` is the observed number of pairs over that
expected number. `mean` is the mean number of features of a marked row that are met at a time: for
cliques of eight, eight.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.partitioner.native import Ids
from tuskml.partitioner.rows import SparseRows

MARKED_ROWS = 256
LEAST_GROUPS = 16
LEAST_MEAN, LEAST_LIFT = 1.5, 4.0
_TABLE_BITS = 20


@dataclass(frozen=True)
class Togetherness:
    """Result of the test.

    groups: meetings of a marked and a further row; mean: features of each; lift: pairs found over
    pairs expected of independent features.
    """

    groups: int
    mean: float
    lift: float

    @property
    def found(self) -> bool:
        """Returns whether features co-occur so often that an order by affinity pays."""
        return self.groups >= LEAST_GROUPS and self.mean >= LEAST_MEAN and self.lift >= LEAST_LIFT

    def __str__(self) -> str:
        if not self.groups:
            return "no rare feature of the sample occurs again"
        return f"{self.mean:.1f} rare features are met together, {self.lift:.3g} times chance"


def marks_of(rows: SparseRows) -> tuple[Ids, NDArray[np.int64]]:
    """Features that exactly one of the rows has, rising, and the number of that row."""
    distinct = rows.distinct()
    ids, first, counts = np.unique(distinct.ids, return_index=True, return_counts=True)
    only = counts == 1
    return ids[only], distinct.row_numbers()[first[only]].astype(np.int64)


class Marks:
    """The marked features, in a form for looking many ids up."""

    def __init__(self, rows: SparseRows) -> None:
        self.ids, self.row = marks_of(rows)
        self._table = np.zeros(1 << _TABLE_BITS, np.bool_)
        self._table[self._place(self.ids)] = True

    def meetings(self, rows: SparseRows) -> NDArray[np.int64]:
        """(further row, marked row) of each hit, shape (hits, 2)."""
        maybe = np.flatnonzero(self._table[self._place(rows.ids)])
        if not len(self.ids):
            maybe = maybe[:0]
        at = np.minimum(np.searchsorted(self.ids, rows.ids[maybe]), max(0, len(self.ids) - 1))
        hit = self.ids[at] == rows.ids[maybe] if len(maybe) else np.zeros(0, np.bool_)
        row = np.searchsorted(rows.starts, maybe[hit], side="right") - 1
        return np.stack((row, self.row[at[hit]]), axis=1)

    @staticmethod
    def _place(ids: Ids) -> Ids:
        mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (mixed >> np.uint64(64 - _TABLE_BITS)).astype(np.int64)


def togetherness(marked: SparseRows, further: Iterable[SparseRows]) -> Togetherness:
    """Tests rows.

    marked: about MARKED_ROWS rows; further: others, in parts.
    """
    marks, n_hits, n_groups, pairs, expected = Marks(marked), 0, 0, 0.0, 0.0
    of_rows = np.zeros(max(1, len(marked)), np.int64)
    pairs_of_rows = 0.0
    for part in further:
        hits_at = marks.meetings(part.distinct())
        _, each = np.unique(hits_at, axis=0, return_counts=True)
        n_hits, n_groups = n_hits + len(hits_at), n_groups + len(each)
        pairs += float((each * (each - 1)).sum())
        of_rows += np.bincount(hits_at[:, 1], minlength=len(of_rows))
        _, hits = np.unique(hits_at[:, 0], return_counts=True)
        pairs_of_rows += float((hits * (hits - 1)).sum())
    if not n_groups:
        return Togetherness(0, 0.0, 0.0)
    shares = of_rows / n_hits
    expected = pairs_of_rows * float((shares**2).sum())
    return Togetherness(n_groups, n_hits / n_groups, pairs / expected if expected else 0.0)
