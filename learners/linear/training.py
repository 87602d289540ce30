"""The trainer: a batch of groups in, a batch of models out, one per group.

All groups of a call that share task, options, storage and number of features train together: each
iteration is one kernel call for all that still move.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import memory_for
from tuskml.kernels import passes
from tuskml.kernels.gpu import placement
from tuskml.kernels.gpu.passes import DevicePass
from tuskml.kernels.library import FLOOR, Charges, room_beside
from tuskml.kernels.passes import Pass, gather_groups
from tuskml.kernels.rows.renumber import renumber
from tuskml.kernels.segments import dense_bytes
from tuskml.learners import events
from tuskml.learners.classes import check_classes
from tuskml.learners.linear.absorbed import without_effects
from tuskml.learners.linear.algorithms.parts.batch import Beginning
from tuskml.learners.linear.algorithms.parts.epochs import TRIAL_ROWS
from tuskml.learners.linear.algorithms.parts.kept_curvature import knowing, leave, take_newton_step
from tuskml.learners.linear.check import (
    many_classes,
    refuse_labels,
    refuse_many,
    refuse_together,
    with_extras,
    with_link,
)
from tuskml.learners.linear.descent import Run, Timing
from tuskml.learners.linear.gpu import place_plan, train_in_turns, wants_gpu
from tuskml.learners.linear.inference import determined, limit, outcome
from tuskml.learners.linear.inference.dispersion import estimates_dispersion, with_dispersion
from tuskml.learners.linear.inference.goodness import members
from tuskml.learners.linear.inference.outcome import covariances
from tuskml.learners.linear.inference.ratios import Whole, likelihood_ratios, term_widths
from tuskml.learners.linear.inference.roots import roots
from tuskml.learners.linear.inference.threshold import with_threshold
from tuskml.learners.linear.multinomial.training import train_many
from tuskml.learners.linear.objective import (
    counts_features,
    describe,
    locate_rows,
    move_origin,
    needs_no_scale,
    start,
)
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.planner.choice import Choice
from tuskml.learners.linear.planner.curves import Question
from tuskml.learners.linear.planner.explanation import explain_training
from tuskml.learners.linear.planner.guard import run_guarded
from tuskml.learners.linear.planner.planning import decide, first_plan
from tuskml.learners.linear.problem import Index, Problem
from tuskml.learners.linear.renumbered import apart, own_request, restore_ids
from tuskml.learners.linear.request import LinearOptions, Plan, Request
from tuskml.learners.linear.result import (
    Inputs,
    TrainingEnd,
    models_of,
    one_class,
    options_json,
    task_members,
)
from tuskml.learners.linear.shares import of_both_classes
from tuskml.learners.linear.turns import Turns, first_turn, go_on_in_crowds
from tuskml.learners.models import Models, Strings, join_models
from tuskml.learners.validation import renumber_parts, shuffle_rows
from tuskml.schedule import shares
from tuskml.schedule.budget import look_at_limits

MOST_WEIGHTS = 1 << 20
"""Weights, or entries of curvature, that train together: copies of them stay in a cache."""
BYTES_A_WEIGHT = 64
"""Bytes of a training's arrays per weight, about."""


def train(groups: NDArray[np.void], request: Request, memory: int) -> Iterator[Models]:
    """Trains each of the groups (passes.GROUP); models carry their groups' indices in `groups`.

    memory: address of the account that copies of rows are charged to.
    """
    refuse_together(request.task, request.options)
    if request.options.absorb is not None:
        for place, group in enumerate(np.split(groups, len(groups))):
            with without_effects(group, place, request, memory) as rest:
                for models in train(rest.groups, rest.request, memory):
                    yield rest.describe(models).renumber(np.array([place]))
        return
    if request.options.shares:
        with of_both_classes(groups, request, memory) as both:
            for models in train(both.groups, both.request, memory):
                yield both.describe(models)
        return
    request = with_extras(groups, with_link(request))
    if needs_much(groups):
        look_at_limits(memory)
    if not (groups["kind"] >= 2).any():
        for places in alike(groups, request, weights_at_once(memory)):
            yield from train_in_parts(groups, places, request, memory)
        return
    yield from train_sparse(groups, request, memory)


