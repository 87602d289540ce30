"""The trainer: a batch of groups in, a batch of models out. One model is one group.

All groups of a call that share task, options, storage and number of features train together: each
iteration is one kernel call for all that still move.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.groups import devices, events, factorization, finite, outcome
from tuskml.groups.explanation import Actual, document
from tuskml.groups.explanation_text import written
from tuskml.groups.factorization_settings import refuse_elsewhere
from tuskml.groups.models import Lists, Models, Strings, by_group, joined, resolved, thinned
from tuskml.groups.objective import describe, start
from tuskml.groups.own import (
    loss_of_one_class,
    own_members,
    refuse_labels,
    refuse_lost,
)
from tuskml.groups.planning import Request, by_statistics, decide, first_plan
from tuskml.groups.renumbered import apart, own_request, restored
from tuskml.groups.timing import Timing
from tuskml.groups.validation import EarlyStop, held_out_counts
from tuskml.optimizer.choice import Choice
from tuskml.optimizer.costs import Question
from tuskml.udas import kernels
from tuskml.udas.algorithms import operators_of
from tuskml.udas.algorithms.sgd import TRIAL_ROWS
from tuskml.udas.algorithms.sgd import finish as finish_epochs
from tuskml.udas.charged import FLOOR, Charges, look_at_limits, memory_use
from tuskml.udas.gap import WithinGap, settle_gap, wants_gap
from tuskml.udas.gather import gathered
from tuskml.udas.gpu import placement
from tuskml.udas.kernels import Floats, Pass
from tuskml.udas.operators import State, run
from tuskml.udas.options import Options
from tuskml.udas.own_tasks import refuse_together
from tuskml.udas.plan import Plan
from tuskml.udas.problem import Index, Problem
from tuskml.udas.renumber import renumbered
from tuskml.udas.tasks import Task

MOST_WEIGHTS = 1 << 23
"""Weights, or entries of curvature, that train together."""
KNOW_GAP = ("dcd", "newton")
"""Algorithms with dual variables of their own."""
BYTES_A_WEIGHT = 64
"""That arrays of a training come to, about, for each of these."""


def train(groups: NDArray[np.void], request: Request, memory: int) -> Iterator[Models]:
    """Trains each of the groups (kernels.GROUP); models carry their groups' places in `groups`.

    memory: address of the account that copies of rows are charged to.
    """
    if request.task.factorizes:
        yield from factorization.train(groups, request.options, memory)
        return
    refuse_elsewhere(request.options)
    refuse_together(request.task, request.options)
    if needs_much(groups):
        look_at_limits(memory)
    with renumbered(groups, memory, kernels.cancel_mark()) as seen:
        for places in alike(seen.groups, request.options.ordered, weights_at_once(memory)):
            for some in apart(places, seen.ids, request.options):
                own = own_request(request, seen.ids.get(int(some[0])), int(groups["dim"][some[0]]))
                for models in train_in_parts(seen.groups, some, own, memory):
                    yield from restored(models, seen, groups, memory)


def needs_much(groups: NDArray[np.void]) -> bool:
    """Whether a training of the groups may take more than it may have in any case."""
    widest = float(groups["dim"].max()) + 1
    return len(groups) * widest * (widest + 1) / 2 * BYTES_A_WEIGHT > FLOOR


def weights_at_once(memory: int) -> int:
    """Weights that train together: no more than the account has room for."""
    use = memory_use(memory)
    room = max(use.budget - use.resident, use.budget // 4, FLOOR)
    return min(MOST_WEIGHTS, room // BYTES_A_WEIGHT)


def train_in_parts(
    groups: NDArray[np.void], places: Index, request: Request, memory: int
) -> Iterator[Models]:
    """Trains groups together, or where memory does not suffice for that one half after another."""
    models = None
    try:
        with np.errstate(all="ignore"):  # what is not finite is looked for at the end
            models = train_alike(groups[places], request, memory)
    except MemoryError:
        if len(places) == 1:
            raise
    if models is not None:
        yield models.numbered(places[models.group])
        return
    for half in np.array_split(places, 2):
        yield from train_in_parts(groups, half, request, memory)


def alike(groups: NDArray[np.void], ordered: bool, weights: int = MOST_WEIGHTS) -> Iterator[Index]:
    """Places of the groups that train together: of one kind, width and size, with so many weights.

    What a group shares with its neighbours, such as the size of a sample, depends on nothing that
    is not the same in all of them; when order may not matter, neither may neighbours.
    """
    if len(groups) == 1:
        yield np.zeros(1, np.intp)
        return
    sparse = groups["kind"] >= 2
    power = 2 ** np.ceil(np.log2(np.maximum(groups["dim"], 1))).astype(np.int64)
    width = np.where(sparse & (not ordered), power, groups["dim"])
    size = np.maximum(np.log2(groups["n_rows"] / TRIAL_ROWS).astype(np.int64), 0)
    keys = np.stack([groups["kind"], width, size])
    _, bucket = np.unique(keys, axis=1, return_inverse=True)
    for number in range(bucket.max() + 1):
        places = np.flatnonzero(bucket == number)
        widest = int(groups["dim"][places].max()) + 1
        each = widest * (widest + 1) // 2 if widest <= outcome.MOST_WEIGHTS else 8 * widest
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
    plan, question = first_plan(groups, request)
    rows = Pass(
        groups,
        request.task.loss,
        None,
        None,
        request.options.fit_intercept,
        plan.threads,
        cancel_mark=kernels.cancel_mark(),
    )
    if not plan.canonical:  # that moves them anyway
        rows = gathered(rows)
        groups = rows.groups
    labels = rows.labels()
    two = np.ones(len(groups), bool)
    refuse_labels(request.task, labels)
    if request.task.classifies:
        refuse_third_class(request.task, labels)
        two = labels["low"] != labels["high"]
    parts = []
    if two.any():
        chosen = np.flatnonzero(two)
        some = rows.of(chosen)
        models = fit(some, labels[chosen], widths[chosen], plan, request, memory, began, question)
        parts.append(models.numbered(chosen))
    if not two.all():
        lone = np.flatnonzero(~two)
        models = one_class(rows.of(lone), labels[lone], widths[lone], plan, request)
        parts.append(models.numbered(lone))
    events.tell(events.Event(len(groups), int(groups["n_rows"].sum()), 0, float("nan")))
    return parts[0] if len(parts) == 1 else joined(parts)


def refuse_third_class(task: Task, labels: NDArray[np.void]) -> None:
    """A classifier's labels are two distinct values."""
    bad = np.flatnonzero(labels["third_row"])
    if len(bad):
        seen = labels[bad[0]]
        raise DataError(
            f"label is {seen['third']:g} in row {seen['third_row']} of a group whose labels were "
            f"{seen['low']:g} and {seen['high']:g}, '{task.name}' needs two classes"
        )


