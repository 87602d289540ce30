"""Seconds that passes and iterations take, and those that a running plan has spent."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from tuskml.kernels.passes import Meter
from tuskml.learners.linear.planner.curves import Interval, Question, Statistics
from tuskml.learners.machine.constants import Constants
from tuskml.learners.machine.reading import scan_seconds

LOSS_ALONE = 0.75
"""The cost of the losses alone, as a share of a gradient's pass."""
SEARCHED = 1.03
"""Passes an iteration: now and then a step of a second-order method is shortened."""
TRIED_AGAIN = 0.6
"""The cost of each further step that is tried, as a share of an iteration's work on weights."""
TYPICAL = 10.0
"""Iterations if no estimate exists."""
PLAIN_STEP, SYSTEM_STEP = "bgd", "newton"
"""The calibration's names for work on weights: vectors of weights, and a system of equations."""
VECTORS = 8
"""Vectors of weights that an algorithm keeps, where it does not say otherwise."""
ENTRY_PRODUCTS = {False: 28, True: 14}
"""Products of columns in the time of one of two entries of a sparse row: of floats, of doubles."""
CHUNK_SECONDS, MOST_KEPT = 6e-9, 1 << 17
"""Seconds per entry of the p x p sums that a chunk of sparse rows has of its own, if they are more
than a thread keeps (8 chunks of 1,002 columns took 0.11 s on a busy AMD EPYC in 2026)."""
MOMENT_ROWS = 1 << 14
INFERENCE_FEATURES = 512
DOUBLE = 8


class Parts(NamedTuple):
    """Seconds of the parts of an iteration, where passes over the rows are counted as they are
    made.

    own: of an iteration without its passes; gradient and curvature: of such a pass.
    """

    own: float
    gradient: float
    curvature: float = 0.0


@dataclass(frozen=True)
class Cost:
    """Seconds before, during and after the iterations, those on a sample, and bytes.

    products: passes within iterations that are as many as it takes, of all iterations; product:
    seconds of one, in those of an iteration; parts: None where iterations alone are counted.
    """

    setup: float
    iteration: float
    finish: float
    sampled: float
    memory: float
    products: float = 0.0
    product: float = 0.0
    parts: Parts | None = None

    def total(self, iterations: float, on_sample: float = 0.0) -> float:
        """Total seconds of `iterations` iterations, after `on_sample` ones on the sample."""
        return self.setup + self.finish + iterations * self.iteration + on_sample * self.sampled


def curvature_units(seen: Statistics, p: int) -> float:
    """Products of two of p columns whose time a curvature's pass takes.

    Short sparse rows have those of their entries alone
    (`kernels/native/linear/sparse/short_rows.hpp`).
    """
    whole = seen.rows * p * (p + 1) / 2
    if not seen.sparse:
        return whole
    each = seen.entries / max(seen.rows, 1) + 1
    return min(whole, ENTRY_PRODUCTS[seen.double] * seen.rows * each * (each + 1) / 2)


def curvature_chunks(seen: Statistics, p: int) -> float:
    """The chunks of all rows in a curvature's pass, each of which has sums of its own
    (`curvature_rows` of `kernels/native/linear/curvature.cpp`).
    """
    rows = seen.rows / max(seen.groups, 1)
    width = seen.entries / max(seen.rows, 1)
    each = DOUBLE if seen.double else DOUBLE / 2
    least = max(2**19 / max(width * each, 1), 256, 4 * p)
    if seen.sparse:
        entries = width + 1
        least = max(least, min(max(rows / 32, 2**19 / (12 * entries + 8)), 16384))
        products, triangle = entries * (entries + 1) / 2, p * (p + 1) / 2
        if ENTRY_PRODUCTS[True] * products < triangle:
            least = max(least, min(8 * triangle / products, rows / 8))
    return seen.groups * max(rows / least, 1.0)


