"""The choice of a plan: the candidates with iterations, cost and total, and the best of them.

Iterations come from curves fitted to candidates' runs on a sample, or without a run from the
typical number of such algorithms (`iterations.py`).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuskml.learners.explaining import format_seconds
from tuskml.learners.linear.algorithms import ALGORITHMS, BY_SAMPLER, LAST_CHOICE, STORED, UNASKED
from tuskml.learners.linear.algorithms.parts.batch import FirstPass
from tuskml.learners.linear.algorithms.parts.epochs import DRAWN, EAGER
from tuskml.learners.linear.planner.candidates import (
    SAMPLE_ROWS,
    PlanCosts,
    candidate,
    choose_algorithm,
    families,
    sampling_error,
    why_not,
)
from tuskml.learners.linear.planner.cost import Cost, Costs, total_of
from tuskml.learners.linear.planner.curves import Curve, Interval, Question, Statistics, decades
from tuskml.learners.linear.request import Plan
from tuskml.learners.machine.constants import Constants
from tuskml.learners.machine.reading import draw_seconds, scan_seconds
from tuskml.learners.row_groups import RUN_ROWS

CERTAIN, CERTAIN_SEEN = 3.0, 10.0
"""The largest ratio of an interval's ends that counts as certain, for usual iterations and for
those of a trial.
"""
INSTANT, WORTH_TRYING = 0.002, 0.1
"""Seconds below which the rule's plan is not worth a second thought, or others not a trial."""
BATCH = tuple(name for name, one in ALGORITHMS.items() if not one.stochastic)
"""Algorithms whose iterations are known without a trial."""
WILD = 30.0
"""The ratio of possible to expected iterations beyond which only a trial counts: the plan would be
chosen for its possible savings, and could cost many times that.
"""
FAR = 10.0
"""A trial's curve is used alone up to this multiple of its iterations, and not at all beyond its
square: errors that have hardly fallen yet predict nothing.
"""
ROUGH = 1e-3
ROUGH_ITERATIONS = 8.0
LEAST_ROWS = 4096
"""Deterministic choices count no fewer rows: groups below this size train together."""


@dataclass(frozen=True)
class SampleRun:
    """A candidate's run on a sample: its curve, and the share of the rows in the sample."""

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
    """Its options for a store, by name."""
    wasted: float = 0.0
    """Seconds already spent on results that only other plans can use."""

    @property
    def seconds(self) -> Interval:
        return total_of(self.cost, self.iterations, self.on_sample)

    @property
    def expected_seconds(self) -> float:
        """Seconds, the uncertainty of iterations being one of their logarithm."""
        s = self.seconds
        mean = math.exp((math.log(s.low) + 2 * math.log(s.point) + math.log(s.high)) / 4)
        return mean + self.wasted

    @property
    def certain(self) -> bool:
        """Returns whether its seconds are well known."""
        apart = CERTAIN_SEEN if self.seen else CERTAIN
        return self.seconds.high <= apart * self.seconds.low

    @property
    def counted_iterations(self) -> Interval:
        """Iterations as the model will count them."""
        i = self.iterations
        return Interval(*(x + self.on_sample for x in (i.low, i.point, i.high)))


@dataclass(frozen=True)
class Choice:
    """The plan, its candidates, options that cannot be met, and the results of trials.

    asked: the question with all observations; kept: the training's first pass, if it was made.
    """

    plan: Plan
    candidates: tuple[Candidate, ...]
    note: str | None = None
    known: Mapping[str, SampleRun] = field(default_factory=dict)
    asked: Question | None = None
    kept: FirstPass | None = None


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
    return whole.scale(decades(to) / decades(epsilon))


def assess(
    question: Question,
    constants: Constants,
    speculated: Mapping[str, SampleRun] | None = None,
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
    question: Question, costs: PlanCosts, plan: Plan, speculated: Mapping[str, SampleRun]
) -> Candidate:
    """Assesses one candidate."""
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
        whole = believable_iterations(known.curve, plan.epsilon, whole)
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


def believable_iterations(curve: Curve, epsilon: float, usual: Interval) -> Interval:
    """Iterations by a trial; if it ended far from the tolerance, averaged with the usual ones."""
    told = curve.iterations(epsilon)
    if told.point <= FAR * len(curve.errors):
        return told
    least = min(told.point, FAR**2 * len(curve.errors))
    between = math.sqrt(least * max(usual.point, 1.0))
    return Interval.around(min(told.low, usual.low), between, max(told.high, usual.high))


