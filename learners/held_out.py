"""Rows that are held out: by chance, by a column's values, or forward in time, in folds or once.

Searches, early stopping and paths of penalties share this description. By chance, folds are
stratified by class. By a column, rows of equal values are held out together, so that a model is
judged by, say, customers that it has not seen. In time, each fold is predicted from earlier rows
(R. Hyndman, G. Athanasopoulos, Forecasting: principles and practice, 5.10), and a gap leaves out
the rows right before it (M. Lopez de Prado, Advances in financial machine learning, 2018, 7.4).
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels.rows.cells import (
    BY_CHANCE,
    BY_ORDER,
    BY_VALUE,
    Cells,
    How,
    deal,
    stretches_of,
)
from tuskml.learners.options.kinds import Kind

FOLDS, MOST_FOLDS = 5, 100
NUMBERS, DAYS = 2, 3
"""The type of a gap's column, as in `tk_preparing`: numbers, or dates and times."""


@dataclass(frozen=True)
class Gap:
    """A distance to the rows held out; in_days: True for dates and times, else numbers; shown: the
    option's text.
    """

    distance: float
    in_days: bool
    shown: str


INTERVAL = re.compile(r"(\d+(?:\.\d+)?) *([a-z]+?)s?", re.IGNORECASE)
IN_DAYS = {
    "week": 7.0,
    "day": 1.0,
    "hour": 1 / 24,
    "minute": 1 / (24 * 60),
    "second": 1 / (24 * 60 * 60),
}


def _gap(value: Any) -> Gap:
    if isinstance(value, str) and (match := INTERVAL.fullmatch(value.strip())):
        days = float(match[1]) * IN_DAYS.get(match[2].lower(), math.nan)
        if days >= 0:
            return Gap(days, True, f"'{value}'")
    if isinstance(value, str | bool) or not isinstance(value, int | float):
        raise ValueError
    if not (value >= 0 and math.isfinite(value)):
        raise ValueError
    return Gap(float(value), False, f"{value:g}")


GAP = Kind(
    "a number of at least 0, or of dates and times an interval such as '7 days' or '12 hours'",
    _gap,
)


