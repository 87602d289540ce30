"""The order in which a search tries candidates, wherever the rows are."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.selection import choosing
from tuskml.groups.selection.choosing import (
    Estimate,
    Kernel,
    axes_of,
    batches,
    next_candidates,
    promising,
)
from tuskml.groups.selection.folds import Round
from tuskml.groups.selection.search import Search
from tuskml.groups.selection.trials import Trials, races, shares, slices_of

Alive = NDArray[np.bool_]
ALL = slice(None)


def rounds(search: Search, slices: int) -> Iterator[Round]:
    """Yields each set of rows of a search."""
    for number, out in enumerate(search.sets):
        yield Round(number, out, search.dealt.training_stretches(out), slices)


def kernel(search: Search) -> Kernel:
    """The similarity of the candidates."""
    return Kernel(axes_of([(one.task.name, one.shown) for one in search.candidates]))


class Strategies(ABC):
    """Tries candidates by the strategy of the search."""

    @property
    @abstractmethod
    def over(self) -> bool:
        """Returns whether the search has to end."""

    @abstractmethod
    def on(self, slices: int, trials: Trials, alive: Alive, folds: slice = ALL) -> None:
        """Tries candidates on `slices` slices of the rows, and on some of the folds."""

    @abstractmethod
    def of(self, alive: Alive) -> "Strategies":
        """Selects the candidates that some group tries."""

    def try_all(self, trials: Trials, alive: Alive | None = None) -> Trials:
        """All trials, or those that time sufficed for: of a rung that did not end, none."""
        if alive is None:
            if trials.search.estimate is not None:
                return self._choose_by_estimate(trials, trials.search.estimate)
            if races(trials.search):
                return self._race(trials)
            if slices_of(trials.search) > 1:
                return self._halve(trials)
            alive = np.ones(trials.rung.shape, bool)
        self.on(slices_of(trials.search), trials, alive)
        return trials

    def _race(self, trials: Trials) -> Trials:
        """Trials of all on the first fold, and of the best of each group there on the others."""
        search, tried = trials.search, np.zeros(trials.rung.shape, bool)
        self.on(1, trials, ~tried, slice(1))
        first, losses = trials.losses(), np.full(tried.shape, np.inf)
        for n in choosing.race_batches(len(tried), len(search.sets)):
            if self.over:
                return trials
            batch = choosing.leading(kernel(search), first, losses, tried, n)
            self.of(batch).on(1, trials, batch, slice(1, None))
            tried |= batch
            losses = np.where(tried, trials.losses(), np.inf)
        if not self.over:
            trials.stop(~tried)
        return trials

    def _halve(self, trials: Trials) -> Trials:
        """Trials of all on few rows, and of those on all rows that promise most of each group."""
        search = trials.search
        self.on(1, trials, np.ones(trials.rung.shape, bool))
        if self.over:
            return trials
        few, losses = trials.losses(), np.full(trials.rung.shape, np.inf)
        similarity = kernel(search)
        tried = np.zeros(trials.rung.shape, bool)
        for n in batches(len(search.candidates), shares(search)[0]):
            batch = promising(similarity, few, losses, tried, n)
            before, trials = trials, trials.without(batch)
            self.of(batch).on(slices_of(search), trials, batch)
            if self.over:
                return before
            tried |= batch
            losses = np.where(tried, trials.losses(), np.inf)
        return trials

    def _choose_by_estimate(self, trials: Trials, estimate: Estimate) -> Trials:
        """Trials that each group chooses by those before, in batches."""
        tried = np.zeros(trials.rung.shape, bool)
        for n in estimate.counts():
            batch = tried.copy()
            if tried.any():
                batch = next_candidates(estimate.axes, trials.losses(), tried, n)
            else:
                batch[:n] = True
            trials = self.of(batch).try_all(trials, batch)
            tried |= batch
            if self.over:
                break
        return trials
