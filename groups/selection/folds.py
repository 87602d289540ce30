"""The rows that candidates train on: prepared once for those that read alike, dealt to folds."""

import datetime
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.preparation import Readable, preparing, readable, usable_by_all
from tuskml.groups.selection.candidates import Candidate
from tuskml.groups.selection.nearness import Nearness, path
from tuskml.groups.selection.search import Search
from tuskml.groups.selection.trials import slices_of
from tuskml.kernels.passes import Floats
from tuskml.kernels.rows import prepare
from tuskml.kernels.rows.cells import Cells
from tuskml.learners.class_weights import train_weighted
from tuskml.learners.learner import Request
from tuskml.learners.models import Models, join_models
from tuskml.learners.near import Near
from tuskml.learners.options.kinds import ByClass
from tuskml.learners.registry import learner_of
from tuskml.learners.validation import drop_marks
from tuskml.schedule import budget

Groups = NDArray[np.void]
Places = NDArray[np.intp]
UNLIKE = ("threads", "cancel_mark", "known")
"""Fields that the preparation of rows does not depend on."""


@dataclass(frozen=True)
class Preparation:
    """Candidates, by their numbers, that read the same rows, and these dealt to folds.

    memory: address of the account that trainings charge.
    """

    search: Search
    numbers: tuple[int, ...]
    seen: Readable
    cells: Cells
    near: Nearness
    memory: int

    def train(
        self,
        number: int,
        groups: Groups,
        places: Places,
        near: Near | None = None,
        sets: int = 1,
        winner: bool = False,
        parted: tuple[Groups, Groups] | None = None,
    ) -> Models:
        """A candidate's models of the groups at `places`; models carry their indices among these.

        sets: neighbouring `groups` that are sets of rows of one group; winner: whether the models
        are kept, with their full description; parted: as in `Request`.
        """
        candidate = self.search.candidates[number]
        options = self._options(candidate)
        learner = learner_of(candidate.task)
        if not winner:
            options = learner.trials.predicting(Request(candidate.task, options))
        within = learner.trials.holds_out(options) and parted is None
        asked = replace(
            self.seen.request.of_places(places // sets),
            task=candidate.task,
            options=options,
            near=near,
            common=sets > 1,
            held_out=replace(self.search.dealt, share=None) if within else None,
            parted=parted,
        )
        groups = groups[places] if within else drop_marks(groups[places])
        parts = list(train_weighted(learner, groups, asked, self.memory))
        return parts[0] if len(parts) == 1 else join_models(parts)

    def lane(self, numbers: Sequence[int]) -> "Preparation":
        """The preparation of some candidates, whose trials start only from each other.

        `budget.within` decides the number of their threads.
        """
        plain = [
            replace(one, options=replace(one.options, threads=None))
            for one in self.search.candidates
        ]
        search = replace(self.search, candidates=tuple(plain))
        near = Nearness(search, self.seen.groups)
        return replace(self, search=search, numbers=tuple(numbers), near=near)

    def _options(self, candidate: Candidate) -> Any:
        """The candidate's options, with class weights by number where labels are text."""
        if not isinstance(candidate.options.class_weight, ByClass):
            return candidate.options
        return replace(candidate.options, class_weight=self.seen.request.options.class_weight)


def alike(search: Search) -> list[tuple[int, ...]]:
    """The numbers of candidates whose rows are prepared alike."""
    found: dict[tuple[object, ...], list[int]] = {}
    for number, candidate in enumerate(search.candidates):
        request: Request[Any, Any] = Request(candidate.task, candidate.options)
        how, weights = preparing(request), candidate.options.class_weight
        key = (
            learner_of(candidate.task).classifies(request),
            str(weights) if isinstance(weights, ByClass) else None,
            *(getattr(how, name) for name, *_ in how._fields_ if name not in UNLIKE),
        )
        found.setdefault(key, []).append(number)
    return [tuple(numbers) for numbers in found.values()]


def own_request(seen: Readable, candidate: Candidate) -> Request[Any, Any]:
    """A candidate's request on rows that were prepared for several alike."""
    weights = seen.request.options.class_weight
    options = replace(candidate.options, class_weight=weights)
    return replace(seen.request, task=candidate.task, options=options)


def prepare_candidates(
    stack: ExitStack, groups: Groups, search: Search, memory: int
) -> list[Preparation]:
    """The rows as candidates read them, until the stack is closed; of classes each fold has its
    share.

    Each row is in the same fold for all candidates, however they read it: by chance a hash of the
    row as it came decides.
    """
    kinds = alike(search)
    first = [search.candidates[numbers[0]] for numbers in kinds]
    requests: list[Request[Any, Any]] = [
        Request(one.task, one.options, held_out=search.dealt) for one in first
    ]
    seen = [stack.enter_context(readable(groups, request, memory)) for request in requests]
    forms = [
        (one.groups, [own_request(one, search.candidates[k]) for k in numbers])
        for one, numbers in zip(seen, kinds, strict=True)
    ]
    sound = usable_by_all(stack, forms, memory)
    seen = [replace(one, groups=groups) for one, groups in zip(seen, sound, strict=True)]
    by_label = any(learner_of(request.task).classifies(request) for request in requests)
    for numbers, one in zip(kinds, seen, strict=True):
        for candidate in (search.candidates[number] for number in numbers[1:]):
            one.refuse_options(Request(candidate.task, candidate.options))
    parts = []
    for numbers, one in zip(kinds, seen, strict=True):
        others = (form.groups for form in seen if form.groups is not one.groups)
        cells = search.dealt.deal(
            [one.groups, *(others if search.dealt.column is not None else ())],
            search.seed,
            one.request.options.threads or budget.threads(),
            memory,
            slices=slices_of(search),
            by_label=by_label,
            keeps_marks=True,
        )
        in_order = tuple(path(search.candidates, numbers))
        near = Nearness(search, one.groups)
        parts.append(Preparation(search, in_order, one, stack.enter_context(cells), near, memory))
    return parts


# The rows that each fold of a search holds out, in words: values of a column, or a time.

MOST_VALUES = 20
"""Values of a column that are listed."""
Show = Callable[[float], str]


def identities(part: Preparation, group: int) -> list[str] | None:
    """The values of the rows in each fold of a group, or the first and the last one in the
    order of time; None if rows are held out by chance.
    """
    how, prepared = part.search.dealt, part.seen.prepared
    if how.column is None or prepared is None:
        return None
    kind, *levels = prepared.texts(prepare.MARKS, group)
    show = formatter_of(kind, levels)
    found = []
    for out in how.sets:
        marks = np.unique(part.cells.marks(group, out))
        found.append(stretch(marks, show) if how.in_time else list_values(marks, show))
    return found


def formatter_of(kind: str, levels: Sequence[str]) -> Show:
    """The function that formats a number of a column."""
    if kind == "text":
        return lambda mark: levels[int(mark)]
    if kind in ("date", "timestamp"):
        return lambda mark: moment(mark, kind)
    return lambda mark: f"{mark:.17g}" if mark % 1 else f"{mark:.0f}"


def moment(days: float, kind: str) -> str:
    """Days since 1970-01-01 as a date, or a date and a time to the second."""
    if not math.isfinite(days) or abs(days) > 700_000:
        return f"day {days:g}"
    at = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=round(days * 86400))
    return str(at.date() if kind == "date" else at)


