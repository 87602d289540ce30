"""Runs a search: all candidates on the same folds of all groups, then the winners on all rows.

Rows are packed once and dealt to folds once; a candidate trains on a set of folds, without copies
of rows.
"""

import ctypes
import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from threading import Event

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.groups.preparation import NOT_COMPARED, with_column
from tuskml.groups.selection.folds import (
    Groups,
    Preparation,
    Sets,
    identities,
    prepare_candidates,
    sets_of,
)
from tuskml.groups.selection.held_rows import HeldRows, with_held_rows
from tuskml.groups.selection.lanes import (
    Load,
    Watch,
    in_order,
    lanes_of,
    side_by_side,
    threads_of,
)
from tuskml.groups.selection.metrics import judge
from tuskml.groups.selection.nearness import close
from tuskml.groups.selection.search import Search
from tuskml.groups.selection.strategies import ALL, Strategies, rounds
from tuskml.groups.selection.trials import TOO_FEW, Trials, slices_of
from tuskml.kernels.passes import Floats
from tuskml.learners.models import Models, Strings, join_models, with_leaks, with_status
from tuskml.learners.near import Near, NearWhole
from tuskml.learners.registry import learner_of

LEAST_ROWS = 2
"""Rows that a training needs."""
TIME_LIMIT = "time limit"


def search_groups(
    groups: Groups, search: Search, memory: int, library: ctypes.CDLL
) -> Iterator[Models]:
    """Yields the best model of each group, which carries its index in `groups` and its trials.

    memory: address of the account that copies are charged to; library: the database's.
    """
    refuse_stores(search)
    until = math.inf if search.time is None else time.monotonic() + search.time
    with ExitStack() as stack:
        parts = prepare_candidates(stack, groups, search, memory)
        watch = Watch()
        with watch.running():
            running = Running(parts, library, until, first_held_rows(search))
            trials = running.try_all(Trials.none(search, len(groups)))
            winners = trials.winners()
            empty = search.held_rows() if search.held_rows else None
            kept = running.collect_held_rows(winners, empty) if empty else None
        shown = with_identities(trials.texts(winners), parts[0])
        texts = with_load(shown, search, groups, watch)
        for part in parts:
            for found in train_winners(part, winners, texts, trials):
                yield part.seen.describe(with_held_rows(found, kept))


def first_held_rows(search: Search) -> HeldRows | None:
    """The collection that the trials fill, if there is one candidate alone, which wins."""
    return search.held_rows() if search.held_rows and len(search.candidates) == 1 else None


def with_identities(texts: list[str], part: Preparation) -> list[str]:
    """The trials of each group with which rows each fold holds out, where a column says."""
    if part.search.dealt.column is None:
        return texts
    every = [{"held_out": identities(part, group)} for group in range(len(texts))]
    return [
        f"{text[:-1]}, {json.dumps(one, ensure_ascii=False)[1:]}"
        for text, one in zip(texts, every, strict=True)
    ]


def with_load(texts: list[str], search: Search, groups: Groups, watch: Watch) -> list[str]:
    """The trials of each group with the load of the trials of all groups."""
    load = Load(groups["n_rows"].astype(np.int64), threads_of(search), 0.0)
    more = json.dumps({"schedule": load.measure(watch.seconds, watch.work)})
    return [f"{text[:-1]}, {more[1:]}" for text in texts]


def refuse_stores(search: Search) -> None:
    """Raises OptionError for models that are not values."""
    if any(candidate.options.store is not None for candidate in search.candidates):
        raise OptionError(
            "option 'store' is not available in a search: search without it, and store the model "
            "of the options that won"
        )


