"""Iterations at the hinge by trainings on some rows, to the end that the duality gap proves.

How many corners an optimum has near it, no spectrum tells. So the methods that follow gradients
train on a sample of dense rows before anything is estimated, in one call each
(`kernels/hinge/tried.py`), which takes ten to twenty microseconds an iteration. Algorithm 1 of
Kaoudi et al., SIGMOD 2017, without an extrapolation: errors on a smoothed corner do not tell how
many iterations follow.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.hinge.tried import Corner
from tuskml.kernels.passes import Floats
from tuskml.kernels.speculated import Method
from tuskml.learners.linear.estimates.iterations import SCARCE
from tuskml.learners.linear.estimates.question import AtCorner, Question
from tuskml.learners.linear.gap import wants_gap
from tuskml.learners.linear.planner.rule import corners
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.tasks import LinearTask

ROWS, ROWS_A_WEIGHT = 1024, 8
"""Of the sample."""
ROW_SECONDS, ENTRY_SECONDS = 4e-9, 3.5e-10
"""Of an iteration, for each row and for each of its features."""
FEWEST = 20
"""Iterations that there must be time for."""
SHARES = {Method.QUASI_NEWTON: 0.55, Method.SPECTRAL_STEPS: 1.0}
"""Of the seconds that are left, for each method in turn."""
MOST = 5000
LOOSE = 0.01
GROWTH = {Method.QUASI_NEWTON: 3.1, Method.SPECTRAL_STEPS: 3.4}
"""How many times more iterations a decade further takes, in the middle of 65 and of 48 trainings:
85 % and 65 % of them are within twice as many."""
UNSURE, FURTHER = 2.0, 1.5
"""How many times more or fewer iterations all rows may take, and how much less sure a decade that
was not tried makes it."""
OF_SCARCITY = 0.7
"""The power of the sample's scarcity of rows over that of all rows, with which iterations on the
sample are more. Of 58 trainings by L-BFGS and 46 by the steps of Barzilai and Borwein on sets of
`scripts/bench/planner/truth_*.py` 98 % and 89 % are within twice
as many, 95 % and 87 % without."""


def possible(problem: Problem, question: Question) -> bool:
    """Whether the trial is of the objective: dense rows that weigh alike, without l1."""
    options, rows = question.options, problem.rows
    return (
        wants_gap(problem, options.converge, options.epsilon)
        and not question.seen.sparse
        and not question.gpu
        and not options.l1
        and rows.class_weight is None
        and not rows.weighted
        and question.seen.n_features > 1
    )


def sample_rows(question: Question) -> int:
    wanted = max(ROWS, ROWS_A_WEIGHT * (question.seen.n_features + 1))
    return int(min(wanted, question.rows_of_one))


def iteration_seconds(question: Question) -> float:
    """Of an iteration on the sample, about."""
    each = ROW_SECONDS + ENTRY_SECONDS * question.seen.n_features
    return sample_rows(question) * each


def unfinished(question: Question) -> list[Method]:
    """The methods whose trial did not come to its end, or was not begun."""
    return [one for one in SHARES if one not in question.corner or not question.corner[one].whole]


def tried_at_corner(
    problem: Problem, start: Floats, question: Question, seconds: float
) -> Question:
    """The question with what the methods do on a sample of its largest group.

    The same question where that is not possible, or seconds are too few.
    """
    methods = unfinished(question)
    if not methods or seconds < FEWEST * iteration_seconds(question):
        return question
    if not possible(problem, question):
        return question
    largest = np.array([np.argmax(problem.rows.groups["n_rows"])])
    began = time.thread_time()
    given = sample(problem.of(largest), question)
    if given is None:
        return question
    found, v = dict(question.corner), start[largest][0]
    n = given.z.shape[1]
    easier = (scarcity(question, question.rows_of_one) / scarcity(question, n)) ** OF_SCARCITY
    for method in methods:
        left = SHARES[method] * (seconds - time.thread_time() + began)
        seen = tried(question.task, given, method, v, left)
        found[method] = replace(seen, iterations=easier * seen.iterations)
    return replace(question, corner=found)


def tried(task: LinearTask, given: Corner, method: Method, v: Floats, seconds: float) -> AtCorner:
    """What a method does in so many seconds: to a loose tolerance first, where there is one.

    Where it came that far alone, the decades that are left take GROWTH times as many.
    """
    began, epsilon, reached = time.thread_time(), given.epsilon, None
    for one in (epsilon,) if epsilon > LOOSE / 2 else (LOOSE, epsilon):
        left = seconds - time.thread_time() + began
        looser = replace(given, epsilon=one, corners=corners(one, task))
        made, ended = looser.tried(method, v, max(left, 0.0))
        if not ended:
            break
        reached = made, one
    if reached is None:
        return AtCorner(made, False)
    made, one = reached
    further = math.log10(one / epsilon)
    unsure = UNSURE * FURTHER**further
    return AtCorner(made * GROWTH[method] ** further, True, unsure, further == 0)


def scarcity(question: Question, rows: float) -> float:
    """How few rows there are for each feature, 1 where there are many."""
    return 1 + SCARCE * question.seen.n_features / rows


def sample(one: Problem, question: Question) -> Corner | None:
    """The problem on rows from all over a group; None where they are of one class."""
    parts = list(spread_rows(one, sample_rows(question)))
    x = np.concatenate([features for features, _ in parts])
    labels = np.concatenate([label for _, label in parts])
    z = ((x - one.shift[0]) * one.scale[0]).astype(np.float32)
    if not len(labels) or labels.min() == labels.max() or not np.isfinite(z).all():
        return None
    sign = np.where(labels == labels.max(), 1.0, -1.0)
    l2 = one.l2 * np.square(one.scale[0]) if one.l2 else None
    unit = 1.0 if one.weight_unit is None else float(one.weight_unit[0])
    widths = corners(question.options.epsilon, question.task)
    epsilon, fits = question.options.epsilon, one.rows.fit_intercept
    return Corner(z.T, sign, l2, widths, epsilon, unit, fits, MOST)


def spread_rows(
    one: Problem, wanted: int
) -> Iterator[tuple[NDArray[np.floating], NDArray[np.float64]]]:
    """Features (n, d) and labels of rows at even distances, about as many as wanted."""
    step = max(int(one.rows.groups["n_rows"][0]) // max(wanted, 1), 1)
    first = 0
    for _, features, labels in one.chunks(0):
        yield features[first::step], labels[first::step]
        first = (first - len(labels)) % step
