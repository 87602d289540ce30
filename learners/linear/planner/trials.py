"""Trials of candidates: on samples of rows, by passes, at the hinge, on some of the groups."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OperatorError
from tuskml.kernels.hinge import Corner
from tuskml.kernels.library import OutOfTime
from tuskml.kernels.passes import Floats, Meter
from tuskml.kernels.speculated import Method
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.algorithms import ALGORITHMS as BUILT_IN
from tuskml.learners.linear.descent import to_the_gap
from tuskml.learners.linear.gap import wants_gap
from tuskml.learners.linear.operators import Budget, Loop, State, Tolerance, run
from tuskml.learners.linear.own.assembled import operators_of
from tuskml.learners.linear.own.operators import steps_in_python
from tuskml.learners.linear.planner.candidates import (
    CURVATURE,
    by_trial,
    candidate,
    corners,
    families,
    unable,
)
from tuskml.learners.linear.planner.choice import (
    SAMPLE_AT_LEAST,
    Candidate,
    SampleRun,
    assess,
    dependable,
)
from tuskml.learners.linear.planner.cost import Costs, Work
from tuskml.learners.linear.planner.curves import (
    AtCorner,
    Curve,
    CustomSeconds,
    Interval,
    Question,
    fit,
)
from tuskml.learners.linear.planner.iterations import SCARCE
from tuskml.learners.linear.problem import Found, Index, Problem
from tuskml.learners.linear.request import Plan, Speculate
from tuskml.learners.linear.tasks import LinearTask
from tuskml.learners.machine import constants

STAND_INS = 4
"""Groups that are tried of a batch of many."""
MOST_ITERATIONS = 200
LEAST_ERROR = 1e-300
FIRST_SHARE = 0.7
"""Share of the remaining time, for a candidate that others follow."""
SHARE, LEAST_SECONDS = 0.05, 0.002
"""Share of the planned training's seconds, and the least seconds of any planning."""


def budget(expected: float) -> float:
    """Seconds that planning a training of `expected` seconds may take."""
    return max(SHARE * expected, LEAST_SECONDS)


@dataclass
class Errors:
    """Converge: notes the criterion's worst value by iteration, and judges as the tolerance does.

    floor: the smoothing of the hinge's corner, below which no error is.
    """

    within: Tolerance
    floor: float
    found: list[float]

    def __call__(self, state: State, active: Index, found: Found | None) -> NDArray[np.bool_]:
        measured = self.within.measure(state, active, found)
        if measured is None:
            return np.zeros(len(active), bool)
        if len(active):
            self.found.append(max(float(np.max(measured)), self.floor))
        return np.asarray(measured <= self.within.epsilon)


def stand_ins(problem: Problem, start: Floats) -> tuple[Problem, Floats]:
    """The largest groups of a batch."""
    if problem.n_groups <= STAND_INS:
        return problem, start
    which = np.sort(np.argsort(problem.rows.groups["n_rows"], kind="stable")[-STAND_INS:])
    return problem.of(which), start[which]


