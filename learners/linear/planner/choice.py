"""Which plan trains: the candidates with iterations, cost and total, and the best of them.

Iterations come from curves fitted to what candidates did on a sample, or where none was run from
what such algorithms usually need (`estimates/iterations.py`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuskml.learners.explaining.shown import shown_seconds
from tuskml.learners.linear.algorithms import ALGORITHMS, LAST_CHOICE
from tuskml.learners.linear.algorithms.parts.kept import Kept
from tuskml.learners.linear.estimates.costs import Cost, total_of
from tuskml.learners.linear.estimates.question import Question
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.planner.costs import PlanCosts, sampling_error
from tuskml.learners.linear.planner.rule import SAMPLE_ROWS, choose_algorithm
from tuskml.learners.linear.planner.space import candidate, families, why_not
from tuskml.optimizer.constants import Constants
from tuskml.optimizer.curves import Curve, Interval, decades

CERTAIN, CERTAIN_SEEN = 3.0, 10.0
"""How far the ends of an interval may be apart, of usual iterations and of those of a trial."""
INSTANT, WORTH_TRYING = 0.002, 0.1
"""Seconds below which the rule's plan is not worth a second thought, or others not a trial."""
BATCH = tuple(name for name, one in ALGORITHMS.items() if not one.stochastic)
"""Whose iterations are known without a trial."""
WILD = 30.0
"""How many times more iterations than expected a plan may take, beyond which only a trial is
believed: it would be chosen for what it may spare, and cost many times that."""
FAR = 10.0
"""Times the iterations that a trial made, beyond which its curve is not believed alone, and its
square, beyond which it tells no more: errors that have hardly fallen yet lead anywhere."""
ROUGH = 1e-3
ROUGH_ITERATIONS = 8.0
LEAST_ROWS = 4096
"""Deterministic choices count no fewer rows: groups below this size train together."""


@dataclass(frozen=True)
class Speculated:
    """What a candidate did on a sample: its curve, and the share of the rows that it saw."""

    curve: Curve
    share: float


@dataclass(frozen=True)
class Candidate:
    """A plan with its iterations on all rows and on a sample first; refusal: why it cannot be.

    short: whether max_iter alone is why.
    """

    plan: Plan
    cost: Cost
    iterations: Interval
    on_sample: float
    seen: bool
    refusal: str | None
    short: bool = False
    store: Mapping[str, int] | None = None
    """What it would ask of a store, by name."""
    wasted: float = 0.0
    """Seconds that were spent already on what only other plans can use."""

    @property
    def seconds(self) -> Interval:
        return total_of(self.cost, self.iterations, self.on_sample)

    @property
    def expected(self) -> float:
        """Seconds, the uncertainty of iterations being one of their logarithm."""
        s = self.seconds
        mean = math.exp((math.log(s.low) + 2 * math.log(s.point) + math.log(s.high)) / 4)
        return mean + self.wasted

    @property
    def certain(self) -> bool:
        """Whether what it takes is known well."""
        apart = CERTAIN_SEEN if self.seen else CERTAIN
        return self.seconds.high <= apart * self.seconds.low

    @property
    def counted(self) -> Interval:
        """Iterations as the model will count them."""
        i = self.iterations
        return Interval(*(x + self.on_sample for x in (i.low, i.point, i.high)))


@dataclass(frozen=True)
class Choice:
    """The plan, the candidates it was chosen from, what cannot be met, and what trials showed.

    asked: the question with all that was seen; kept: the training's first pass, if it was made.
    """

    plan: Plan
    candidates: tuple[Candidate, ...]
    note: str | None = None
    known: Mapping[str, Speculated] = field(default_factory=dict)
    asked: Question | None = None
    kept: Kept | None = None


