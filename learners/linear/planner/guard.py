"""Decides whether a running plan is so far behind its estimate that another one would take less.

The planner's estimate of iterations is a guess before the first of them. While a plan runs, its
errors tell how many are left (`iterations.py`): the violation, or at the hinge the duality gap.
Once a plan has taken LOOK times what the next one is expected to take in all, and what is left of
it would take longer than the next one, it is given up. So where the errors tell the truth, a plan
that is given up took LOOK to LOOK * AGAIN times what follows, and the training at most 1.5 times
what the next plan alone takes. Where they tell nothing a plan is given up when it has taken its
own estimate, and the next plan's: the training then takes at most twice the better one's seconds,
as in any search for the end of two lines of unknown length.

Newton's methods speed up as they come nearer, so that their first errors tell nothing, but the
last drop of the error bounds what is left. For conjugate gradients, the errors within an iteration
tell.

All is in estimated seconds of the passes that were made (`cost.py`). So other work on the machine
does not change the plan.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuskml.kernels.passes import Floats, Meter
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.algorithms.parts.batch import Beginning
from tuskml.learners.linear.descent import Run
from tuskml.learners.linear.operators import Loop, Operators, State
from tuskml.learners.linear.planner.choice import Candidate, Choice, dependable
from tuskml.learners.linear.planner.cost import Work
from tuskml.learners.linear.planner.curves import Interval, Question
from tuskml.learners.linear.planner.iterations import Point, fewest_left, iterations_left
from tuskml.learners.linear.planner.replanning import Replanning, replanning_for, solves
from tuskml.learners.linear.problem import Problem

LOOK, AGAIN = 0.3, 1.3
"""The share of the next plan's seconds at which a plan is first checked, and the factor to the
next check.
"""
LEAST_SECONDS = 0.002
"""Before that nothing is looked at."""
SURE, GUESSED = 1.2, 2.0
"""The multiple of the next plan's seconds that the rest must take to give a plan up: if the next
plan is well known, and if it is not, so that the training may return.
"""
FEWEST, FEWEST_GAPS, LAST_TWO = 8, 3, 2
"""Errors that tell something."""
DOUBT = 2.0
"""The error factor of gaps, which fall in steps, on the estimated rest: too long, as long as the
plan has taken less than the next one would; after that too short, as gaps may stay for long and
each check that believed them would cost as much again.
"""


@dataclass
class Guard:
    """Compares one plan of one group with its estimate and with the next plan.

    sure: multiple of the next plan's seconds that the rest must take; work: of the plan so far;
    made: iterations on all rows; points: errors of the stage, by_gap: whether they are gaps, and
    last: whether its end is the training's; given_up: whether the next plan takes over.
    """

    mine: Candidate
    other: Candidate
    sure: float = SURE
    made: int = 0
    points: list[Point] = field(default_factory=list)
    by_gap: bool = False
    last: bool = True
    given_up: bool = False
    due: float = 0.0
    products_due: float = 0.0
    began: float = 0.0
    work: Work = field(init=False)

    def __post_init__(self) -> None:
        self.work = Work(self.mine.cost)
        self.due = max(LOOK * self.other.expected_seconds, LEAST_SECONDS)

    def watching(self, operators: Operators, on_sample: bool, last: bool) -> Operators:
        """Returns the operators with the guard added; last: whether the stage ends at the
        tolerance.
        """
        self.points, self.by_gap, self.began = [], False, self.work.seconds
        self.last = last
        return replace(operators, loop=GuardedLoop(operators.loop, self, on_sample))

    def note(self, state: State) -> None:
        """Takes down how far from its end the stage is."""
        if state.gaps_seen:
            self.points, self.by_gap = state.gaps_seen, True
        elif state.known.all():
            self.points.append((state.iteration, float(state.violation.max())))

    def look(self, state: State) -> None:
        """Gives the plan up if the rest takes longer than the next one.

        Until errors tell that, the plan may use its expected seconds.
        """
        self.due = AGAIN * self.work.seconds
        told = self.remaining_iterations() is not None
        behind = told or self.work.seconds >= self.mine.seconds.point
        self.given_up = (
            behind
            and self.remaining_seconds(state.iteration) > self.sure * self.other.expected_seconds
        )

    def remaining_seconds(self, iterations: int) -> float:
        """Seconds that the plan is still expected to take, after `iterations` of a stage."""
        spent, told = self.work.seconds, self.remaining_iterations()
        of_stage = 0.0
        if told is not None:
            each = (spent - self.began) / max(iterations, 1)
            of_stage = told * each * self.overestimate()
            if self.last:
                return of_stage
        expected = self.mine.seconds.point
        if spent < expected:
            return max(of_stage, expected - spent)
        again = self.sure * spent  # nothing tells: it may take as long again
        return max(of_stage, min(again, self.at_most(iterations)))

    def overestimate(self) -> float:
        """The factor by which gaps overestimate the rest, by the seconds that the plan has run."""
        if not self.by_gap:
            return 1.0
        return DOUBT if self.work.seconds >= self.other.expected_seconds else 1 / DOUBT

    def at_most(self, iterations: int) -> float:
        """The most seconds that remain for a method whose errors fall faster as they get lower."""
        if not ALGORITHMS[self.mine.plan.family].speeds_up or len(self.points) < LAST_TWO:
            return math.inf
        left = iterations_left(self.points[-LAST_TWO:], self.mine.plan.epsilon)
        return left * (self.work.seconds - self.began) / max(iterations, 1)

    def remaining_iterations(self) -> float | None:
        """Iterations that are left of a stage, by the errors; None where they tell nothing."""
        fewest = FEWEST_GAPS if self.by_gap else FEWEST + 1
        speeds_up = ALGORITHMS[self.mine.plan.family].speeds_up
        if speeds_up or len(self.points) < fewest:
            return None
        goal = self.mine.plan.epsilon
        return iterations_left(self.points, goal / 2 if self.by_gap else goal)

    def enough(self, products: int, errors: Sequence[float]) -> bool:
        """Returns whether conjugate gradients take too long, after `products` in all.

        errors: of the system that is being solved, by product, in units of the tolerance. They
        often stagnate and then fall faster, so the lower guess counts.
        """
        cost = self.mine.cost
        beyond = cost.product * (products - cost.products)
        if products < self.products_due or beyond < max(
            LOOK * self.other.expected_seconds, LEAST_SECONDS
        ):
            return False
        self.products_due = AGAIN * products
        left = cost.product * fewest_left(list(enumerate(errors)), 1.0)
        self.given_up = left > self.sure * self.other.expected_seconds
        return self.given_up


@dataclass
class GuardedLoop:
    """Loop: as the inner one, until the guard gives the plan up.

    on_sample: whether iterations are on a sample.
    """

    inner: Loop
    guard: Guard
    on_sample: bool

    def __call__(self, state: State) -> bool:
        guard = self.guard
        state.enough = guard.enough
        guard.note(state)
        if not self.inner(state):
            return False
        if not self.on_sample and guard.work.seconds >= guard.due:
            guard.look(state)
        if guard.given_up:
            return False
        guard.work.count_iteration(self.on_sample)
        guard.made += not self.on_sample
        return True


@dataclass
class Watching:
    """Watches a running plan: the guard by its estimate, and re-planning by its share of the host.

    Either may be missing.
    """

    guard: Guard | None
    replanning: Replanning | None

    @property
    def meter(self) -> Meter:
        """The counter of the plan's passes: all of them if the guard compares them."""
        return Meter(whole=False) if self.guard is None else self.guard.work.meter

    @property
    def gives_way(self) -> bool:
        """Returns whether another plan takes over."""
        behind = self.guard is not None and self.guard.given_up
        return behind or (self.replanning is not None and self.replanning.next is not None)

    def watching(self, operators: Operators, on_sample: bool, last: bool) -> Operators:
        """Returns the operators with the watch added; last: whether the stage ends at the
        tolerance.
        """
        if self.guard is not None:
            operators = self.guard.watching(operators, on_sample, last)
        if self.replanning is not None and last and not on_sample:
            operators = self.replanning.watching(operators)
        return operators


