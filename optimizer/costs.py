"""What a plan costs: seconds of its parts, after the operators' costs of ML4all (section 6).

The paper adds up IO, CPU and network by operator and iteration. Here rows are in memory and
packed, so Transform and Sample cost nothing of their own; Compute is a pass over the rows or an
epoch, Update the work on the weights, and each has constants that the machine was measured for
(`constants.py`). What a plan does before its first and after its last iteration counts too: the
trial of steps, the start on a sample, standard errors.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tuskml.optimizer import spread
from tuskml.optimizer.constants import Constants, interpolated
from tuskml.optimizer.curves import Interval, decades
from tuskml.optimizer.rule import Statistics
from tuskml.udas.options import Options
from tuskml.udas.plan import Plan
from tuskml.udas.tasks import Task

EPOCHS = ("sgd", "mgd", "svrg", "hogwild", "hogbatch")
SHARED_UPDATE = ("hogwild", "hogbatch")
LOSS_ALONE = 0.75
"""Of a gradient's pass, where the losses alone are wanted."""
SEARCHED = {"lbfgs": 1.06, "newton": 1.03}
"""Passes an iteration: now and then a step is shortened."""
FIRST = 0.5
"""A further pass of lbfgs's first iteration, which does not know how far to go."""
BACKTRACKED, BACKTRACKED_SPARSE = 1.15, 1.5
"""Passes an iteration of bgd with line search, more where features were not scaled alike, but for
the hinge."""
VARIABLES = 1e-7
"""Seconds a row of an interior-point method's iteration, for the work on its variables."""
INTERIOR_BYTES = 57
"""Kept for each row by an interior-point method."""
TRIED_AGAIN = 0.6
"""Of an iteration's work on weights, for each step that is tried beyond the first."""
PRODUCTS = {
    "linear": ((1.0, 3.0), (2.0, 12.0), (3.0, 22.0), (6.0, 40.0)),
    "logistic": ((1.0, 0.5), (2.0, 5.0), (3.0, 20.0), (6.0, 54.0)),
}
"""Products of the curvature with a direction that newton_cg takes in all, by decades of the
tolerance, where no spread is known."""
FRESH = 0.7
"""Of a gradient's pass, by which the first product of an iteration takes more."""
STEPS_OF_CG = 0.7
"""Work on weights for a product, of that of an iteration of bgd."""
RENEWED = 1.5
"""Of newton's iterations, those that need the curvature anew: until near the optimum."""
SPARED = 0.3
"""Of what was measured of dcd, where each iteration looked at the gap."""
ROW_BYTES = {"dcd": 80, "newton_cg": 8}
"""Kept for each row: dual variables and where the row lies, or its curvature."""
MOVES = 10
"""That lbfgs remembers."""
TYPICAL = 10.0
"""Iterations, where nobody has said how many."""
SAMPLING, BOUNDED = 3.0, 0.4
"""Standard errors of a mean, about the largest of a gradient's; the deviation of a derivative that
is at most 1, about."""
TRIALS = {"dense": 4.0, "sparse": 7.0}
"""Steps that are tried, of nine; each takes MOST_EPOCHS epochs of a sample at most."""
TRIAL_ROWS, MOST_EPOCHS = 4096, 16
MOMENT_ROWS = 1 << 14
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

    length: mean squared length of the centred rows, and spread: of dense features' variances
    (`spread.py`), where they are known; measured: what was timed instead of being computed, by
    algorithm or as "pass gradient" and "pass curvature"; gpu: whether the rows are on one.
    """

    task: Task
    options: Options
    seen: Statistics
    threads: int
    measured: Mapping[str, Measured] = field(default_factory=dict)
    length: float | None = None
    spread: float | None = None
    gpu: bool = False


class Costs:
    """The costs of one question's plans, by a machine's constants."""

    def __init__(self, question: Question, constants: Constants) -> None:
        self.question, self.constants = question, constants
        self.p = question.seen.n_features + 1
        self.known: dict[tuple[str, bool], float] = {}  # what was worked out already

    def rows_pass(self, kind: str, precise: bool = False) -> float:
        """Seconds of one pass or epoch of a kind over all rows; precise: a curvature in double."""
        timed = self.question.measured.get(f"pass {kind}")
        if timed is not None:
            return timed.iteration
        if (kind, precise) not in self.known:
            self.known[kind, precise] = self._rows_pass(kind, precise)
        return self.known[kind, precise]

    def _rows_pass(self, kind: str, precise: bool) -> float:
        seen, known = self.question.seen, self.constants
        storage = seen.storage.replace("32", "64") if precise else seen.storage
        units = float(seen.entries)
        if kind == "curvature":
            units = seen.rows * self.p * (self.p + 1) / 2
        each = known.entry(kind, storage, seen.n_features, self.penalised)
        each *= known.slower(kind, storage, self.floats)
        rows = seen.rows * known.row(kind, storage, self.question.task.name)
        return (rows + each * units) / self.speedup(kind)

    @property
    def penalised(self) -> bool:
        """Whether sparse epochs apply a penalty, and scales with it."""
        options = self.question.options
        return self.question.seen.sparse and (options.l1 > 0 or options.l2 > 0)

    @property
    def floats(self) -> float:
        """Values of the rows, those of eight bytes counting twice."""
        seen = self.question.seen
        return float(max(seen.entries, 1)) * (2 if seen.double else 1)

    def speedup(self, kind: str) -> float:
        """One group's epoch is one thread's work, but for the lock-free ones."""
        threads = self.question.threads
        if kind in ("sgd", "mgd", "svrg", "dcd"):
            threads = min(threads, self.question.seen.groups)
            kind = "gradient"
        if threads == 1:
            return 1.0
        return self.constants.speedup(kind, self.question.seen.storage, self.floats, threads)

    def on_weights(self, algorithm: str, iterations: float = TYPICAL) -> float:
        """Seconds of an iteration's work on the weights of all groups, about, of so many."""
        base = self._step(algorithm if algorithm in ("newton", "lbfgs") else "bgd")
        return base + self._step("lbfgs move") * remembered(iterations) * (algorithm == "lbfgs")

    def _step(self, name: str) -> float:
        key = name, False
        if key not in self.known:
            groups, constants = self.question.seen.groups, self.constants
            if name == "newton":
                least = constants.step(name, 1)
                each = max(constants.step(name, self.p) - least, 0.0)
                self.known[key] = least + groups * each / min(self.threads_for_groups, 1.7)
            else:
                self.known[key] = constants.step(name, groups * self.p)
        return self.known[key]

    @property
    def again(self) -> float:
        """Seconds of work on weights where a step is tried again."""
        return TRIED_AGAIN * self.on_weights("bgd")

    @property
    def threads_for_groups(self) -> int:
        return min(self.question.threads, self.question.seen.groups)

    def of(self, plan: Plan, iterations: float = TYPICAL, on_sample: float = 0.0) -> Cost:
        """A plan's cost, an iteration's being the mean of about so many."""
        timed = self.question.measured.get(plan.algorithm)
        if timed is not None:
            return self._timed(plan, timed)
        cost = self.unrefined(plan, iterations, on_sample)
        if not self.constants.factors:
            return cost
        seen = self.question.seen
        by = self.constants.factor(plan.algorithm, seen.storage, seen.entries)
        return replace(cost, iteration=by * cost.iteration, sampled=by * cost.sampled)

    def unrefined(self, plan: Plan, iterations: float, on_sample: float) -> Cost:
        """The same without what trainings reported."""
        if plan.family in EPOCHS:
            return self._epochs(plan)
        if plan.family == "newton":
            return self._newton(plan, iterations, on_sample)
        if plan.family == "newton_cg":
            return self._newton_cg(plan, iterations)
        if plan.family == "dcd":
            return self._dual(plan)
        return self._batch(plan, iterations, on_sample)

    def _timed(self, plan: Plan, timed: Measured) -> Cost:
        """Of an algorithm of the user's own."""
        last = 2 * LOSS_ALONE * self.rows_pass("gradient") + self.inference(fresh=0.0)
        setup = self.common() + timed.setup
        return Cost(setup, timed.iteration, last, 0.0, self.memory(plan.family))

    def common(self) -> float:
        """Labels and moments are looked at whatever the plan."""
        seen, looks, options = self.question.seen, self.constants.looks, self.question.options
        rows = float(seen.rows)
        total = rows * looks["classes" if self.question.task.classifies else "labels"]
        if not seen.sparse:
            total += min(rows, MOMENT_ROWS * seen.groups) * seen.n_features * looks["moments"]
        elif options.l1 > 0 or options.l2 > 0:
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
        return (1 - fresh) * self.rows_pass("curvature", precise) + 2 * self.on_weights("newton")

    def _batch(self, plan: Plan, iterations: float, on_sample: float) -> Cost:
        together = iterations + on_sample
        gradient = self.rows_pass("gradient")
        weights = self.on_weights(plan.family, together)
        searched, first = SEARCHED["lbfgs"], FIRST
        if plan.family == "bgd":
            often = self.question.seen.sparse and self.question.task.smooth
            searched = BACKTRACKED_SPARSE if often else BACKTRACKED
            searched = searched if plan.schedule == "line_search" else 1.0
            first = 0.0
        weights += (searched - 1) * self.again
        return Cost(
            self.common() + (len(plan.smoothing) + first / plan.sample_stride) * gradient,
            searched * gradient + weights,
            self.inference(fresh=0.0) + self._sharpened(plan),
            searched * gradient / plan.sample_stride + weights,
            self.memory(plan.family),
        )

    def _newton(self, plan: Plan, iterations: float, on_sample: float) -> Cost:
        task, weights = self.question.task, self.on_weights("newton")
        if not task.smooth:
            return self._interior(weights)
        gradient, curvature = self.rows_pass("gradient"), self.rows_pass("curvature")
        sampled = plan.sample_stride > 1
        rough = self._newton_reads(gradient, curvature, on_sample if sampled else iterations)
        reads = SEARCHED["newton"] * gradient if sampled else rough
        first = curvature + (curvature / plan.sample_stride) * sampled
        stale = min(max(iterations - (0.0 if sampled else RENEWED), 0.0), 1.0)
        fresh = 1.0 if task.quadratic else 1.0 - stale
        return Cost(
            self.common() + first,
            reads + weights,
            self.inference(fresh, precise=False),
            rough / plan.sample_stride + weights,
            self.memory("newton"),
        )

    def _interior(self, weights: float) -> Cost:
        """Of the hinge: a curvature in double, a gradient, margins twice, and each row's work."""
        gradient = self.rows_pass("gradient")
        rows = VARIABLES * self.question.seen.rows / self.speedup("gradient")
        passes = self.rows_pass("curvature", precise=True) + (1 + 2 * LOSS_ALONE) * gradient
        return Cost(
            self.common() + LOSS_ALONE * gradient + rows / 2,
            passes + rows + 2 * weights,
            LOSS_ALONE * gradient,
            0.0,
            self.memory("newton"),
        )

    def _newton_cg(self, plan: Plan, iterations: float) -> Cost:
        """Products of all iterations, by the tolerance, are shared out evenly.

        Conjugate gradients end after as many as there are weights.
        """
        gradient, weights = self.rows_pass("gradient"), self.on_weights("bgd")
        products = self._products(decades(plan.epsilon))
        each = min(products / max(iterations, 1.0), self.p) * (
            self.product() + STEPS_OF_CG * weights
        )
        searched = SEARCHED["newton"] + FRESH
        return Cost(
            self.common() + gradient,
            each + searched * gradient + weights,
            self.inference(fresh=0.0),
            0.0,
            self.memory("newton_cg"),
        )

    def _products(self, k: float) -> float:
        """Of the curvature with a direction, in all iterations, to k decades below 1."""
        task, known = self.question.task.name, self.question.spread
        task = task if task in PRODUCTS else "logistic"
        found = None if known is None else spread.products(task, known, k)
        return interpolated(PRODUCTS[task], k) if found is None else found

    def product(self) -> float:
        """Seconds of a product of the curvature with a direction: a gradient without its loss."""
        seen, known = self.question.seen, self.constants
        rows = [
            known.row("gradient", seen.storage, name)
            for name in (self.question.task.name, "linear")
        ]
        spared = seen.rows * (rows[0] - rows[1]) / self.speedup("gradient")
        return max(self.rows_pass("gradient") - spared, 0.0)

    def _dual(self, plan: Plan) -> Cost:
        """What was measured has a look at the gap in it, which most iterations are spared."""
        gradient, epoch = self.rows_pass("gradient"), (1 - SPARED) * self.rows_pass("dcd")
        return Cost(
            self.common() + 2 * LOSS_ALONE * gradient,
            epoch + self.on_weights("bgd"),
            LOSS_ALONE * gradient,
            0.0,
            self.memory("dcd"),
        )

    def _newton_reads(self, gradient: float, curvature: float, iterations: float) -> float:
        """Seconds of an iteration's passes: the curvature is renewed until near the optimum."""
        anew = 0.0
        if not self.question.task.quadratic:
            anew = min(RENEWED / max(iterations, 1.0), 1.0)
        return SEARCHED["newton"] * ((1 - anew) * gradient + anew * curvature)

    def _epochs(self, plan: Plan) -> Cost:
        shared = plan.family if plan.lock_free else plan.family.replace("hogbatch", "mgd")
        kind = shared if plan.lock_free else shared.replace("hogwild", "sgd")
        sparse, gradient = self.question.seen.sparse, self.rows_pass("gradient")
        measured = gradient if plan.epsilon > 0 else 0.0
        weights = self.on_weights("bgd")
        if plan.family == "svrg":
            measured = gradient
        last = LOSS_ALONE * gradient * (1 if sparse else 2)
        return Cost(
            self.common() + self._trials(plan, kind) + measured,
            self.rows_pass(kind) + measured + weights,
            last + self.inference(fresh=0.0),
            0.0,
            self.memory(plan.family),
        )

    def _trials(self, plan: Plan, kind: str) -> float:
        """Seconds of trying steps on samples of the rows (`sgd.first_step`)."""
        if plan.step != "auto":
            return 0.0
        seen = self.question.seen
        wanted = max(TRIAL_ROWS * (4 if seen.sparse else 1), 64 * plan.batch_size)
        most = max(seen.most_rows, 1)
        stride, epochs = max(1, most // wanted), min(MOST_EPOCHS, max(1, wanted // most))
        alone = {"hogbatch": "mgd", "hogwild": "sgd", "svrg": "mgd"}.get(kind, kind)
        each = self.rows_pass(alone) / stride + 0.5 * self.on_weights("bgd")
        return TRIALS["sparse" if seen.sparse else "dense"] * epochs * each

    def _sharpened(self, plan: Plan) -> float:
        """The hinge's objective itself, where it was smoothed."""
        return LOSS_ALONE * self.rows_pass("gradient") if len(plan.smoothing) > 1 else 0.0

    def memory(self, algorithm: str) -> float:
        """Bytes beside the rows: weights, moves, curvature and each thread's share of sums."""
        seen, threads = self.question.seen, self.question.threads
        vectors = {"lbfgs": 30, "bgd": 10}.get(algorithm, 8)
        total = float(seen.groups * self.p * vectors * DOUBLE)
        total += float(seen.rows * ROW_BYTES.get(algorithm, 0))
        if algorithm == "newton" and not self.question.task.smooth:
            total += float(seen.rows * INTERIOR_BYTES)
        if algorithm == "newton":
            triangle = self.p * (self.p + 1) / 2 * DOUBLE
            chunk = max(2**19 / max(self.p * 4, 1), 256, 4 * self.p)
            chunks = max(seen.groups, seen.rows / chunk if seen.rows / chunk > 1 else 1.0)
            total += triangle * (3 * seen.groups + chunks) + 4 * triangle * threads
        return total


def remembered(iterations: float) -> float:
    """Moves that lbfgs remembers, the mean of so many iterations from the first on."""
    n = max(iterations, 1.0)
    return (n - 1) / 2 if n <= MOVES else MOVES - MOVES * (MOVES + 1) / (2 * n)


def sampling_error(question: Question, plan: Plan) -> float:
    """The gradient on all rows where the sample's vanishes; infinite without a sample."""
    if plan.sample_stride <= 1:
        return math.inf
    deviation = BOUNDED if question.task.classifies else 1.0
    rows = question.seen.most_rows / plan.sample_stride
    return SAMPLING * deviation / math.sqrt(max(rows, 1))


def total_of(cost: Cost, iterations: Interval, on_sample: float) -> Interval:
    """Seconds of a plan, as uncertain as its iterations."""
    return Interval(
        cost.total(iterations.low, on_sample),
        cost.total(iterations.point, on_sample),
        cost.total(iterations.high, on_sample),
    )