def split(
    question: Question, plan: Plan, whole: Interval, known: Curve | None
) -> tuple[Interval, float]:
    """Iterations on all rows, and on the sample that they start on."""
    if plan.sample_stride <= 1:
        return whole, 0.0
    gap = max(plan.epsilon, sampling_error(question, plan))
    enough = gap <= plan.epsilon  # the sample's optimum is within the tolerance on all rows
    first_known = ALGORITHMS[plan.family].first_on_sample(whole.point, enough)
    if first_known is not None:
        first = min(ROUGH_ITERATIONS, first_known)
        least = 0.0 if enough else 1.0
        rest = Interval.around(least, max(least, whole.point - first), max(2.0, 0.8 * whole.high))
        return rest, first
    rough = max(plan.epsilon, ROUGH)
    first = min(ROUGH_ITERATIONS, reach(known, whole, plan.epsilon, rough).point)
    met = reach(known, whole, plan.epsilon, gap)
    rest = Interval.around(
        max(0.0, whole.low - met.low),
        max(0.0 if enough else 1.0, whole.point - min(met.point, ROUGH_ITERATIONS)),
        max(1.0, whole.high - min(met.low, ROUGH_ITERATIONS)),
    )
    return rest, first


def reach(known: Curve | None, whole: Interval, epsilon: float, to: float) -> Interval:
    """Iterations to a looser tolerance."""
    if known is not None:
        return known.iterations(to)
    return whole.scaled(decades(to) / decades(epsilon))


def assess(
    question: Question,
    constants: Constants,
    speculated: Mapping[str, Speculated] | None = None,
    only: Sequence[str] | None = None,
) -> tuple[Candidate, ...]:
    """Every candidate, or those of some families, with its estimates or why it cannot be."""
    costs = PlanCosts(question, constants)
    known = speculated or {}
    return tuple(
        assess_one(question, costs, candidate(question, name), known)
        for name in only or families(question)
    )


def assess_one(
    question: Question, costs: PlanCosts, plan: Plan, speculated: Mapping[str, Speculated]
) -> Candidate:
    """One candidate."""
    algorithm = ALGORITHMS[plan.family]
    known, neighbour = speculated.get(plan.algorithm), speculated.get(LAST_CHOICE.name)
    refusal = why_not(question, plan, algorithm.memory(costs))
    if plan.epsilon == 0:
        fixed = Interval(plan.max_iter, plan.max_iter, plan.max_iter)
        return Candidate(plan, costs.of(plan), fixed, 0.0, False, refusal)
    whole = algorithm.usual(question, decades(plan.epsilon))
    by = algorithm.beside if plan.base is None else None
    if neighbour is not None and by is not None:
        there = neighbour.curve.iterations(plan.epsilon)
        whole = Interval.around(by.low * there.low, by.point * there.point, by.high * there.high)
    if known is not None:
        whole = believed(known.curve, plan.epsilon, whole)
        if algorithm.noisy:  # on all rows an epoch is more steps
            fewer = max(1.0, whole.point * known.share)
            whole = Interval.around(fewer, math.sqrt(fewer * max(whole.point, 1)), whole.high)
    iterations, first = split(question, plan, whole, None if known is None else known.curve)
    cost = costs.of(plan, iterations.point, first)
    short = refusal is None and first + iterations.low > plan.max_iter
    if short:
        refusal = (
            f"{first + iterations.low:,.0f} iterations or more, max_iter is {plan.max_iter:,}"
        )
    begun = algorithm.begins_by_curvature and plan.base is None
    wasted = 0.0 if begun else question.spent
    tried = known is not None
    return Candidate(plan, cost, iterations, first, tried, refusal, short, wasted=wasted)


def believed(curve: Curve, epsilon: float, usual: Interval) -> Interval:
    """What a trial says; where it ended far from the tolerance, what is usual counts as much."""
    told = curve.iterations(epsilon)
    if told.point <= FAR * len(curve.errors):
        return told
    least = min(told.point, FAR**2 * len(curve.errors))
    between = math.sqrt(least * max(usual.point, 1.0))
    return Interval.around(min(told.low, usual.low), between, max(told.high, usual.high))


def rounded(question: Question) -> Question:
    """The question as it is for all groups of a size, on any machine, in any company.

    A deterministic plan may depend on nothing else.
    """
    seen = question.seen
    rows = max(seen.most_rows, LEAST_ROWS)
    entries = rows * (min(seen.n_features, 64) if seen.sparse else seen.n_features)
    same = replace(seen, most_rows=rows, rows=rows, entries=entries, groups=1, on_disk=0.0)
    return replace(question, seen=same, threads=1)