def fit(
    rows: Pass,
    labels: NDArray[np.void],
    widths: NDArray[np.int64],
    plan: Plan,
    request: Request,
    memory: int,
    began: float,
    question: Question | None = None,
) -> Models:
    """Trains groups that can be trained, all with both classes.

    question: to the optimizer, where the plan is not settled.
    """
    options = request.options
    with ExitStack() as stack, kernels.watching_sigint():
        held = None
        rows = replace(rows, charges=stack.enter_context(Charges(memory)))
        if plan.canonical:
            counts = held_out_counts(rows.groups["n_rows"], options.validation)
            kept, out = rows.shuffled(memory, options.seed, counts)
            held = stack.enter_context(out)
            rows = replace(rows, groups=stack.enter_context(kept))
            # The mean of numbers is the start, and sums depend on the order.
            if not request.task.classifies:
                labels = rows.labels()
        gpu = devices.wants_gpu(rows.groups, request)
        if gpu:
            rows = stack.enter_context(placement.on_gpu(rows))
        problem = describe(rows, labels, plan, request)
        timing, chosen = Timing(), Choice(plan, ())
        if question is not None:
            question = replace(question, gpu=gpu)
            asked = time.monotonic()
            chosen = decide(problem, start(problem, labels, options), plan, question)
            plan = chosen.plan
            timing.planned(chosen, time.monotonic() - asked)
        if gpu:
            plan = devices.placed(plan, request.task)
        state = descend(problem, labels, held, plan, options, began, timing)
        if not gpu:  # its seconds say nothing of the CPU's
            timing.report(plan, question)
        if state.converged.all():  # what was said to be too little was not
            plan = replace(plan, unmet=None)
        seen = outcome.infer(problem, state, plan)
        ridge = outcome.soften(problem, state, seen, plan, options, began)
        status = outcome.judge(problem, state, plan, seen)
        n_rows = rows.groups["n_rows"] + (0 if held is None else held["n_rows"])
        weights = problem.to_caller(state.v)
        lost = finite.settle_lost(problem, state, labels, weights)
        seen.std_err[lost | ~np.isfinite(seen.std_err).any(axis=1)] = np.nan
        status = finite.with_lost(status, lost)
        told = plan.describe()
        if options.explain:
            told = explained(rows.groups, request, chosen, question, state, began)
    n = len(labels)
    share = n_rows / n_rows.sum() * (time.monotonic() - began)
    return Models(
        group=np.arange(n),
        task=Strings.same(request.task.name, n),
        coef=Lists.of_rows(weights[:, :-1], widths),
        intercept=np.ascontiguousarray(weights[:, -1]),
        std_err=std_err_lists(seen.std_err, widths),
        classes=classes_of(request.task, labels),
        n_rows=n_rows,
        n_skipped=rows.groups["n_skipped"].copy(),
        n_features=widths,
        loss=state.objective,
        history=thinned(state.history, n),
        iterations=state.iterations,
        converged=state.converged.astype(np.uint8),
        status=status,
        plan=Strings.same(told, n),
        seconds=share,
        options=by_group(
            resolved(options, plan, timing.shown() | (own_members(request.task) or {})),
            n,
            outcome.noted(problem, seen, n_rows, ridge),
        ),
    )


