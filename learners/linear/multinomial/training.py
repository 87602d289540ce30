"""Trains groups with more than two classes, one model per group."""

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.library import Charges
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.segments import rows_given
from tuskml.kernels.softmax import Softmax, classes_of
from tuskml.learners.class_weights import weights_of
from tuskml.learners.classes import class_fields, refuse_large, refuse_no_classes
from tuskml.learners.linear.algorithms import ALGORITHMS, FIRST_CHOICE
from tuskml.learners.linear.algorithms.parts.batch import Beginning
from tuskml.learners.linear.descent import Timing, deadline_of, descend
from tuskml.learners.linear.inference.determined import without_constants
from tuskml.learners.linear.inference.limit import greatest
from tuskml.learners.linear.inference.tempered import strength
from tuskml.learners.linear.multinomial import inference
from tuskml.learners.linear.multinomial.choice import (
    MOST_CLASSES,
    go_on,
    next_plan,
    plan_of,
    refuse,
)
from tuskml.learners.linear.multinomial.inference import Errors, infer, members
from tuskml.learners.linear.multinomial.problem import (
    SoftmaxProblem,
    covariances,
    likelihood_ratios,
    triangles,
)
from tuskml.learners.linear.objective import describe, locate_rows, move_origin
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import Plan, Request
from tuskml.learners.linear.result import Inputs, judge, options_json, plan_line
from tuskml.learners.linear.turns import Counts, Turns, go_on_in_crowds
from tuskml.learners.models import Lists, Models, Strings, by_group, join_models, thin_history
from tuskml.learners.options.kinds import WarmStart
from tuskml.learners.validation import shuffle_rows

ENTRIES = 1 << 21
"""Entries of curvatures that are processed at once."""


@dataclass(frozen=True)
class Many:
    """The data of G groups with equally many classes: rows, LABELS, classes, the rows of each (G,
    K), widths (G,), and if requested the features of each term (`Inputs`).
    """

    rows: Pass
    labels: NDArray[np.void]
    classes: Softmax
    counts: Floats
    widths: NDArray[np.int64]
    terms: NDArray[np.int64] | None


def train_many(given: Inputs, request: Request, memory: int, began: float) -> Models:
    """The models of groups with more than two classes each."""
    rows, labels = given.rows, given.labels
    refuse(request.options)
    refuse_large(request.task, labels)
    found, counts, sizes = classes_of(rows, MOST_CLASSES)
    refuse_no_classes(found, sizes, MOST_CLASSES, "task 'linear'")
    parts = []
    for which in alike(np.array(sizes), rows.p):
        label = np.array([found[g] for g in which.tolist()])
        count = np.array([counts[g] for g in which.tolist()])
        weight = weights_of(request.options, label, count)
        classes = Softmax(label, weight)
        some = given.of(which)
        many = Many(some.rows, some.labels, classes, count, some.widths, some.terms)
        models = fit(many, request, memory, began)
        parts.append(models.renumber(which[models.group]))
    return parts[0] if len(parts) == 1 else join_models(parts)


