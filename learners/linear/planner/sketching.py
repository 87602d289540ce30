"""Sketches the curvature of a training's objective from a sample of its rows."""

import math
from dataclasses import replace

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.kernels.speculated import quadrature
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


def rows_wanted(question: Question) -> float:
    """Rows of the sample."""
    p = question.seen.n_features + 1
    chunk = max(2**19 / (4 * p), 256, 4 * p)
    return min(max(LEAST_ROWS, ROWS_A_WEIGHT * p, chunk), question.rows_of_one)


def steps_for(question: Question, seconds: float) -> int:
    """Steps of Lanczos' method that so many seconds suffice for; 0: not for a sketch."""
    p = question.seen.n_features + 1
    left = seconds - RUNS_SECONDS - TRIANGLE_SECONDS * rows_wanted(question) * p**2 / 2
    for most in (STEPS, 64, 32, FEWEST):
        steps = min(most, p)
        if STEP_SECONDS * steps * p * (p + 2 * steps) <= left:
            return steps
    return 0


def possible(question: Question) -> bool:
    """Whether a sample shows the curvature of the objective, or of a smooth one of its rows."""
    task = question.task
    return (
        not question.seen.sparse
        and not question.gpu
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
    chunk = max(2**19 // (4 * p), 256, 4 * p)
    stride = max(1, int(n / rows_wanted(question)))
    read = min(n, math.ceil(math.ceil(n / chunk) / stride) * chunk)
    if not one.task.smooth:
        one = replace(one, task=SMOOTH, rows=replace(one.rows, loss=SMOOTH.loss, smoothing=0.0))
    found = one.on(replace(one.rows, stride=stride)).evaluate(v, curvature=True)
    if found.hessian is None or not np.isfinite(np.asarray(found.hessian)).all():
        return question
    gradient = found.gradient[0]
    values, along = quadrature(np.asarray(found.hessian)[0], gradient, steps)
    if not len(values):
        return question
    values = np.maximum(values, 0.0)
    if len(values) == p:
        values = shrunk(values, p * max(1.0 / read - 1.0 / n, 0.0))
    unit = 1.0 if one.gradient_unit is None else float(one.gradient_unit[0])
    length = 1.0 if one.weight_unit is None else float(one.weight_unit[0])
    sketch = Sketch(
        values,
        along,
        max(float(np.abs(gradient).max()), 1e-300),
        unit,
        1.0 / float(curvature_bound(one)[0]),
        length,
        MOST if len(values) < steps or steps == p else FEWER,
    )
    return replace(question, sketch=sketch)
