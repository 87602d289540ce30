"""A search over a group whose rows are in parts: candidates train and are judged by parts.

Rows are in the same folds as in one process. Each candidate on each set of folds is a training of
its own, which requests sums from the parts, or hops over them; several are led at the same time.
Sums of several are requested in one message, and a part which waits for a model that hops works on
another. Each part judges its rows held out, and what it answers adds to the metric of all rows.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, sections 2 (configurations) and 4.2.
"""

import contextvars
import ctypes
import math
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuskml.groups.parted import train_by_parts
from tuskml.groups.selection.choosing import LEAST_FOLDS
from tuskml.groups.selection.folds import Round
from tuskml.groups.selection.lanes import threads_of
from tuskml.groups.selection.metrics import (
    COUNTED,
    RANKED,
    judge,
    judged_rows,
    of_rows,
    tally,
)
from tuskml.groups.selection.search import Search
from tuskml.groups.selection.searching import LEAST_ROWS, texts_of, with_statuses
from tuskml.groups.selection.strategies import ALL, Alive, Strategies, rounds
from tuskml.groups.selection.trials import TOO_FEW, Trials, slices_of
from tuskml.kernels.parts.dealing import dealing_of, holding_of
from tuskml.kernels.parts.keeping import PartRows
from tuskml.kernels.parts.message import header_of, pack_message, unpack_message
from tuskml.kernels.parts.sharded import Parts, ShardedPass, of_parts
from tuskml.kernels.passes import Pass
from tuskml.learners.held_out import count_held_out
from tuskml.learners.learner import Request
from tuskml.learners.models import Lists, Models
from tuskml.learners.registry import learner_of

JUDGED = "judged"
"""The message to a part that judges a model by its rows of some folds."""
AT_ONCE = 12
"""Trainings of a group that are led at the same time, unless the placement says fewer."""


def whole(search: Search) -> str | None:
    """The reason why a search cannot use rows in parts; None if it can."""
    if slices_of(search) > 1:
        return (
            f"the strategy 'halving' of option 'search' with fewer than {LEAST_FOLDS} folds needs "
            "all rows in one place"
        )
    if search.dealt.column is not None or search.held_rows:
        name = "time_by" if search.dealt.in_time else "fold_by"
        name = search.held_rows().option if search.held_rows else name
        return f"option '{name}' needs all rows in one place"
    for one in search.candidates:
        if one.options.validation:
            return "option 'validation' of a search needs all rows in one place"
        why = learner_of(one.task).by_parts.whole(Request(one.task, one.options))
        if why is not None:
            return why
    return None


@dataclass(frozen=True)
class Trial:
    """A candidate, by its number, on a set of folds."""

    number: int
    round: Round


@dataclass(frozen=True)
class InParts(Strategies):
    """Tries candidates of one group in parts; until: of `time.monotonic()`, the end; at_once:
    trainings that are led at the same time.
    """

    parts: Parts
    until: float
    at_once: int

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.until

    def on(self, slices: int, trials: Trials, alive: Alive, folds: slice = ALL) -> None:
        search, numbers = trials.search, np.flatnonzero(alive[:, 0]).tolist()
        every = list(rounds(search, slices))[folds]
        asked = [Trial(number, one) for one in every for number in numbers]
        if asked:
            at_once = min(self.at_once, len(asked))
            found = all_tried(self.parts, search, asked, self.until, at_once)
            for trial, answer in zip(asked, found, strict=True):
                note(trials, trial, answer)

    def of(self, alive: Alive) -> "InParts":
        return self


def search_by_parts(parts: Parts, search: Search, at_once: int = AT_ONCE) -> Models | None:
    """The winner's model on all rows, which has the trials; None where no row is usable.

    at_once: trainings that are led at the same time, unless parts keep something of one alone.
    """
    if any(learner_of(one.task).by_parts.keeps for one in search.candidates):
        at_once = 1
    deal(parts, search)
    until = math.inf if search.time is None else time.monotonic() + search.time
    trials = InParts(parts, until, at_once).try_all(Trials.none(search, 1))
    winners = trials.winners()
    chosen = search.candidates[int(winners[0])]
    models = train_by_parts(parts.of(None), Request(chosen.task, chosen.options))
    if models is None:
        return None
    models = replace(models, trials=texts_of(trials.texts(winners), models.group))
    return with_statuses(models, trials)


def deal(parts: Parts, search: Search) -> None:
    """Deals the rows of all parts to the folds of a search, like those of one process."""
    groups = of_parts(parts)
    if groups is None:
        return
    by_label = any(
        learner_of(one.task).classifies(Request(one.task, one.options))
        for one in search.candidates
    )
    rows = ShardedPass(groups, parts=parts)
    dealt = search.dealt
    held = count_held_out(groups["n_rows"], dealt.share) if dealt.share else None
    if held is None:
        dealing = dealing_of(rows, search.seed, dealt.dealt, by_label)
    else:
        dealing = holding_of(rows, search.seed, int(held[0]))
    parts.deal(dealing.messages)


