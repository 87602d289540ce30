"""The rows that candidates train on: prepared once for those that read alike, dealt to folds."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.groups.preparation import Readable, preparing, readable, usable_by_all
from tuskml.groups.selection.asked import Search
from tuskml.groups.selection.candidates import Candidate
from tuskml.groups.selection.nearness import Nearness, path
from tuskml.groups.selection.trials import slices_of
from tuskml.kernels.rows.cells import Cells
from tuskml.learners.learner import Request
from tuskml.learners.models import Models, joined
from tuskml.learners.near import Near
from tuskml.learners.options.kinds import ByClass
from tuskml.learners.registry import learner_of
from tuskml.learners.validation import unmarked
from tuskml.schedule import budget

Groups = NDArray[np.void]
Places = NDArray[np.intp]
UNLIKE = ("threads", "cancel_mark", "known")
"""What the preparation of rows does not depend on."""


@dataclass(frozen=True)
class Prepared:
    """Candidates, by their numbers, that read the same rows, and these dealt to folds.

    memory: address of the account that trainings charge.
    """

    search: Search
    numbers: tuple[int, ...]
    seen: Readable
    cells: Cells
    near: Nearness
    memory: int

    def trained(
        self,
        number: int,
        groups: Groups,
        places: Places,
        near: Near | None = None,
        sets: int = 1,
        winner: bool = False,
        parted: tuple[Groups, Groups] | None = None,
    ) -> Models:
        """A candidate's models of the groups at some places; models carry theirs among these.

        sets: so many neighbours among `groups` are sets of rows of one group; winner: whether the
        models are kept, with all that describes them; parted: as `Request` has it.
        """
        candidate = self.search.candidates[number]
        options = self._options(candidate)
        learner = learner_of(candidate.task)
        if not winner:
            options = learner.trials.predicting(Request(candidate.task, options))
        within = learner.trials.holds_out(options) and parted is None
        asked = replace(
            of_places(self.seen.request, places // sets),
            task=candidate.task,
            options=options,
            near=near,
            common=sets > 1,
            held_out=replace(self.search.dealt, share=None) if within else None,
            parted=parted,
        )
        groups = groups[places] if within else unmarked(groups[places])
        parts = list(learner.train(groups, asked, self.memory))
        return parts[0] if len(parts) == 1 else joined(parts)

    def lane(self, numbers: Sequence[int]) -> "Prepared":
        """The same of some candidates, whose trials start from each other alone.

        How many threads they use is decided by `budget.within`.
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


def of_places(request: Request[Any, Any], places: Places) -> Request[Any, Any]:
    """A request about all groups, for those at some places."""
    categories, names, by_level = request.categories, request.feature_names, request.by_level
    terms = request.terms
    return replace(
        request,
        categories=None if categories is None else lambda k: categories(int(places[k])),
        feature_names=None if names is None else lambda k: names(int(places[k])),
        terms=None if terms is None else lambda k: terms(int(places[k])),
        by_level=None if by_level is None else tuple(by_level[k] for k in places),
    )


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
    """What a candidate asks of rows that were prepared for several alike."""
    weights = seen.request.options.class_weight
    options = replace(candidate.options, class_weight=weights)
    return replace(seen.request, task=candidate.task, options=options)


def prepared(stack: ExitStack, groups: Groups, search: Search, memory: int) -> list[Prepared]:
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
        parts.append(Prepared(search, in_order, one, stack.enter_context(cells), near, memory))
    return parts
