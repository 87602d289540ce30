"""Sketches the curvature of a training's objective from a sample of its rows."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.hinge import Dual
from tuskml.kernels.passes import Floats
from tuskml.kernels.speculated import Method, lanczos
from tuskml.learners.linear.algorithms import ALGORITHMS, REGISTERED
from tuskml.learners.linear.algorithms.parts.batch import FirstPass, first_pass
from tuskml.learners.linear.planner.candidates import PlanCosts
from tuskml.learners.linear.planner.curves import FEWER, MOST, Question, Sketch
from tuskml.learners.linear.planner.iterations import SMOOTH
from tuskml.learners.linear.problem import Found, Index, Problem, curvature_bound
from tuskml.learners.linear.request import Plan
from tuskml.learners.machine import constants

LEAST_ROWS, ROWS_A_WEIGHT = 1024, 8
MOST_FEATURES = 1024
STEPS, FEWEST = 128, 24
"""Steps of Lanczos' method, at most and at least; each gives an eigenvalue."""
STEP_SECONDS = 2.4e-10
"""Seconds of such a step, for each entry of the curvature."""
TRIANGLE_SECONDS = 5e-11
RUNS_SECONDS, RUN_SECONDS = 2e-4, 1e-5
"""Seconds of the methods' runs on the model, and of each step in them."""
SCATTERED_SECONDS = 1.3e-12
"""Seconds of a product of two entries of a sparse row, by the weights to the power 1.5: such
products are added all over the triangle. Measured: 1.8 ns with 124 weights, 4.4 with 208, 12 with
447 (2026-11-23, load 5).
"""
OF_TIME = 0.1
"""Share of the option `time`."""
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
    """The steps of Lanczos' method that fit in `seconds`; 0 if a sketch does not."""
    p = question.seen.n_features + 1
    left = seconds - RUNS_SECONDS
    each = STEP_SECONDS * p * (SCALED if question.seen.sparse else 1)
    for most in (STEPS, 96, 64, 48, 32, FEWEST):
        steps = min(most, p)
        if steps * (RUN_SECONDS + each * (p + 2 * steps)) <= left:
            return steps
    return 0


def possible(question: Question) -> bool:
    """Returns whether a sample shows the curvature of the objective, or of a smooth one of its
    rows.

    At the hinge a smooth one tells of dense rows alone (`iterations.py`).
    """
    task = question.task
    return (
        not question.gpu
        and (task.smooth or not question.seen.sparse)
        and (task.has_curvature or not task.smooth)
        and 1 < question.seen.n_features <= MOST_FEATURES
    )


def add_sketch(problem: Problem, start: Floats, question: Question, seconds: float) -> Question:
    """The question with a sketch of its largest group; the same where seconds are too few."""
    steps = steps_for(question, seconds - curvature_seconds(question))
    if not steps or not possible(question) or problem.rows.open is not None:
        return question
    largest = largest_of(problem)
    one, v = problem.of(largest), start[largest]
    stride = max(1, int(int(one.rows.groups["n_rows"][0]) / rows_wanted(question)))
    if not one.task.smooth:
        one = replace(one, task=SMOOTH, rows=replace(one.rows, loss=SMOOTH.loss, smoothing=0.0))
    found = one.on(replace(one.rows, stride=stride)).evaluate(v, curvature=True)
    return with_sketch(question, one, found, stride, steps)


def begin_plan(
    problem: Problem, start: Floats, question: Question, plan: Plan, seconds: float
) -> tuple[Question, FirstPass | None]:
    """The question with a sketch from the first pass of the plan, and that pass.

    None, and the same question, if the plan starts otherwise, or seconds are too few for work that
    the training does not use. A sketch of all rows needs no correction, and costs no pass.
    """
    steps = steps_for(question, seconds)
    if not steps or not begins(question, plan) or problem.rows.open is not None:
        return question, None
    kept = first_pass(problem, start, plan.sample_stride)
    largest = largest_of(problem)
    seen = with_sketch(question, problem.of(largest), kept.found.of(largest), kept.stride, steps)
    return replace(seen, spent=pass_seconds(question, plan)), kept


def finer(question: Question, plan: Plan, seconds: float) -> bool:
    """Returns whether `seconds` suffice for a sketch of more steps than the current one."""
    own = 0.0 if begins(question, plan) else curvature_seconds(question)
    known = 0 if question.sketch is None else len(question.sketch.curvature.diagonal)
    return steps_for(question, seconds - own) > known


def begins(question: Question, plan: Plan) -> bool:
    """Returns whether a plan starts with a pass that gives a sketch."""
    time = question.options.time
    within = time is None or pass_seconds(question, plan) < OF_TIME * time
    first = ALGORITHMS[plan.family].begins_by_curvature and plan.base is None
    return first and within and question.task.smooth and possible(question)


def pass_seconds(question: Question, plan: Plan) -> float:
    """Seconds of that pass."""
    costs = PlanCosts(question, constants.of_host())
    return costs.rows_pass("curvature") / plan.sample_stride


def largest_of(problem: Problem) -> Index:
    """The index of the group with most rows, (1,)."""
    return np.array([np.argmax(problem.rows.groups["n_rows"])])


