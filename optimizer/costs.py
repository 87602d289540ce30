"""What a plan costs: seconds of its parts, after the operators' costs of ML4all (section 6).

The paper adds up IO, CPU and network by operator and iteration. Here rows are in memory and
packed, so Transform and Sample cost nothing of their own; Compute is a pass over the rows or an
epoch, Update the work on the weights, and each has constants that the machine was measured for
(`constants.py`). What a plan does before its first and after its last iteration counts too: the
trial of steps, the start on a sample, standard errors.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tuskml.optimizer.constants import Constants
from tuskml.optimizer.curves import Interval
from tuskml.optimizer.rule import Statistics
from tuskml.udas.options import Options
from tuskml.udas.plan import Plan
from tuskml.udas.tasks import Task

EPOCHS = ("sgd", "mgd", "svrg", "hogwild", "hogbatch")
SHARED_UPDATE = ("hogwild", "hogbatch")
LOSS_ALONE = 0.6
"""Of a gradient's pass, where the losses alone are wanted."""
SEARCH = {"bgd": 1.15, "lbfgs": 1.1, "newton": 1.05}
"""Passes an iteration: now and then a step is halved."""
CORNERED = 4.0
"""The same of newton on the hinge, where steps are halved often, each time with its curvature."""
RENEWED = 0.5
"""Of newton's iterations on the logistic loss need the curvature anew (see `newton.py`)."""
SAMPLING = 3.0
"""Standard errors of a mean, about the largest of a gradient's."""
TRIALS = 10
TRIAL_ROWS = 4096.0
INFERENCE_FEATURES = 512
DOUBLE = 8


@dataclass(frozen=True)
class Cost:
    """Seconds before, during and after the iterations, those on a sample, and bytes."""

    setup: float
    iteration: float
    finish: float
    sampled: float
    memory: float

    def total(self, iterations: float, on_sample: float = 0.0) -> float:
        """Of so many iterations, after others on the sample."""
        return self.setup + self.finish + iterations * self.iteration + on_sample * self.sampled


@dataclass(frozen=True)
class Measured:
    """Seconds of something of the user's own on all rows: before and in an iteration, or a pass.

    failure: why it cannot be.
    """

    setup: float
    iteration: float
    failure: str | None


@dataclass(frozen=True)
class Question:
    """What all candidates of one training have in common.

    measured: what was timed instead of being computed, by algorithm or as "pass gradient" and
    "pass curvature".
    """

    task: Task
    options: Options
    seen: Statistics
    threads: int
    measured: Mapping[str, Measured] = field(default_factory=dict)


