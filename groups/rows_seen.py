"""What some rows tell of how many iterations a training takes: how long and how alike they are."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.optimizer.costs import Question
from tuskml.udas.dual import Dual
from tuskml.udas.problem import Problem

FEW = 1024
"""Rows whose length is looked at."""
PAIRED = 128
"""Rows each two of which are compared."""


def with_rows_seen(problem: Problem, question: Question) -> Question:
    """The question with what some rows of the largest group tell.

    The same question where the answer may not depend on rows.
    """
    options = question.options
    if options.ordered or problem.rows.open is not None:
        return question
    largest = int(np.argmax(problem.rows.groups["n_rows"]))
    one = problem.of(np.array([largest]))
    if not question.seen.sparse and question.seen.n_features > 1:
        question = replace(question, spread=spread_of(one))
    if question.task.name == "svm" and options.l2 > 0 and options.l1 == 0:
        dual = Dual.of_rows(one.rows.head(FEW), one.shift, options.l2, 0.0, 0, np.zeros(1))
        question = replace(question, length=float(dual.norm.mean()))
    return question


def spread_of(one: Problem) -> float | None:
    """tr(C^2) / d of the features' correlations C (d, d), of one group of dense rows.

    For two rows z, z' of features with mean 0 and variance 1 the mean of (z.z')^2 is tr(C^2): no C
    is needed. None where there are too few rows.
    """
    z = (some_rows(one) - one.shift[0]) * one.scale[0]
    n, used = len(z), float(np.count_nonzero(one.scale[0]))
    if n < 8 or used == 0:
        return None
    products = z @ z.T
    both = np.square(products).sum() - np.square(np.diagonal(products)).sum()
    found = float(both) / (n * (n - 1) * used)
    return found if np.isfinite(found) and found > 0 else None


def some_rows(one: Problem) -> NDArray[np.float64]:
    """Features (PAIRED, d) or fewer rows, evenly from all over a group."""
    parts = [features for _, features, _ in one.chunks(0)]
    sizes = np.cumsum([0] + [len(features) for features in parts])
    total = int(min(sizes[-1], one.rows.groups["n_rows"][0]))
    wanted = np.unique(np.linspace(0, max(total - 1, 0), PAIRED).astype(np.int64))
    where = np.searchsorted(sizes, wanted, side="right") - 1
    return np.array([parts[at][row - sizes[at]] for at, row in zip(where, wanted, strict=True)])