def alike(sizes: NDArray[np.int64], p: int) -> Iterator[NDArray[np.intp]]:
    """Yields indices of groups with equally many classes, in batches whose curvatures fit in
    memory.
    """
    for size in np.unique(sizes).tolist():
        which = np.flatnonzero(sizes == size)
        step = max(1, ENTRIES // (size * p) ** 2)
        for first in range(0, len(which), step):
            yield which[first : first + step]


def fit(given: Many, request: Request, memory: int, began: float) -> Models:
    """Groups with the same number of classes."""
    rows = given.rows
    plan = plan_of(rows, request, given.classes.n_classes)
    with ExitStack() as stack, passes.watching_sigint():
        rows = replace(rows, charges=Charges(memory))
        held, n_rows = None, rows_given(rows.groups)
        if plan.canonical:
            kept, out = shuffle_rows(rows, request, memory)
            held = stack.enter_context(out)
            rows = replace(rows, groups=stack.enter_context(kept))
        problem = softmax_problem(rows, given, plan, request)
        where = locate_rows(problem, given.labels, request.options)
        if where.origin is not None:
            rows, held = stack.enter_context(move_origin(rows, held, where.origin))
            problem = softmax_problem(rows, given, plan, request)
        problem = replace(problem, spread=where.spread)
        begin = start(problem, given.counts)
        if request.options.warm_start is not None:
            begin = start_weights(problem, request.options.warm_start)
        held = held if request.options.validation else None
        deadline = deadline_of(request.options, began)
        state = descend(problem, Beginning(begin), held, plan, deadline, Timing())
        then = next_plan(plan, rows, request, given.classes.n_classes)
        late = np.zeros(problem.n_groups, bool)
        if then is not None:
            late = go_on(problem, state, then, deadline)
        if held is None:
            again = partial(descend_from, plan=plan, deadline=deadline)
            turns = Turns(again, plan.max_iter, request.options.max_iter is not None)
            problem, state = go_on_in_crowds(problem, state, turns)
        about = About(given, n_rows, began, deadline, then or plan, late)
        return models_of(problem, state, plan, request, about)


def descend_from(
    problem: Problem, v: Floats, most: Counts | None = None, *, plan: Plan, deadline: float | None
) -> State:
    """Where a descent from weights v (G, K p) ends; most (G,): its iterations."""
    return descend(problem, Beginning(v), None, plan, deadline, Timing(), most=most)


def softmax_problem(rows: Pass, given: Many, plan: Plan, request: Request) -> SoftmaxProblem:
    """The objective in coordinates that condition it, those of two classes."""
    plain = replace(request, options=replace(request.options, class_weight=None))
    base, classes = describe(rows, given.labels, plan, plain), given.classes
    return SoftmaxProblem(
        replace(base.rows, positive=None),
        base.task,
        base.l1,
        base.l2,
        base.shift,
        base.scale,
        frequency=base.frequency if ALGORITHMS[plan.family].stochastic else None,
        gradient_unit=gradient_unit(given),
        covariance=base.covariance,
        weight_kind=base.weight_kind,
        classes=classes,
    )


def gradient_unit(given: Many) -> Floats:
    """Four times the least curvature of a class's margin at the best constant, (G,), as that of
    two classes has it.
    """
    weight = given.classes.weight
    total = given.counts if weight is None else given.counts * weight
    share = total / total.sum(axis=1, keepdims=True)
    mean = total.sum(axis=1) / given.counts.sum(axis=1)
    return np.asarray(4.0 * mean * (share * (1 - share)).min(axis=1))


def start(problem: SoftmaxProblem, counts: Floats) -> Floats:
    """The best constant, (G, K p)."""
    v = np.zeros((problem.n_groups, problem.softmax.n_classes, problem.p))
    if problem.rows.fit_intercept:
        weight = problem.softmax.weight
        share = np.log(counts if weight is None else counts * weight)
        v[:, :, -1] = share - share[:, :1]
    return v.reshape(problem.n_groups, -1)


def start_weights(problem: SoftmaxProblem, given: WarmStart) -> Floats:
    """The weights of a model with the same classes, (G, K p). Raises DataError if it has
    others.
    """
    k, p = problem.softmax.n_classes, problem.p
    if given.store is not None or given.several != k:
        what = f"the stored model '{given.store}'" if given.store else "a model of two classes"
        if given.several:
            what = f"a model of {given.several} classes"
        raise DataError(
            f"warm_start is {what}, expected one with coefficients and the {k} classes of the "
            "labels"
        )
    others = np.flatnonzero((problem.softmax.label != given.classes).any(axis=1))
    if len(others):
        listed = ", ".join(f"{one:g}" for one in problem.softmax.label[others[0]][:12])
        raise DataError(f"warm_start has other classes than the labels, expected {listed}")
    n, left = divmod(len(given.coef), k)
    if left or n > p or (n < p and not problem.rows.sparse):
        raise DataError(
            f"warm_start has {len(given.coef)} coefficients, expected {k * p:,}: of each class "
            "an intercept and one for each feature"
        )
    weights = np.zeros((k, p))
    blocks = np.array(given.coef).reshape(k, n)
    weights[:, : n - 1], weights[:, -1] = blocks[:, 1:], blocks[:, 0]
    return problem.from_given(np.tile(weights.ravel(), (problem.n_groups, 1)))


@dataclass(frozen=True)
class About:
    """Facts about groups for their models: n_rows (G,), held-out ones included; began: start of
    the training, which has to end by the deadline, of `time.monotonic()`; last: the plan by which
    late groups (G,) went on.
    """

    given: Many
    n_rows: NDArray[np.int64]
    began: float
    deadline: float | None
    last: Plan
    late: NDArray[np.bool_]


def models_of(
    problem: SoftmaxProblem,
    state: State,
    plan: Plan,
    request: Request,
    about: About,
) -> Models:
    """The models: `coef` and `std_err` class by class, each class's intercept first."""
    widths, n_rows, began = about.given.widths, about.n_rows, about.began
    groups, n = problem.rows.groups, problem.n_groups
    problem, constant = without_constants(problem, state)
    seen = infer(problem, state, plan.threads, about.deadline, request.options)
    tests = of_terms(problem, state, plan, seen, about) if request.options.fit else {}
    if seen.roots is not None:
        tests["spread"] = triangles(seen.roots, widths)
    errors, ridge = seen.std_err, np.zeros(n, bool)
    if "l2" in request.options.given:
        inference.leave_directions(problem, state, seen.runaways)
    else:
        ridge = inference.soften(problem, state, seen.runaways)
    k = problem.softmax.n_classes
    status = judge(problem, state, plan, constant, seen.dependent, seen.parted, k)
    more = members(problem, state, about.given.counts) if request.options.fit else {}
    more["l2_standardized"] = (ridge, strength(problem))
    more["clusters"] = (np.isfinite(seen.clusters), seen.clusters)
    weights = problem.blocks(problem.as_given(state.v))
    if problem.has_penalty and problem.rows.fit_intercept:  # of equal ones that with the mean 0
        weights[:, :, -1] -= weights[:, :, -1].mean(axis=1, keepdims=True)
    known = ~np.isnan(errors).all(axis=(1, 2))
    late, plans = about.late.astype(np.int32), (plan, about.last)
    texts = tuple(options_json(request.options, one) for one in plans)
    classes = Lists.of_rows(problem.softmax.label, np.full(n, k, np.int64))
    return Models.build(
        groups,
        problem.task.name,
        coef=by_class(np.roll(weights, 1, axis=2), widths),
        intercept=np.full(n, np.nan),
        std_err=by_class(errors, np.where(known, widths, -1)),
        **class_fields(classes),
        n_rows=n_rows,
        n_features=widths,
        loss=state.objective,
        history=thin_history(state.history, n),
        iterations=state.iterations,
        converged=state.converged.astype(np.uint8),
        status=status,
        plan=Strings(plan_lines(plans, k), late + 2 * ridge.astype(np.int32)),
        seconds=n_rows / n_rows.sum() * (time.monotonic() - began),
        options=by_group(Strings(texts, late), more),
        **tests,
    )


def plan_lines(plans: Iterable[Plan], classes: int) -> tuple[str, ...]:
    """The texts of plans without a ridge, then those with one."""
    lines = [f"{plan_line(one)}, {classes} classes" for one in plans]
    return *lines, *(f"{line}, then a ridge by {FIRST_CHOICE.name}" for line in lines)


def of_terms(
    problem: SoftmaxProblem, state: State, plan: Plan, seen: Errors, about: About
) -> dict[str, Lists]:
    """The fields of models from which tests of terms are computed."""
    given, deadline = about.given, about.deadline
    found = {"covariance": covariances(problem, seen.spreads or {}, given.widths)}
    if given.terms is None:
        return found

    again = partial(descend_from, plan=plan, deadline=deadline)

    def over() -> bool:
        return deadline is not None and time.monotonic() > deadline

    v, likely = greatest(state, seen.parted, seen.runaways)
    if problem.has_penalty or problem.softmax.weight is not None:
        likely[:] = False
    tested = problem, v, np.flatnonzero(likely)
    found["ratios"] = likelihood_ratios(*tested, given.terms, again, over)
    return found


def by_class(values: Floats, widths: NDArray[np.int64]) -> Lists:
    """A list per group of values (G, K, p), of each class the first 1 + widths; -1: no list."""
    parts = [
        one[:, : 1 + width].ravel() for one, width in zip(values, widths.tolist(), strict=True)
    ]
    return Lists.of_parts(parts)