@dataclass(frozen=True)
class Running(Strategies):
    """Tries candidates; library: the database's; until: of `time.monotonic()`, the end; ended:
    is set if a trial fails with an error that fails the search; held_rows: gets the numbers of
    held-out rows.
    """

    parts: Sequence[Preparation]
    library: ctypes.CDLL
    until: float
    held_rows: HeldRows | None = None
    ended: Event = field(default_factory=Event)

    @property
    def over(self) -> bool:
        return self.ended.is_set() or time.monotonic() >= self.until

    def on(
        self, slices: int, trials: Trials, alive: NDArray[np.bool_], folds: slice = ALL
    ) -> None:
        for part in self.parts:
            for sets in sets_of(part, list(rounds(trials.search, slices))[folds]):
                self._try(part, trials, sets, alive)

    def of(self, alive: NDArray[np.bool_]) -> "Running":
        some = set(np.flatnonzero(alive.any(axis=1)).tolist())
        parts = [
            replace(part, numbers=tuple(k for k in part.numbers if k in some))
            for part in self.parts
        ]
        return replace(self, parts=parts)

    def collect_held_rows(self, winners: NDArray[np.intp], empty: HeldRows) -> HeldRows:
        """The held-out rows of each group by its winner, which is trained on its folds again
        unless it was the only candidate. empty: the collection that they go to.
        """
        if self.held_rows is not None:
            return self.held_rows
        (search, *_) = [part.search for part in self.parts]
        won = winners == np.arange(len(search.candidates))[:, None]
        again = replace(self.of(won), held_rows=empty, until=math.inf)
        again.on(slices_of(search), Trials.none(search, len(winners)), won)
        return empty

    def _try(
        self, part: Preparation, trials: Trials, sets: Sets, alive: NDArray[np.bool_]
    ) -> None:
        """Trains the candidates on all folds but those held out, and judges them by these."""
        n_held = sets.validation_rows()["n_rows"]
        usable = (sets.training_rows()["n_rows"] >= LEAST_ROWS) & (n_held > 0)
        threads = threads_of(trials.search)
        side_by_side(
            lambda lane: self._in_turn(lane, trials, sets, alive, usable),
            lanes_of(part, sets.stays, threads),
            threads,
            self.ended,
        )

    def _in_turn(
        self,
        part: Preparation,
        trials: Trials,
        sets: Sets,
        alive: NDArray[np.bool_],
        usable: NDArray[np.bool_],
    ) -> None:
        """Tries one candidate after the other; usable: the sets with enough rows."""
        n, folds, threads = len(sets.rounds), sets.numbers, threads_of(part.search)
        sizes = np.repeat(sets.training_rows()["n_rows"].reshape(-1, n).sum(axis=1), n)
        part.near.forget(len(sizes))
        for number in part.numbers:
            if self.over:
                break
            wanted = np.repeat(alive[number], n)
            few = np.flatnonzero(wanted & ~usable)
            trials.status[number, folds[few % n], few // n] = trials.code(TOO_FEW)
            places = in_order(sizes, np.flatnonzero(wanted & usable))
            trials.rung[number, places // n] = sets.rounds[0].slices
            if len(places):
                models = self._train_near(part, number, sets, places)
                at = places[models.group]
                metric, why = self._judge(trials.search, number, models, sets, at)
                trials.put(number, folds[at % n], at // n, models, metric)
                trials.refuse(number, folds[at % n], at // n, why)
                if self.held_rows is not None:
                    rows = sets.validation_rows()[at]
                    self.held_rows.put(at // n, models, rows, self.library, threads)

    def _judge(
        self, search: Search, number: int, models: Models, sets: Sets, at: NDArray[np.intp]
    ) -> tuple[Floats, dict[int, str]]:
        """The metric of each model of a candidate, trained on the sets at these places, and by
        number why the metric cannot judge it.
        """
        candidate = search.candidates[number]
        judging = learner_of(candidate.task).trials.judging(candidate.options)
        if judging is not None:
            trained = [judging.note(group) for group in sets.training_rows()[at]]
            return judging.judge(models, trained, sets.validation_rows()[at]), {}
        asked = search.metric, search.parameter
        threads = threads_of(search)
        return judge(self.library, models, sets.validation_rows()[at], asked, threads)

    @staticmethod
    def _train_near(
        part: Preparation, number: int, sets: Sets, places: NDArray[np.intp]
    ) -> Models:
        """The models of a candidate on some of the sets, started near their optimum."""
        n = len(sets.rounds)
        search = part.search
        if search.dealt.together and search.candidates[number].options.validation:
            rows, parted = sets.rows_in_parts()
            return part.train(number, rows, places, parted=parted)
        whole = part.near.whole(number, n)
        if whole is None:
            return part.train(number, sets.training_rows(), places, part.near.of(number), n)
        rows, whole.parts.rows, whole.parts.number = sets.whole(), sets.parts(), n
        large = close(rows)
        some = np.intersect1d(places // n, np.flatnonzero(large))
        if len(some):
            part.train(number, rows, in_order(rows["n_rows"], some), whole)
        near = part.near.from_whole(number, large.repeat(n), n)
        models = part.train(number, sets.training_rows(), places, near, n)
        lost = np.flatnonzero(models.converged == 0)
        again = places[models.group[lost]]
        again = again[near.close[again]] if isinstance(near, NearWhole) else again[:0]
        if len(again) and isinstance(near, NearWhole):
            # From zero, in their own coordinates: where classes separate, all known weights depend
            # on held-out rows.
            anew = Near(near.own.n, near.own.d)
            own = part.train(number, sets.training_rows(), again, anew, n)
            near.own.weights[again] = anew.weights[again]
            kept = np.flatnonzero(~np.isin(places[models.group], again))
            numbers = np.empty(len(large) * n, np.intp)
            numbers[places] = np.arange(len(places))
            own = own.renumber(numbers[again[own.group]])
            models = join_models([models.of(kept), own]) if len(kept) else own
        return models


def train_winners(
    part: Preparation, winners: NDArray[np.intp], texts: list[str], trials: Trials
) -> Iterator[Models]:
    """The winners' models on all rows of the groups that candidates of this part won."""
    for number in part.numbers:
        places = in_order(part.seen.groups["n_rows"], np.flatnonzero(winners == number))
        if not len(places):
            continue
        models = part.train(number, part.seen.groups, places, winner=True)
        found = with_leaks(models.renumber(places[models.group]), part.seen.groups)
        found = with_column(found, trials.search.dealt)
        found = replace(found, trials=texts_of(texts, found.group))
        yield with_statuses(found, trials)


def with_statuses(models: Models, trials: Trials) -> Models:
    """The models, whose statuses say of which groups no candidate could be judged, and of which
    the time ended before all was tried.
    """
    models = with_status(models, NOT_COMPARED, ~trials.is_comparable()[models.group])
    return with_status(models, TIME_LIMIT, trials.find_unfinished()[models.group])


def texts_of(texts: list[str], places: NDArray[np.int64]) -> Strings:
    """The trials of some groups."""
    chosen = tuple(texts[place] for place in places)
    return Strings(chosen, np.arange(len(chosen), dtype=np.int32))
