"""The plans of a training whose rows are a table or files, and the choice of the cheapest.

Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD 2017, section 6 and
figure 5: batch gradient descent, and stochastic steps by row or by batch, by eager or lazy
transformation, by three samplers; beside these the best of tuskml's other algorithms on all rows.
An eager plan reads and transforms all rows and then costs what it costs on packed rows (equations
7 and 8). A lazy one pays for the row groups that it reads (equation 9). Reading and transforming
are of `learners/machine/reading.py`.

How many rows a lazy plan reads only trying tells. It reads those that are held out, and a chunk at
a time as many as the usual steps to the tolerance. Where it does not get there all rows are read
after all, which counts for UNSURE of the eager plan's seconds.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from tuskml.learners.explaining import format_bytes, format_seconds
from tuskml.learners.linear.algorithms import ALGORITHMS, BY_SAMPLER, UNASKED
from tuskml.learners.linear.algorithms.parts.epochs import (
    DRAWN,
    STEPS,
    STEPS_A_DECADE,
    EpochAlgorithm,
)
from tuskml.learners.linear.algorithms.parts.epochs import EAGER as FROM_ALL
from tuskml.learners.linear.planner.candidates import PlanCosts
from tuskml.learners.linear.planner.choice import (
    ALL_ROWS,
    BATCH,
    SHUFFLED,
    Candidate,
    Way,
    assess,
    drawing,
    round_question,
)
from tuskml.learners.linear.planner.curves import Question, Statistics, decades
from tuskml.learners.linear.request import Request
from tuskml.learners.machine import constants, reading
from tuskml.learners.machine.reading import Reading, not_cached
from tuskml.learners.row_groups import Layout, Piece, Storage
from tuskml.schedule import budget

UNSURE = 0.25
"""Share of the trainings by row group that are assumed to read all rows after all, as a guard."""
EAGER, LAZY = "eager", "lazy"
BERNOULLI = (FROM_ALL,)
ALL_SAMPLERS = (SHUFFLED, *DRAWN)
BY_PART = tuple(one for one in ALL_SAMPLERS if one != FROM_ALL)
PACKED = "the rows were packed before the training, so all of them have been transformed"
MOST_LAID_OUT = 64
"""Chunks that are laid out to estimate their cost; further ones cost the same."""
PROVING = 24.0
"""Passes over the held-out rows: a dozen iterations, and four looks at the gap."""
EPSILON = 0.01
"""The default tolerance, which a sample can confirm."""


@dataclass(frozen=True)
class SourcePlan:
    """A plan and its expected cost: seconds and bytes, including reading.

    reading: seconds before the rows are packed; n_bytes: read from the source; n_rows:
    transformed; refusal: why it is impossible; part: whether it is by row group, as many as it
    needs; never: why it is not taken before rows are read, whatever it costs.
    """

    way: Way
    seconds: float
    reading: float
    n_bytes: float
    n_rows: float
    refusal: str | None
    part: bool = False
    never: str | None = None

    @property
    def name(self) -> str:
        """The name in explanations."""
        return self.way.name if self.way.sampler else self.way.algorithm + ALL_ROWS


@dataclass(frozen=True)
class Source:
    """Data shared by the plans of one training; reads: the machine's seconds of reading."""

    storage: Storage
    request: Request
    n_features: int
    threads: int
    reads: Reading
    known: constants.Constants

    @classmethod
    def of(cls, storage: Storage, request: Request, n_features: int) -> "Source":
        """Makes a source with the host's constants, or the shipped ones if the plan must not
        depend on the host.
        """
        ordered = request.options.keeps_order
        return cls(
            storage,
            request,
            n_features,
            1 if ordered else budget.threads(request.options.threads),
            reading.shipped_reading() if ordered else reading.of_host(),
            constants.shipped_constants() if ordered else constants.of_host(),
        )

    @property
    def is_spilled(self) -> bool:
        """Returns whether rows are packed already, and on the disk: they are read, but not
        transformed.
        """
        return self.storage.kind == reading.SPILL

    @property
    def values(self) -> float:
        """Values of a row: its features and the label."""
        return self.n_features + 1.0

    @property
    def epsilon(self) -> float:
        """The tolerance, which is positive."""
        return self.request.options.epsilon or EPSILON

    @property
    def question(self) -> Question:
        """About the rows when they are packed."""
        rows, d = max(self.storage.n_rows, 1), max(self.n_features, 1)
        packed = rows * self.values * 8
        seen = Statistics(
            1 << (rows.bit_length() - 1),
            d,
            False,
            rows,
            rows * d,
            1,
            True,
            not_cached(int(packed)),
        )
        asked = Question(self.request.task, self.request.options, seen, self.threads)
        return round_question(asked) if self.request.options.keeps_order else asked

    def all_rows(self) -> float:
        """Seconds to read and transform all rows, in waves of the threads."""
        if self.is_spilled:
            return 0.0
        sizes, reads = self.storage.sizes, self.reads
        each = self.storage.n_rows / max(len(sizes), 1) * self.values
        in_waves = reading.waves(len(sizes), self.threads)
        disk = reads.from_disk({self.storage.bytes_of_all() / max(len(sizes), 1): len(sizes)})
        query = reads.query[self.storage.kind]
        return query + disk + in_waves * reads.processing(self.storage.kind, each, each)

    def pieces(self, queries: int, read: list[Piece]) -> float:
        """Seconds to read and transform the pieces, by `queries` queries."""
        sizes: dict[float, int] = {}
        for piece in read:
            size = self.storage.bytes_of(piece)
            sizes[size] = sizes.get(size, 0) + 1
        decoded = sum(map(self.storage.rows_of, read)) * self.values
        packed = sum(piece.n_rows for piece in read) * self.values
        kind, took = self.storage.kind, self.reads.from_disk(sizes)
        took += queries * self.reads.query[kind]
        return took + self.reads.processing(kind, decoded, packed)