def with_sketch(
    question: Question, one: Problem, found: Found, stride: int, steps: int
) -> Question:
    """The question with a sketch of one group's curvature; found: on every stride-th chunk."""
    if found.hessian is None or not np.isfinite(np.asarray(found.hessian)).all():
        return question
    n, p, chunk = int(one.rows.groups["n_rows"][0]), one.d + 1, chunk_rows(question)
    read = min(n, math.ceil(math.ceil(n / chunk) / stride) * chunk)
    packed, gradient = np.asarray(found.hessian)[0], found.gradient[0]
    ratio = p * max(1.0 / read - 1.0 / n, 0.0)
    sketch = sketch_of(one, packed, gradient, steps, ratio)
    if sketch is not None and question.seen.sparse:
        for method, scale in scales(one, packed):
            more = sketch_of(one, packed, gradient, steps, ratio, scale)
            if more is not None:
                sketch.scaled[method] = more
    return question if sketch is None else replace(question, sketch=sketch)


def scales(one: Problem, packed: Floats) -> Iterator[tuple[Method, Floats]]:
    """Yields the methods that precondition sparse rows, with their factors of the weights,
    (p,).
    """
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
    ratio: float,
    scale: Floats | None = None,
) -> Sketch | None:
    """The sketch of one group's curvature, a packed triangle, and gradient (p,); None where it is
    0.

    ratio: weights for each row of the sample; scale: as in `lanczos`.
    """
    seen = lanczos(packed, gradient, steps, scale)
    known = len(seen.diagonal)
    if not known:
        return None
    if scale is not None:  # the gradient by the caller's weights
        seen = replace(seen, basis=seen.basis / scale)
    unit = 1.0 if one.gradient_unit is None else float(one.gradient_unit[0])
    length = 1.0 if one.weight_unit is None else float(one.weight_unit[0])
    return Sketch(
        seen,
        max(float(np.abs(gradient).max()), 1e-300),
        unit,
        1.0 / float(curvature_bound(one)[0]),
        length if scale is None else math.inf,
        ratio,
        MOST if known < steps or steps == one.d + 1 else FEWER,
    )


# Properties of some rows that predict the iterations of a training: their length and similarity.

FEW, LEAST = 1024, 64
"""Rows whose length is looked at, and how many at least where they are wide."""
PLACES, FROM_EACH, LEAST_FROM_EACH = 16, 12, 4
"""The number of positions whose rows are compared, the rows at each, and the least for wide ones.
"""
MOST_VALUES = 1 << 17
"""Values of these rows, beyond which fewer rows do: each takes about 4 ns."""
LABELS = 1 << 14
"""The fewest rows whose labels are read, if there are that many."""
APART = (0.17, 0.31, 0.47)
"""The share of all these rows between two compared ones: neighbours in a table may be alike."""


def with_rows_seen(problem: Problem, question: Question) -> Question:
    """The question with observations on some rows of the largest group.

    The same question if the answer may not depend on rows.
    """
    options = question.options
    if options.keeps_order or question.gpu or problem.rows.open is not None:
        return question
    largest = int(np.argmax(problem.rows.groups["n_rows"]))
    one = problem.of(np.array([largest]))
    if not question.seen.sparse and question.seen.n_features > 1 and question.sketch is None:
        spread = spread_of(one)
        whole = None if spread is None else penalised_spread(one, spread)
        question = replace(question, spread=spread, spread_with_l2=whole)
    if question.task.classifies and not question.task.smooth:
        question = replace(question, rarer=rarer_share(one))
    looking = [one for one in REGISTERED if one.looks_at_length]
    if any(
        not one.refusal(question.task) and not one.unfit(options, question.task) for one in looking
    ):
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
    """The number of rows whose length is measured; sparse ones have few values."""
    seen = question.seen
    each = seen.entries / max(seen.rows, 1) if seen.sparse else seen.n_features
    return int(min(FEW, max(LEAST, MOST_VALUES // max(each, 1))))


def spread_of(one: Problem) -> float | None:
    """tr(C^2) / d of the features' correlations C (d, d), of one group of dense rows.

    For two rows z, z' of features with mean 0 and variance 1 the mean of (z.z')^2 is tr(C^2), so
    that C is not needed. None where there are too few rows.
    """
    z = (some_rows(one) - one.shift[0]) * one.scale[0]
    used = int(np.count_nonzero(one.scale[0]))
    if len(z) < 2 * FROM_EACH or used == 0:
        return None
    # No matrix product: BLAS has threads of its own, which would compete with ours.
    offsets = [max(1, int(len(z) * share)) for share in APART]
    both = [np.einsum("nd,nd->n", z[by:], z[:-by]) for by in offsets]
    found = float(np.square(np.concatenate(both)).mean()) / used
    return found if np.isfinite(found) and found > 0 else None


def penalised_spread(one: Problem, spread: float) -> float:
    """The spread of C + diag(more), in units of the mean variance, where `more` is the penalty's.

    A penalty is of weights in the caller's units. Where these are of very different sizes it bends
    the objective along features of small values alone, which makes it ill-conditioned.
    """
    more: Floats = one.l2 * one.scale[0][one.scale[0] > 0] ** 2 / one.task.steepest
    d, unit = len(more), max(float(more.max(initial=1.0)), 1.0)
    more = more / unit  # the squares of large penalties are no doubles
    total, each = float(more.sum()), 1 / unit
    squares = spread * d * each**2 + 2 * total * each + float(np.square(more).sum())
    found = squares * d / (d * each + total) ** 2
    return found if np.isfinite(found) else float(d)  # one feature outweighs all others


def some_rows(one: Problem) -> NDArray[Any]:
    """Features (n, d) of rows from all over a group."""
    parts = [features for _, features, _ in one.chunks(0)]
    chosen = parts[:: max(1, len(parts) // PLACES)]
    most = max(PLACES * LEAST_FROM_EACH, min(PLACES * FROM_EACH, MOST_VALUES // max(one.d, 1)))
    wanted = max(most // PLACES, most // len(chosen))
    return np.concatenate([part[:: max(1, len(part) // wanted)][:wanted] for part in chosen])
