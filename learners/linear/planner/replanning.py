"""Changes the plan when the training's share of the cores or its memory changes (QOOP).

Mahajan, Scheduler-driven Strategies for Fair and Efficient Data Analytics Systems, 2021, sections
2.3.3 and 2.3.4. At the border of an iteration the training asks for its share, and whether memory
still holds rows that were spilled. Where that is not as the plan was judged for, what is left of
the plan is compared with each candidate, all at the new share and by the optimizer's own
estimates. These are made beside the training (`beside.py`) and compared at a later border, by the
errors that are known then; they are dropped if the resources have changed again. Passes over rows
that memory no longer holds take the time of the disk, so that plans of few passes gain.

Weights are all that plans have in common, so whatever one of them has reached is progress of all
(the thesis calls it progress propagation): a candidate begins at the best weights that are known,
those of an earlier plan where they are better, and has the decades of its error left that these
lack. The policy (`learners/linear/planner/replanning.py`) says which one goes on.

Resources that have just changed may change back. What another plan takes to begin, as a pass for
the curvature, is lost then. So it goes on once the running plan, which takes longer, has lost as
much, as one rents skis until they would be paid: the training takes at most twice what it would,
had it known how long the change lasts (Karlin et al., Competitive snoopy caching, 1988).
"""

import contextvars
import math
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import FLOOR, memory_use
from tuskml.kernels.passes import Floats
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.algorithms.parts.batch import Beginning
from tuskml.learners.linear.operators import Loop, Operators, State
from tuskml.learners.linear.planner.candidates import PlanCosts
from tuskml.learners.linear.planner.choice import Candidate, Choice, assess, dependable
from tuskml.learners.linear.planner.curves import Question
from tuskml.learners.linear.planner.iterations import Point, iterations_left
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import Plan
from tuskml.learners.machine import constants, reading
from tuskml.learners.machine.constants import Constants
from tuskml.learners.machine.reading import not_cached
from tuskml.schedule import shares
from tuskml.schedule.pool import QuietThreads


@dataclass
class Resources:
    """The resources of a training: threads, and bytes in addition to its current ones.

    on_disk: bytes of spilled rows that memory does not hold, so that each pass reads them; free:
    bytes that the system has for files, or for data of a plan that takes over.
    """

    threads: int
    room: float
    on_disk: float = 0.0
    free: float = math.inf

    def describe_change(self, other: "Resources") -> str:
        """Describes the change in words, for the model's plan."""
        told = []
        if self.threads != other.threads:
            told.append(f"share {self.threads} -> {other.threads}")
        if (self.on_disk > 0) != (other.on_disk > 0):
            told.append("rows " + ("memory -> disk" if other.on_disk else "disk -> memory"))
        memory = f"memory {mebibytes(self.room)} -> {mebibytes(other.room)} MiB"
        return " and ".join(told) or memory


def mebibytes(size: float) -> str:
    """The size in MiB, to the hundredth where it is small."""
    found = size / 2**20
    return f"{found:,.0f}" if found >= 1 else f"{found:.2f}"


def judge(chosen: Choice, question: Question, now: Resources) -> tuple[Candidate, ...]:
    """The candidates of a choice that are known well, at other resources. Reads and changes
    nothing else, as it may run in another thread than the training."""
    names = [one.plan.algorithm for one in chosen.candidates if dependable(one)]
    known = constants.of_host()
    asked = with_resources(question, now, known)
    found = assess(asked, known, chosen.known, names)
    common = PlanCosts(asked, known).common()
    return tuple(
        replace(one, cost=replace(one.cost, setup=max(one.cost.setup - common, 0.0)))
        for one in found
    )


def with_resources(question: Question, now: Resources, known: Constants) -> Question:
    """The question of a training that has these; passes that were timed take longer."""
    seen = replace(question.seen, on_disk=now.on_disk)
    asked = replace(question, threads=now.threads, seen=seen, spent=0.0)
    before, after = PlanCosts(question, known), PlanCosts(asked, known)
    timed = dict(question.measured)
    for name, one in timed.items():
        kind = name.removeprefix("pass ")
        if kind != name and one.failure is None:
            slower = before.speedup(kind) / after.speedup(kind)
            timed[name] = replace(one, iteration=slower * one.iteration)
    return replace(asked, measured=timed)


# Judges plans in a thread while the training continues (Mahajan 2021, 2.3.3).
#
# Kernels hold no GIL, so the thread works while rows are read. Its result is used at a later
# border of an iteration, and dropped if the question is obsolete. The thread takes no signals,
# which a server handles in its own thread, and it ends with the training.