def explained(
    groups: NDArray[np.void],
    request: Request,
    chosen: Choice,
    question: Question | None,
    state: State,
    began: float,
) -> str:
    """The whole explanation of a batch's training, with what it came to."""
    if question is not None and not chosen.candidates:  # it was instant anyway
        whole = by_statistics(chosen.plan, question)
        chosen = replace(chosen, candidates=whole.candidates)
    took = time.monotonic() - began
    actual = Actual(state.iterations, took, int(state.converged.sum()))
    return written(document(groups, request, chosen, actual), request.options.format)


def std_err_lists(std_err: Floats, widths: NDArray[np.int64]) -> Lists:
    """A list a group; none where no element has a meaning."""
    known = ~np.isnan(std_err).all(axis=1)
    return Lists.of_rows(std_err, np.where(known, widths + 1, 0))


def classes_of(task: Task, labels: NDArray[np.void]) -> Lists:
    """The two labels in rising order; none for numbers."""
    n = len(labels)
    if not task.classifies:
        return Lists(np.empty(0), np.zeros(n + 1, np.int64))
    pairs = np.stack([labels["low"], labels["high"]], axis=1)
    return Lists.of_rows(pairs, np.full(n, 2, np.int64))


def descend(
    problem: Problem,
    labels: NDArray[np.void],
    held: NDArray[np.void] | None,
    plan: Plan,
    options: Options,
    began: float,
    timing: Timing,
) -> State:
    """Runs the plan's stages, each from where the one before it ended."""
    deadline = None if options.time is None else began + options.time
    v = start(problem, labels, options)
    iterations = np.zeros(problem.n_groups, np.int64)
    state = State.at(v)
    monitor = None
    for part, settings in stages(problem, plan):
        left = plan.max_iter - int(iterations.max())
        if left <= 0:
            break
        if held is not None and options.validation and settings is plan:
            monitor = EarlyStop(part, held)
        within = replace(settings, max_iter=min(settings.max_iter, left))
        timed = part.on(replace(part.rows, deadline=deadline))
        chosen = operators_of(timed, within, v, deadline)
        if settings is plan and ends_by_gap(problem, plan):
            chosen = replace(chosen, converge=WithinGap(timed, plan.epsilon))
        operators, clock = timing.watched(chosen)
        state = run(timed, operators, monitor or report)
        timing.add(state, clock, part.rows.stride > 1)
        iterations += state.iterations
        v = usable(problem, state.v, v)
    state.iterations = iterations
    if monitor is not None:
        monitor.restore(state)
    if "current" in state.memory:
        finish_epochs(problem, state)
    settle_unknown(problem, state)
    if ends_by_gap(problem, plan):
        settle_gap(problem, state, plan.smoothing[-1], plan.epsilon)
    refuse_lost(problem, state)
    return state