class Costs:
    """The costs of one question's plans, by a machine's constants."""

    def __init__(self, question: Question, constants: Constants) -> None:
        self.question, self.constants = question, constants
        self.p = question.seen.n_features + 1

    def rows_pass(self, kind: str, threads: int | None = None) -> float:
        """Seconds of one pass or epoch of a kind over all rows."""
        seen = self.question.seen
        timed = self.question.measured.get(f"pass {kind}")
        if timed is not None:
            return timed.iteration
        units = float(seen.entries)
        if kind == "curvature":
            units = seen.rows * self.p * (self.p + 1) / 2
        if not seen.sparse and kind != "curvature":
            units = max(units, seen.rows * 1.0)
        single = self.constants.entry(kind, seen.storage, seen.n_features) * units
        return single / self.speedup(kind, threads or self.question.threads)

    def speedup(self, kind: str, threads: int) -> float:
        """One group's epoch is one thread's work, but for the lock-free ones."""
        if kind in ("sgd", "mgd", "svrg"):
            threads = min(threads, self.question.seen.groups)
            kind = "gradient"
        return self.constants.speedup(kind, threads)

    def on_weights(self, algorithm: str) -> float:
        """Seconds of an iteration's work on the weights of all groups."""
        groups, constants = self.question.seen.groups, self.constants
        if algorithm == "newton":
            least = constants.step("newton", 1)
            each = max(constants.step("newton", self.p) - least, 0.0)
            return least + groups * each / constants.speedup("curvature", self.threads_for_groups)
        return constants.step(algorithm if algorithm == "lbfgs" else "bgd", groups * self.p)

    @property
    def threads_for_groups(self) -> int:
        return min(self.question.threads, self.question.seen.groups)

    def of(self, plan: Plan) -> Cost:
        """A plan's cost."""
        timed = self.question.measured.get(plan.algorithm)
        if timed is not None:
            cost = self._timed(plan, timed)
        elif plan.family in EPOCHS:
            cost = self._epochs(plan)
        elif plan.family == "newton":
            cost = self._newton(plan)
        else:
            cost = self._batch(plan)
        return cost

    def _timed(self, plan: Plan, timed: Measured) -> Cost:
        """Of an algorithm of the user's own."""
        last = 2 * LOSS_ALONE * self.rows_pass("gradient") + self.inference(known=False)
        setup = self.common() + timed.setup
        return Cost(setup, timed.iteration, last, 0.0, self.memory(plan.family))

    def common(self) -> float:
        """Labels and moments are looked at whatever the plan."""
        return 0.5 * LOSS_ALONE * self.rows_pass("gradient") + 2e-4

    def inference(self, known: bool) -> float:
        """Standard errors: one more curvature, unless it is known, and an inverse."""
        question = self.question
        if (
            question.task.test is None
            or question.options.l1
            or question.options.l2
            or question.options.class_weight is not None
            or question.seen.n_features > INFERENCE_FEATURES
        ):
            return 0.0
        return (0.0 if known else self.rows_pass("curvature")) + 2 * self.on_weights("newton")

    def _batch(self, plan: Plan) -> Cost:
        gradient, weights = self.rows_pass("gradient"), self.on_weights(plan.family)
        searched = SEARCH[plan.family] if plan.schedule == "line_search" else SEARCH["lbfgs"]
        iteration = searched * gradient + weights
        return Cost(
            self.common() + len(plan.smoothing) * gradient,
            iteration,
            self.inference(known=False) + self._sharpened(plan),
            searched * gradient / plan.sample_stride + weights,
            self.memory(plan.family),
        )

    def _newton(self, plan: Plan) -> Cost:
        task = self.question.task
        gradient, curvature = self.rows_pass("gradient"), self.rows_pass("curvature")
        weights = self.on_weights("newton")
        anew = 0.0 if task.quadratic else RENEWED if task.smooth else 1.0
        searched = SEARCH["newton"] if task.smooth else CORNERED
        reads = searched * ((1 - anew) * gradient + anew * curvature)
        first = len(plan.smoothing) * curvature
        ends = plan.epsilon >= sampling_error(self.question.seen, plan)
        first += (curvature + 3 * weights) / plan.sample_stride if plan.sample_stride > 1 else 0.0
        return Cost(
            self.common() + first,
            reads + weights,
            self.inference(known=task.quadratic or ends) + self._sharpened(plan),
            reads / plan.sample_stride + weights,
            self.memory("newton"),
        )

    def _epochs(self, plan: Plan) -> Cost:
        shared = plan.family if plan.lock_free else plan.family.replace("hogbatch", "mgd")
        kind = shared if plan.lock_free else shared.replace("hogwild", "sgd")
        seen, gradient = self.question.seen, self.rows_pass("gradient")
        epoch = self.rows_pass(kind)
        wanted = max(TRIAL_ROWS * (4 if seen.sparse else 1), 64 * plan.batch_size)
        share = min(1.0, wanted * seen.groups / max(seen.rows, 1))
        trials = 0.0
        if plan.step == "auto":
            again = min(16.0, max(1.0, wanted * seen.groups / max(seen.rows, 1)))
            alone = "mgd" if kind == "hogbatch" else "sgd" if kind == "hogwild" else kind
            trials = TRIALS * again * (share * self.rows_pass(alone) + self.on_weights("bgd"))
        measured = gradient if plan.epsilon > 0 else 0.0
        last = LOSS_ALONE * gradient * (1 if seen.sparse else 2)
        return Cost(
            self.common() + trials + measured,
            epoch + measured + self.on_weights("bgd"),
            last + self.inference(known=False),
            0.0,
            self.memory(plan.family),
        )

    def _sharpened(self, plan: Plan) -> float:
        """The hinge's objective itself, where it was smoothed."""
        return LOSS_ALONE * self.rows_pass("gradient") if len(plan.smoothing) > 1 else 0.0

    def memory(self, algorithm: str) -> float:
        """Bytes beside the rows: weights, moves, curvature and each thread's share of sums."""
        seen, threads = self.question.seen, self.question.threads
        vectors = {"lbfgs": 30, "bgd": 10}.get(algorithm, 8)
        total = float(seen.groups * self.p * vectors * DOUBLE)
        if algorithm == "newton":
            triangle = self.p * (self.p + 1) / 2 * DOUBLE
            chunk = max(2**19 / max(self.p * 4, 1), 256, 4 * self.p)
            chunks = max(seen.groups, seen.rows / chunk if seen.rows / chunk > 1 else 1.0)
            total += triangle * (3 * seen.groups + chunks) + 4 * triangle * threads
        return total


def sampling_error(seen: Statistics, plan: Plan) -> float:
    """The gradient on all rows where the sample's vanishes; infinite without a sample."""
    if plan.sample_stride <= 1:
        return math.inf
    return SAMPLING / math.sqrt(max(seen.most_rows / plan.sample_stride, 1))


def total_of(cost: Cost, iterations: Interval, on_sample: float) -> Interval:
    """Seconds of a plan, as uncertain as its iterations."""
    return Interval(
        cost.total(iterations.low, on_sample),
        cost.total(iterations.point, on_sample),
        cost.total(iterations.high, on_sample),
    )