# Runs the chosen plan, and continues with the next one if it falls behind.
#
# It also does so after all iterations that an algorithm makes by default.
#
# The next plan starts from the current weights. If the next plan was not known well either, and
# falls behind in turn, the one before may return: the rest of it is known from its own errors.
# Trainings that have to be reproducible keep their plan, and so do batches of several groups,
# whose iterations say little about one group's.

MOST_SWITCHES = 4
"""Changes of plan after which the last plan trains to the end."""
TOLD = 1.5
"""The uncertainty factor of the rest of a plan that was given up."""


@dataclass
class Before:
    """The plans of a training that were given up.

    names: in order; left: seconds that were left, only for plans whose errors tell it and that
    continue from any weights.
    """

    names: list[str] = field(default_factory=list)
    left: dict[str, float] = field(default_factory=dict)

    def add(self, guard: Guard, state: State) -> None:
        """Adds a plan that was given up at a state."""
        name = guard.mine.plan.algorithm
        self.names.append(name)
        self.left.pop(name, None)
        told = guard.last and guard.remaining_iterations() is not None
        if told and ALGORITHMS[guard.mine.plan.family].resumes:
            self.left[name] = guard.remaining_seconds(state.iteration)


def run_guarded(
    run: Run, problem: Problem, v: Floats, chosen: Choice, question: Question
) -> tuple[State, Choice]:
    """Runs the plans from weights v (G, p); returns the final state, and the choice with the last
    plan.
    """
    replanning = replanning_for(problem, chosen, question)
    try:
        return run_watched(run, problem, v, chosen, question, replanning)
    finally:
        if replanning is not None:
            replanning.end()