def all_tried(
    parts: Parts, search: Search, asked: Sequence[Trial], until: float, at_once: int
) -> list["Answer"]:
    """The answer of each trial. Threads take one after the other, and send requests to parts
    together.
    """
    found: dict[int, Answer] = {}
    left = deque(enumerate(asked))

    def work(context: AbstractContextManager[Parts]) -> None:
        with context as mine:
            while left:
                try:
                    place, trial = left.popleft()
                except IndexError:  # another one has taken it
                    return
                found[place] = try_candidate(mine, search, trial, until)

    with ThreadPoolExecutor(at_once, thread_name_prefix="tuskml trial") as pool:
        running = [
            pool.submit(contextvars.copy_context().run, work, one)
            for one in parts.together(at_once)
        ]
        try:
            for one in running:
                one.result()
        except BaseException:
            left.clear()
            raise
    return [found[place] for place in range(len(asked))]


Metric = tuple[float, dict[int, str]]
"""The metric of a model; where it is NaN, the reason by 0."""
Answer = tuple[Models, Metric] | str | None
"""A model and its metric, a reason why there is none, or None if time ran out."""


def try_candidate(parts: Parts, search: Search, trial: Trial, until: float) -> Answer:
    """Trains a candidate on a set of folds, and judges it by the folds held out."""
    if time.monotonic() >= until:
        return None
    candidate = search.candidates[trial.number]
    kept, out = parts.of(tuple(trial.round.kept)), tuple(trial.round.out)
    asked: Request[Any, Any] = Request(candidate.task, candidate.options)
    asked = replace(asked, options=learner_of(candidate.task).trials.predicting(asked))
    models = train_by_parts(kept, asked)
    if models is None or int(models.n_rows[0]) < LEAST_ROWS:
        return TOO_FEW
    metric = metric_of(parts.of(out), models, search)
    return TOO_FEW if metric is None else (models, metric)


def note(trials: Trials, trial: Trial, answer: Answer) -> None:
    """Records the answer of a trial."""
    fold, place = np.array([trial.round.number]), np.array([0])
    if answer is None:
        return
    trials.rung[trial.number, 0] = 1
    if isinstance(answer, str):
        trials.status[trial.number, fold, place] = trials.code(answer)
        return
    models, (metric, why) = answer
    trials.put(trial.number, fold, place, models, np.array([metric]))
    trials.refuse(trial.number, fold, place, why)


def metric_of(parts: Parts, models: Models, search: Search) -> Metric | None:
    """The metric of the rows of these parts, added in their order; None without rows."""
    numbers = [models.coef, models.classes]
    arrays = [array for one in numbers for array in (one.values, one.offsets)]
    header = {
        "method": JUDGED,
        "folds": parts.folds,
        "task": models.task.pool[models.task.code[0]],
        "options": models.options.pool[models.options.code[0]],
        "metric": search.metric,
        "parameter": search.parameter,
        "threads": threads_of(search),
        "d": int(models.n_features[0]),
    }
    message = pack_message(header, [*arrays, models.intercept])
    found = [unpack_message(one) for one in parts.ask(message)]
    refused = [header["why"] for header, _ in found if "why" in header]
    if refused:
        return math.nan, {0: refused[0]}
    parted = [np.asarray(given[0]) for _, given in found if given]
    if not parted:
        return None
    if search.metric in (*RANKED, *COUNTED):
        of_two = len(models.classes.values) == 2
        return of_rows(np.concatenate(parted), search.metric, of_two), {}
    value, weight, label, variance = np.stack(parted).T
    if search.metric not in ("rmse", "r2"):
        return float((value * weight).sum() / weight.sum()), {}
    squares = (value**2 * weight).sum()
    if search.metric == "rmse":
        return math.sqrt(squares / weight.sum()), {}
    apart = label - (label * weight).sum() / weight.sum()
    spread = (weight * (variance + apart**2)).sum()
    return float(1 - squares / spread) if spread else math.nan, {}


def judges(message: bytes) -> bool:
    """Returns whether a message asks a part to judge."""
    return bool(header_of(message)["method"] == JUDGED)


def judgement(library: ctypes.CDLL, rows: PartRows, message: bytes) -> bytes:
    """The metric of a model by the part's rows of some folds, and the weight of these, or why it
    does not judge them; nothing where there are none. library: the database's."""
    header, given = unpack_message(message)
    held = rows.of(header["folds"])
    if held is None or not held["n_rows"].all():
        return pack_message({})
    held = held.copy()
    held["dim"] = header["d"]
    arrays: list[Any] = list(given)
    coef, coef_ends, classes, class_ends, intercept = arrays
    models = Models.build(
        held,
        header["task"],
        coef=Lists(coef, coef_ends),
        classes=Lists(classes, class_ends),
        intercept=intercept,
        options=header["options"],
        status="ok",
        plan="",
    )
    name, threads = header["metric"], header["threads"]
    if name in (*RANKED, *COUNTED):
        every, _, refused = judged_rows(library, models, held, name, threads)
        return pack_message({"why": refused}) if refused else pack_message({}, [tally(every)])
    asked = "rmse" if name == "r2" else name, header["parameter"]
    found, why = judge(library, models, held, asked, threads)
    if why:
        return pack_message({"why": why[0]})
    labels = Pass(held).labels()[0]
    return pack_message(
        {}, [np.array([found[0], labels["weight"], labels["mean"], labels["variance"]])]
    )