def select(question: Question, candidates: tuple[Candidate, ...], own: Plan) -> Choice:
    """The plan that is expected to take least; the rule's own where none is possible."""
    options = question.options
    possible = [one for one in candidates if one.refusal is None]
    if options.algorithm != "auto":
        options = replace(options, algorithm="auto")
    favourite, why = choose_algorithm(options, question.seen, question.task)
    mine = next((one for one in candidates if one.plan.algorithm == favourite), None)
    if not any(dependable(one) for one in possible):
        return kept(question, candidates, own)
    best = min((one for one in possible if dependable(one)), key=lambda one: one.expected)
    reason = why if best is mine and not best.seen else ""
    reason += ", and " * bool(reason) + compared(best, possible)
    note = unmet(question, best)
    plan = replace(best.plan, reason=reason, unmet=None if note is None else "time")
    return Choice(plan, candidates, note)


def compared(best: Candidate, possible: list[Candidate]) -> str:
    """What is expected of the best plan, and of the next."""
    told = f"{shown_seconds(best.seconds.point)} expected"
    others = [one for one in possible if one is not best and dependable(one)]
    if not others:
        return f"{told}, and no other plan is known well enough"
    second = min(others, key=lambda one: one.expected)
    return f"{told}, {second.plan.algorithm} {shown_seconds(second.seconds.point)}"


def dependable(one: Candidate) -> bool:
    """Whether its iterations are known well enough to be chosen, or to go on by.

    What epochs come to, only a trial tells, and at the hinge what `bgd` comes to.
    """
    known = one.iterations.high <= WILD * max(one.iterations.point, 1.0)
    return one.seen or (known and one.plan.algorithm in BATCH)


def kept(question: Question, candidates: tuple[Candidate, ...], own: Plan) -> Choice:
    """The rule's plan, and what it cannot meet."""
    if not any(one.refusal is None and dependable(one) for one in candidates):
        if not any(one.short for one in candidates):
            return Choice(own, candidates)
        return Choice(replace(own, unmet="max_iter"), candidates, too_few(candidates, own))
    mine = next(one for one in candidates if one.plan.algorithm == own.algorithm)
    note = unmet(question, mine)
    return Choice(replace(own, unmet=None if note is None else "time"), candidates, note)


def too_few(candidates: tuple[Candidate, ...], own: Plan) -> str:
    """That max_iter leaves no plan, and the best one without it."""
    told = f"no plan reaches epsilon {own.epsilon:g} within max_iter {own.max_iter:,}"
    others = [one for one in candidates if one.short and dependable(one)]
    if others:
        best = min(others, key=lambda one: one.expected)
        told += (
            f": the best plan without it, {best.plan.algorithm}, is estimated at "
            f"{best.counted.point:,.0f} iterations and {shown_seconds(best.seconds.point)}"
        )
    return f"{told}; raise max_iter or epsilon"


def unmet(question: Question, best: Candidate) -> str | None:
    """What the request asks in vain, and what to revisit."""
    limit = question.options.time
    if limit is None or best.seconds.low <= limit:
        return None
    return (
        f"time {limit:g} s is too short for epsilon {best.plan.epsilon:g}: the best plan without "
        f"it, {best.plan.algorithm}, is estimated at {shown_seconds(best.seconds.point)}; "
        "raise time or epsilon"
    )


AMPLE = 1.0
"""Seconds, within which what is trivial is done by any plan."""


def constrained(question: Question) -> bool:
    """Whether the request has limits that the plan of a trivial training may not keep."""
    time, max_iter = question.options.time, question.options.max_iter
    return max_iter is not None or (time is not None and time < AMPLE)


TRIVIAL, TRIVIAL_AT_CORNERS = 1e7, 1e5
"""Products of features; at the hinge another plan may take a third of the rule's."""


def trivial(question: Question) -> bool:
    """Whether even newton's products would be so few that not even costs need be estimated."""
    seen = question.seen
    rows = max(seen.most_rows, LEAST_ROWS) if question.options.ordered else seen.rows
    products = rows * float(seen.n_features + 1) ** 2
    most = TRIVIAL if question.task.smooth else TRIVIAL_AT_CORNERS
    return seen.n_features <= 512 and products <= most


def takes_less(candidates: tuple[Candidate, ...], own: Plan, seconds: float) -> bool:
    """Whether the rule's plan does."""
    mine = next(one for one in candidates if one.plan.algorithm == own.algorithm)
    return mine.refusal is None and mine.seconds.point < seconds


SAMPLE_AT_LEAST = SAMPLE_ROWS // 8
"""Rows that a speculation reads where there are so many."""
