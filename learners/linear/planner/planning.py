"""Plans a batch: statistics from the rows, speculation where it pays, the optimizer's choice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.library import memory_use, room_beside
from tuskml.kernels.passes import Floats, Pass
from tuskml.learners.events import is_phase
from tuskml.learners.linear.algorithms import ALGORITHMS, LAST_CHOICE
from tuskml.learners.linear.algorithms.parts.batch import FirstPass
from tuskml.learners.linear.algorithms.parts.epochs import DRAWN
from tuskml.learners.linear.planner import choice, sampling, trials
from tuskml.learners.linear.planner.candidates import choose, families
from tuskml.learners.linear.planner.choice import LEAST_ROWS, Candidate, Choice, assess_elsewhere
from tuskml.learners.linear.planner.curves import Question, Statistics
from tuskml.learners.linear.planner.sampling import with_rows_seen
from tuskml.learners.linear.planner.trials import (
    SHARE,
    budget,
    speculate,
    time_custom_code,
    with_groups_tried,
)
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import Plan, Request
from tuskml.learners.machine import constants
from tuskml.learners.machine.reading import not_cached
from tuskml.schedule import shares

HOPELESS = 2.5
"""A candidate whose expected seconds are this multiple of the best one's is not tried."""
TOO_WIDE = 0.125
"""Features of sparse rows for each of them, beyond which none is tried on a sample."""
LEAST_OVERHEAD = 0.001
"""Seconds that a sketch may take of however short a training: 2 ms with all that comes before."""
TABLES = 0.0015
"""Seconds of planning, without a second sketch or trials."""


NARROW, NARROW_QUADRATIC = 64, 128
"""Features up to which a pass for the curvature takes as long as a few for the gradient, and as
many as plans make at least that could spare it, where one such pass is nearly all there is."""


def statistics(groups: NDArray[np.void], memory: int = 0) -> Statistics:
    """The statistics of groups of one kind and width; memory: address of their account."""
    sparse = bool(groups["kind"][0] >= 2)
    rows, width = int(groups["n_rows"].sum()), int(groups["dim"].max())
    entries = rows * width
    if sparse:
        entries = Pass(groups).nonzeros()
    spilled = memory_use(memory).spilled
    return Statistics(
        passes.most_rows(groups),
        width,
        sparse,
        rows,
        max(entries, 1),
        len(groups),
        bool(groups["kind"][0] % 2),
        not_cached(spilled, shares.memory()) if spilled else 0.0,
    )


@is_phase("planning")
def first_plan(
    groups: NDArray[np.void], request: Request, memory: int = 0
) -> tuple[Plan, Question | None]:
    """The rule's plan, and the question to the optimizer if it is needed.

    memory: address of the account of the rows.
    """
    options = request.options
    seen = Statistics(
        passes.most_rows(groups),
        int(groups["dim"].max()),
        bool(groups["kind"][0] >= 2),
    )
    plan = choose(request.task, options, seen)
    if request.near is not None:  # the rule's choice gains most by a start near the end
        return replace(plan, sample_stride=1), None
    if options.algorithm != "auto" or options.custom or options.sampler in DRAWN:
        return plan, None
    seen = statistics(groups, memory)
    room = float(room_beside(memory))
    return plan, Question(
        request.task, options, seen, plan.threads, room=room, shown=request.shown
    )


def plan_for(groups: NDArray[np.void], request: Request) -> Plan:
    """The rule's plan for groups of one kind and width."""
    return first_plan(groups, request)[0]


def by_statistics(own: Plan, question: Question, only: Sequence[str] | None = None) -> Choice:
    """The choice by statistics alone, without reading rows; the same bits on every machine."""
    plain = choice.round_question(question) if question.options.keeps_order else question
    known = constants.shipped_constants() if question.options.keeps_order else constants.of_host()
    candidates = choice.assess(plain, known, only=only)
    if own.epsilon == 0:
        return Choice(replace(own, reason=f"{own.reason}; epsilon 0 asks for no tolerance"), ())
    if question.task.smooth and choice.takes_less(candidates, own, choice.INSTANT):
        return choice.keep_plan(plain, candidates, own)
    chosen = choice.select(plain, candidates, own)
    return replace(chosen, plan=replace(chosen.plan, threads=own.threads))