def train_sparse(groups: NDArray[np.void], request: Request, memory: int) -> Iterator[Models]:
    """As `train`, for groups with sparse ones among them, whose ids may be renumbered."""
    with (
        renumber(groups, memory, passes.cancel_mark(), bool(request.options.validation)) as seen,
        renumber_parts(request, seen, memory) as asked,
    ):
        for places in alike(seen.groups, asked, weights_at_once(memory)):
            for some in apart(places, seen.ids, asked.options):
                own = own_request(asked, seen.ids.get(int(some[0])), int(groups["dim"][some[0]]))
                for models in train_in_parts(seen.groups, some, own, memory):
                    yield from restore_ids(models, seen, groups, memory)


def needs_much(groups: NDArray[np.void]) -> bool:
    """Returns whether a training of the groups may take more than it may have in any case."""
    widest = float(groups["dim"].max()) + 1
    return len(groups) * widest * (widest + 1) / 2 * BYTES_A_WEIGHT > FLOOR


def weights_at_once(memory: int) -> int:
    """Weights that train together: no more than the account has room for."""
    return min(MOST_WEIGHTS, room_beside(memory) // BYTES_A_WEIGHT)


def train_in_parts(
    groups: NDArray[np.void], places: Index, request: Request, memory: int
) -> Iterator[Models]:
    """Trains groups together, or where memory does not suffice for that one half after another."""
    models = None
    try:
        with np.errstate(all="ignore"):  # values that are not finite are found at the end
            models = train_alike(groups[places], request.of_places(places), memory)
    except MemoryError as error:
        if len(places) == 1:
            raise too_large(error, groups[places], request) from None
    if models is not None:
        yield models.renumber(places[models.group])
        return
    for half in np.array_split(places, 2):
        yield from train_in_parts(groups, half, request, memory)


def too_large(error: MemoryError, groups: NDArray[np.void], request: Request) -> MemoryError:
    """The error for a group whose training exceeds the memory limit."""
    text = str(error)
    if "memory_limit" in text or groups["kind"][0] < 2 or request.options.store is not None:
        return error
    return MemoryError(
        f"no memory for {memory_for(text)}: raise memory_limit, or give option 'store', which "
        "keeps the weights on disk"
    )


def alike(groups: NDArray[np.void], request: Request, weights: int) -> Iterator[Index]:
    """Yields indices of groups that train together: of one kind, width and size, with `weights`
    weights each. Rows of some may have been merged, and have weights.

    Data that a group shares with its neighbours, such as the size of a sample, depends only on
    what is equal in all of them; if order must not matter, neither may neighbours. Groups that
    start near the end take no sample.
    """
    ordered = request.options.keeps_order
    if len(groups) == 1:
        yield np.zeros(1, np.intp)
        return
    sparse = groups["kind"] >= 2
    power = 2 ** np.ceil(np.log2(np.maximum(groups["dim"], 1))).astype(np.int64)
    width = np.where(sparse & (not ordered), power, groups["dim"])
    least = 1 if ordered else TRIAL_ROWS  # of smaller ones a sample may be any of their rows
    size = np.maximum(np.log2(groups["n_rows"] / least).astype(np.int64), 0)
    if request.near is not None and not ordered:
        size[:] = 0
    keys = np.stack([groups["kind"], width, size, groups["extras"]])
    _, bucket = np.unique(keys, axis=1, return_inverse=True)
    for number in range(bucket.max() + 1):
        places = np.flatnonzero(bucket == number)
        widest = int(groups["dim"][places].max()) + 1
        each = widest * (widest + 1) // 2 if widest <= determined.MOST_WEIGHTS else 8 * widest
        step = max(1, weights // each)
        for first in range(0, len(places), step):
            yield places[first : first + step]


def train_alike(groups: NDArray[np.void], request: Request, memory: int) -> Models:
    """Trains groups of one kind and width."""
    began = time.monotonic()
    widths = groups["dim"].astype(np.int64)
    if groups["kind"][0] >= 2:  # sparse: ids never seen in a group weigh 0 in it
        groups = groups.copy()
        widths = np.maximum(widths, 1)
        groups["dim"] = widths.max()
    plan, question = first_plan(groups, request, memory)
    shares.note_plan(plan.algorithm)
    if question is not None and question.seen.on_disk:
        from tuskml.learners.linear.streamed.spilled import train_spilled  # seldom needed

        part = train_spilled(groups, request, memory)
        if part is not None:
            return part
    rows = Pass(
        groups,
        request.task.loss,
        fit_intercept=request.options.fit_intercept,
        threads=plan.threads,
        cancel_mark=passes.cancel_mark(),
        common=request.common,
    )
    if not plan.canonical:  # that moves them anyway
        rows = gather_groups(rows)
        groups = rows.groups
    labels = rows.labels()
    refuse_labels(request.task, labels)
    terms = term_widths(request, widths) if request.options.likelihood_ratio else None
    given = Inputs(rows, labels, None, widths, terms)
    parts = by_classes(given, plan, request, memory, began, question)
    events.tell_trained(groups)
    return parts[0] if len(parts) == 1 else join_models(parts)


def by_classes(
    given: Inputs,
    plan: Plan,
    request: Request,
    memory: int,
    began: float,
    question: Question | None,
) -> list[Models]:
    """The models of groups of many classes, of two or of numbers, and of one class."""
    rows, labels, widths = given.rows, given.labels, given.widths
    many = many_classes(request.task, request.options, labels)
    two, parts = ~many, []
    if request.task.classifies:
        check_classes(request.task, request.options, labels[two])
        two &= labels["low"] != labels["high"]
    if many.any():
        refuse_many(rows, request.task)
        chosen = np.flatnonzero(many)
        several = train_many(given.of(chosen), request, memory, began)
        parts.append(several.renumber(chosen[several.group]))
    if two.any():
        chosen = np.flatnonzero(two)
        models = fit(given.of(chosen), plan, request, memory, began, question)
        parts.append(models.renumber(chosen[models.group]))
    lone = np.flatnonzero(~two & ~many)
    if len(lone):
        models = one_class(rows.of(lone), labels[lone], widths[lone], plan, request)
        parts.append(models.renumber(lone))
    return parts


def fit(
    given: Inputs,
    plan: Plan,
    request: Request,
    memory: int,
    began: float,
    question: Question | None = None,
) -> Models:
    """Trains groups that can be trained, all with both classes, in the order of their rows.

    question: to the optimizer, where the plan is not settled.
    """
    options, held, labels = request.options, None, given.labels
    with ExitStack() as stack, passes.watching_sigint():
        rows = replace(given.rows, charges=Charges(memory))
        if plan.canonical:
            kept, out = shuffle_rows(rows, request, memory)
            held = stack.enter_context(out)
            rows = replace(rows, groups=stack.enter_context(kept))
            # The mean of numbers is the start, and sums depend on the order.
            if not request.task.classifies:
                labels = rows.labels()
        parts = []
        for some in alike_in_values(rows, plan, options):
            inputs = Inputs(rows, labels, held, given.widths, given.terms).of(some)
            models = fit_alike(inputs, plan, request, began, question)
            parts.append(models if len(some) == len(labels) else models.renumber(some))
        return parts[0] if len(parts) == 1 else join_models(parts)


def alike_in_values(rows: Pass, plan: Plan, options: LinearOptions) -> Iterator[Index]:
    """Places of the groups that train together as far as the values of sparse rows go.

    In a batch all groups are scaled, or none: where order may not matter, neither may neighbours.
    """
    n = rows.n_groups
    if n == 1 or not rows.sparse or not plan.canonical or counts_features(plan, options):
        yield np.arange(n)
        return
    plain = np.array([needs_no_scale(rows.of(np.array([g])))[0] for g in range(n)])
    yield from (some for some in (np.flatnonzero(plain), np.flatnonzero(~plain)) if len(some))


def fit_alike(
    given: Inputs, plan: Plan, request: Request, began: float, question: Question | None
) -> Models:
    """Fits ordered rows, on the GPU if they go there and it is free."""

    def fit(rows: Pass, plan: Plan, request: Request) -> Models:
        return fit_placed(given, rows, plan, request, began, question)

    rows, device = given.rows, request.options.device
    small = rows.sparse or dense_bytes(rows.groups) < placement.NEVER_BELOW
    if device == "cpu" or (device == "auto" and small) or not wants_gpu(rows.groups, request):
        return fit(rows, plan, request)
    return train_in_turns(rows, plan, request, fit)


def fit_placed(
    given: Inputs,
    rows: Pass,
    plan: Plan,
    request: Request,
    began: float,
    question: Question | None,
) -> Models:
    """Fits the rows in place, or copies of those that are far from zero."""
    problem = describe(rows, given.labels, plan, request)
    where = locate_rows(problem, given.labels, request.options)
    origin, problem = where.origin, replace(problem, spread=where.spread)
    if origin is None:
        return fit_described(given, problem, plan, request, began, question)
    far = origin.any(axis=1)
    parts = []
    if not far.all():
        some = np.flatnonzero(~far)
        near = given.of(some), problem.of(some)
        models = fit_described(*near, plan, request, began, question)
        parts.append(models.renumber(some))
    some = np.flatnonzero(far)
    request = replace(request, near=None)  # its weights are in original units
    with move_origin(rows.of(some), given.of(some).held, origin[some]) as (copies, held):
        labels = copies.labels()
        inputs = replace(given.of(some), rows=copies, labels=labels, held=held)
        spread = None if where.spread is None else where.spread[some]
        problem = replace(describe(copies, labels, plan, request), spread=spread)
        models = fit_described(inputs, problem, plan, request, began, question)
    return join_models([*parts, models.renumber(some)]) if parts else models


def fit_described(
    given: Inputs,
    problem: Problem,
    plan: Plan,
    request: Request,
    began: float,
    question: Question | None,
) -> Models:
    """Fits an objective."""
    rows, labels, options = problem.rows, given.labels, request.options
    after, gpu = plan.after, isinstance(rows, DevicePass)
    timing, chosen = Timing(), Choice(plan, ())
    v = start(problem, labels, options, request.near)
    if question is not None:
        question = replace(question, gpu=gpu)
        asked = time.monotonic()
        chosen = decide(problem, v, plan, question)
        plan = replace(chosen.plan, after=after)
        timing.note_plan(chosen, time.monotonic() - asked)
    if gpu:
        plan = place_plan(plan, rows.groups, request)
    begun = problem
    if request.near is not None:
        plan = replace(plan, epsilon=max(plan.epsilon, request.near.epsilon))
        begun, v = take_newton_step(knowing(problem, request.near), v, request.near)
    run, chosen = Run(given.held, options, began, timing), replace(chosen, plan=plan)
    if question is not None and chosen.candidates:  # other plans can take over
        state, chosen = run_guarded(run, begun, v, chosen, question)
        plan = chosen.plan
    else:
        first = first_turn(plan, options, alternates(problem, options))
        state = run(begun, Beginning(v, chosen.kept), first)
    turns = run.turns(plan)
    if given.held is None:
        problem, state = go_on_in_crowds(problem, state, turns)
    if request.near is not None:
        leave(problem, state, request.near)
    if alternates(problem, options):
        problem, state = with_parameter(problem, state, options, plan, turns)
        plan = replace(plan, max_iter=turns.of_training)
    if not gpu:  # its seconds say nothing of the CPU's
        timing.report(plan, question)
    if state.converged.all():  # the warning of too few iterations was wrong
        plan = replace(plan, unmet=None)
    ended = collect_end(given, problem, state, plan, run)
    shown = options_json(options, plan, timing.as_options() | task_members(request.task, options))
    models = models_of(given, ended, shown, began)
    if not options.explain:
        return models
    text = explain_training(rows.groups, request, chosen, question, state, began)
    return replace(models, plan=Strings.same(text, len(labels)))


def alternates(problem: Problem, options: LinearOptions) -> bool:
    """Returns whether a parameter of the loss is found between descents."""
    return estimates_dispersion(problem, options) or problem.task.parameter == "delta"


def with_parameter(
    problem: Problem, state: State, options: LinearOptions, plan: Plan, turns: Turns
) -> tuple[Problem, State]:
    """The problem with that parameter, and where the descent for it ended."""
    if problem.task.parameter != "delta":
        return with_dispersion(problem, state, options, turns)
    if state.out_of_time:
        return problem, state
    return with_threshold(problem, state, options.delta, plan, turns)


def collect_end(
    given: Inputs, problem: Problem, state: State, plan: Plan, run: Run
) -> TrainingEnd:
    """Collects the results at the end of a training."""
    options, ratios = run.options, None
    limited = options.max_iter is not None
    problem, constant = determined.without_constants(problem, state)
    seen = outcome.infer(problem, state, plan, run.deadline, limited)
    seen.constant[:] |= constant
    terms, greatest, likely, spread = given.terms, None, {}, None
    if terms is not None:
        greatest = limit.greatest(state, seen.parted, seen.runaways)  # before `soften` changes it
    ridge = outcome.soften(problem, state, seen, plan, options, run.deadline)
    if options.fit:
        likely = members(problem, state, seen, given.labels, options)
        spread = covariances(problem, state, seen, plan.threads)
    if terms is not None and greatest is not None and spread is not None:
        whole = Whole(problem, seen, *greatest)
        turns = replace(run, held=None).turns(plan)  # no model without a term stops early
        ratios = likelihood_ratios(whole, terms, options, turns, run.is_over)
    kept = None
    if options.intervals is not None:
        kept = roots(problem, state, seen, plan.threads, given.widths)
    return TrainingEnd(problem, state, plan, seen, ridge, likely, spread, ratios, kept)