def whole_plans(source: Source, samplers: Collection[str]) -> Iterator[SourcePlan]:
    """Yields the plans on all rows: by all algorithms, and the stochastic ones by these
    samplers.
    """
    question, read = source.question, source.all_rows()
    candidates = {one.plan.algorithm: one for one in assess(question, source.known)}
    for name in BATCH:
        yield on_all_rows(source, Way(name, EAGER, ""), candidates[name], 0.0, read)
    for name in (UNASKED.name, BY_SAMPLER.name):
        for sampler in samplers:
            way = Way(name, EAGER, sampler)
            more = drawing(way, question) if sampler != SHUFFLED else 0.0
            yield on_all_rows(source, way, candidates[name], more, read)


def on_all_rows(source: Source, way: Way, one: Candidate, more: float, read: float) -> SourcePlan:
    """An eager plan; more: seconds of an iteration in addition to those of the candidate."""
    took = (
        read + one.expected_seconds + more * one.counted_iterations.point
        if one.refusal is None
        else 0.0
    )
    stored = source.storage
    size, rows = stored.bytes_of_all(), float(stored.n_rows)
    never = reason_against_eager(way, more)
    return SourcePlan(way, took, read, size, rows, one.refusal, never=never)


def reason_against_eager(way: Way, more: float) -> str | None:
    """The reason why an eager plan is not taken before the rows are seen; more: as `on_all_rows`
    has it.

    On rows in no order other samplers take as many epochs as shuffled partitions, and each row
    costs more. Where rows are sorted they may take fewer, but then plans that follow all rows win.
    """
    if way.sampler in ("", SHUFFLED):
        return "a trial on the rows decides" if way.sampler else None
    return f"to draw rows takes {format_seconds(more)} an epoch more than shuffled partitions"


def part_plans(
    source: Source, transform: str, layout: Layout | None, why: str | None
) -> Iterator[SourcePlan]:
    """Yields the plans that read some row groups.

    layout: None if there are too few of them; why: another reason why they are impossible.
    """
    if layout is None and why is None:
        why = f"{len(source.storage.sizes):,} row groups are too few to hold rows out of some"
    for name in (UNASKED.name, BY_SAMPLER.name):
        for sampler in BY_PART:
            way = Way(name, transform, sampler)
            if layout is None or why is not None:
                yield SourcePlan(way, 0.0, 0.0, 0.0, 0.0, why, True)
            else:
                drawn = replace(layout, drawn=sampler != SHUFFLED)
                yield on_a_part(source, way, drawn)


