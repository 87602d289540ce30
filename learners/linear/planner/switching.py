"""Runs the plan that was chosen, and goes on by the next one where it falls behind.

So it does where a plan has made all the iterations that its algorithm makes by default.

The next plan starts from the weights that were reached. Where the next plan was not known well
either, and falls behind in its turn, the one before it may come back: what is left of it was told
by its own errors. Trainings that have to be reproducible keep their plan, and so do batches of
several groups, whose iterations say little of one group's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.algorithms.parts.kept import Beginning
from tuskml.learners.linear.descent import Run
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.planner.choice import Candidate, Choice, dependable
from tuskml.learners.linear.planner.curves import Interval
from tuskml.learners.linear.planner.guard import GUESSED, SURE, Guard, Watching
from tuskml.learners.linear.planner.question import Question
from tuskml.learners.linear.planner.replanning import Replanning, replanning_for, solves
from tuskml.learners.linear.problem import Problem
from tuskml.schedule import shares

MOST_SWITCHES = 4
"""Of plans, after which the last one trains to the end."""
TOLD = 1.5
"""How many times more or less may be left of a plan that was given up."""


@dataclass
class Before:
    """The plans of a training that were given up.

    names: in order; left: seconds that were left, of those alone whose errors told it and that go
    on from any weights.
    """

    names: list[str] = field(default_factory=list)
    left: dict[str, float] = field(default_factory=dict)

    def add(self, guard: Guard, state: State) -> None:
        """A plan that was given up at a state."""
        name = guard.mine.plan.algorithm
        self.names.append(name)
        self.left.pop(name, None)
        told = guard.last and guard.told() is not None
        if told and ALGORITHMS[guard.mine.plan.family].resumes:
            self.left[name] = guard.left(state.iteration)


def run_guarded(
    run: Run, problem: Problem, v: Floats, chosen: Choice, question: Question
) -> tuple[State, Choice]:
    """Where the training ended from weights v (G, p), and the choice with the last plan."""
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
    """The same, while plans are compared when the resources change."""
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
            chosen, begin = replanning.switched(chosen, made), replanning.beginning()
            run.timing.switched(chosen, name)
            shares.note_plan(chosen.plan.algorithm)
            continue
        if guard is None or not (guard.given_up or used_up) or run.is_over():
            return state, chosen
        begin = Beginning(state.v)
        before.add(guard, state)
        chosen = switched(chosen, guard, before.names, made)
        run.timing.switched(chosen, guard.mine.plan.algorithm, guard.mine.counted.point)
        if replanning is not None:
            replanning.follow(chosen)


def guard_for(
    problem: Problem, chosen: Choice, question: Question, before: Before
) -> Guard | None:
    """The guard over a plan; None where there is nothing to go on by, or it must not be."""
    if question.options.ordered or question.gpu or problem.n_groups > 1:
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
    """The plan that is expected to take least, of those that are known well and were not tried.

    Where a plan falls behind that the condition of the problem slows down, it slows down others
    too: then it is one that solves its systems, if that is possible, and estimates of those that
    follow gradients are not believed any more. On sparse rows, where features differ more by how
    often they occur than by anything else, which preconditioners take away, conjugate gradients
    may go on too. Where none is known well it
    is any, from which the training may come back; but not for a plan that solves its systems,
    whose errors do not tell what is left of it. After one that follows gradients such a plan goes
    on to the end: the condition slows down products of conjugate gradients too.
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
    return min(others, key=lambda one: one.expected, default=None)


def returning(possible: list[Candidate], left: Mapping[str, float]) -> Iterator[Candidate]:
    """Plans that were given up, with the iterations that were left of them.

    At the hinge they go on at the last corner.
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
    """Whether it takes Newton's steps, however it solves their systems."""
    return ALGORITHMS[one.plan.family].speeds_up


def switched(chosen: Choice, guard: Guard, given_up: list[str], made: int) -> Choice:
    """The choice of the next plan; made: iterations until now, of those that were given up."""
    before, after = guard.mine, guard.other
    behind = "fell behind" if guard.given_up else "did not converge within"
    why = (
        f"{before.plan.algorithm} {behind} its estimate of {before.counted.point:,.0f} "
        f"iterations and was given up after {made:,}; {after.plan.algorithm} goes on from there"
    )
    plan = replace(
        after.plan,
        reason=why,
        estimated=(after.counted.point, after.seconds.point),
        sample_stride=1,
        unmet=chosen.plan.unmet,
        after=f"after {made:,} iterations of {' and '.join(given_up)}",
    )
    return replace(chosen, plan=plan)