def with_elsewhere(chosen: Choice, question: Question, gpu: str | None) -> Choice:
    """The choice with the candidates that are not for packed rows, to be shown.

    gpu: why the GPU does not train these rows; None where it does.
    """
    if not chosen.candidates:
        return chosen
    known = constants.shipped_constants() if question.options.keeps_order else constants.of_host()
    more = assess_elsewhere(question, known, gpu)
    return replace(chosen, candidates=chosen.candidates + more)


def worth_trying(candidates: tuple[Candidate, ...]) -> list[Candidate]:
    """Candidates whose iterations decide, the likeliest first; none where the best is clear.

    Some are rivals of the rule's last choice only where their iterations are lighter. Where the
    hinge is smoothed in stages little is known before a trial: any plan that may take less is
    tried, to the end.
    """
    possible = [one for one in candidates if one.refusal is None]
    if len(possible) < 2:
        return []
    cornered = any(len(one.plan.smoothing) > 1 for one in possible)
    best = min(possible, key=lambda one: one.expected_seconds)
    each = {one.plan.algorithm: one.cost.iteration for one in possible}
    rivals = [
        one
        for one in possible
        if one is not best
        and gain(one, best) > 2 * budget(best.expected_seconds)
        and (one.seconds.low if cornered else one.expected_seconds / HOPELESS)
        < best.expected_seconds
        and not too_heavy(one.plan, each)
    ]
    tried = sorted([best, *rivals], key=lambda one: one.expected_seconds) if rivals else []
    return [one for one in tried if not one.certain and (not cornered or to_the_end(one))]


def to_the_end(one: Candidate) -> bool:
    """Returns whether a trial continues until the gap is proved; an interior-point method is
    known well.
    """
    family = ALGORITHMS[one.plan.family]
    return len(one.plan.smoothing) > 1 or (family.proves_gap and not family.first_choice)


def too_heavy(plan: Plan, each: Mapping[str, float]) -> bool:
    """Returns whether an iteration takes too long compared with the last choice's; each: seconds
    by algorithm.
    """
    known = ALGORITHMS.get(plan.algorithm)
    if known is None or known.lighter is None:
        return False
    return each[plan.algorithm] > known.lighter * each.get(LAST_CHOICE.name, 0.0)


def too_wide(question: Question) -> bool:
    """Returns whether a sample of sparse rows would lack most features of all rows, which
    would be an easier problem.
    """
    seen = question.seen
    return seen.sparse and seen.n_features > TOO_WIDE * seen.most_rows


def gain(one: Candidate, best: Candidate) -> float:
    """Seconds that might be spared by knowing which of two is better."""
    mine, other = best.seconds, one.seconds
    return max(mine.point - other.low, mine.high - other.point)


AMPLE = 1.0
"""Seconds in which any plan finishes a trivial training."""


def is_constrained(question: Question) -> bool:
    """Returns whether the request has limits that the plan of a trivial training may not keep."""
    time, max_iter = question.options.time, question.options.max_iter
    return max_iter is not None or (time is not None and time < AMPLE)


TRIVIAL, TRIVIAL_AT_CORNERS = 1e7, 1e5
"""Products of features; at the hinge another plan may take a third of the rule's."""


def trivial(question: Question) -> bool:
    """Returns whether even newton's products would be so few that not even costs need be
    estimated.
    """
    seen = question.seen
    rows = max(seen.most_rows, LEAST_ROWS) if question.options.keeps_order else seen.rows
    products = rows * float(seen.n_features + 1) ** 2
    most = TRIVIAL if question.task.smooth else TRIVIAL_AT_CORNERS
    return seen.n_features <= 512 and products <= most


@is_phase("planning")
def decide(problem: Problem, start: Floats, own: Plan, question: Question) -> Choice:
    """The choice for rows at hand: by statistics, and where that pays by trying candidates."""
    asked = question.options.speculate
    clear = trivial(question) and not is_constrained(question) and asked is None
    if own.epsilon > 0 and clear:
        return Choice(own, ())
    kept = None
    if question.options.validation == 0:
        question = time_custom_code(problem, start, question)
        if not question.options.keeps_order:
            question, kept = look_first(problem, start, question, own)
        question = with_rows_seen(problem, question)
    # The others are chosen after a trial alone.
    first = by_statistics(own, question, None if question.measured else choice.BATCH)
    quiet = question.options.keeps_order or question.options.validation > 0 or not first.candidates
    if quiet:
        return first
    seconds = most_overhead(first.candidates)
    if question.sketch is not None:
        seconds -= LEAST_OVERHEAD
    instant = choice.takes_less(first.candidates, own, choice.INSTANT)
    if not instant and kept is None and seconds > LEAST_OVERHEAD:
        tried = trials.try_methods(problem, start, question, seconds)
        if tried is not question:
            question, seconds = tried, 0.0
            first = by_statistics(own, question, None if question.measured else choice.BATCH)
    if not instant and kept is None and sampling.finer(question, first.plan, seconds):
        seen, kept = look_closer(problem, start, question, first.plan, seconds)
        if seen is not question:
            question = seen
            first = by_statistics(own, question, None if question.measured else choice.BATCH)
    if asked is not None or not choice.takes_less(first.candidates, own, choice.WORTH_TRYING):
        first = after_trials(problem, start, own, question, first)
    if asked is None and not first.known:
        judged = with_groups_tried(problem, start, question, first.candidates)
        if judged != first.candidates:
            first = choice.select(question, judged, own)
    return replace(with_estimate(first), asked=question, kept=kept)


