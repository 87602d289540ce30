"""What plans take on a few groups of a batch of many, counted in passes.

Algorithm 1 of Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD
2017, tries plans on a sample of the rows. Where many groups train together a few of them are
the better sample: they are trained to the end, so that nothing has to be extrapolated, and take
a small share of what the batch takes. Their passes count at the batch's seconds, so other work on
the machine does not change the choice.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.kernels.rows.meter import Meter
from tuskml.learners.linear.estimates.question import Question
from tuskml.learners.linear.guard.work import Work
from tuskml.learners.linear.operators import Loop, State, run
from tuskml.learners.linear.own.assembled import operators_of
from tuskml.learners.linear.planner.choice import Candidate, dependable
from tuskml.learners.linear.problem import Problem
from tuskml.optimizer.curves import Interval

MANY_GROUPS, STAND_INS = 64, 4
"""Groups of a batch, at least, and how many of them are tried, from small to large."""
A_THREAD = 8
"""Groups of a batch for each thread, at least: each group that is tried has a thread of its own,
and the others wait. A plan's trial then takes an eighth of what it takes for all groups."""
WORTH = 0.06
"""Seconds of a batch, below which none of its groups is tried."""
RIVAL = 3.0
"""Times the best plan's expected seconds, up to which a plan is tried."""
FIRST, OTHERS = 2.5, 1.2
"""Times its own expected seconds, after which the first trial ends, and times the best trial's."""
LIKE_IT = 1.25
"""How many times more or fewer iterations the other groups may take."""
AT_LEAST = 2.0
"""How many times longer a plan is expected to take than it was let run."""


@dataclass
class Limited:
    """Loop: as the inner one, until the passes that were made come to so many seconds."""

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
            self.work.iterated(on_sample=False)
        return not self.over

    def enough(self, products: int, errors: Sequence[float]) -> bool:
        """Of conjugate gradients, within an iteration."""
        self.over = self.work.seconds > self.most
        return self.over


def least_groups(threads: int) -> int:
    """Groups from which on trying a few of them takes a small share of what the batch takes."""
    return max(MANY_GROUPS, A_THREAD * threads)


def worth_groups(question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The plans to try on some groups, of the fewest passes first; none if that does not pay."""
    if question.seen.groups < least_groups(question.threads):
        return []
    if not question.task.smooth or question.gpu:
        return []
    known = [
        one
        for one in candidates
        if one.refusal is None and one.plan.base is None and dependable(one) and one.cost.parts
    ]
    least = min((one.expected for one in known), default=0.0)
    if least < WORTH:
        return []
    rivals = [one for one in known if one.expected < RIVAL * least]
    return sorted(rivals, key=by_calls) if len(rivals) > 1 else []


def by_calls(one: Candidate) -> float:
    """About how many passes a plan makes: small groups' take as long as the calls of them."""
    return one.iterations.point + one.cost.products


@dataclass(frozen=True)
class Tried:
    """What a plan did on some groups: iterations, passes, and whether it reached the tolerance."""

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
    """The candidates with what those that may take least did on a few groups."""
    known = question.shown.get(likeness(question))
    if known is None:
        rivals = worth_groups(question, candidates)
        if not rivals:
            return candidates
        order = np.argsort(problem.rows.groups["n_rows"], kind="stable")
        places = np.linspace(0, len(order) - 1, STAND_INS + 2)[1:-1].astype(np.intp)
        some = np.sort(order[places])
        known = on_groups(problem.of(some), start[some], rivals)
        question.shown[likeness(question)] = known
    return tuple(
        known[one.plan.algorithm].of(one) if one.plan.algorithm in known else one
        for one in candidates
    )


def likeness(question: Question) -> tuple[object, ...]:
    """What batches have in common whose groups take about as many iterations."""
    seen = question.seen
    sizes = (round(2 * math.log2(x)) for x in (seen.n_features + 1, question.rows_of_one))
    return seen.storage, *sizes


def on_groups(part: Problem, start: Floats, rivals: list[Candidate]) -> dict[str, Tried]:
    """What each plan does on some groups; one that takes longer than the best one is ended."""
    known: dict[str, Tried] = {}
    least = 0.0
    part = part.on(replace(part.rows, threads=min(part.rows.threads, part.n_groups)))
    for one in rivals:
        if least and one.expected > least:
            continue
        found = trial(part, start, one, OTHERS * least if least else FIRST * one.expected)
        expected = found.of(one).expected
        known[one.plan.algorithm] = found
        least = min(least or expected, expected)
    return known


def trial(part: Problem, start: Floats, one: Candidate, most: float) -> Tried:
    """What a plan does on some groups; most: seconds, as if all groups did."""
    work = Work(one.cost)
    part = part.on(replace(part.rows, meter=work.meter))
    plan = replace(one.plan, sample_stride=1, threads=part.rows.threads)
    operators = operators_of(part, plan, start, None)
    limited = Limited(operators.loop, work, most)
    state = run(part, replace(operators, loop=limited))
    made = max(int(state.iterations.max(initial=0)), 1)
    return Tried(made, work.meter, not limited.over and bool(state.converged.all()))
