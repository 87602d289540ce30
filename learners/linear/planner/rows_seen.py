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

FEW = 1024
"""Rows whose length is looked at."""
PLACES, FROM_EACH = 16, 12
"""Where rows are taken that are compared with one another, and how many."""
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
    looking = [one for one in REGISTERED if one.looks_at_length]
    if any(not one.refusal(question.task) and not one.unfit(options) for one in looking):
        dual = Dual.of_rows(one.rows.head(FEW), one.shift, options.l2, 0.0, 0, np.zeros(1))
        question = replace(question, length=float(dual.norm.mean()))
    return question


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
    wanted = max(FROM_EACH, PLACES * FROM_EACH // len(chosen))
    return np.concatenate([part[:: max(1, len(part) // wanted)][:wanted] for part in chosen])
