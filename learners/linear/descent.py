"""Runs a plan's stages on a batch of groups, each from the end of the one before, and notes their
costs.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import OutOfTime
from tuskml.kernels.passes import Floats, Meter
from tuskml.learners import events
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.algorithms.parts.batch import Beginning, in_metric
from tuskml.learners.linear.algorithms.parts.epochs import finish as finish_epochs
from tuskml.learners.linear.check import refuse_lost
from tuskml.learners.linear.gap import WithinGap, settle_gap, wants_gap
from tuskml.learners.linear.operators import Loop, Operators, State, run
from tuskml.learners.linear.own.assembled import operators_of
from tuskml.learners.linear.planner.candidates import PlanCosts
from tuskml.learners.linear.planner.choice import Choice
from tuskml.learners.linear.planner.cost import LOSS_ALONE, Cost
from tuskml.learners.linear.planner.curves import Question
from tuskml.learners.linear.planner.iterations import Point, iterations_left
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import LinearOptions, Plan
from tuskml.learners.linear.turns import Counts, Turns
from tuskml.learners.machine import constants
from tuskml.learners.machine.constants import LEAST_SECONDS, key_of, layout_of, reports_file
from tuskml.learners.validation import PATIENCE
from tuskml.schedule import devices, shares

ROUNDING, WORSE = 1e-9, 0.1
"""Rounding of objectives, as a share of them; and the rise above the start that counts as
divergence.
"""
HALVINGS = 4
"""Halvings of a smoothed corner after which its rows differ: some optima are not unique."""
FINER, FINER_ITERATIONS = 1e-3, 60
"""A smoothed corner is solved to this share of epsilon before it is left, in at most so many
iterations: a small gradient may lead far, but rounding may keep it from shrinking.
"""


class Watch(Protocol):
    """Watches a running plan, and may give it up (`planner/guard.py`)."""

    @property
    def meter(self) -> Meter:
        """The counter of the plan's passes."""

    @property
    def gives_way(self) -> bool:
        """Returns whether another plan takes over."""

    def watching(self, operators: Operators, on_sample: bool, last: bool) -> Operators:
        """Returns the operators with the watch added; last: whether the stage ends at the
        tolerance.
        """