def on_a_part(source: Source, way: Way, layout: Layout) -> SourcePlan:
    """A lazy plan, which reads held-out rows and chunks for the usual steps (equation 9)."""
    algorithm = ALGORITHMS[way.algorithm]
    assert isinstance(algorithm, EpochAlgorithm)
    steps = algorithm.of_sgd * STEPS * STEPS_A_DECADE ** (decades(source.epsilon) - 2)
    more = max(math.ceil(steps / layout.chunk_rows) - 1, 0)
    seen = min(more, MOST_LAID_OUT)
    chunks = layout.chunks(np.random.default_rng(source.request.options.seed))
    rest = [piece for _ in range(seen) for piece in next(chunks)]
    held = sum(piece.n_rows for piece in layout.first) - layout.chunk_rows
    last = [*layout.first, *confirming(next(chunks), held)]
    by = more / max(seen, 1)
    reads = source.pieces(2, last) + by * source.pieces(seen, rest)
    size = sum(map(source.storage.bytes_of, last)) + by * sum(map(source.storage.bytes_of, rest))
    rows = sum(p.n_rows for p in last) + by * sum(p.n_rows for p in rest)
    took = reads + steps_of(source, algorithm, rows) + proving(source, 2 * held)
    return SourcePlan(way, took, reads, size, rows, None, True)


def confirming(chunk: Sequence[Piece], held: int) -> list[Piece]:
    """Pieces of other rows that confirm a result: about as many as were held out before."""
    rows = list(accumulate((piece.n_rows for piece in chunk), initial=0))
    return [piece for piece, before in zip(chunk, rows, strict=False) if before < max(held, 1)]


def steps_of(source: Source, algorithm: EpochAlgorithm, rows: float) -> float:
    """Seconds of steps on `rows` rows, one thread, and of evaluating as many held-out ones."""
    question = source.question
    in_memory = replace(question, seen=replace(question.seen, on_disk=0.0))
    costs = PlanCosts(in_memory, source.known)
    each = costs.rows_pass(algorithm.one_thread, alone=True) + costs.rows_pass("gradient")
    return rows * each / max(question.seen.rows, 1)


def proving(source: Source, rows: float) -> float:
    """Seconds of proving the hinge's optimum on `rows` rows (`training.py`)."""
    if source.request.task.smooth:
        return 0.0
    each = PlanCosts(source.question, source.known).rows_pass("gradient", alone=True)
    return PROVING * rows * each / max(source.question.seen.rows, 1)


def all_plans(source: Source, layout: Layout | None, why: str | None) -> tuple[SourcePlan, ...]:
    """Every plan, possible ones first, by cost.

    Spilled rows have been transformed: plans that read a part of them are eager.
    """
    if not source.is_spilled:
        found = [*whole_plans(source, ALL_SAMPLERS), *part_plans(source, LAZY, layout, why)]
    elif layout is None or why is not None:
        found = [*whole_plans(source, ALL_SAMPLERS), *part_plans(source, LAZY, None, PACKED)]
    else:
        found = [*whole_plans(source, BERNOULLI), *part_plans(source, EAGER, layout, None)]
        found += part_plans(source, LAZY, None, PACKED)
    return tuple(sorted(found, key=lambda one: (one.refusal is not None, one.seconds)))


def best_part(plans: Sequence[SourcePlan]) -> SourcePlan | None:
    """The best plan by row group; None if reading all rows is expected to take less.

    Epochs of stochastic plans on all rows are not compared: only trials on packed rows tell their
    number.
    """
    possible = [one for one in plans if one.refusal is None]
    best = cheapest(one for one in possible if one.part)
    whole = cheapest(one for one in possible if one.way.algorithm in BATCH)
    if best is None:
        return None
    least = math.inf if whole is None else whole.seconds
    return best if best.seconds < (1 - UNSURE) * least else None


def cheapest(plans: Iterable[SourcePlan]) -> SourcePlan | None:
    """The plan that is expected to take least; None of none."""
    return min(plans, key=lambda one: one.seconds, default=None)


def because(best: SourcePlan, plans: Sequence[SourcePlan]) -> str:
    """The reason why a plan by row group trains."""
    told = f"{format_seconds(best.seconds)} and {format_bytes(best.n_bytes)} expected"
    whole = [one for one in plans if one.refusal is None and not one.part]
    if not whole:
        return told
    least = min(whole, key=lambda one: one.seconds)
    return (
        f"{told}, {least.name} {format_seconds(least.seconds)} and {format_bytes(least.n_bytes)}"
    )
