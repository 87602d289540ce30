"""Stochastic gradient descent on rows that are read by row group, as many as it needs.

An iteration is one chunk of row groups: each of its rows moves the weights once, by the kernels
and with the schedule of `algorithms/parts/epochs.py`. The memory is that of one chunk and of the
held-out rows, whatever the size of the data.

Convergence is the option `converge`, measured on rows that are held out and never trained on, at
the mean of the last chunk's iterates: `gradient` (the default) is the largest violation of the
optimality condition there, in the units in which trainings on all rows measure it
(`objective.with_units`). Where a model is better than none the derivative of the loss has in these
units a standard deviation s of at most 1 (linear), or 1/2 / sqrt(4 p (1 - p)) for classes with
shares p and 1 - p, and a component of the gradient on n rows a standard error of s / sqrt(n). n is
(4 s / epsilon)^2: epsilon is four standard errors, so that the sample's noise alone seldom exceeds
it in any coordinate (Byrd, Chin, Nocedal, Wu, Sample size selection in optimization methods for
machine learning, 2012, section 3, tie the sample to the gradient's variance likewise). The rows
that are read first tell p; where more rows must be held out, reading starts again with more. An
epsilon that would need more rows than fit, as with rare events, is not for this sampler.

The end of a training is decided on rows that are held out. At the hinge no small gradient shows
the optimum, but a duality gap does. Dual variables that weights make of rows which they were not
trained on prove little: the gradient there has the sample's noise, which a small l2 divides. So
the held-out rows are trained on by themselves, once, until the gap is within a quarter of
`epsilon`. What that proves is below every objective on these rows, and weights that come within
half of `epsilon` of it are optimal there up to that tolerance.
"""

import math
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.library import OutOfTime
from tuskml.kernels.passes import Pass
from tuskml.learners import events
from tuskml.learners.classes import check_classes, class_fields
from tuskml.learners.linear.algorithms import BY_SAMPLER, UNASKED
from tuskml.learners.linear.algorithms.parts.epochs import (
    MeanOfEpoch,
    RunEpoch,
    StageEpochs,
    finish,
)
from tuskml.learners.linear.descent import deadline_of, report, settle_unknown, to_the_gap
from tuskml.learners.linear.gap import gaps, move_bound, wants_gap
from tuskml.learners.linear.inference.outcome import Inference, may_part
from tuskml.learners.linear.inference.separation import completely
from tuskml.learners.linear.objective import describe, start
from tuskml.learners.linear.operators import State, on_all_rows, steps
from tuskml.learners.linear.options import OPTIONS, refuse_unfit
from tuskml.learners.linear.own.operators import operators_of
from tuskml.learners.linear.planner.planning import plan_for
from tuskml.learners.linear.problem import Found, Index, Problem
from tuskml.learners.linear.request import LinearOptions, Plan, Request
from tuskml.learners.linear.result import (
    classes_of,
    judge,
    options_json,
    plan_line,
    settle_lost,
    with_lost,
)
from tuskml.learners.linear.streamed import skipping
from tuskml.learners.linear.streamed.choosing import StreamedChoice, choose, explain_streamed
from tuskml.learners.linear.streamed.plans import confirming
from tuskml.learners.linear.streamed.skipping import may_skip, most_chunks
from tuskml.learners.models import (
    Lists,
    Models,
    Strings,
    labels_lost,
    thin_history,
    with_leaks,
    with_lost_labels,
)
from tuskml.learners.options.kinds import LIST, ROW_GROUPS, STREAMED
from tuskml.learners.options.table import AboutTraining, idle_where, refuse_idle
from tuskml.learners.row_groups import (
    FIRST_ROW_GROUPS,
    Chunk,
    Layout,
    Piece,
    Reader,
    RowGroups,
    Storage,
    lay_out,
)

BY = "lbfgs"
"""The algorithm that trains on the held-out rows."""
SHARE = 0.5
"""Its tolerance as a share of epsilon."""