def look_first(
    problem: Problem, start: Floats, question: Question, own: Plan
) -> tuple[Question, FirstPass | None]:
    """A closer look before anything is estimated, where it costs little.

    Where a pass for the curvature costs more than a few others it is of a sample, since another
    plan than the rule's may be the likeliest.
    """
    narrow = NARROW_QUADRATIC if question.task.quadratic else NARROW
    if question.seen.n_features <= narrow:
        return look_closer(problem, start, question, own, LEAST_OVERHEAD)
    return sampling.add_sketch(problem, start, question, LEAST_OVERHEAD), None


def look_closer(
    problem: Problem, start: Floats, question: Question, plan: Plan, seconds: float
) -> tuple[Question, FirstPass | None]:
    """The question with a sketch, if there is time, and the first pass of the training if made.

    plan: the likeliest.
    """
    seen, kept = sampling.begin_plan(problem, start, question, plan, seconds)
    if kept is not None:
        return seen, kept
    return sampling.add_sketch(problem, start, question, seconds), None


def after_trials(
    problem: Problem, start: Floats, own: Plan, question: Question, first: Choice
) -> Choice:
    """The choice among all candidates, those whose iterations decide having been tried.

    first: the one among those that are known without a trial.
    """
    asked = question.options.speculate
    first = with_others(own, question, first)
    if asked is not None:
        possible = [one for one in first.candidates if one.refusal is None]
        tried, allowed = sorted(possible, key=lambda one: one.expected_seconds), asked.time
    else:
        tried = [] if too_wide(question) else worth_trying(first.candidates)
        least = min((c.seconds.low for c in first.candidates if c.refusal is None), default=0.0)
        looked = LEAST_OVERHEAD if question.sketch is not None else 0.0
        allowed = budget(least) - TABLES - looked
    if not tried:
        return first
    if question.options.time is not None:
        allowed = min(allowed, sampling.OF_TIME * question.options.time)
    known = speculate(problem, start, tried, allowed, asked)
    if not known:
        return first
    candidates = choice.assess(question, constants.of_host(), known)
    return replace(choice.select(question, candidates, own), known=known)


def with_others(own: Plan, question: Question, first: Choice) -> Choice:
    """The choice among all candidates; first: among some of them."""
    order = {name: place for place, name in enumerate(families(question))}
    lacking = [name for name in order if name not in {c.plan.algorithm for c in first.candidates}]
    if not lacking:
        return first
    others = choice.assess(question, constants.of_host(), only=lacking)
    every = (*first.candidates, *others)
    every = tuple(sorted(every, key=lambda one: order[one.plan.algorithm]))
    if any(one.refusal is None and choice.dependable(one) for one in others):
        return choice.select(question, every, own)
    return replace(first, candidates=every)


def most_overhead(candidates: tuple[Candidate, ...]) -> float:
    """Seconds that may be spent on knowing better which of some plans takes least."""
    possible = [one for one in candidates if one.refusal is None]
    best = min(possible, key=lambda one: one.expected_seconds, default=None)
    if best is None:
        return LEAST_OVERHEAD
    return max(LEAST_OVERHEAD, 0.9 * SHARE * best.seconds.low - TABLES)


def with_estimate(chosen: Choice) -> Choice:
    """The choice with its plan's estimate in the plan."""
    for one in chosen.candidates:
        if one.plan.algorithm == chosen.plan.algorithm:
            told = (one.counted_iterations.point, one.seconds.point)
            return replace(chosen, plan=replace(chosen.plan, estimated=told))
    return chosen