Found = TypeVar("Found")
NAME = "tuskml plans"
"""The name of the thread."""


class NoThreadError(Exception):
    """The system starts no further thread."""


class Beside(Generic[Found]):
    """Answers one question at a time in a thread, identified by its key."""

    def __init__(self) -> None:
        self.pool: QuietThreads | None = None
        self.key: Hashable = None
        self.future: Future[Found] | None = None

    def answer(self, key: Hashable, ask: Callable[[], Found]) -> Found | None:
        """The result of `ask`; None while it runs. Drops an earlier question.

        An error of `ask` is raised here. Raises NoThreadError if no thread can be started.
        """
        if self.future is None or self.key != key:
            self.drop()
            self.future, self.key = self._start(ask), key
        return self.future.result() if self.future.done() else None

    def drop(self) -> None:
        """Drops the question."""
        if self.future is not None:
            self.future.cancel()
        self.key, self.future = None, None

    def end(self) -> None:
        """Ends the thread, which takes a millisecond at most."""
        self.drop()
        if self.pool is not None:
            self.pool.shutdown(wait=True)
            self.pool = None

    def _start(self, ask: Callable[[], Found]) -> "Future[Found]":
        """The thread sees the limits of the calling one."""
        context = contextvars.copy_context()

        def quietly() -> Found:
            with np.errstate(all="ignore"):
                return ask()

        try:
            if self.pool is None:
                self.pool = QuietThreads(1, thread_name_prefix=NAME)
                self.pool.submit(int)  # a thread that starts runs at once, and the caller waits
            return self.pool.submit(context.run, quietly)
        except RuntimeError as error:
            raise NoThreadError(str(error)) from None


# The policy of re-planning, independent of the plans' content.
#
# Mahajan, Scheduler-driven Strategies for Fair and Efficient Data Analytics Systems, 2021, chapter
# 2: whenever its resources change, a query continues with the fastest of the plans that can run,
# as if resources never changed again (pseudocode 2). A plan's work is kept, so that a query that
# returns to it continues where it stopped. Plans that need more resources than another one and do
# not at least halve its work are not considered. For any changes of resources, such a query ends
# before one that knows all of them has run the best single plan four times, and twice if no plan
# was dropped (theorem 2.2); no policy without knowledge of the future does better than twice
# (theorem 2.1).

HYSTERESIS = 0.2
"""The relative gain at which a plan replaces the running one. Figure 2.15 finds 10 to 25 % good.
Smaller errors of estimates change no plan.
"""


def worth_considering(need: Sequence[float], work: Sequence[float]) -> list[bool]:
    """Tests which of n plans are considered (lines 1 to 3); need, work: (n,), in any order.

    Work is compared with that of the considered plan with the next smaller need: of many plans,
    each a little lighter than the one before, the lightest would otherwise be left out in favour
    of one that takes many times more. All plans with equal need are considered, since
    their times are compared whenever they run.
    """
    order = sorted(range(len(need)), key=lambda i: (need[i], work[i]))
    considered = [False] * len(need)
    least, below, at = math.inf, math.inf, -math.inf
    for i in order:
        if need[i] > at:
            below, at = least, need[i]
        if work[i] <= below / 2:
            considered[i] = True
            least = min(least, work[i])
    return considered


def next_plan(
    left: Sequence[float], running: int | None, hysteresis: float = HYSTERESIS
) -> int | None:
    """The plan to continue with (line 4); None where none can run.

    left: seconds that are left of each plan with the resources of now, infinite where it cannot
    run, those that need least first, which wins among equals; running: the plan that runs now,
    None before the first.
    """
    best = min(range(len(left)), key=lambda i: left[i], default=None)
    if best is None or math.isinf(left[best]):
        return None
    if running is None or math.isinf(left[running]):
        return best
    return best if left[best] * (1 + hysteresis) < left[running] else running


def choices(left: Floats, running: NDArray[np.int64], hysteresis: float) -> NDArray[np.int64]:
    """`next_plan` for k queries at once, (k,); left: (k, n); running: (k,), -1: none. -1: none."""
    rows = np.arange(len(left))
    best = np.argmin(left, axis=1)
    now = np.where(running < 0, np.inf, left[rows, running])
    better = left[rows, best] * (1 + hysteresis) < now
    chosen = np.where(better | np.isinf(now), best, running)
    return np.where(np.isinf(left[rows, best]), -1, chosen)


