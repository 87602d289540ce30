"""Matrix factorization as a learner."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tuskml.errors import one_of
from tuskml.kernels.parts.sharded import Parts
from tuskml.kernels.passes import Floats
from tuskml.learners.classes import LabelRange, Mask
from tuskml.learners.explaining import format_explanation
from tuskml.learners.factorization import explanation, implicit, training
from tuskml.learners.factorization.implicit import explain
from tuskml.learners.factorization.options import (
    BPR,
    IMPLICIT,
    OPTIONS,
    REGISTERED,
    FactorizationOptions,
    Place,
    Request,
    default_for,
)
from tuskml.learners.factorization.ranked import judge_ranks, pairs_of
from tuskml.learners.learner import (
    NAMES_NUMBERED,
    ByParts,
    Encoding,
    Facts,
    Groups,
    Judging,
    Learner,
    Stored,
    Trials,
    refuse_offsets,
)
from tuskml.learners.models import Models
from tuskml.learners.tasks import PAIRS, Task, built_in, in_table

if TYPE_CHECKING:
    from tuskml.kvstore import StoreRoot

BY_PARTS = ("auto", default_for(Place.PARTS).name)
"""The algorithms of groups in parts."""
TASKS = built_in(Task(**in_table("matrix_factorization"), features=PAIRS))


class IdsAsNumbers(Encoding):
    """Users and items of rows with names are ids of any type, numbered in each group."""

    def numbers_levels(self, options: FactorizationOptions) -> int:
        return NAMES_NUMBERED

    def stays_dense(self, options: FactorizationOptions) -> bool:
        return True


class FactorizationByParts(ByParts):
    """Blocks of items rotate over the parts."""

    keeps = rotates = True

    def whole(self, request: Request) -> str | None:
        options, name = request.options, request.task.name
        if options.feedback == IMPLICIT:
            return f"option 'feedback' '{IMPLICIT}' of '{name}' needs all rows in one place"
        if options.algorithm not in BY_PARTS:
            return (
                f"algorithm '{options.algorithm}' of '{name}' needs all rows in one place, "
                f"expected {one_of(BY_PARTS)}"
            )
        if options.validation:
            return f"option 'validation' of '{name}' needs all rows in one place"
        if options.device == "gpu":
            return f"option 'device' 'gpu' of '{name}' needs all rows in one place"
        return None

    def train(self, parts: Parts, request: Request) -> Models | None:
        from tuskml.learners.factorization import parted  # for clusters alone

        return parted.train_by_parts(parts, request)


class FactorizationTrials(Trials):
    def complexity(self, options: FactorizationOptions) -> float:
        return float(options.rank)

    def judging(self, options: FactorizationOptions) -> Judging | None:
        if options.feedback != IMPLICIT:
            return None
        return Judging(pairs_of, partial(judge_ranks, biases=options.loss == BPR))


class StoredFactorization(Stored):
    def train(self, group: Groups, request: Request, memory: int, root: "StoreRoot") -> Models:
        from tuskml.learners.factorization import stored  # slow to import

        return stored.train(group, request, memory, root)


class Factorization(Learner):
    """Ratings by users and items as products of their vectors."""

    tasks = TASKS
    options = OPTIONS
    facts = Facts(
        weighs=True,
        algorithms=REGISTERED,
        sizes=(
            ("numbers in a matrix factorization that is a value", f"{training.MOST_NUMBERS:,}"),
            ("users and items in a matrix factorization in a store", f"{training.MOST_IDS:,}"),
        ),
    )
    encoding = IdsAsNumbers()
    trials = FactorizationTrials()
    by_parts = FactorizationByParts()
    stored = StoredFactorization()

    def label_range(self, request: Request) -> LabelRange | None:
        options = request.options
        return implicit.feedback(options.alpha) if options.feedback == IMPLICIT else None

    def names_numbers(self, request: Request) -> bool:
        return True

    def usable(self, request: Request, features: Any, labels: Floats) -> Mask:
        found = super().usable(request, features, labels)
        return found & training.are_ids(features) if isinstance(features, np.ndarray) else found

    def metric(self, request: Request) -> str:
        """Of implicit feedback ranks are judged: an error of labels says little about them."""
        return "ndcg" if request.options.feedback == IMPLICIT else super().metric(request)

    def train(self, groups: Groups, request: Request, memory: int) -> Iterator[Models]:
        refuse_offsets(groups, request.task.name)
        if request.options.feedback == IMPLICIT:
            return implicit.train(groups, request.options, memory)
        return training.train(groups, request, memory)

    def explain(self, groups: Groups, request: Request, memory: int = 0) -> Iterator[str]:
        options = request.options
        plain = replace(options, given=options.given - {"format"})
        for group in np.split(groups, len(groups)):
            explained = explain if options.feedback == IMPLICIT else explanation.explain
            found = explained(group, plain, request.reading)
            yield format_explanation(found, options.format, explanation.text_of)


LEARNERS = (Factorization(),)
