"""What some rows say about the iterations of a training: how long and how similar they are."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.hinge.dual import Dual
from tuskml.kernels.passes import Floats
from tuskml.learners.linear.algorithms import REGISTERED
from tuskml.learners.linear.estimates.question import Question
from tuskml.learners.linear.problem import Problem

FEW, LEAST = 1024, 64
"""Rows whose length is looked at, and how many at least where they are wide."""
PLACES, FROM_EACH, LEAST_FROM_EACH = 16, 12, 4
"""Where rows are taken that are compared with one another, and how many, of wide ones at least."""
MOST_VALUES = 1 << 17
"""Values of these rows, beyond which fewer rows do: each takes about 4 ns."""
LABELS = 1 << 14
"""Of how many rows at least labels are looked at, where there are so many."""
APART = (0.17, 0.31, 0.47)
"""Of all of these rows, how many lie between two that are compared: rows side by side in a table
may be alike."""


def with_rows_seen(problem: Problem, question: Question) -> Question:
    """The question with what some rows of the largest group tell.

    The same question where the answer may not depend on rows.
    """
    options = question.options
    if options.ordered or question.gpu or problem.rows.open is not None:
        return question
    largest = int(np.argmax(problem.rows.groups["n_rows"]))
    one = problem.of(np.array([largest]))
    if not question.seen.sparse and question.seen.n_features > 1 and question.sketch is None:
        spread = spread_of(one)
        whole = None if spread is None else penalised(one, spread)
        question = replace(question, spread=spread, spread_with_l2=whole)
    if question.task.classifies and not question.task.smooth:
        question = replace(question, rarer=rarer_share(one))
    looking = [one for one in REGISTERED if one.looks_at_length]
    if any(not one.refusal(question.task) and not one.unfit(options) for one in looking):
        dual = Dual.of_rows(
            one.rows.head(few_of(question)), one.shift, options.l2, 0.0, 0, np.zeros(1)
        )
        question = replace(question, length=float(dual.norm.mean()))
    return question


def rarer_share(one: Problem) -> float:
    """The rarer class's share of some rows of one group."""
    parts = [labels for _, _, labels in one.chunks(0)]
    step = max(1, sum(map(len, parts)) // LABELS)
    seen = np.concatenate([labels[::step] for labels in parts])
    high = np.count_nonzero(seen == seen.max()) / len(seen)
    return float(min(high, 1 - high))


def few_of(question: Question) -> int:
    """How many rows to look at the length of; sparse ones have few values."""
    seen = question.seen
    each = seen.entries / max(seen.rows, 1) if seen.sparse else seen.n_features
    return int(min(FEW, max(LEAST, MOST_VALUES // max(each, 1))))


def spread_of(one: Problem) -> float | None:
    """tr(C^2) / d of the features' correlations C (d, d), of one group of dense rows.

    For two rows z, z' of features with mean 0 and variance 1 the mean of (z.z')^2 is tr(C^2): no C
    is needed. None where there are too few rows.
    """
    z = (some_rows(one) - one.shift[0]) * one.scale[0]
    used = int(np.count_nonzero(one.scale[0]))
    if len(z) < 2 * FROM_EACH or used == 0:
        return None
    # No matrix product: BLAS has threads of its own, which would wait beside ours.
    offsets = [max(1, int(len(z) * share)) for share in APART]
    both = [np.einsum("nd,nd->n", z[by:], z[:-by]) for by in offsets]
    found = float(np.square(np.concatenate(both)).mean()) / used
    return found if np.isfinite(found) and found > 0 else None


def penalised(one: Problem, spread: float) -> float:
    """The spread of C + diag(more), in units of the mean variance, where `more` is the penalty's.

    A penalty is of weights in the caller's units. Where these are of very different sizes it bends
    the objective along features of small values alone, which makes it ill-conditioned.
    """
    more: Floats = one.l2 * one.scale[0][one.scale[0] > 0] ** 2 / one.task.steepest
    d, total = len(more), float(more.sum())
    squares = spread * d + 2 * total + float(np.square(more).sum())
    return squares * d / (d + total) ** 2


def some_rows(one: Problem) -> NDArray[Any]:
    """Features (n, d) of rows from all over a group."""
    parts = [features for _, features, _ in one.chunks(0)]
    chosen = parts[:: max(1, len(parts) // PLACES)]
    most = max(PLACES * LEAST_FROM_EACH, min(PLACES * FROM_EACH, MOST_VALUES // max(one.d, 1)))
    wanted = max(most // PLACES, most // len(chosen))
    return np.concatenate([part[:: max(1, len(part) // wanted)][:wanted] for part in chosen])