SHORT, LEAST_LEFT = 0.02, 0.05
"""Seconds: a plan that has taken less, or has less left, stays. Judging plans takes half a
thousandth, in another thread.
"""
FEWEST = 4
"""Errors that tell how many iterations are left of a plan that follows gradients."""
LEAST_ITERATIONS = 1.0
"""Iterations of a plan that takes over, at least."""
PAID = 1.0
"""Share of another plan's setup that the running one must have lost."""
LOOK_EVERY = 0.05
"""Seconds for which the system's report of its memory is reused."""
OF_FREE = 0.5
"""Share of that memory which a plan that takes over may add: a container without any left is
killed.
"""


@dataclass
class Checkpoint:
    """Weights v (1, p) that a plan has reached, and their violation."""

    v: Floats
    violation: float


@dataclass
class Replanning:
    """The re-planning of one training of one group.

    chosen: the plan that runs and the candidates; wanted: threads that it asks for; seen: the
    resources that the plan was judged for; first: the error of the start; points: errors of the
    plan that runs, by its iterations; best: of all plans; next: the candidate that is to go on;
    told: the switches, for the model's plan; began: of the plan that runs, by the monotonic clock;
    beside: what judges candidates; slower: how many times more iterations than expected a plan
    that follows gradients has needed, which the condition of the problem makes all such plans
    need; judged: candidates by threads and bytes on the disk; spilled: bytes of the rows that
    were; free: bytes of memory for files, when the system was asked, which was at looked; started:
    when the training began, both by the monotonic clock; lost: seconds that another plan would
    have spared since it was better, at the look that was at lost_at, None: none is.
    """

    chosen: Choice
    question: Question
    wanted: int
    memory: int
    seen: Resources
    first: float = math.nan
    points: list[Point] = field(default_factory=list)
    best: Checkpoint | None = None
    next: Candidate | None = None
    told: list[str] = field(default_factory=list)
    began: float = 0.0
    slower: float = 1.0
    judged: dict[tuple[int, float], tuple[Candidate, ...]] = field(default_factory=dict)
    beside: Beside[tuple[Candidate, ...]] = field(default_factory=Beside)
    spilled: int = 0
    free: float = math.inf
    started: float = field(default_factory=time.monotonic)
    looked: float = -math.inf
    lost: float = 0.0
    lost_at: float | None = None

    def watching(self, operators: Operators) -> Operators:
        """Returns the operators, which stop when another plan takes over."""
        self.points, self.began = [], time.monotonic()
        return replace(operators, loop=ReplannedLoop(operators.loop, self))

    def note(self, state: State) -> None:
        """Takes down how far the plan is from its end."""
        if state.known.all():
            error = float(state.violation.max())
            self.points.append((state.iteration, error))
            if math.isnan(self.first):
                self.first = error

    def look(self, state: State) -> None:
        """Chooses another plan if the resources have changed and plans are judged."""
        now = self.resources()
        same = (now.threads, now.on_disk) == (self.seen.threads, self.seen.on_disk)
        if same and now.room >= self.least_room(now):
            self.beside.drop()
            self.lost_at = None
            return
        if not self.points or self.age() < SHORT:
            return
        candidates = self.candidates_beside(now)
        if candidates is None:
            return
        running = self.running(candidates)
        if running is None or self.takes_short(candidates[running]):
            return
        self.keep(state)
        self.learn(candidates[running])
        order = places_to_consider(candidates, running)
        left = [self.remaining_seconds(candidates[i], i == running, now) for i in order]
        place = next_plan(left, order.index(running))
        if place is None or order[place] == running:
            self.seen, self.lost_at = now, None
            return
        best = candidates[order[place]]
        if not self.paid(left[order.index(running)], left[place], best.cost.setup):
            return
        before, self.seen, self.lost_at = self.seen, now, None
        self.next = self.taking_over(best, left[place])
        names = f"{self.chosen.plan.algorithm} -> {self.next.plan.algorithm}"
        self.told.append(f"{names} at iteration {{made}}: {before.describe_change(now)}")

    def paid(self, mine: float, other: float, setup: float) -> bool:
        """Returns whether the running plan has lost as much as the other one's setup.

        mine, other: seconds that are left of them, the latter with setup.
        """
        now = time.monotonic()
        if self.lost_at is None:
            self.lost, self.lost_at = 0.0, now
        if math.isinf(mine):
            return True
        self.lost += (now - self.lost_at) * (1.0 - max(other - setup, 0.0) / mine)
        self.lost_at = now
        return self.lost >= PAID * setup

    def resources(self) -> Resources:
        """The current resources."""
        use = memory_use(self.memory)
        room, self.spilled = max(use.budget - use.resident, use.budget // 4, FLOOR), use.spilled
        free = self.free_memory()
        outside = not_cached(self.spilled, free)
        return Resources(max(shares.now(self.wanted), 1), float(room), outside, free)

    def free_memory(self) -> float:
        """Bytes that the system has for files, if rows were spilled; else it is not queried."""
        now = time.monotonic()
        if self.spilled and now - self.looked >= LOOK_EVERY:
            told = shares.memory()
            self.looked, self.free = now, reading.available() if told is None else told
        return self.free

    def least_room(self, now: Resources) -> float:
        """Bytes below which the plan that runs would not have been possible."""
        return 0.0 if now.room >= self.seen.room else self.cost_memory

    @property
    def cost_memory(self) -> float:
        """Bytes of the plan that runs."""
        running = self.running(self.chosen.candidates)
        return 0.0 if running is None else self.chosen.candidates[running].cost.memory

    def candidates_beside(self, now: Resources) -> tuple[Candidate, ...] | None:
        """As `candidates`, judged in another thread; None until they are."""
        key, chosen = (now.threads, now.on_disk), self.chosen
        if key not in self.judged:
            try:
                found = self.beside.answer(key, lambda: judge(chosen, self.question, now))
            except NoThreadError:  # the plan stays
                self.seen = now
                return None
            if found is None:
                return None
            self.judged[key] = found
        return self.judged[key]

    def candidates(self, now: Resources) -> tuple[Candidate, ...]:
        """The well-known candidates, judged for the current resources."""
        key = now.threads, now.on_disk
        if key not in self.judged:
            self.judged[key] = judge(self.chosen, self.question, now)
        return self.judged[key]

    def end(self) -> None:
        """Ends the judging, as the training has ended."""
        self.beside.end()

    def running(self, candidates: Sequence[Candidate]) -> int | None:
        """The index of the running plan."""
        names = [one.plan.algorithm for one in candidates]
        mine = self.chosen.plan.algorithm
        return names.index(mine) if mine in names else None

    def age(self) -> float:
        """Seconds that the training has taken."""
        return max(shares.age(), time.monotonic() - self.started)

    def takes_short(self, running: Candidate) -> bool:
        """Returns whether so little is left that another plan is not worth a thought, as things
        go.
        """
        made, mine = self.points[-1][0], self.running(self.chosen.candidates)
        each = (time.monotonic() - self.began) / made if made else 0.0
        told = 0.0 if mine is None else self.chosen.candidates[mine].cost.iteration
        slower = max(each / max(told, 1e-12), 1.0)
        return slower * self.running_seconds(running) < LEAST_LEFT

    def keep(self, state: State) -> None:
        """Keeps the weights of now as a checkpoint, if they are the best."""
        error = self.points[-1][1]
        if self.best is None or error < self.best.violation:
            self.best = Checkpoint(state.v.copy(), error)

    def remaining_seconds(self, one: Candidate, runs: bool, now: Resources) -> float:
        """Seconds that are left of a plan; infinite if it cannot continue from here."""
        if one.cost.memory > now.room:
            return math.inf
        if runs:
            return self.running_seconds(one)
        if one.cost.memory > OF_FREE * now.free:
            return math.inf
        known = one.refusal is None or one.short
        if not known or not ALGORITHMS[one.plan.family].resumes:
            return math.inf
        doubt = one.expected_seconds / max(
            one.seconds.point, 1e-12
        )  # mean of the interval over its point
        return doubt * (one.cost.setup + self.iterations(one) * one.cost.iteration) + rest(one)

    def iterations(self, one: Candidate) -> float:
        """Iterations of a plan that continues from the best weights: a share of its total, by
        decades.
        """
        assert self.best is not None
        goal = one.plan.epsilon
        whole = math.log(max(self.first, goal * 10) / goal)
        lacking = math.log(max(self.best.violation, goal) / goal)
        slower = 1.0 if solves(one) else self.slower
        return max(slower * one.iterations.point * min(lacking / whole, 1.0), LEAST_ITERATIONS)

    def learn(self, running: Candidate) -> None:
        """Learns from the errors by what factor the running plan exceeds its estimate."""
        if ALGORITHMS[running.plan.family].speeds_up or len(self.points) < FEWEST:
            return
        goal = running.plan.epsilon
        whole = math.log(max(self.first, goal * 10) / goal)
        part = min(math.log(max(self.points[0][1], goal * 10) / goal) / whole, 1.0)
        needs = self.points[-1][0] + iterations_left(self.points, goal)
        if math.isfinite(needs):
            self.slower = max(self.slower, needs / max(part * running.iterations.point, 1.0))

    def running_seconds(self, one: Candidate) -> float:
        """Seconds that are left of the plan that runs."""
        made, error = self.points[-1]
        goal = one.plan.epsilon
        whole = math.log(max(self.first, goal * 10) / goal)
        expected = one.iterations.point * min(math.log(max(error, goal) / goal) / whole, 1.0)
        if not ALGORITHMS[one.plan.family].speeds_up and len(self.points) >= FEWEST:
            told = iterations_left(self.points, goal)
            expected = told if math.isfinite(told) else max(expected, made)
        return max(expected, LEAST_ITERATIONS) * one.cost.iteration + rest(one)

    def taking_over(self, one: Candidate, seconds: float) -> Candidate:
        """The candidate as the plan that takes over."""
        told = (round(self.iterations(one)), seconds)
        plan = replace(one.plan, threads=self.wanted, sample_stride=1, estimated=told)
        return replace(one, plan=plan)

    def switch_plan(self, chosen: Choice, made: int) -> Choice:
        """The choice of the plan that takes over; made: iterations until now."""
        assert self.next is not None
        self.told[-1] = self.told[-1].format(made=f"{made:,}")
        plan = replace(self.next.plan, reason=self.told[-1], after="; ".join(self.told))
        before = {one.plan.algorithm: one for one in self.candidates(self.seen)}
        candidates = tuple(before.get(one.plan.algorithm, one) for one in chosen.candidates)
        self.chosen, self.next = replace(chosen, plan=plan, candidates=candidates), None
        return self.chosen

    def follow(self, chosen: Choice) -> None:
        """Takes over the guard's choice of another plan."""
        self.chosen, self.next = chosen, None
        self.beside.drop()

    def beginning(self) -> Beginning:
        """The start of the plan that takes over: the best known weights."""
        assert self.best is not None
        return Beginning(self.best.v)


@dataclass
class ReplannedLoop:
    """Loop: as the inner one, until another plan takes over."""

    inner: Loop
    replanning: Replanning

    def __call__(self, state: State) -> bool:
        self.replanning.note(state)
        if not self.inner(state):
            return False
        self.replanning.look(state)
        return self.replanning.next is None


def solves(one: Candidate) -> bool:
    """Returns whether it solves its systems, without products that are as many as it takes."""
    return ALGORITHMS[one.plan.family].speeds_up and not one.cost.product


def rest(one: Candidate) -> float:
    """Seconds after the iterations."""
    return one.cost.finish


def places_to_consider(candidates: Sequence[Candidate], running: int) -> list[int]:
    """Places of the candidates that the policy considers, those that need least threads first."""
    need = [2.0 if ALGORITHMS[one.plan.family].lock_free else 1.0 for one in candidates]
    work = [one.expected_seconds * by for one, by in zip(candidates, need, strict=True)]
    kept = worth_considering(need, work)
    places = sorted(range(len(candidates)), key=lambda i: need[i])
    return [i for i in places if kept[i] or i == running]


def replanning_for(problem: Problem, chosen: Choice, question: Question) -> Replanning | None:
    """Watches the share of a training; None if its plan must stay, or nothing is known.

    Deterministic trainings keep their plan, and so do batches of several groups, whose iterations
    say little about one group's, and those whose losses have corners, where errors are gaps.
    """
    if question.options.keeps_order or question.gpu or problem.n_groups > 1:
        return None
    if not problem.task.smooth or not chosen.candidates or not ends_by_gradient(chosen.plan):
        return None
    if question.options.validation or question.options.max_iter:
        return None
    memory = 0 if problem.rows.charges is None else problem.rows.charges.memory
    wanted, asked = chosen.plan.threads, chosen.asked or question
    planned = Resources(wanted, np.inf, asked.seen.on_disk)
    made = Replanning(chosen, asked, wanted, memory, planned)
    made.seen = replace(planned, room=made.resources().room)
    return made


def ends_by_gradient(plan: Plan) -> bool:
    """Returns whether the plan ends at a small gradient, which its errors show."""
    return plan.epsilon > 0 and plan.converge == "gradient" and plan.base is None