class Costs:
    """The costs of the parts of one question's plans, by a machine's constants."""

    def __init__(self, question: Question, constants: Constants) -> None:
        self.question, self.constants = question, constants
        self.p = question.seen.n_features + 1
        self.known: dict[tuple[str, bool], float] = {}  # results cached

    def rows_pass(self, kind: str, precise: bool = False, alone: bool = False) -> float:
        """Seconds of one pass or epoch of a kind over all rows.

        precise: a curvature in double; alone: one group's epoch is one thread's work.
        """
        timed = self.question.measured.get(f"pass {kind}")
        if timed is not None:  # on a few rows, which memory holds
            return timed.iteration + scan_seconds(self.question.seen.on_disk)
        key = f"{kind} alone" if alone else kind, precise
        if key not in self.known:
            self.known[key] = self._rows_pass(kind, precise, alone)
        return self.known[key]

    def _rows_pass(self, kind: str, precise: bool, alone: bool) -> float:
        seen, known = self.question.seen, self.constants
        storage = seen.storage.replace("32", "64") if precise else seen.storage
        units = float(seen.entries)
        if kind == "curvature":
            units = curvature_units(seen, self.p)
        each = known.entry(kind, storage, seen.n_features, self.has_penalty)
        each *= known.slower(kind, storage, self.floats)
        rows = seen.rows * known.row(kind, storage, self.question.task.name)
        threads, sums = self.speedup(kind, alone), 0.0
        if kind == "curvature" and seen.sparse and self.p**2 > MOST_KEPT:
            chunks = curvature_chunks(seen, self.p)  # one thread adds up a chunk's sums
            sums = CHUNK_SECONDS * chunks * self.p**2 / min(threads, chunks)
        return (rows + each * units) / threads + sums + scan_seconds(seen.on_disk)

    @property
    def has_penalty(self) -> bool:
        """Returns whether sparse epochs apply a penalty, and scales with it."""
        return self.question.seen.sparse and self.question.has_penalty

    @property
    def floats(self) -> float:
        """Values of the rows, those of eight bytes counting twice."""
        seen = self.question.seen
        return float(max(seen.entries, 1)) * (2 if seen.double else 1)

    def speedup(self, kind: str, alone: bool = False) -> float:
        """The speed-up by the threads; alone: each group is one thread's work.

        Then it is limited by the largest group.
        """
        seen, threads = self.question.seen, self.question.threads
        most = math.inf
        if alone:
            threads, kind = min(threads, seen.groups), "gradient"
            most = max(seen.rows / max(seen.most_rows, 1), 1.0)
        if threads == 1:
            return 1.0
        return min(self.constants.speedup(kind, seen.storage, self.floats, threads), most)

    def on_weights(self, step: str = PLAIN_STEP) -> float:
        """Seconds of an iteration's work on the weights of all groups; step: the calibration's."""
        key = step, False
        if key not in self.known:
            groups, constants = self.question.seen.groups, self.constants
            if step == SYSTEM_STEP:
                least = constants.step(step, 1)
                each = max(constants.step(step, self.p) - least, 0.0)
                self.known[key] = least + groups * each / min(self.threads_for_groups, 1.7)
            else:
                self.known[key] = constants.step(step, groups * self.p)
        return self.known[key]

    @property
    def again(self) -> float:
        """Seconds of work on weights where a step is tried again."""
        return TRIED_AGAIN * self.on_weights()

    @property
    def threads_for_groups(self) -> int:
        return min(self.question.threads, self.question.seen.groups)

    def common(self) -> float:
        """Labels and moments are looked at whatever the plan."""
        seen, looks = self.question.seen, self.constants.looks
        rows = float(seen.rows)
        total = rows * looks["classes" if self.question.task.classifies else "labels"]
        if not seen.sparse:
            total += min(rows, MOMENT_ROWS * seen.groups) * seen.n_features * looks["moments"]
        elif self.question.has_penalty:
            total += seen.entries * looks["counts"]
        return total + 3e-4

    def inference(self, fresh: float, precise: bool = True) -> float:
        """Standard errors: one more curvature, unless it is at hand, and an inverse.

        fresh: how likely it is.
        """
        question = self.question
        if (
            question.task.test is None
            or question.options.l1
            or question.options.l2
            or question.options.class_weight is not None
            or question.seen.n_features > INFERENCE_FEATURES
        ):
            return 0.0
        return (1 - fresh) * self.rows_pass("curvature", precise) + 2 * self.on_weights(
            SYSTEM_STEP
        )

    def sharpening_seconds(self, smoothing: tuple[float, ...]) -> float:
        """The hinge's objective itself, where it was smoothed."""
        return LOSS_ALONE * self.rows_pass("gradient") if len(smoothing) > 1 else 0.0

    def memory(self, vectors: int = VECTORS, row_bytes: int = 0) -> float:
        """Bytes in addition to the rows: vectors of weights, and data kept for each row."""
        seen = self.question.seen
        return float(seen.groups * self.p * vectors * DOUBLE) + float(seen.rows * row_bytes)


def total_of(cost: Cost, iterations: Interval, on_sample: float) -> Interval:
    """Seconds of a plan, as uncertain as its iterations."""
    return Interval(
        cost.total(iterations.low, on_sample),
        cost.total(iterations.point, on_sample),
        cost.total(iterations.high, on_sample),
    )


# The work of a running plan, in estimated seconds.
#
# Passes over the rows are counted as they are made, including those of line searches, duality gaps
# and conjugate gradients, whatever was expected of an iteration. Other work on the machine does
# not affect it.


@dataclass
class Work:
    """The work of one plan; own: seconds of its iterations, without their passes where these are
    counted.
    """

    cost: Cost
    own: float = 0.0
    meter: Meter = field(default_factory=Meter)

    def count_iteration(self, on_sample: bool) -> None:
        """Counts an iteration."""
        parts = self.cost.parts
        if parts is not None:
            self.own += parts.own
        else:
            self.own += self.cost.sampled if on_sample else self.cost.iteration

    @property
    def seconds(self) -> float:
        """Total seconds of the passes and iterations made so far."""
        parts, made = self.cost.parts, self.meter
        if parts is None:
            return self.cost.setup + self.own
        gradients = made.gradients + LOSS_ALONE * made.losses
        solved = parts.curvature * made.curvatures + self.cost.product * made.products
        return self.own + parts.gradient * gradients + solved