def round_question(question: Question) -> Question:
    """The question as it is for all groups of a size, on any machine, in any company.

    A deterministic plan may depend on nothing else.
    """
    seen = question.seen
    rows = max(seen.most_rows, LEAST_ROWS)
    entries = rows * (min(seen.n_features, 64) if seen.sparse else seen.n_features)
    same = replace(seen, most_rows=rows, rows=rows, entries=entries, groups=1, on_disk=0.0)
    return replace(question, seen=same, threads=1)


def select(question: Question, candidates: tuple[Candidate, ...], own: Plan) -> Choice:
    """The plan with the least expected seconds; the rule's own if none is possible."""
    options = question.options
    possible = [one for one in candidates if one.refusal is None]
    if options.algorithm != "auto":
        options = replace(options, algorithm="auto")
    favourite, why = choose_algorithm(options, question.seen, question.task)
    mine = next((one for one in candidates if one.plan.algorithm == favourite), None)
    if not any(dependable(one) for one in possible):
        return keep_plan(question, candidates, own)
    best = min((one for one in possible if dependable(one)), key=lambda one: one.expected_seconds)
    reason = why if best is mine and not best.seen else ""
    reason += ", and " * bool(reason) + compare_plans(best, possible)
    note = unmet(question, best)
    plan = replace(best.plan, reason=reason, unmet=None if note is None else "time")
    return Choice(plan, candidates, note)


def compare_plans(best: Candidate, possible: list[Candidate]) -> str:
    """A phrase that compares the expected seconds of the best plan and of the next."""
    told = f"{format_seconds(best.seconds.point)} expected"
    others = [one for one in possible if one is not best and dependable(one)]
    if not others:
        return f"{told}, and no other plan is known well enough"
    second = min(others, key=lambda one: one.expected_seconds)
    return f"{told}, {second.plan.algorithm} {format_seconds(second.seconds.point)}"


def dependable(one: Candidate) -> bool:
    """Returns whether its iterations are known well enough to choose it or to continue with it.

    Only a trial tells this for epochs, and at the hinge for `bgd`.
    """
    known = one.iterations.high <= WILD * max(one.iterations.point, 1.0)
    return one.seen or (known and one.plan.algorithm in BATCH)


def keep_plan(question: Question, candidates: tuple[Candidate, ...], own: Plan) -> Choice:
    """Keeps the rule's plan, with what it cannot meet."""
    if not any(one.refusal is None and dependable(one) for one in candidates):
        if not any(one.short for one in candidates):
            return Choice(own, candidates)
        return Choice(replace(own, unmet="max_iter"), candidates, too_few(candidates, own))
    mine = next(one for one in candidates if one.plan.algorithm == own.algorithm)
    note = unmet(question, mine)
    return Choice(replace(own, unmet=None if note is None else "time"), candidates, note)


def too_few(candidates: tuple[Candidate, ...], own: Plan) -> str:
    """A sentence that no plan fits max_iter, with the best one without that limit."""
    told = f"no plan reaches epsilon {own.epsilon:g} within max_iter {own.max_iter:,}"
    others = [one for one in candidates if one.short and dependable(one)]
    if others:
        best = min(others, key=lambda one: one.expected_seconds)
        told += (
            f": the best plan without it, {best.plan.algorithm}, is estimated at "
            f"{best.counted_iterations.point:,.0f} iterations and "
            f"{format_seconds(best.seconds.point)}"
        )
    return f"{told}; raise max_iter or epsilon"


def unmet(question: Question, best: Candidate) -> str | None:
    """A sentence on the options that cannot be met, and what to change."""
    limit = question.options.time
    if limit is None or best.seconds.low <= limit:
        return None
    return (
        f"time {limit:g} s is too short for epsilon {best.plan.epsilon:g}: the best plan without "
        f"it, {best.plan.algorithm}, is estimated at {format_seconds(best.seconds.point)}; "
        "raise time or epsilon"
    )


def takes_less(candidates: tuple[Candidate, ...], own: Plan, seconds: float) -> bool:
    """Returns whether the rule's plan does."""
    mine = next(one for one in candidates if one.plan.algorithm == own.algorithm)
    return mine.refusal is None and mine.seconds.point < seconds


SAMPLE_AT_LEAST = SAMPLE_ROWS // 8
"""The fewest rows that a speculation reads, if there are that many."""


