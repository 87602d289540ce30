"""Runs a search: all candidates on the same folds of all groups, then the winners on all rows.

Rows are packed once and dealt to folds once; what a candidate trains on is a set of folds, which
no row is copied for. Successive halving (K. Jamieson, A. Talwalkar, Non-stochastic best arm
identification and hyperparameter optimization, AISTATS 2016) doubles the rows of the better half
of the candidates of every group, until all rows are used.
"""

import ctypes
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.groups.preparation import Readable, preparing, readable
from tuskml.groups.selection.asked import Search
from tuskml.groups.selection.candidates import Candidate
from tuskml.groups.selection.judging import judged
from tuskml.groups.selection.nearness import Nearness, path
from tuskml.groups.selection.trials import TOO_FEW, Trials, slices_of
from tuskml.kernels.passes import Floats
from tuskml.kernels.rows.cells import Cells, deal
from tuskml.learners.learner import Request
from tuskml.learners.models import Models, Strings, joined
from tuskml.learners.options.kinds import ByClass
from tuskml.learners.registry import learner_of
from tuskml.schedule import budget

Groups = NDArray[np.void]
Places = NDArray[np.intp]
LEAST_ROWS = 2
"""Rows that a training needs."""


@dataclass(frozen=True)
class Prepared:
    """Candidates, by their numbers, that read the same rows, and these dealt to folds."""

    numbers: tuple[int, ...]
    seen: Readable
    cells: Cells
    near: Nearness


def searched(
    groups: Groups, search: Search, memory: int, library: ctypes.CDLL
) -> Iterator[Models]:
    """The best model of each group, which carries its place in `groups` and its trials.

    memory: address of the account that copies are charged to; library: the database's.
    """
    refuse_stores(search)
    until = None if search.time is None else time.monotonic() + search.time
    with ExitStack() as stack:
        parts = prepared(stack, groups, search, memory)
        trials = Trials.none(search, len(groups))
        try_all(parts, trials, library, memory, until)
        winners = trials.winners()
        texts = trials.texts(winners)
        for part in parts:
            yield from trained_on_all(part, search, winners, texts, memory)


def refuse_stores(search: Search) -> None:
    """OptionError for models that are not values."""
    if any(candidate.options.store is not None for candidate in search.candidates):
        raise OptionError(
            "option 'store' is not available in a search: search without it, and store the model "
            "of the options that won"
        )


def alike(search: Search) -> list[tuple[int, ...]]:
    """The numbers of candidates whose rows are prepared alike."""
    found: dict[tuple[object, ...], list[int]] = {}
    for number, candidate in enumerate(search.candidates):
        how = preparing(request_of(candidate))
        key = tuple(
            getattr(how, name)
            for name, *_ in how._fields_
            if name not in ("threads", "cancel_mark")
        )
        key += (learner_of(candidate.task).classifies(request_of(candidate)),)
        if isinstance(candidate.options.class_weight, ByClass):
            key += (str(candidate.options.class_weight),)
        found.setdefault(key, []).append(number)
    return [tuple(numbers) for numbers in found.values()]


def request_of(candidate: Candidate) -> Request[Any, Any]:
    """What a candidate asks for."""
    return Request(candidate.task, candidate.options)


def prepared(stack: ExitStack, groups: Groups, search: Search, memory: int) -> list[Prepared]:
    """The rows as candidates read them, until the stack is closed.

    Each row is in the same fold for all candidates, however they read it.
    """
    kinds = alike(search)
    requests = [request_of(search.candidates[numbers[0]]) for numbers in kinds]
    seen = [stack.enter_context(readable(groups, request, memory)) for request in requests]
    by_label = any(learner_of(request.task).classifies(request) for request in requests)
    parts = []
    for numbers, one in zip(kinds, seen, strict=True):
        cells = deal(
            [one.groups, *(other.groups for other in seen if other is not one)],
            search.folds,
            slices=slices_of(search),
            by_label=by_label,
            seed=search.seed,
            threads=one.request.options.threads or budget.threads(),
            memory=memory,
        )
        ordered = tuple(path(search.candidates, numbers))
        near = Nearness(search, one.groups)
        parts.append(Prepared(ordered, one, stack.enter_context(cells), near))
    return parts