def least_objective(problem: Problem, request: Request, deadline: float | None) -> State | None:
    """The final state of a training on the problem's rows, with the proof in `below` and `line`.

    None if it did not converge.
    """
    options = replace(
        request.options,
        algorithm=BY,
        sampler=None,
        epsilon=SHARE * request.options.epsilon,
        max_iter=None,
        given=frozenset(),
    )
    rows = problem.rows
    plan = plan_for(rows.groups, replace(request, options=options))
    plan = replace(plan, sample_stride=1, threads=rows.threads)
    start = np.zeros((problem.n_groups, problem.d + 1))
    return to_the_gap(problem, start, plan, deadline)


@dataclass
class WithinBound:
    """Converge: the objective on held-out rows is within epsilon / 2 of the least one there.

    problem: of these rows; best: the proof there, None before the first evaluation; failed: True
    if there is none, so that no evaluation ends the training.
    """

    problem: Problem
    request: Request
    deadline: float | None
    best: State | None = None
    failed: bool = False

    def __call__(self, state: State, active: Index, found: Found | None) -> NDArray[np.bool_]:
        if found is not None and self.best is None and not self.failed:
            self.best = least_objective(self.problem, self.request, self.deadline)
            self.failed = self.best is None
        if found is None or self.best is None:
            return np.zeros(len(active), bool)
        state.below, state.line = self.best.below.copy(), self.best.line
        move_bound(self.problem, state, active)
        left = gaps(state, active, found.objective)
        state.gaps_seen.append((state.iteration, float(left.max(initial=0.0))))
        return np.asarray(left <= self.request.options.epsilon / 2)


def is_confirmed(
    problem: Problem, request: Request, state: State, others: NDArray[np.void]
) -> bool:
    """Returns whether the criterion is nearly met on rows of a row group that had no part in it.

    others: as `Pass.groups`.
    """
    elsewhere = problem.on(replace(problem.rows, groups=others))
    found, epsilon = elsewhere.evaluate(state.v), skipping.CONFIRMED * request.options.epsilon
    if not wants_gap(problem, request.options.converge, epsilon):
        return bool((found.violation <= epsilon).all())
    looser = replace(request, options=replace(request.options, epsilon=epsilon))
    proved = WithinBound(elsewhere, looser, None)
    return bool(proved(state, np.arange(problem.n_groups), found).all())


ALGORITHMS = (BY_SAMPLER.name, UNASKED.name)
SAMPLER, DRAWN = "shuffled-partition", "random-partition"
SAMPLERS = (SAMPLER, DRAWN)
LAZY = "lazy"
EPSILON = 0.01
CHUNK_ROWS = 1 << 16
LEAST_HELD = 1 << 12
MOST_HELD = 1 << 18
MOST_HELD_BYTES = 40 << 20
MOST_BYTES = 32 << 20
"""Bytes of a piece of a row group."""
ERRORS = 4.0
"""Standard errors in epsilon."""
SLACK = 1.25
"""Times the rows held out that would have been right, from which on they are read again."""


def is_wanted(request: Request) -> bool:
    """Returns whether the caller asks for an algorithm that can read by row group, in a way it
    can.
    """
    options, task = request.options, request.task
    chosen = options.algorithm in ALGORITHMS or (
        options.algorithm == "auto" and (options.sampler in SAMPLERS or may_skip(request))
    )
    return (
        chosen
        and not task.general
        and not (operators_of(options).keys() - {"sampler"})
        and options.sampler in (None, *SAMPLERS)
        and options.transform == LAZY
        and idle_where(OPTIONS.by_name, options, STREAMED) is None
        and options.store is None
        and options.device != "gpu"
    )