def list_values(marks: Floats, show: Show) -> str:
    """Lists some values in words."""
    texts = [show(mark) for mark in marks[:MOST_VALUES]]
    more = len(marks) - len(texts)
    return ", ".join(texts) + (f" and {more} more" if more else "")


def stretch(marks: Floats, show: Show) -> str:
    """The first and the last value."""
    if not len(marks):
        return ""
    first, last = show(marks[0]), show(marks[-1])
    return first if first == last else f"{first} to {last}"


# The sets of rows that candidates train on, and those that they are judged by.
#
# Where the learner allows it, all sets of a rung train together: each row is then read once for
# all models that train on it.


@dataclass(frozen=True)
class Round:
    """One set of rows: its number, the folds that are held out, the others, and how many
    slices of the others are trained on.
    """

    number: int
    out: Sequence[int]
    kept: Sequence[int]
    slices: int


@dataclass(frozen=True)
class Sets:
    """S sets of rows of G groups, which train together.

    Rows are arrays (G * S,) of GROUP, the sets of a group being neighbours. Unless they stay, they
    are valid until the next are requested.
    """

    part: Preparation
    rounds: Sequence[Round]

    @property
    def numbers(self) -> NDArray[np.intp]:
        """The number of each set among all of the search, (S,)."""
        return np.array([one.number for one in self.rounds], np.intp)

    @property
    def stays(self) -> bool:
        """Returns whether all rows are linked once, and are valid as long as the sets are used."""
        return len(self.rounds) > 1 and self.part.cells.slices == 1

    @cached_property
    def _all_sets(self) -> tuple[Groups, Groups, Groups | None, Groups]:
        return self._training_rows(), self._whole(), self._parts(), self._validation_rows()

    def training_rows(self) -> Groups:
        """The rows that are trained on."""
        return self._all_sets[0] if self.stays else self._training_rows()

    def whole(self) -> Groups:
        """All rows that any set has, (G,), linked like those of `training_rows` and `parts`."""
        return self._all_sets[1] if self.stays else self._whole()

    def parts(self) -> Groups | None:
        """The rows that each set lacks of the whole group; None unless that is their sum."""
        return self._all_sets[2] if self.stays else self._parts()

    def validation_rows(self) -> Groups:
        """The rows that are held out."""
        return self._all_sets[3] if self.stays else self._validation_rows()

    def rows_in_parts(self) -> tuple[Groups, tuple[Groups, Groups]]:
        """For one set, all rows together, and the training and held-out rows."""
        (one,) = self.rounds
        whole, *parts = self.part.cells.link_apart(one.kept, one.out, one.slices)
        whole["place"] = np.arange(len(whole))
        return whole, (parts[0], parts[1])

    def _training_rows(self) -> Groups:
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

    def _validation_rows(self) -> Groups:
        return self._rows([one.out for one in self.rounds], None)

    def _rows(self, folds: Sequence[Sequence[int]], slices: int | None) -> Groups:
        if len(folds) == 1:
            return self.part.cells.link(folds[0], slices)
        rows = self.part.cells.in_common(folds, slices)
        assert rows is not None
        return rows.ravel()


def sets_of(part: Preparation, every: Sequence[Round]) -> Iterator[Sets]:
    """Yields all sets of a rung, together where possible."""
    candidates = part.search.candidates
    weighs = all(candidates[number].task.weighs_features for number in part.numbers)
    dense = part.near.dense and weighs
    if dense and part.cells.in_common([one.kept for one in every]) is not None:
        yield Sets(part, every)
    else:
        for one in every:
            yield Sets(part, [one])