def sample_stride(problem: Problem, wanted: float, asked: Speculate | None) -> int:
    """The stride k of chunks: the sample is about that share of the rows, and large enough.

    asked: the option's value, about that many rows in whole chunks.
    """
    rows = int(problem.rows.groups["n_rows"].max())
    if asked is not None:
        return max(1, rows // asked.sample)
    least = (
        max(SAMPLE_AT_LEAST, 4 * (problem.d + 1)) if not problem.rows.sparse else SAMPLE_AT_LEAST
    )
    return int(max(1, min(1 / max(wanted, 1e-3), rows // least, 64)))


def speculate(
    problem: Problem,
    start: Floats,
    candidates: Sequence[Candidate],
    seconds: float,
    asked: Speculate | None = None,
) -> dict[str, SampleRun]:
    """Runs the candidates on a sample; those without enough time are left out.

    seconds: for all of them; the rest of one is used by the next. asked: the option.
    """
    problem, start = stand_ins(problem, start)
    end = time.monotonic() + seconds
    tried = [one for one in candidates if affordable(one, seconds)]
    known: dict[str, SampleRun] = {}
    for place, one in enumerate(tried):
        now = time.monotonic()
        share = (end - now) * (1.0 if place == len(tried) - 1 else FIRST_SHARE)
        if share <= 0:
            break
        passes = max(one.iterations.point, 4.0)
        wanted = share / (max(one.cost.iteration, 1e-9) * passes)
        stride = sample_stride(problem, wanted, asked)
        if not problem.task.smooth and proves_end(one.plan):
            if asked is None and one.iterations.low * one.cost.iteration / stride > share:
                continue  # its end is all that tells, and would not be reached
            found = try_to_gap(problem, start, one.plan, stride, now + share)
            if found is not None:  # it takes so long, and the others are worth a part of that
                known[one.plan.algorithm] = found
                takes = one.cost.total(len(found.curve.errors))
                end = min(end, time.monotonic() + budget(takes))
            continue
        try:
            errors = trial(problem, start, looser(one.plan, asked), stride, now + share)
        except OperatorError:
            if one.plan.base is None:
                raise
            continue  # this custom algorithm was not named
        curve = fit(errors)
        if curve is None and one.plan.base is not None:
            curve = finished_curve(errors, one.plan.epsilon)
        if curve is not None:
            known[one.plan.algorithm] = SampleRun(curve, 1.0 / stride)
    return known


def looser(plan: Plan, asked: Speculate | None) -> Plan:
    """The plan to the tolerance of the option, from which on its errors are extrapolated."""
    return plan if asked is None else replace(plan, epsilon=max(plan.epsilon, asked.epsilon))


def proves_end(plan: Plan) -> bool:
    """Returns whether a training of the hinge ends by a gap, and its trial has to."""
    return len(plan.smoothing) > 1 or ALGORITHMS[plan.family].proves_gap


def try_to_gap(
    problem: Problem, start: Floats, plan: Plan, stride: int, deadline: float
) -> SampleRun | None:
    """Runs a sample to the hinge's optimum and counts its iterations; None if time does not
    suffice.

    Nothing is extrapolated: a few iterations on a smoothed corner do not predict the rest.
    """
    within = replace(plan, sample_stride=1, threads=problem.rows.threads)
    sample = problem.on(replace(problem.rows, stride=stride))
    state = to_the_gap(sample, start, within, deadline)
    if state is None:
        return None
    errors = (*(1.0,) * max(int(state.iterations.max()), 1), LEAST_ERROR)
    return SampleRun(Curve("linear", errors, (0.0, 0.0), 1.0, 0.0, 0.0), 1.0 / stride)


def finished_curve(errors: list[float], epsilon: float) -> Curve | None:
    """The curve of an algorithm that finished before one could be fitted; nothing is
    extrapolated.
    """
    if not errors or not errors[-1] <= epsilon:
        return None
    return Curve("linear", tuple(errors), (0.0, 0.0), 1.0, 0.0, 0.0)


def affordable(one: Candidate, seconds: float) -> bool:
    """Returns whether a few iterations on the smallest sample, and steps tried before them, leave
    time.
    """
    epochs = ALGORITHMS[one.plan.family].stochastic
    return 4 * one.cost.iteration / 64 < seconds and not (epochs and one.cost.setup > seconds / 4)


def trial(
    problem: Problem, start: Floats, plan: Plan, stride: int, deadline: float
) -> list[float]:
    """The errors of one plan on every stride-th chunk of the rows."""
    errors: list[float] = []
    v = start
    settings = replace(
        plan, sample_stride=1, max_iter=MOST_ITERATIONS, threads=problem.rows.threads
    )
    if ALGORITHMS[plan.family].noisy:
        settings = replace(settings, max_iter=min(plan.max_iter, 8))
    in_python = steps_in_python(plan.algorithm, plan.sampler, problem.task.general)
    for smoothing in plan.smoothing:
        rows = replace(problem.rows, stride=stride, smoothing=smoothing)
        if in_python:  # its samples are of whatever rows there are
            rows = problem.rows.head(max(1, int(problem.rows.groups["n_rows"].max()) // stride))
        part = problem.on(replace(rows, deadline=deadline))
        try:
            operators = operators_of(part, settings, v, deadline)
            watched = Errors(Tolerance.of(part, settings), smoothing, errors)
        except OutOfTime:  # the time before the first iteration was too long
            break
        state = run(part, replace(operators, converge=watched))
        if state.out_of_time:
            break
        v = state.v
    return errors


# Timings of custom passes and iterations, measured on some of the rows.
#
# The constants of `constants.py` are for built-in kernels. Here a custom task, and each custom
# algorithm, is run for a moment on the first rows of the largest groups, at two sizes, and a
# straight line through both gives the time for all rows.

FEW, MORE = 2048, 8192
"""Rows of a group."""
MOST_GROUPS = 4
FAR = 20.0
"""Times the seconds of the best plan, as they are computed, beyond which a plan is not timed."""


def time_custom_code(problem: Problem, start: Floats, question: Question) -> Question:
    """The question with timings of custom code; the same if there is none.

    Trainings that must be reproducible are not timed.
    """
    own_task = question.task.general
    names = [name for name in by_trial(question) if may_run(question, name)]
    if question.measured or question.options.keeps_order or not (names or own_task):
        return question
    largest = np.argsort(problem.rows.groups["n_rows"], kind="stable")[-MOST_GROUPS:]
    which = np.sort(largest)
    some, begin = problem.of(which), start[which]
    found = {name: time_plan(some, begin, question, name) for name in names}
    if own_task:
        found["pass gradient"] = time_pass(some, begin, question, curvature=False)
        timed = replace(question, measured=found)
        if any(may_win(timed, name) for name in families(question) if begins_curved(name)):
            found[CURVATURE] = time_pass(some, begin, question, curvature=True)
    return replace(question, measured=found)


def begins_curved(name: str) -> bool:
    """Returns whether an algorithm is built-in and starts with a pass for the curvature."""
    return name in BUILT_IN and BUILT_IN[name].begins_by_curvature


def may_run(question: Question, name: str) -> bool:
    """Returns whether an algorithm could be chosen if its time were known; else it is not timed.

    Its memory counts too: a trial that does not fit would end the training.
    """
    plan = candidate(question, name)
    algorithm = BUILT_IN[plan.family]
    memory = algorithm.memory(Costs(question, constants.of_host()))
    return algorithm.refusal(question.task) is None and unable(question, plan, memory) is None


def may_win(question: Question, name: str) -> bool:
    """As `may_run`, and by the kernels' own constants it takes at most FAR times the least."""
    if not may_run(question, name):
        return False
    known = assess(question, constants.of_host())
    able = {one.plan.algorithm: one for one in known if one.refusal is None}
    least = min((one.expected_seconds for one in able.values()), default=0.0)
    return name not in able or able[name].expected_seconds <= FAR * least


def time_pass(
    problem: Problem, start: Floats, question: Question, curvature: bool
) -> CustomSeconds:
    """A pass over all rows."""

    def once(part: Problem) -> tuple[float, float]:
        part.evaluate(start, curvature)  # the first one has memory to get
        began = time.perf_counter()
        part.evaluate(start, curvature)
        return 0.0, time.perf_counter() - began

    try:
        return extrapolate(problem, question, once)
    except MemoryError:
        if not curvature:
            raise
        return CustomSeconds(0.0, 0.0, "its curvature did not fit into memory")


def time_plan(problem: Problem, start: Floats, question: Question, name: str) -> CustomSeconds:
    """Times an algorithm's iteration and its setup; or notes its failure."""
    plan = candidate(question, name)

    def once(part: Problem) -> tuple[float, float]:
        setup = time_run(part, plan, start, 0)
        return setup, max(time_run(part, plan, start, 2) - setup, 0.0) / 2

    try:
        return extrapolate(problem, question, once)
    except (OperatorError, MemoryError) as error:
        return CustomSeconds(0.0, 0.0, f"it failed on a sample: {error}")


def time_run(problem: Problem, plan: Plan, start: Floats, iterations: int) -> float:
    """Seconds of some iterations, ignoring its stopping rules."""
    began = time.perf_counter()
    operators = operators_of(problem, plan, start, None)
    run(problem, replace(operators, loop=Budget(iterations)))
    return time.perf_counter() - began


def extrapolate(
    problem: Problem, question: Question, once: Callable[[Problem], tuple[float, float]]
) -> CustomSeconds:
    """Setup and iteration of all rows, from a few and from more of the rows at hand."""
    seen: list[tuple[int, float, float]] = []
    for rows in (FEW, MORE):
        part = problem.on(problem.rows.head(rows))
        n = int(part.rows.groups["n_rows"].sum())
        if seen and n == seen[0][0]:
            break
        seen.append((n, *once(part)))
    total = max(question.seen.rows, seen[-1][0])

    def at_all_rows(column: int) -> float:
        n, last = seen[-1][0], seen[-1][column]
        if len(seen) == 1:
            return last * total / n
        slope = max(last - seen[0][column], 0.0) / (n - seen[0][0])
        return last + slope * (total - n)

    return CustomSeconds(at_all_rows(1), max(at_all_rows(2), 1e-7), None)


# Iterations at the hinge estimated by training a sample until the duality gap closes.
#
# No spectrum shows the number of corners near an optimum. So the methods that follow gradients
# train on a sample of dense rows before anything is estimated, in one call each
# (`kernels/hinge.py`), which takes ten to twenty microseconds an iteration. Algorithm 1 of
# Kaoudi et al., SIGMOD 2017, without an extrapolation: errors on a smoothed corner do not predict
# the remaining iterations.

ROWS, ROWS_A_WEIGHT = 1024, 8
"""Rows of the sample, in all and per weight."""
ROW_SECONDS, ENTRY_SECONDS = 4e-9, 3.5e-10
"""Seconds of an iteration, for each row and for each of its features."""
FEWEST = 20
"""Iterations that there must be time for."""
SHARES = {Method.QUASI_NEWTON: 0.55, Method.SPECTRAL_STEPS: 1.0}
"""Share of the remaining seconds, for each method in turn."""
MOST = 5000
LOOSE = 0.01
GROWTH = {Method.QUASI_NEWTON: 3.1, Method.SPECTRAL_STEPS: 3.4}
"""The factor on iterations for one more decade, the median of 65 and of 48 trainings: 85 % and 65
% of them are within a factor of two.
"""
UNSURE, FURTHER = 2.0, 1.5
"""The uncertainty factor for all rows, and its growth by a decade that was not tried."""
OF_SCARCITY = 0.7
"""The power of the sample's scarcity of rows over that of all rows, with which iterations on the
sample are more. Of 58 trainings by L-BFGS and 46 by the steps of Barzilai and Borwein on sets of
`scripts/bench/planner/truth_*.py` 98 % and 89 % are within twice
as many, 95 % and 87 % without."""


def possible(problem: Problem, question: Question) -> bool:
    """Returns whether the trial is of the objective: dense rows that weigh alike, without l1."""
    options, rows = question.options, problem.rows
    return (
        wants_gap(problem, options.converge, options.epsilon)
        and not question.seen.sparse
        and not question.gpu
        and not options.l1
        and rows.class_weight is None
        and not rows.has_weights
        and question.seen.n_features > 1
    )


def sample_rows(question: Question) -> int:
    wanted = max(ROWS, ROWS_A_WEIGHT * (question.seen.n_features + 1))
    return int(min(wanted, question.rows_of_one))


def iteration_seconds(question: Question) -> float:
    """Seconds of an iteration on the sample, about."""
    each = ROW_SECONDS + ENTRY_SECONDS * question.seen.n_features
    return sample_rows(question) * each


def open_methods(question: Question) -> list[Method]:
    """The methods whose trial did not finish or start."""
    return [one for one in SHARES if one not in question.corner or not question.corner[one].whole]


def try_methods(problem: Problem, start: Floats, question: Question, seconds: float) -> Question:
    """The question with results of the methods on a sample of its largest group.

    The same question if that is not possible, or seconds are too few.
    """
    methods = open_methods(question)
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
        seen = try_method(question.task, given, method, v, left)
        found[method] = replace(seen, iterations=easier * seen.iterations)
    return replace(question, corner=found)


def try_method(
    task: LinearTask, given: Corner, method: Method, v: Floats, seconds: float
) -> AtCorner:
    """The result of a method in `seconds`: to a loose tolerance first, if there is one.

    If it reached only that, the remaining decades take GROWTH times as many.
    """
    began, epsilon, reached = time.thread_time(), given.epsilon, None
    for one in (epsilon,) if epsilon > LOOSE / 2 else (LOOSE, epsilon):
        left = seconds - time.thread_time() + began
        looser = replace(given, epsilon=one, corners=corners(one, task))
        made, ended = looser.try_from(method, v, max(left, 0.0))
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
    """The scarcity of rows per feature, 1 where there are many."""
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


# Trials of plans on a few groups of a large batch, counted in passes.
#
# Algorithm 1 of Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD
# 2017, tries plans on a sample of the rows. If many groups train together a few of them are the
# better sample: they are trained to the end, so that nothing has to be extrapolated, and take a
# small share of the batch's time. Their passes count at the batch's seconds, so other work on the
# machine does not change the choice.

MANY_GROUPS, TRIED_GROUPS = 64, 4
"""Groups of a batch, at least, and how many of them are tried, from small to large."""
A_THREAD = 8
"""Groups of a batch for each thread, at least: each group that is tried has a thread of its own,
and the others wait. A plan's trial then takes an eighth of its time for all groups.
"""
WORTH = 0.06
"""Seconds of a batch, below which none of its groups is tried."""
RIVAL = 3.0
"""Times the best plan's expected seconds, up to which a plan is tried."""
FIRST, OTHERS = 2.5, 1.2
"""The multiple of its expected seconds after which the first trial ends, and the multiple of the
best trial's for others.
"""
LIKE_IT = 1.25
"""The uncertainty factor for the other groups."""
AT_LEAST = 2.0
"""The ratio of a plan's expected seconds to the limit of its trial."""


@dataclass
class LimitedLoop:
    """Loop: as the inner one, until the completed passes amount to `most` seconds."""

    inner: Loop
    work: Work
    most: float
    over: bool = False

    def __call__(self, state: State) -> bool:
        state.enough = self.enough
        if not self.inner(state):
            return False
        self.over |= self.work.seconds > self.most
        if not self.over:
            self.work.count_iteration(on_sample=False)
        return not self.over

    def enough(self, products: int, errors: Sequence[float]) -> bool:
        """As in `Loop`, within an iteration of conjugate gradients."""
        self.over = self.work.seconds > self.most
        return self.over


def worth_groups(question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The plans to try on some groups, of the fewest passes first; none if that does not pay."""
    if question.seen.groups < max(MANY_GROUPS, A_THREAD * question.threads):
        return []
    if not question.task.smooth or question.gpu:
        return []
    known = [
        one
        for one in candidates
        if one.refusal is None and one.plan.base is None and dependable(one) and one.cost.parts
    ]
    least = min((one.expected_seconds for one in known), default=0.0)
    if least < WORTH:
        return []
    rivals = [one for one in known if one.expected_seconds < RIVAL * least]
    return sorted(rivals, key=by_calls) if len(rivals) > 1 else []


def by_calls(one: Candidate) -> float:
    """About how many passes a plan makes: small groups' take as long as the calls of them."""
    return one.iterations.point + one.cost.products


@dataclass(frozen=True)
class TrialResult:
    """The result of a plan on some groups: iterations, passes, and whether it reached the
    tolerance.
    """

    made: int
    passes: Meter
    ended: bool

    def of(self, one: Candidate) -> Candidate:
        """The candidate of a batch whose groups are like those."""
        assert one.cost.parts is not None
        work = Work(one.cost, self.made * one.cost.parts.own, self.passes)
        cost = replace(one.cost, iteration=work.seconds / self.made, sampled=0.0)
        point = self.made * (1.0 if self.ended else AT_LEAST)
        iterations = Interval.around(point / LIKE_IT, point, point * LIKE_IT)
        return replace(one, cost=cost, iterations=iterations, on_sample=0.0, seen=True)


def with_groups_tried(
    problem: Problem, start: Floats, question: Question, candidates: tuple[Candidate, ...]
) -> tuple[Candidate, ...]:
    """The candidates with the results of the most promising ones on a few groups."""
    known = question.shown.get(likeness(question))
    if known is None:
        rivals = worth_groups(question, candidates)
        if not rivals:
            return candidates
        order = np.argsort(problem.rows.groups["n_rows"], kind="stable")
        places = np.linspace(0, len(order) - 1, TRIED_GROUPS + 2)[1:-1].astype(np.intp)
        some = np.sort(order[places])
        known = on_groups(problem.of(some), start[some], rivals)
        question.shown[likeness(question)] = known
    return tuple(
        known[one.plan.algorithm].of(one) if one.plan.algorithm in known else one
        for one in candidates
    )


def likeness(question: Question) -> tuple[object, ...]:
    """Properties shared by batches whose groups take about as many iterations."""
    seen = question.seen
    sizes = (round(2 * math.log2(x)) for x in (seen.n_features + 1, question.rows_of_one))
    return seen.storage, *sizes


def on_groups(part: Problem, start: Floats, rivals: list[Candidate]) -> dict[str, TrialResult]:
    """Runs each plan on some groups; one that takes longer than the best one is stopped."""
    known: dict[str, TrialResult] = {}
    least = 0.0
    part = part.on(replace(part.rows, threads=min(part.rows.threads, part.n_groups)))
    for one in rivals:
        if least and one.expected_seconds > least:
            continue
        found = trial_of_groups(
            part, start, one, OTHERS * least if least else FIRST * one.expected_seconds
        )
        expected = found.of(one).expected_seconds
        known[one.plan.algorithm] = found
        least = min(least or expected, expected)
    return known


def trial_of_groups(part: Problem, start: Floats, one: Candidate, most: float) -> TrialResult:
    """Runs a plan on some groups; most: seconds, as if for all groups."""
    work = Work(one.cost)
    part = part.on(replace(part.rows, meter=work.meter))
    plan = replace(one.plan, sample_stride=1, threads=part.rows.threads)
    operators = operators_of(part, plan, start, None)
    limited = LimitedLoop(operators.loop, work, most)
    state = run(part, replace(operators, loop=limited))
    made = max(int(state.iterations.max(initial=0)), 1)
    return TrialResult(made, work.meter, not limited.over and bool(state.converged.all()))