def try_all(
    parts: Sequence[Prepared],
    trials: Trials,
    library: ctypes.CDLL,
    memory: int,
    until: float | None,
) -> None:
    """Tries candidates until all rungs are done, or the time is over."""
    search, rungs = trials.search, slices_of(trials.search)
    alive = np.ones(trials.rung.shape, bool)
    for rung in range(1, rungs + 1):
        if rung > 1:
            alive = better_half(trials, alive)
            trials.metric[np.broadcast_to(alive[:, None, :], trials.metric.shape)] = np.nan
        for part in parts:
            for fold, out in enumerate(search.sets):
                if until is not None and time.monotonic() >= until:
                    return
                kept = [f for f in range(search.folds) if f not in out]
                try_fold(part, trials, (fold, out, kept, rung), alive, library, memory, until)


def better_half(trials: Trials, alive: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The better half of the candidates that are left of each group, at least one, (C, G)."""
    losses = np.where(alive, trials.losses(), np.inf)
    rank = losses.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    left = np.maximum((alive.sum(axis=0) + 1) // 2, 1)
    better: NDArray[np.bool_] = (rank < left) & alive
    return better


def try_fold(
    part: Prepared,
    trials: Trials,
    which: tuple[int, Sequence[int], Sequence[int], int],
    alive: NDArray[np.bool_],
    library: ctypes.CDLL,
    memory: int,
    until: float | None,
) -> None:
    """Trains the candidates on all folds but those held out, and judges them by these.

    which: the number of the set of folds, the folds held out and kept, and how many slices.
    """
    fold, out, kept, rung = which
    n_held = part.cells.linked(out)["n_rows"]
    rows = part.cells.linked(kept, rung)
    rows["place"] = np.arange(len(rows))
    usable = (rows["n_rows"] >= LEAST_ROWS) & (n_held > 0)
    part.near.forget()
    fitted: list[tuple[int, Places, Models]] = []
    for number in part.numbers:
        if until is not None and time.monotonic() >= until:
            break
        few = np.flatnonzero(alive[number] & ~usable)
        trials.status[number, fold, few] = trials.code(TOO_FEW)
        places = np.flatnonzero(alive[number] & usable)
        trials.rung[number, places] = rung
        if len(places):
            near = part.near.of(number)
            models = trained(trials.search.candidates[number], part, rows, places, memory, near)
            part.near.keep(number, places[models.group], models)
            fitted.append((number, places[models.group], models))
    held = part.cells.linked(out)
    for number, places, models in fitted:
        search = trials.search
        metric = judged(library, models, held[places], search.metric, search.parameter)
        trials.put(number, fold, places, models, metric)


def trained(
    candidate: Candidate,
    part: Prepared,
    groups: Groups,
    places: Places,
    memory: int,
    near: Floats | None = None,
) -> Models:
    """A candidate's models of the groups at some places; models carry theirs among these."""
    options = with_options_of(candidate, part)
    asked = replace(part.seen.request, task=candidate.task, options=options, near=near)
    parts = list(
        learner_of(candidate.task).train(groups[places], of_places(asked, places), memory)
    )
    return parts[0] if len(parts) == 1 else joined(parts)


def of_places(request: Request[Any, Any], places: Places) -> Request[Any, Any]:
    """A request about all groups, for those at some places."""
    categories, names, by_level = request.categories, request.feature_names, request.by_level
    return replace(
        request,
        categories=None if categories is None else lambda k: categories(int(places[k])),
        feature_names=None if names is None else lambda k: names(int(places[k])),
        by_level=None if by_level is None else tuple(by_level[k] for k in places),
    )


def with_options_of(candidate: Candidate, part: Prepared) -> Any:
    """The candidate's options, with class weights by number where labels are text."""
    if not isinstance(candidate.options.class_weight, ByClass):
        return candidate.options
    return replace(candidate.options, class_weight=part.seen.request.options.class_weight)


def trained_on_all(
    part: Prepared, search: Search, winners: NDArray[np.intp], texts: list[str], memory: int
) -> Iterator[Models]:
    """The winners' models on all rows of the groups that candidates of this part won."""
    for number in part.numbers:
        places = np.flatnonzero(winners == number)
        if not len(places):
            continue
        models = trained(search.candidates[number], part, part.seen.groups, places, memory)
        found = models.numbered(places[models.group])
        yield part.seen.described(replace(found, trials=texts_of(texts, found.group)))


def texts_of(texts: list[str], places: NDArray[np.int64]) -> Strings:
    """The trials of some groups."""
    chosen = tuple(texts[place] for place in places)
    return Strings(chosen, np.arange(len(chosen), dtype=np.int32))