@dataclass(frozen=True)
class Run:
    """Runs the plans of one training; held: rows held out; began: of `time.monotonic()`."""

    held: NDArray[np.void] | None
    options: LinearOptions
    began: float
    timing: "Timing"

    @property
    def deadline(self) -> float | None:
        return deadline_of(self.options, self.began)

    def is_over(self) -> bool:
        """Returns whether the time that the training may take has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def __call__(
        self,
        problem: Problem,
        begin: Beginning,
        plan: Plan,
        watch: Watch | None = None,
        most: Counts | None = None,
    ) -> State:
        """Runs a plan; most (G,): iterations of each group, None: those of the plan."""
        held = self.held if self.options.validation else None
        return descend(problem, begin, held, plan, self.deadline, self.timing, watch, most)

    def turns(self, plan: Plan) -> Turns:
        """Runs the same plan on a problem that has changed, in the iterations that are left."""
        return Turns(
            lambda problem, v, most: self(problem, Beginning(v), plan, most=most),
            plan.max_iter,
            self.options.max_iter is not None,
        )


def descend(
    problem: Problem,
    begin: Beginning,
    held: NDArray[np.void] | None,
    plan: Plan,
    deadline: float | None,
    timing: "Timing",
    watch: Watch | None = None,
    most: Counts | None = None,
) -> State:
    """Runs the plan's stages, each from where the one before it ended.

    held: rows to stop early by, if any; watch: may give the plan up, whose state is then not
    final; most (G,): iterations of each group in all stages, None: those of the plan.
    """
    v, kept = begin.v, begin.kept
    iterations = np.zeros(problem.n_groups, np.int64)
    most = np.full(problem.n_groups, plan.max_iter) if most is None else most
    state, monitor = State.at(v), None
    for part, settings in stages(problem, plan):
        left = np.clip(most - iterations, 0, settings.max_iter)
        if not left.any() and settings is not plan:
            continue  # the last stage looks at all rows though no iteration is left
        if held is not None and settings is plan:
            monitor = EarlyStop(part, held)
        within = replace(settings, max_iter=int(left.max(initial=0)))
        meter = Meter(whole=False) if watch is None else watch.meter
        timed = part.on(replace(part.rows, deadline=deadline, meter=meter))
        build = ALGORITHMS[plan.family].operators
        if not plan.is_plain or problem.task.general:
            build = operators_of
        try:
            chosen = build(timed, within, v, deadline)
            if kept is not None:
                chosen, kept = kept.reuse(chosen, timed), None
            if settings is plan and ends_by_gap(problem, plan):
                chosen = replace(chosen, converge=WithinGap(timed, plan.epsilon))
            elif settings is plan and extrapolates(problem, plan):
                chosen = replace(chosen, converge=in_metric(timed, chosen.converge, plan.threads))
        except OutOfTime:  # the time before the first iteration was too long
            state = State.at(v)
            state.out_of_time = True
            break
        chosen = telling(chosen, timed, plan, int(iterations.max()))
        operators, clock = timing.watch(chosen)
        if watch is not None:
            operators = watch.watching(operators, part.rows.stride > 1, settings is plan)
        state = run(timed, operators, monitor or report, left)
        timing.add(state, clock, part.rows.stride > 1)
        iterations += state.iterations
        v = usable(problem, state.v, v)
        if watch is not None and watch.gives_way:
            state.v, state.iterations = v, iterations
            return state
    state.iterations = iterations
    if monitor is None and extrapolates(problem, plan):
        to_the_corner(problem, plan, state, deadline, most)
    unsearched = ALGORITHMS[plan.family].line_search and plan.schedule != "line_search"
    may_rise = state.current is not None or unsearched
    settle_end(problem, plan, state, monitor)
    if may_rise:
        back_to_start(problem, state, begin.v)
    return state


def back_to_start(problem: Problem, state: State, start: Floats) -> None:
    """Gives groups whose objective is above that of the start its weights; far above it, they have
    diverged: steps of a given length may do that.
    """
    begun = problem.objective(start)
    size = np.maximum(np.abs(begun), np.abs(state.objective))
    worse = ~(state.objective <= begun + ROUNDING * size) & np.isfinite(begun)
    state.diverged |= worse & ~(state.objective <= begun + WORSE * np.abs(begun))
    state.v[worse], state.objective[worse] = start[worse], begun[worse]
    state.converged[worse] = False
    if not state.out_of_time:  # time did not suffice for them, either
        state.running[worse] = False
    state.violation[worse], state.stale[worse] = np.inf, True


def settle_end(problem: Problem, plan: Plan, state: State, monitor: "EarlyStop | None") -> None:
    """Sets the final weights, their objective, and whether they are an optimum."""
    if monitor is not None:
        monitor.restore(state)
    if state.current is not None:
        finish_epochs(problem, state)
    settle_unknown(problem, state)
    if ends_by_gap(problem, plan):
        settle_gap(problem, state, plan.smoothing[-1], plan.epsilon)
    refuse_lost(problem, state)


def deadline_of(options: LinearOptions, began: float) -> float | None:
    """The time of `time.monotonic()` at which the option `time` ends a training that began at
    `began`.
    """
    return None if options.time is None else began + options.time


def ends_by_gap(problem: Problem, plan: Plan) -> bool:
    """Returns whether a training ends by a duality gap that its algorithm does not know itself."""
    known = ALGORITHMS[plan.family].proves_gap and plan.smoothing == (0.0,)
    return not known and wants_gap(problem, plan.converge, plan.epsilon)


def to_the_gap(
    problem: Problem, start: Floats, plan: Plan, deadline: float | None
) -> State | None:
    """Trains the hinge by all stages of the plan until its gap is within epsilon / 2, and no more.

    None where it did not get there in its iterations, or until the deadline. The state has the
    iterations of all stages.
    """
    made, v, state = 0, start, None
    for stage, settings in stages(problem, plan):
        part = stage.on(replace(stage.rows, deadline=deadline))
        try:
            operators = operators_of(part, settings, v, deadline)
            if settings is plan and ends_by_gap(problem, plan):
                operators = replace(operators, converge=WithinGap(part, plan.epsilon))
        except OutOfTime:
            return None
        state = run(part, operators)
        if state.out_of_time:
            return None
        made, v = made + int(state.iterations.max(initial=0)), state.v
    if state is None or not state.converged.all():
        return None
    state.iterations[:] = made
    return state


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


def extrapolates(problem: Problem, plan: Plan) -> bool:
    """Returns whether weights at a smoothed corner tell those at the corner itself."""
    task, criterion = problem.task, plan.converge == "gradient" and plan.epsilon > 0
    own = task.own is not None or task.smooth or task.is_hinge
    return not own and criterion and plan.smoothing[-1] > 0


def to_the_corner(
    problem: Problem, plan: Plan, state: State, deadline: float | None, most: Counts
) -> None:
    """Moves groups that converged at the last smoothing to the optimum without one, where they
    have not made `most` (G,) iterations yet.

    Once the rows within the smoothed corner stay the same, the optimum is linear in its width
    (Madsen and Nielsen, A finite smoothing algorithm for linear l1 estimation, 1993): two widths
    tell where it ends. Weights that are not better are not taken.
    """
    finer = replace(plan, epsilon=FINER * plan.epsilon, max_iter=FINER_ITERATIONS)
    width = plan.smoothing[-1]
    left = np.flatnonzero(state.converged)
    for _ in range(HALVINGS):
        allowed = np.minimum(most - state.iterations, FINER_ITERATIONS)
        left = left[allowed[left] > 0]
        if not len(left):
            return
        width, some = width / 2, problem.of(left)
        part = some.on(replace(some.rows, smoothing=width, deadline=deadline))
        before = state.v[left]
        try:
            operators = operators_of(part, finer, before, deadline)
        except OutOfTime:  # they converged already
            return
        ended = run(part, operators, most=allowed[left])
        state.iterations[left] += ended.iterations
        if ended.out_of_time:
            return
        there = 2 * ended.v - before
        blunt, sharp = some.objective(ended.v), some.objective(there)
        begun = some.objective(before)
        near, better = blunt <= begun, sharp <= np.minimum(blunt, begun)
        state.v[left[near]] = ended.v[near]
        state.v[left[better]] = there[better]
        left = left[near & ~better]


def usable(problem: Problem, v: Floats, before: Floats) -> Floats:
    """Replaces weights that diverged on a sample by the point before them."""
    size = np.ones(len(v)) if problem.label_size is None else problem.label_size
    wild: NDArray[np.bool_] = np.any(~(np.abs(v) < 1e3 * size[:, None]), axis=1)
    return np.where(wild[:, None], before, v)


def settle_unknown(problem: Problem, state: State) -> None:
    """Computes final objectives that are not known, or were those of a smoothed hinge."""
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


# Early stopping: some rows are held out, and training ends when their loss stops falling.


@dataclass
class EarlyStop:
    """Monitor: stops a group whose held-out loss has not fallen for PATIENCE iterations."""

    problem: Problem
    held: NDArray[np.void]
    best: Floats = field(init=False)
    best_v: Floats | None = field(init=False, default=None)
    since: NDArray[np.int64] = field(init=False)
    stopped: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.held)
        self.best = np.full(n, np.inf)
        self.since = np.zeros(n, np.int64)
        self.stopped = np.zeros(n, bool)

    def __call__(self, problem: Problem, state: State) -> None:
        watched = np.flatnonzero(state.running & (self.held["n_rows"] > 0))
        if not len(watched):
            return
        rows = replace(problem.rows, groups=self.held).of(watched)
        part = replace(problem.of(watched), rows=rows, l1=0.0, l2=0.0)
        if self.best_v is None:
            self.best_v = np.zeros_like(state.v)
        loss = part.objective(state.v[watched])
        better = loss < self.best[watched] * (1 - 1e-6)
        self.best[watched[better]] = loss[better]
        self.best_v[watched[better]] = state.v[watched[better]]
        self.since[watched] = np.where(better, 0, self.since[watched] + 1)
        done = watched[self.since[watched] >= PATIENCE]
        self.stopped[done] = True
        state.running[done] = False

    def restore(self, state: State) -> None:
        """Leaves stopped groups at the weights that did best on held-out rows."""
        state.stopped = self.stopped
        if self.best_v is None:
            return
        state.v[self.stopped] = self.best_v[self.stopped]
        if state.current is not None:
            state.current[self.stopped] = self.best_v[self.stopped]
        state.known[self.stopped] = False


# Iterations and seconds of a training, against those that were estimated.


@dataclass
class TimedLoop:
    """Loop: as the inner one, noting when the first iteration began and the last one ended."""

    inner: Loop
    began: float = 0.0
    ended: float = 0.0

    def __call__(self, state: State) -> bool:
        self.ended = time.monotonic()
        if state.iteration == 0:
            self.began = self.ended
        return self.inner(state)


@dataclass
class Timing:
    """Iterations and their seconds in one training, on a sample of the rows and on all."""

    planning: float = 0.0
    iterations: int = 0
    seconds: float = 0.0
    on_sample: int = 0
    sampled: float = 0.0
    expected: Cost | None = None
    given_up: list[dict[str, Any]] = field(default_factory=list)
    """Plans before the one that ended the training."""

    def watch(self, operators: Operators) -> tuple[Operators, TimedLoop]:
        """Returns the operators with a clock in their loop, and the clock."""
        clock = TimedLoop(operators.loop)
        return replace(operators, loop=clock), clock

    def add(self, state: State, clock: TimedLoop, on_sample: bool) -> None:
        """Counts a stage that ended."""
        took = clock.ended - clock.began
        if on_sample:
            self.on_sample += state.iteration
            self.sampled += took
        else:
            self.iterations += state.iteration
            self.seconds += took

    @property
    def each(self) -> float | None:
        """Seconds of an iteration on all rows; None where there was none."""
        return self.seconds / self.iterations if self.iterations else None

    def note_plan(self, chosen: Choice, seconds: float) -> None:
        """Notes the plan's expected cost and the seconds of planning."""
        self.planning = seconds
        note_expected(chosen)
        if chosen.plan.estimated is not None:
            self.expected = cost_of(chosen)

    def note_switch(self, chosen: Choice, before: str, estimated: float | None = None) -> None:
        """Starts the counts of another plan; keeps those of the one before."""
        took: dict[str, Any] = {
            "algorithm": before,
            "iterations": self.iterations + self.on_sample,
        }
        if estimated is not None:
            took["iterations_estimated"] = round(estimated)
        took["seconds"] = digits(self.seconds + self.sampled)
        self.given_up.append(took)
        self.iterations, self.seconds, self.on_sample, self.sampled = 0, 0.0, 0, 0.0
        note_expected(chosen)
        self.expected = cost_of(chosen)

    def report(self, plan: Plan, question: Question | None) -> None:
        """Reports an iteration's cost to the planner, if this host collects it."""
        if question is None or question.options.keeps_order or self.seconds < LEAST_SECONDS:
            return
        known = constants.of_host()
        if not known.refine or not self.iterations:
            return
        seen, costs = question.seen, PlanCosts(question, known)
        told = costs.uncorrected_cost(plan, self.iterations, self.on_sample).iteration
        key = key_of(plan.algorithm, layout_of(seen.storage), seen.entries)
        constants.report(
            reports_file(Path(known.source)), key, self.seconds / self.iterations / told
        )

    def as_options(self) -> dict[str, Any]:
        """The timings for a model's options, if there are estimates to compare with."""
        if self.expected is None:
            return {}
        found: dict[str, Any] = {"planning": digits(self.planning)}
        if self.given_up:
            found["given_up"] = self.given_up
        stages = (
            ("all rows", self.iterations, self.seconds, self.expected.iteration),
            ("sample", self.on_sample, self.sampled, self.expected.sampled),
        )
        for name, iterations, seconds, expected in stages:
            if iterations:
                found[name] = {
                    "iterations": iterations,
                    "each": digits(seconds / iterations),
                    "each_estimated": digits(expected),
                }
        return {"actual": found}