# The eleven plans of ML4all, and the costs of those that packed rows use only by option.
#
# Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD 2017, section 6
# and figure 5: BGD, and MGD and SGD by transform and sampler. Eagerly by shuffled partitions they
# are candidates themselves. Here are the others, by equations 7 to 9. For reading and transforming
# rows, the eager ones pay the cost of all rows, and the lazy ones their share of it, with a seek
# for each piece (equation 3, `learners/machine/reading.py`).

SHUFFLED = "shuffled-partition"
ALL_ROWS = " on all rows"
"""The suffix of a plan's name that reads and transforms all rows, and samples none."""
DRAW_SECONDS = {EAGER: 430e-9}
"""Seconds of drawing a row from memory, in addition to its step: Bernoulli's numbers are drawn one
by one and sorted. Measured on dense and sparse rows: 391 to 470 ns, and 57 to 141 with another
sampler (2026-11-23, load 12).
"""
OTHER_DRAW = 90e-9
"""The same for other samplers: from memory that is read in random order."""
ROW_GROUP_ROWS = 122_880
"""Rows of a row group of a table or a Parquet file, if it was not read."""


@dataclass(frozen=True)
class Way:
    """A way of a stochastic plan to read its rows."""

    algorithm: str
    transform: str
    sampler: str

    @property
    def name(self) -> str:
        return f"{self.algorithm} {self.transform} {self.sampler}"

    @property
    def lazy(self) -> bool:
        return self.transform == "lazy"


def ways(algorithm: str) -> tuple[Way, ...]:
    """The ways of one algorithm, except the default for packed rows."""
    eager = [Way(algorithm, "eager", sampler) for sampler in DRAWN]
    lazy = [Way(algorithm, "lazy", s) for s in (SHUFFLED, *DRAWN) if s != EAGER]
    return (*eager, *lazy)


def seconds(way: Way, question: Question, cost: Cost, epochs: float) -> tuple[float, float]:
    """Seconds of a way except those of reading rows, and the share of the rows that it reads.

    cost, epochs: of the same algorithm by shuffled partitions of packed rows.
    """
    if not way.lazy:
        return cost.total(epochs) + epochs * drawing(way, question), 1.0
    rows = epochs * question.rows_of_one
    share = rows / max(question.seen.rows, 1)
    piece = ROW_GROUP_ROWS if way.sampler == SHUFFLED else RUN_ROWS
    return share * cost.iteration + draw_seconds(rows / piece, 1.0), share


def drawing(way: Way, question: Question) -> float:
    """Seconds of an epoch by which drawing its rows takes longer than shuffled partitions."""
    seen = question.seen
    if not seen.on_disk:
        return seen.rows * DRAW_SECONDS.get(way.sampler, OTHER_DRAW)
    each = seen.on_disk / max(seen.rows, 1)
    return max(draw_seconds(seen.rows, each) - scan_seconds(seen.on_disk), 0.0)


# Plans that do not train on rows packed in memory, and the reason why not.
#
# They are listed with the others: their cost, and the options that select them.

WAYS = tuple(way for one in (UNASKED, BY_SAMPLER) for way in ways(one.name))
"""Those of ML4all's eleven plans (figure 5) that packed rows use only by option."""
ELSEWHERE = ("stored", "one pass", *(way.name for way in WAYS), "gpu")
CHUNK_ENTRIES = 1 << 20
"""Entries of the rows that a stored model's training reads the store for at a time."""
SEEK_SECONDS, WEIGHT_SECONDS = 0.83e-6, 0.86e-9
"""Seconds of a request to a store in memory and of each weight in it (`partitioner/cost.py`)."""
WEIGHT_BYTES = 4
BUDGET = float(4 << 30)
"""Bytes of weights and vectors beyond which a stored model is advised."""


def assess_elsewhere(
    question: Question, constants: Constants, gpu: str | None
) -> tuple[Candidate, ...]:
    """The candidates that are not for packed rows, all of them refused with a reason.

    gpu: why these rows do not train on the GPU; None where they do.
    """
    own = candidate(question, BY_SAMPLER.name)
    found = [stored_candidate(question, constants), one_pass(own)]
    plain = round_question(question) if question.options.keeps_order else question
    costs = PlanCosts(plain, constants)
    found += [another_way(way, plain, costs) for way in WAYS]
    if gpu is not None:
        found.append(refuse_candidate(own, "gpu", gpu))
    return tuple(found)