def run_watched(
    run: Run,
    problem: Problem,
    v: Floats,
    chosen: Choice,
    question: Question,
    replanning: Replanning | None,
) -> tuple[State, Choice]:
    """As `run_guarded`, and compares plans when the resources change."""
    before, made, begin = Before(), 0, Beginning(v, chosen.kept)
    while True:
        guard = guard_for(problem, chosen, question, before)
        watch = Watching(guard, replanning)
        state = run(problem, begin, chosen.plan, watch)
        used_up = not state.converged.all() and int(state.iterations.max()) >= chosen.plan.max_iter
        state.iterations += made
        made = int(state.iterations.max())
        if replanning is not None and replanning.next is not None and not run.is_over():
            name = chosen.plan.algorithm
            chosen, begin = replanning.switch_plan(chosen, made), replanning.beginning()
            run.timing.note_switch(chosen, name)
            continue
        if guard is None or not (guard.given_up or used_up) or run.is_over():
            return state, chosen
        begin = Beginning(state.v)
        before.add(guard, state)
        chosen = switch_plan(chosen, guard, before.names, made)
        run.timing.note_switch(
            chosen, guard.mine.plan.algorithm, guard.mine.counted_iterations.point
        )
        if replanning is not None:
            replanning.follow(chosen)


def guard_for(
    problem: Problem, chosen: Choice, question: Question, before: Before
) -> Guard | None:
    """The guard over a plan; None if no other plan can take over, or none may."""
    if question.options.keeps_order or question.gpu or problem.n_groups > 1:
        return None
    options, plan = question.options, chosen.plan
    if options.validation or options.max_iter or plan.epsilon == 0 or plan.converge != "gradient":
        return None
    mine = next((one for one in chosen.candidates if one.plan.algorithm == plan.algorithm), None)
    if mine is None or len(before.names) >= MOST_SWITCHES:
        return None
    other = next_best(chosen, mine, before, question.seen.sparse)
    if other is None:
        return None
    known = other.certain or solves(other)
    return Guard(mine, other, SURE if known else GUESSED)


def next_best(
    chosen: Choice, mine: Candidate, before: Before, sparse: bool = False
) -> Candidate | None:
    """The plan with the least expected seconds, of the well-known ones that were not tried.

    If a plan that the condition of the problem slows down falls behind, others are slowed down
    too: then it is one that solves its systems, if that is possible, and estimates of those that
    follow gradients are not trusted any more. On sparse rows, where features differ mostly by
    frequency, which preconditioners remove, conjugate gradients are possible too. If none is known
    well it is any, from which the training may return; but not for a plan that solves its systems,
    whose errors do not tell the rest. After one that follows gradients such a plan continues to
    the end: the condition slows down products of conjugate gradients too.
    """
    possible = [
        one
        for one in chosen.candidates
        if one.refusal is None and dependable(one) and one.plan.algorithm != mine.plan.algorithm
    ]
    fresh = [one for one in possible if one.plan.algorithm not in before.names]
    slow = [one for one in chosen.candidates if one.plan.algorithm in before.names]
    if not all(speeds_up(one) for one in slow):
        if solves(mine):
            return None
        fresh = [one for one in fresh if speeds_up(one)]
    solving = [one for one in fresh if solves(one)]
    known = [one for one in fresh if one.certain or solves(one)]
    if solving and not solves(mine) and not sparse:
        known = solving
    if not known and not solves(mine):
        known = fresh
    others = [*known, *returning(possible, before.left)]
    return min(others, key=lambda one: one.expected_seconds, default=None)


def returning(possible: list[Candidate], left: Mapping[str, float]) -> Iterator[Candidate]:
    """Yields plans that were given up, with their remaining iterations.

    At the hinge they continue at the last corner.
    """
    for one in possible:
        seconds = left.get(one.plan.algorithm)
        if seconds is None:
            continue
        more = seconds / max(one.cost.iteration, 1e-12)
        plan = replace(one.plan, smoothing=one.plan.smoothing[-1:])
        iterations = Interval.around(more / TOLD, more, more * TOLD)
        yield replace(one, plan=plan, iterations=iterations, on_sample=0.0, seen=True)


def speeds_up(one: Candidate) -> bool:
    """Returns whether it takes Newton's steps, however it solves their systems."""
    return ALGORITHMS[one.plan.family].speeds_up


def switch_plan(chosen: Choice, guard: Guard, given_up: list[str], made: int) -> Choice:
    """The choice of the next plan; made: iterations until now, of those that were given up."""
    before, after = guard.mine, guard.other
    behind = "fell behind" if guard.given_up else "did not converge within"
    why = (
        f"{before.plan.algorithm} {behind} its estimate of {before.counted_iterations.point:,.0f} "
        f"iterations and was given up after {made:,}; {after.plan.algorithm} goes on from there"
    )
    plan = replace(
        after.plan,
        reason=why,
        estimated=(after.counted_iterations.point, after.seconds.point),
        sample_stride=1,
        unmet=chosen.plan.unmet,
        after=f"after {made:,} iterations of {' and '.join(given_up)}",
    )
    return replace(chosen, plan=plan)