def cost_of(chosen: Choice) -> Cost:
    """The expected cost of the chosen plan."""
    name = chosen.plan.algorithm
    return next(one.cost for one in chosen.candidates if one.plan.algorithm == name)


def note_expected(chosen: Choice) -> None:
    """Reports the plan, and the seconds that it is expected to take, where they were estimated."""
    name = chosen.plan.algorithm
    estimates = (one.expected_seconds for one in chosen.candidates if one.plan.algorithm == name)
    shares.note_plan(name, next(estimates, np.nan))


def digits(seconds: float) -> float:
    """Three digits."""
    return float(f"{seconds:.3g}")


# The progress of a stage of a linear training, from its errors, for the host's list of trainings.

FEWEST = 3
"""Errors that tell something."""


@dataclass
class Telling:
    """Loop: as the inner one, telling how far the stage is; before: iterations of earlier ones."""

    inner: Loop
    problem: Problem
    plan: Plan
    pace: events.Pace
    meter: Meter
    before: int
    points: list[Point] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def __call__(self, state: State) -> bool:
        if state.running.any() and self.pace.is_due():
            self.points.append((state.iteration, float(state.violation[state.active].max())))
            self.tell(state)
        return self.inner(state)

    def tell(self, state: State) -> None:
        """TurnError with the weights, where the training loses its turn at the GPU, or gets it."""
        part = self.part(state)
        try:
            self.pace.tell(part, self.passes(state))
            if devices.hopes():
                devices.look(self.seconds_left(state, part))
        except devices.TurnError as turn:
            turn.weights = self.problem.to_caller(state.v)
            turn.iterations = self.before + state.iteration
            raise

    def seconds_left(self, state: State, part: float) -> float:
        """Seconds left at the pace of this stage; 0 if unknown. part: of the work that is done."""
        if not (state.iteration and part > 0):
            return 0.0
        each = (time.monotonic() - self.began) / state.iteration
        return each * (self.before + state.iteration) * (1 - part) / part

    def part(self, state: State) -> float:
        """The share of the stage's expected iterations that is done."""
        made = self.before + state.iteration
        if self.plan.epsilon == 0:
            return made / self.plan.max_iter
        if state.iteration and len(self.points) >= FEWEST:
            goal = self.plan.epsilon
            return made / (made + min(iterations_left(self.points, goal), self.plan.max_iter))
        expected = self.plan.max_iter if self.plan.estimated is None else self.plan.estimated[0]
        return made / max(expected, made + 1)

    def passes(self, state: State) -> float:
        """Over all rows, at least one an iteration: some kernels make several and count none."""
        iterations = float(self.before + state.iteration)
        if ALGORITHMS[self.plan.family].stochastic:
            return iterations
        made = self.meter
        counted = made.gradients + LOSS_ALONE * made.losses + made.curvatures + made.products
        return max(iterations, counted)


def telling(operators: Operators, problem: Problem, plan: Plan, before: int) -> Operators:
    """Returns the operators with progress reports; rows have a meter; before: iterations already
    made.
    """
    rows, meter = problem.rows, problem.rows.meter
    if rows.stride > 1 or meter is None:
        return operators
    pace = events.Pace(problem.n_groups, int(rows.groups["n_rows"].sum()))
    return replace(operators, loop=Telling(operators.loop, problem, plan, pace, meter, before))
