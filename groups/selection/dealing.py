"""How rows are held out: folds by chance, by a column's values, or forward in time.

By chance, the classes are dealt evenly. By a column, rows of equal values are in one fold, so that
a model is judged by customers, say, that it has not seen. In time, each fold is predicted by what
lies before it (R. Hyndman, G. Athanasopoulos, Forecasting: principles and practice, 5.10).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tuskml.errors import OptionError
from tuskml.kernels.rows.cells import BY_CHANCE, BY_ORDER, BY_VALUE

FOLDS, MOST_FOLDS = 5, 100


@dataclass(frozen=True)
class Dealt:
    """Folds that rows are dealt to, and which of them are held out.

    folds: how many; held: of these so many are held out, each apart, or `together`; column, and
    in_time: whose values deal the rows, and whether by their order. In time the folds are in its
    order, and the last ones are held out.
    """

    folds: int
    held: int
    together: bool
    column: str | None = None
    in_time: bool = False

    @property
    def sets(self) -> Sequence[tuple[int, ...]]:
        """The folds that are held out, each time that candidates are trained."""
        first = self.folds - self.held if self.in_time else 0
        out = range(first, first + self.held)
        return (tuple(out),) if self.together else [(fold,) for fold in out]

    def kept(self, out: Sequence[int]) -> Sequence[int]:
        """The folds to train on while some are held out."""
        if self.in_time:
            return range(min(out))
        return [fold for fold in range(self.folds) if fold not in out]

    @property
    def mark(self) -> tuple[str, bool] | None:
        """The column, as `Request` has it."""
        return None if self.column is None else (self.column, self.in_time)

    @property
    def by(self) -> int:
        """What decides the fold of a row, as `cells.deal` has it."""
        if self.column is None:
            return BY_CHANCE
        return BY_ORDER if self.in_time else BY_VALUE


def dealt(folds: int | None, share: Any, fold_by: str | None, time_by: str | None) -> Dealt:
    """The folds of options `folds`, `validation`, `fold_by` and `time_by`. Raises OptionError."""
    if fold_by is not None and time_by is not None:
        raise OptionError(
            f"options 'fold_by' and 'time_by' are both given, '{fold_by[:60]}' and "
            f"'{time_by[:60]}': expected one of them"
        )
    column, in_time = fold_by or time_by, time_by is not None
    if folds is None and isinstance(share, int | float) and 0 < share < 1:
        held, of = nearest_share(float(share))
        return Dealt(of, held, True, column, in_time)
    folds = folds or FOLDS
    return Dealt(folds + in_time, folds, False, column, in_time)


def nearest_share(share: float) -> tuple[int, int]:
    """The fraction of at most MOST_FOLDS folds that is nearest to a share between 0 and 1; of its
    folds at least one is held out, and at least one is not."""
    pairs = [(min(max(1, round(share * n)), n - 1), n) for n in range(2, MOST_FOLDS + 1)]
    return min(pairs, key=lambda pair: (round(abs(pair[0] / pair[1] - share), 12), pair[1]))