@dataclass(frozen=True)
class HeldOut:
    """Folds that are held out, each once, or with a share one part of the rows.

    column: deals the rows by its values, in_time by their order; gap: rows within this distance
    before held-out ones are not trained on; window: in time, how many stretches as long as a fold
    are trained on, those right before it; None: all before it.
    """

    folds: int = FOLDS
    share: float | None = None
    column: str | None = None
    in_time: bool = False
    gap: Gap | None = None
    window: int | None = None

    @property
    def together(self) -> bool:
        """Returns whether rows are held out once."""
        return self.share is not None

    @property
    def dealt(self) -> int:
        """The number of folds that rows are dealt to; in time no model predicts the first ones."""
        return 2 if self.together else self.folds + self._first

    @property
    def _first(self) -> int:
        """The first fold that is held out."""
        return self.window or 1 if self.together or self.in_time else 0

    @property
    def _width(self) -> int:
        return 1 if self.gap is None else self.dealt

    @property
    def stretches(self) -> int:
        """The number of stretches in all folds, as `tk_deal` numbers them."""
        return self.dealt * self._width

    @property
    def numbers(self) -> range:
        """The folds that are held out, each apart."""
        return range(self._first, self.dealt)

    @property
    def sets(self) -> Sequence[tuple[int, ...]]:
        """The stretches that are held out, each time that a model is trained."""
        return [self._of(fold) for fold in self.numbers]

    def training_stretches(self, out: Sequence[int]) -> Sequence[int]:
        """The stretches to train on while some are held out."""
        held = out[0] // self._width
        before = [fold for fold in range(self.dealt) if fold != held]
        if self.in_time:
            before = before[held - (self.window or held) : held]
        near = self.gap is not None
        return [
            one
            for fold in before
            for one in self._of(fold)
            if not near or fold + one % self._width < held
        ]

    def _of(self, fold: int) -> tuple[int, ...]:
        return tuple(range(fold * self._width, (fold + 1) * self._width))

    @property
    def work(self) -> float:
        """The rows that all sets train on, about, as a multiple of all rows."""
        if self.share is not None:
            return 1 - self.share
        if self.in_time:
            return sum(self.window or fold for fold in self.numbers) / self.dealt
        return self.dealt - 1

    @property
    def mark(self) -> tuple[str, int] | None:
        """The column and its type for `tk_preparing`; None without a column."""
        if self.column is None:
            return None
        if self.gap is None:
            return self.column, int(self.in_time)
        return self.column, DAYS if self.gap.in_days else NUMBERS

    @property
    def _by(self) -> int:
        if self.column is None:
            return BY_CHANCE
        return BY_ORDER if self.in_time else BY_VALUE

    def _how(self, n_rows: NDArray[np.int64]) -> How:
        held = None if self.share is None else count_held_out(n_rows, self.share)
        gap = None if self.gap is None else self.gap.distance
        return {"by": self._by, "held": held, "gap": gap}

    def deal(
        self,
        groups: NDArray[np.void] | Sequence[NDArray[np.void]],
        seed: int,
        threads: int,
        memory: int,
        **given: Unpack[How],
    ) -> Cells:
        """Deals the rows of groups (GROUP), as `cells.deal` does."""
        first = groups if isinstance(groups, np.ndarray) else groups[0]
        how: How = {**self._how(first["n_rows"]), **given}
        return deal(groups, self.dealt, seed=seed, threads=threads, memory=memory, **how)

    def stretch_of(
        self, groups: NDArray[np.void], seed: int, threads: int, by_label: bool
    ) -> NDArray[np.int32]:
        """The stretch that `deal` deals each row to, in the order in which rows lie."""
        how: How = {**self._how(groups["n_rows"]), "by_label": by_label}
        return stretches_of(groups, self.dealt, seed=seed, threads=threads, **how)


def make_held_out(
    folds: int | None,
    share: Any,
    fold_by: str | None,
    time_by: str | None,
    gap: Gap | None = None,
    window: int | None = None,
) -> HeldOut:
    """Combines the options `folds`, `validation`, `fold_by`, `time_by`, `gap` and `window`.
    Raises OptionError.
    """
    if fold_by is not None and time_by is not None:
        raise OptionError(
            f"options 'fold_by' and 'time_by' are both given, '{fold_by[:60]}' and "
            f"'{time_by[:60]}': expected one of them"
        )
    if gap is not None and time_by is None:
        raise OptionError(
            f"option 'gap' is {gap.shown}, and it is a distance in time: expected option "
            "'time_by' beside it"
        )
    if window is not None:
        refuse_window(window, folds, time_by)
    if folds is not None or not (isinstance(share, int | float) and 0 < share < 1):
        share = None
    column, in_time = fold_by or time_by, time_by is not None
    return HeldOut(folds or FOLDS, share, column, in_time, gap, window)


def refuse_window(window: int, folds: int | None, time_by: str | None) -> None:
    """Raises OptionError for an option `window` without folds in time, or of too many folds."""
    if folds is None or time_by is None:
        raise OptionError(
            f"option 'window' is {window}, and it counts stretches of time as long as a fold: "
            "expected options 'time_by' and 'folds' beside it"
        )
    if folds + window > MOST_FOLDS + 1:
        raise OptionError(
            f"options 'folds' and 'window' are {folds} and {window}, and they cut the rows into "
            f"{folds + window} stretches: expected at most {MOST_FOLDS + 1}"
        )


def count_held_out(n_rows: NDArray[np.int64], fraction: float) -> NDArray[np.int64]:
    """The number of rows to hold out of each group: at least one of two or more, and one stays."""
    most = np.maximum(n_rows - 1, 0)
    least = np.minimum(most, 1 if fraction else 0)
    return np.asarray(np.clip((n_rows * fraction).astype(np.int64), least, most), np.int64)