def another_way(way: Way, question: Question, costs: PlanCosts) -> Candidate:
    """One of the eleven plans: its cost, and why it does not train these rows."""
    plan, algorithm = candidate(question, way.algorithm), ALGORITHMS[way.algorithm]
    why = why_not(question, plan, algorithm.memory(costs))
    if why is not None:
        return refuse_candidate(plan, way.name, why)
    epochs = algorithm.usual(question, decades(plan.epsilon))
    if epochs.low > plan.max_iter:
        why = f"{epochs.low:,.0f} iterations or more, max_iter is {plan.max_iter:,}"
        return refuse_candidate(plan, way.name, why)
    took, share = seconds(way, question, costs.of(plan, epochs.point), epochs.point)
    if way.lazy:
        why = (
            f"about {format_seconds(took)} and {share:.0%} of the reading, but these rows are "
            "packed already; train(...) on a table or on Parquet files reads what it needs"
        )
    else:
        more = format_seconds(drawing(way, question))
        why = (
            f"about {format_seconds(took)}: to draw rows takes {more} an epoch more than shuffled "
            "partitions take (option 'sampler' asks for it)"
        )
    return refuse_candidate(plan, way.name, why)


def refuse_candidate(plan: Plan, name: str, why: str) -> Candidate:
    """A candidate that nothing is estimated for."""
    nothing, none = Cost(0.0, 0.0, 0.0, 0.0, 0.0), Interval(0.0, 0.0, 0.0)
    return Candidate(replace(plan, algorithm=name), nothing, none, 0.0, False, why)


def one_pass(own: Plan) -> Candidate:
    """Stochastic gradient descent while rows arrive."""
    return refuse_candidate(
        own,
        "one pass",
        "steps need the features' scales and the classes, which are known only after all rows, "
        "and the models of several scanning threads cannot be combined",
    )


def stored_candidate(question: Question, constants: Constants) -> Candidate:
    """HogBatch on weights in a store (`stored/training.py`), by the paper of KV-VP."""
    plan = candidate(question, STORED.name)
    iterations = STORED.usual(question, decades(plan.epsilon))
    plan = replace(plan, algorithm="stored")
    seen = question.seen
    epoch = Costs(question, constants).rows_pass(STORED.name) if seen.sparse else 0.0
    requests = requests_of(seen)
    moved = 2 * (requests * SEEK_SECONDS + weights_read(seen) * WEIGHT_SECONDS)
    cost = Cost(0.0, epoch + moved, 0.0, 0.0, float(WEIGHT_BYTES * seen.n_features))
    return Candidate(plan, cost, iterations, 0.0, False, refuse_store(question, requests))


def refuse_store(question: Question, requests: float) -> str:
    """The reason why the weights do not go to a store."""
    seen = question.seen
    if not seen.sparse:
        return "with option 'store' dense features train in memory, and the weights are stored"
    needed = in_memory(question)
    told = f"about {requests:,.0f} requests to the store per epoch"
    if needed <= BUDGET:
        return f"the weights fit in memory; option 'store' would take {told}"
    return (
        f"weights and moves take {needed / 2**30:,.1f} GiB in memory; option 'store' would take "
        f"{told}"
    )


def in_memory(question: Question) -> float:
    """Bytes that the rule's choice for wide sparse rows needs in addition to the rows."""
    return float(LAST_CHOICE.vectors) * 8 * (question.seen.n_features + 1) * question.seen.groups


def chunks(seen: Statistics) -> float:
    """The requests to the store in an epoch."""
    return max(4.0, seen.entries / CHUNK_ENTRIES)


def weights_read(seen: Statistics) -> float:
    """Weights an epoch reads: those of each chunk once."""
    return chunks(seen) * distinct(seen.entries / chunks(seen), seen.n_features)


def requests_of(seen: Statistics) -> float:
    """Requests an epoch makes to a store with one key per feature, the most possible.

    How much fewer they are where features share keys, only the partitioner knows.
    """
    return weights_read(seen)


def distinct(entries: float, features: int) -> float:
    """The expected number of distinct features among `entries`, by Zipf's law: the r-th has a
    share of 1 / r.

    Features surely occur up to rank m = entries / log features; beyond, with their expected
    frequency.
    """
    if features < 2:
        return float(min(entries, features))
    log = math.log(features)
    sure = entries / log
    if sure >= features:
        return min(float(features), entries)
    if sure <= 1:
        return entries
    return min(float(features), entries, sure + entries * (1 - math.log(sure) / log))
