"""Sketches the curvature of a training's objective from a sample of its rows."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.kernels.speculated import Method, quadrature
from tuskml.learners.linear.algorithms import REGISTERED
from tuskml.learners.linear.algorithms.parts.lipschitz import curvature_bound
from tuskml.learners.linear.estimates.iterations import SMOOTH
from tuskml.learners.linear.estimates.question import Question
from tuskml.learners.linear.estimates.sketch import FEWER, MOST, Sketch, shrunk
from tuskml.learners.linear.problem import Problem

LEAST_ROWS, ROWS_A_WEIGHT = 1024, 8
MOST_FEATURES = 1024
STEPS, FEWEST = 128, 24
"""Of Lanczos' method: so many of the eigenvalues are known, at most and at least."""
STEP_SECONDS = 3.5e-10
"""Of such a step, for each entry of the curvature."""
TRIANGLE_SECONDS = 5e-11
RUNS_SECONDS = 6e-4
"""Of a product of the sample's curvature, and of the methods' runs on the model."""
SCATTERED_SECONDS = 1.3e-12
"""Of a product of two entries of a sparse row, by the weights to the power 1.5: such products are
added all over the triangle. Measured: 1.8 ns with 124 weights, 4.4 with 208, 12 with 447
(2026-11-23, load 5)."""
SCALED = 3
"""Sketches of sparse rows: the plain one, and those of methods that precondition."""


def rows_wanted(question: Question) -> float:
    """Rows of the sample."""
    wanted = max(LEAST_ROWS, ROWS_A_WEIGHT * (question.seen.n_features + 1), chunk_rows(question))
    return min(wanted, question.rows_of_one)


def chunk_rows(question: Question) -> int:
    """Rows that a pass for the curvature takes at a time (`native/linear/curvature.cpp`)."""
    seen, p = question.seen, question.seen.n_features + 1
    rows = max(min(2**19 // (4 * p), 16384), 256, 4 * p)
    if not seen.sparse:
        return rows
    each = seen.entries // max(seen.rows, 1) + 1
    shared = max(int(question.rows_of_one) // 32, 2**19 // (12 * each + 8))
    return max(rows, min(shared, 16384))


def curvature_seconds(question: Question) -> float:
    """Seconds of the sample's curvature."""
    rows, p = rows_wanted(question), question.seen.n_features + 1
    if not question.seen.sparse:
        return TRIANGLE_SECONDS * rows * p**2 / 2
    each = question.seen.entries / max(question.seen.rows, 1) + 1
    return float(SCATTERED_SECONDS * p**1.5 * rows * each * (each + 1) / 2)


def steps_for(question: Question, seconds: float) -> int:
    """Steps of Lanczos' method that so many seconds suffice for; 0: not for a sketch."""
    p = question.seen.n_features + 1
    left = seconds - RUNS_SECONDS - curvature_seconds(question)
    each = STEP_SECONDS * p * (SCALED if question.seen.sparse else 1)
    for most in (STEPS, 64, 32, FEWEST):
        steps = min(most, p)
        if each * steps * (p + 2 * steps) <= left:
            return steps
    return 0


def possible(question: Question) -> bool:
    """Whether a sample shows the curvature of the objective, or of a smooth one of its rows.

    At the hinge a smooth one tells of dense rows alone (`estimates/iterations.py`).
    """
    task = question.task
    return (
        not question.gpu
        and (task.smooth or not question.seen.sparse)
        and (task.curved or not task.smooth)
        and 1 < question.seen.n_features <= MOST_FEATURES
    )


def sketched(problem: Problem, start: Floats, question: Question, seconds: float) -> Question:
    """The question with a sketch of its largest group; the same where seconds are too few."""
    steps = steps_for(question, seconds)
    if not steps or not possible(question) or problem.rows.open is not None:
        return question
    largest = int(np.argmax(problem.rows.groups["n_rows"]))
    one, v = problem.of(np.array([largest])), start[[largest]]
    n, p = int(one.rows.groups["n_rows"][0]), one.d + 1
    chunk = chunk_rows(question)
    stride = max(1, int(n / rows_wanted(question)))
    read = min(n, math.ceil(math.ceil(n / chunk) / stride) * chunk)
    if not one.task.smooth:
        one = replace(one, task=SMOOTH, rows=replace(one.rows, loss=SMOOTH.loss, smoothing=0.0))
    found = one.on(replace(one.rows, stride=stride)).evaluate(v, curvature=True)
    if found.hessian is None or not np.isfinite(np.asarray(found.hessian)).all():
        return question
    gradient = found.gradient[0]
    packed, shrinking = np.asarray(found.hessian)[0], p * max(1.0 / read - 1.0 / n, 0.0)
    sketch = sketch_of(one, packed, gradient, steps, shrinking)
    if sketch is not None and question.seen.sparse:
        for method, scale in scales(one, packed):
            more = sketch_of(one, packed, gradient, steps, shrinking, scale)
            if more is not None:
                sketch.scaled[method] = more
    return question if sketch is None else replace(question, sketch=sketch)


def scales(one: Problem, packed: Floats) -> Iterator[tuple[Method, Floats]]:
    """Of the methods that precondition sparse rows: what they multiply the weights by, (p,)."""
    diagonal = packed[np.cumsum(np.arange(1, one.d + 2)) - 1]
    for algorithm in REGISTERED:
        found = algorithm.scale(one, diagonal)
        if found is not None:
            yield found


def sketch_of(
    one: Problem,
    packed: Floats,
    gradient: Floats,
    steps: int,
    shrinking: float,
    scale: Floats | None = None,
) -> Sketch | None:
    """Of one group's curvature, a packed triangle, and gradient (p,); None where it is 0.

    shrinking: variables for each row of the sample; scale: as `quadrature` has it.
    """
    values, along = quadrature(packed, gradient, steps, scale)
    if not len(values):
        return None
    p = one.d + 1
    values = np.maximum(values, 0.0)
    if len(values) == p:
        values = shrunk(values, shrinking)
    unit = 1.0 if one.gradient_unit is None else float(one.gradient_unit[0])
    length = 1.0 if one.weight_unit is None else float(one.weight_unit[0])
    return Sketch(
        values,
        along,
        max(float(np.abs(gradient).max()), 1e-300),
        unit,
        1.0 / float(curvature_bound(one)[0]),
        length if scale is None else math.inf,
        MOST if len(values) < steps or steps == p else FEWER,
    )