def in_force(options: LinearOptions) -> LinearOptions:
    """The options with this sampler's defaults: sgd, and an epsilon that a sample can show."""
    algorithm = options.algorithm
    if algorithm == "auto":
        algorithm = (BY_SAMPLER if options.sampler in SAMPLERS else UNASKED).name
    epsilon = options.epsilon if "epsilon" in options.given else EPSILON
    return replace(options, algorithm=algorithm, epsilon=epsilon)


def count_held_rows(request: Request, n_features: int, share: float = 0.5) -> int | None:
    """The number of rows to hold out; None if epsilon needs more than fit.

    share: of the rarer class, as far as it is known.
    """
    options = request.options
    most = min(MOST_HELD, rows_in(MOST_HELD_BYTES, n_features))
    if not options.epsilon or options.converge != "gradient":
        return min(4 * LEAST_HELD, most)
    deviation = 1.0 if request.task.quadratic else 0.5
    if request.task.name == "logistic":
        deviation /= math.sqrt(4 * share * (1 - share))
    needed = max(LEAST_HELD, math.ceil((ERRORS * deviation / options.epsilon) ** 2))
    return needed if needed <= most else None


def rows_in(size: int, n_features: int) -> int:
    """Rows of `n_features` features that fit into size bytes, packed as double."""
    return max(1, size // (8 * n_features + 8))


def refuse_options(request: Request) -> None:
    """Raises OptionError for options that change nothing where lists are read by row group."""
    task = request.task
    known = AboutTraining(task.name, lambda: (LIST, ROW_GROUPS), task.classifies)
    refuse_idle(OPTIONS.by_name, request.options, known)
    refuse_unfit(request.options, request.task)


def train_streamed(source: RowGroups, request: Request, n_features: int) -> Models | None:
    """Trains one model on dense rows that are read by row group; counters go into its options.

    None if this sampler does not suit the data or the options: too few row groups, an epsilon that
    is too small for a sample, a first sample without both classes; and if no option requires it
    and a part of the rows did not suffice.
    """
    began = time.monotonic()
    refuse_options(request)
    tried, most_iter = may_skip(request), None
    least = skipping.first_row_groups(len(source.sizes)) if tried else FIRST_ROW_GROUPS
    chosen = choose_plan(source.storage, request, n_features, least)
    if chosen is None:
        return None
    request = chosen.request
    options = request.options
    rng = np.random.default_rng(options.seed)
    mark, threads = passes.cancel_count(), options.threads or 1
    held, already = count_held_rows(request, n_features), (0, 0.0)
    with passes.watching_sigint():
        while held is not None:
            layout = lay_out_chunks(source.sizes, held, n_features, rng, least)
            if layout is not None and options.sampler == DRAWN:
                layout = replace(layout, drawn=True)
            if layout is None:
                return None
            if tried:
                most_iter = most_chunks(request, source.sizes, layout)
                if not most_iter:
                    return None
            reader = Reader(source, request.task, options.seed, threads, mark, *already)
            with ExitStack() as stack:
                first = stack.enter_context(reader.chunk(layout.first, held))
                if first is None or not usable(first, request):
                    return None
                check_classes(request.task, options, first.labels)
                wanted = count_held_rows(request, n_features, rarer_share(first.labels))
                if wanted is not None and wanted <= SLACK * held:
                    confirm = least == skipping.FEW_ROW_GROUPS and tried
                    training = Training(chosen, layout, reader, began, mark, most_iter, confirm)
                    models = run_by_chunks(training.run(first, layout.chunks(rng)), reader)
                    if models is not None:
                        ended = not tried or models.converged.all()
                        return of_labels(models, first) if ended else None
                    least = skipping.FIRST_ROW_GROUPS  # row groups are not alike
            held, already = wanted, (reader.rows_read, reader.bytes_read)
    return None


def choose_plan(
    storage: Storage, request: Request, n_features: int, least: int
) -> StreamedChoice | None:
    """The plan by row group; None where all rows are to be read; least: as `lay_out` has it."""
    forced, layout = lay_out_first(storage, request, n_features, least)
    return choose(storage, request, n_features, layout, forced)


def lay_out_first(
    storage: Storage, request: Request, n_features: int, least: int
) -> tuple[LinearOptions, Layout | None]:
    """The options of a training by row group, and how it would read, None where it cannot."""
    forced = replace(request, options=in_force(request.options))
    rng = np.random.default_rng(forced.options.seed)
    held = count_held_rows(forced, n_features)
    layout = None if held is None else lay_out_chunks(storage.sizes, held, n_features, rng, least)
    return forced.options, layout


def lay_out_chunks(
    sizes: Sequence[int], held: int, n_features: int, rng: "np.random.Generator", least: int
) -> Layout | None:
    """The layout of `lay_out`, with chunks and pieces that fit into memory."""
    most = rows_in(MOST_BYTES, n_features)
    return lay_out(sizes, held, min(CHUNK_ROWS, most), most, rng, least)


Run = Generator[list[Piece], Chunk | None, Models | None]
"""A training that asks for pieces, gets their rows, and returns the model."""


def run_by_chunks(run: Run, reader: Reader) -> Models | None:
    """Runs a training that requests its chunks, and returns its models."""
    try:
        pieces = next(run)
        while True:
            with reader.chunk(pieces) as chunk:
                pieces = run.send(chunk)
    except StopIteration as end:
        models: Models | None = end.value
        return models


def of_labels(models: Models, first: Chunk) -> Models:
    """The model with a status that says where a feature is the label, or labels are rounded."""
    lost = labels_lost(first.labels, np.zeros(1, bool))
    return with_lost_labels(with_leaks(models, first.rows), lost)


def rarer_share(labels: NDArray[np.void]) -> float:
    """The share of the rarer class in the rows that were read first, of LABELS."""
    high = float(labels["n_high"][0] / labels["n_rows"][0])
    return min(high, 1 - high)


def usable(first: Chunk, request: Request) -> bool:
    """Returns whether a sample has rows of each class, some of them held out."""
    if not first.held["n_rows"][0] or not first.rows["n_rows"][0]:
        return False
    return not request.task.classifies or bool(first.labels["low"][0] != first.labels["high"][0])


@dataclass
class StreamedEpoch:
    """Update: the epoch of `sgd` on one chunk of rows, which is there when it is called."""

    inner: RunEpoch
    chunk: Chunk | None

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert self.chunk is not None
        groups, self.chunk = self.chunk.rows, None
        self.inner(part.on(replace(part.rows, groups=groups)), state, found)


@dataclass(frozen=True)
class Training:
    """One training: its plan, and the source of its rows.

    most_iter: chunks to read; confirm: whether other rows have to confirm the result.
    """

    chosen: StreamedChoice
    layout: Layout
    reader: Reader
    began: float
    mark: int
    most_iter: int | None = None
    confirm: bool = False

    @property
    def request(self) -> Request:
        """The request with the plan's algorithm and sampler."""
        return self.chosen.request

    def run(self, first: Chunk, chunks: Iterator[list[Piece]]) -> Run:
        """Trains from the first chunk on; returns None where other rows do not confirm the result.

        What it yields are the pieces that it needs next, in the order of chunks.
        """
        options, task = self.request.options, self.request.task
        plan = self.plan(first)
        rows = Pass(
            first.held, task.loss, None, None, options.fit_intercept, 1, cancel_mark=self.mark
        )
        described = describe(rows, first.labels, plan, self.request)
        problem = varying(described)
        v = start(problem, first.labels, options)
        update = StreamedEpoch(RunEpoch(plan), first)
        deadline = deadline_of(options, self.began)
        gap = wants_gap(problem, plan.converge, plan.epsilon)
        proved = WithinBound(problem, self.request, deadline) if gap else None
        stage = StageEpochs(plan, v)
        operators = on_all_rows(problem, plan, deadline, stage, MeanOfEpoch(plan), update, proved)
        state = operators.stage(problem)
        try:
            for _ in steps(problem, state, operators, report):
                while update.chunk is None:
                    update.chunk = yield next(chunks)
        except OutOfTime:  # the weights are those before the pass that it came in
            state.out_of_time = True
        if self.confirm and state.converged.all():
            other = yield confirming(next(chunks), int(first.held["n_rows"][0]))
            if other is None or not is_confirmed(problem, self.request, state, other.rows):
                return None
        if not state.converged.all():  # else where it was measured
            finish(problem, state)
        settle_unknown(problem, state)
        events.tell(events.Event(1, self.reader.n_usable, 0, float("nan")))
        resting = (described.scale == 0) & (state.v[:, :-1] == 0)
        status = judge_statuses(
            replace(problem, scale=np.where(resting, 0.0, problem.scale)), state, plan
        )
        return self.model(problem, state, plan, first, status)

    def plan(self, first: Chunk) -> Plan:
        """The planner's settings; max_iter counts chunks, by default those of its epochs."""
        plan = plan_for(first.rows, self.request)
        if self.most_iter is not None:
            plan = replace(plan, max_iter=self.most_iter)
        elif self.request.options.max_iter is None:
            chunks = 1 + self.layout.chunks_in_a_pass()
            plan = replace(plan, max_iter=min(plan.max_iter * chunks, 2**31 - 1))
        return replace(plan, canonical=True, threads=1, shuffle=True, sampler=None)

    def model(
        self, problem: Problem, state: State, plan: Plan, first: Chunk, status: Strings
    ) -> Models:
        """The model value; its counters record what was read."""
        weights = problem.to_caller(state.v)
        status = with_lost(status, settle_lost(problem, state, first.labels, weights))
        counters = self.reader.counters() | {"rows_held_out": int(first.held["n_rows"][0])}
        read, there = counters["row_groups_read"], counters["row_groups"]
        told = f"{plan_line(plan)}, {read:,} of {there:,} row groups"
        took = time.monotonic() - self.began
        more = {
            "sampler": self.request.options.sampler or SAMPLER,
            "transform": self.chosen.transform,
            "reading": self.chosen.reading(took, self.reader.bytes_read),
            "counters": counters,
        }
        options = options_json(self.request.options, plan, more)
        if self.request.options.explain:
            told = explain_streamed(self.chosen, plan, state, took, self.reader)
        width = np.full(1, problem.d, np.int64)
        return Models.build(
            first.rows,
            self.request.task.name,
            coef=Lists.of_rows(weights[:, :-1], width),
            intercept=np.ascontiguousarray(weights[:, -1]),
            **class_fields(classes_of(self.request.task, first.labels)),
            n_rows=np.full(1, self.reader.n_usable, np.int64),
            n_skipped=np.full(1, self.reader.n_skipped, np.int64),
            note=Strings.same(
                self.reader.remarks.note(self.reader.n_usable, self.reader.n_skipped), 1
            ),
            n_features=width,
            loss=state.objective,
            history=thin_history(state.history, 1),
            iterations=state.iterations,
            converged=state.converged.astype(np.uint8),
            status=status,
            plan=told,
            seconds=np.full(1, took),
            options=options,
        )


def judge_statuses(problem: Problem, state: State, plan: Plan) -> Strings:
    """The status, as in memory; no scale: a feature that varied in no row. Classes are apart as
    far as rows tell that were held out.
    """
    seen = Inference.none(problem)
    if problem.task.classifies and may_part(problem.task) and not (problem.l1 or problem.l2):
        seen.parted[:] = completely(problem, state.v)
    return judge(problem, state, plan, seen.constant, seen.dependent, seen.parted)


def varying(problem: Problem) -> Problem:
    """A feature that is constant in the sample may yet vary: it keeps its scale."""
    return replace(problem, scale=np.where(problem.scale > 0, problem.scale, 1.0))