def ends_by_gap(problem: Problem, plan: Plan) -> bool:
    """Whether a training ends by a duality gap that its algorithm does not know itself."""
    known = plan.family in KNOW_GAP and plan.smoothing == (0.0,)
    return not known and wants_gap(problem, plan.converge, plan.epsilon)


def stages(problem: Problem, plan: Plan) -> Iterator[tuple[Problem, Plan]]:
    """A sample of the rows first, the corner from blunt to sharp, then the whole problem.

    The stages before the last are its start: they end at a tolerance even if it does not.
    """
    if plan.sample_stride > 1:
        rough = replace(plan, epsilon=max(plan.epsilon, 1e-3), max_iter=min(plan.max_iter, 8))
        sample = replace(problem.rows, stride=plan.sample_stride, smoothing=plan.smoothing[0])
        yield problem.on(sample), rough
    share = max(1, plan.max_iter // len(plan.smoothing))
    for smoothing in plan.smoothing[:-1]:
        blunt = replace(plan, epsilon=plan.epsilon or 1e-6, max_iter=share)
        yield problem.on(replace(problem.rows, smoothing=smoothing)), blunt
    yield problem.on(replace(problem.rows, smoothing=plan.smoothing[-1])), plan


def usable(problem: Problem, v: Floats, before: Floats) -> Floats:
    """Where a start on a sample ran away, the point before it."""
    size = np.ones(len(v)) if problem.label_size is None else problem.label_size
    wild: NDArray[np.bool_] = np.any(~(np.abs(v) < 1e3 * size[:, None]), axis=1)
    return np.where(wild[:, None], before, v)


def settle_unknown(problem: Problem, state: State) -> None:
    """The objective where the weights ended: where it is not known, or was of a smoothed hinge."""
    unknown = np.flatnonzero(~state.known | (not problem.task.smooth))
    if len(unknown):
        state.objective[unknown] = problem.of(unknown).objective(state.v[unknown])
        state.known[unknown] = True


def report(problem: Problem, state: State) -> None:
    """Tells listeners how far a batch is."""
    if events.anyone() and state.history:
        known = state.history[-1]
        known = known[~np.isnan(known)]  # of those that moved
        objective = float(known.sum()) / max(1, len(known))
        events.tell(events.Event(0, 0, state.iteration, objective))


def one_class(
    rows: Pass,
    labels: NDArray[np.void],
    widths: NDArray[np.int64],
    plan: Plan,
    request: Request,
) -> Models:
    """Groups with a single class: the constant model, its intercept the smoothed log-odds.

    The class counts as positive when it is above 0; (n + 1/2) / (1/2) are its odds.
    """
    n = len(labels)
    odds = np.log(2.0 * rows.groups["n_rows"] + 1.0)
    intercept = np.where(labels["low"] > 0, odds, -odds)
    none = Lists(np.empty(0), np.zeros(n + 1, np.int64))
    return Models(
        group=np.arange(n),
        task=Strings.same(request.task.name, n),
        coef=Lists.of_rows(np.zeros((n, int(widths.max()))), widths),
        intercept=intercept,
        std_err=none,
        classes=Lists(np.ascontiguousarray(labels["low"]), np.arange(n + 1)),
        n_rows=rows.groups["n_rows"].copy(),
        n_skipped=rows.groups["n_skipped"].copy(),
        n_features=widths,
        loss=loss_of_one_class(request.task, intercept),
        history=none,
        iterations=np.zeros(n, np.int64),
        converged=np.zeros(n, np.uint8),
        status=Strings.same("one class", n),
        plan=Strings.same("constant", n),
        seconds=np.zeros(n),
        options=Strings.same(resolved(request.options, plan, own_members(request.task)), n),
    )
