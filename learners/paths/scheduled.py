"""A linear model with an L1 penalty whose rows lie on several workers, by scheduled updates.

The objective is in `kernels/native/paths/api.h`. In each iteration a schedule picks features, the
workers return sums over their rows for these, and each weight is set to its best value as if the
others stayed. Then the workers move the margins of their rows.

Source: J. K. Kim et al., SMPFRAME: A Distributed Framework for Scheduled Model Parallel Machine
Learning, CMU-PDL-15-103, 2015, sections 2.2, 3.3.2 and 4.1, algorithm 2. `random` is Shotgun:
J. K. Bradley, A. Kyrola, D. Bickson and C. Guestrin, Parallel coordinate descent for
L1-regularized loss minimization, ICML 2011.

Passes over all features alternate with updates: such a pass gives the duality gap, and the changes
that weights would make next, which are the priorities of features. So an iteration takes a time in
proportion to the features that it picks, and not to all of them.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.parts.paths import PathRows
from tuskml.kernels.paths import LOGISTIC, POINT
from tuskml.learners.paths.options import DYNAMIC, PRIORITY, RANDOM
from tuskml.schedule.programs.priority import Correlations, Prioritised
from tuskml.schedule.programs.program import Dynamic, Program, threads

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
AT_ONCE = 64
"""Features that are updated at once, at most."""
DEPTH = 2
"""Iterations in flight: while workers compute one, the next one is chosen."""
STEADY = 10
"""Iterations without a rise of the objective, after which more features are updated at once again.
"""
SAMPLE = 500
"""Rows by which correlations are estimated."""
THRESHOLD = 0.1
"""The correlation above which features are not updated at once; more where a sample of
uncorrelated ones often has as much."""
KEPT = 4096
"""Features whose columns of the sample are in memory."""
INNER = 0.1
"""The share of the gap that the updates of one window gain, at least, while it is worthwhile to
continue without a pass over all features."""
LEAST_WINDOW = 100
MOST_WINDOWS, MOST_LOOKS = 20, 500
"""Windows of updates without a pass over all features, and such passes for one penalty."""
ROUNDING, HIDDEN = 1e-13, 1e-11
"""The share of the objective of a constant model by which rounding may raise an objective, and by
which it falls where rounding may hide that features disturb each other."""
NEWTON = 20
"""Steps of the intercept before a gap is computed."""
SMALL_SLOPE = 1e-10
CONSTANT, EXACT = 1e-14, 1e-14
"""As in `kernels/native/paths`: of a variance over the mean square, and of correlations."""


class Order(Protocol):
    """Chooses features, such as `tuskml.schedule.Prioritised`, at most `at_once`."""

    at_once: int

    def pick(self) -> Places: ...

    def settle(self, places: Places, change: Floats) -> None: ...

    def release(self, places: Places) -> None: ...

    def renew(self, change: Floats) -> None: ...


class Random:
    """Features at random, each with the same probability."""

    def __init__(self, features: Places, at_once: int, seed: int) -> None:
        self.features, self.at_once = features, at_once
        self.random = np.random.default_rng(seed)
        self.pending: set[int] = set()

    def pick(self) -> Places:
        """Features that are not picked already."""
        if not len(self.features):
            return self.features
        drawn = self.random.integers(len(self.features), size=self.at_once)
        new = [one for one in dict.fromkeys(self.features[drawn]) if one not in self.pending]
        self.pending.update(new)
        return np.array(new, np.intp)

    def settle(self, places: Places, change: Floats) -> None:
        """Makes them available again."""
        self.release(places)

    def release(self, places: Places) -> None:
        """Makes them available again."""
        self.pending.difference_update(places)

    def renew(self, change: Floats) -> None:
        """Ignores which would move."""


class SampledColumns(Correlations):
    """Correlations on a sample of the workers' rows, whose columns are requested when they are
    first needed.

    fetch: features to their columns, (k, rows).
    """

    def __init__(self, n: int, fetch: Callable[[Places], NDArray[np.float32]]) -> None:
        self._begin(n, KEPT // 2)
        self.fetch = fetch
        self.at: dict[int, int] = {}
        self.held: NDArray[np.float32] = np.zeros((0, 0), np.float32)

    def prepare(self, places: Places) -> None:
        """Requests columns at once that will be needed."""
        missing = np.array([one for one in places.tolist() if one not in self.at], np.intp)
        if not len(missing):
            return
        if len(self.at) + len(missing) > max(KEPT, len(places)):
            self.at.clear()
            missing = places
        found = self.fetch(missing)
        norm = np.linalg.norm(found, axis=1)
        found /= np.where(norm > 0, norm, 1)[:, None]
        self.held = found if not self.at else np.concatenate([self.held, found])
        self.at.update({int(one): len(self.at) + k for k, one in enumerate(missing.tolist())})

    def take(self, places: Places) -> NDArray[np.float32]:
        """Columns of length 1, which are requested where they are missing."""
        self.prepare(places)
        return self.held[[self.at[one] for one in places.tolist()]].T


class Job(NamedTuple):
    """The number of an iteration, how often the model was taken back before it, the changes that
    workers lack, the penalty of all weights with these, and the features to update.
    """

    number: int
    returns: int
    constant: float
    changed: NDArray[np.int32]
    weight: Floats
    penalty: float
    picked: Places


class Change(NamedTuple):
    """Weights before a change that job `number` sends first."""

    number: int
    constant: float
    places: Places
    before: Floats


@dataclass
class Counts:
    """Numbers of iterations, of updated weights and passes over all features, how many weights
    were updated at once at most, and how often that was halved.
    """

    iterations: int = 0
    updates: int = 0
    looks: int = 0
    at_once: int = 0
    halvings: int = 0


@dataclass(frozen=True)
class Problem:
    """A group's problem besides its penalty. mean: of the labels, or the share of the positive
    ones; alphas: the shares of the penalty that are L1 and L2, and that of the largest penalty.
    """

    loss: int
    mean: float
    intercept: bool
    standardize: bool
    positive: bool
    tolerance: float
    max_epochs: int
    alphas: tuple[float, float, float]
    schedule: str
    seed: int
    over: Callable[[], bool]


class Look(NamedTuple):
    """A pass over all features: minus the derivatives of the loss by the weights, the loss, the
    sum of its second derivatives by the margins, and sums for the dual.
    """

    pull: Floats
    loss: float
    curvature: float
    shift: float
    squares: float
    product: float


class ScheduledFit(Program):
    """The fit of some rows, penalty by penalty."""

    def __init__(self, rows: PathRows, problem: Problem) -> None:
        self.rows, self.problem, self.counts = rows, problem, Counts()
        self.logistic = problem.loss == LOGISTIC
        mean, deviation = rows.mean, rows.deviation
        varies = deviation**2 > CONSTANT**2 * mean**2
        self.scale = np.ones(len(mean))
        if problem.standardize:
            self.scale = np.where(varies, 1 / np.where(varies, deviation, 1), 0.0)
        self.centre = mean if problem.intercept else np.zeros(len(mean))
        if not problem.intercept:
            deviation = np.hypot(deviation, mean)
            varies = deviation > 0
        self.norm = np.where(varies, deviation * self.scale, 0.0)
        self.finite = bool(np.isfinite(mean).all() and np.isfinite(deviation).all())
        self.w, self.l1, self.l2 = np.zeros(len(mean)), 0.0, 0.0
        self.penalty = 0.0
        self.constant = self.start_constant()
        self.curvature = self.norm**2
        self.order = self.make_order()
        self.queue: list[Places] = []
        self.journal: deque[Change] = deque()
        self.number = self.returns = self.flying = self.steady = 0
        self.ended, self.window = False, 1
        self.careful = False
        """Whether one weight is updated after the other, so that the objective falls."""
        self.gained, self.seen, self.windows = 0.0, 0, 0
        self.best = self.aim = math.inf
        self.most = AT_ONCE
        self.stack = ExitStack()
        rows.start(np.ascontiguousarray(self.centre), self.scale)
        self.last = self.look()
        self.null = self.last.loss
        rounding = CONSTANT**2 * problem.mean**2
        self.same = not self.logistic and self.null <= rounding
        if self.same:
            self.null = max(self.null, rounding / problem.tolerance)
            self.last.pull[:] = 0

    def __enter__(self) -> "ScheduledFit":
        self.workers = self.stack.enter_context(threads(self, [self.rows]))
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def start_constant(self) -> float:
        """The margin of a constant model."""
        if not self.problem.intercept:
            return 0.0
        if not self.logistic:
            return self.problem.mean
        share = min(max(self.problem.mean, 1e-12), 1 - 1e-12)
        return math.log(share / (1 - share))

    def make_order(self) -> Order:
        """The schedule by its name."""
        n, seed = len(self.norm), self.problem.seed
        features = np.flatnonzero(self.norm > 0)
        if self.problem.schedule == RANDOM:
            return Random(features, AT_ONCE, seed)
        if self.problem.schedule == PRIORITY:
            return Prioritised(n, None, AT_ONCE, seed=seed)
        n_rows = int(self.rows.rows.groups["n_rows"][0])
        share = min(1.0, SAMPLE / n_rows)

        def fetch(places: Places) -> NDArray[np.float32]:
            return self.rows.sample(share, places.astype(np.int32))

        self.columns = SampledColumns(n, fetch)
        threshold = max(THRESHOLD, 2 / math.sqrt(min(SAMPLE, n_rows)))
        return Prioritised(n, self.columns, AT_ONCE, threshold=threshold, seed=seed)

    # The program: one worker, which asks those of all parts.

    def schedule(self, A: None, D: Any) -> Sequence[Job]:
        """The job of the next iteration; none at the end of a run of updates."""
        if self.ended or self.problem.over() or (self.careful and self.flying):
            return []
        picked = self.order.pick()
        self.flying += bool(len(picked))
        return [self.job(picked)] if len(picked) else []

    def job(self, picked: Places) -> Job:
        """A job with all changes that workers lack."""
        self.number += 1
        changed = np.unique(np.concatenate([*self.queue, np.zeros(0, np.intp)]))
        self.queue.clear()
        about = self.constant, changed.astype(np.int32), self.w[changed], self.penalty
        return Job(self.number, self.returns, *about, picked)

    def part(self, S_p: Job, A: None) -> None:
        """None, as a job has what workers need."""

    def update(self, p: int, S_p: Job, D_p: PathRows, A: None) -> tuple[Job, list[Any]]:
        """The job with its sums over all rows."""
        changes = S_p.constant, S_p.changed, S_p.weight
        return S_p, D_p.step(*changes, S_p.picked.astype(np.int32))

    def aggregate(self, R: Sequence[Any], A: None) -> None:
        """Updates the weights that were picked, or takes back changes that raised the
        objective.
        """
        ((job, (pull, curvature, sums)),) = R
        places = job.picked
        self.counts.iterations += 1
        self.flying -= 1
        if job.returns != self.returns:  # picked by weights that were taken back
            self.order.release(places)
            return
        if not self.accepts(job, sums):
            self.take_back()
            self.order.release(places)
            return
        size = self.curvature[places] if not self.logistic else curvature
        if self.careful and self.logistic:
            size = self.curvature[places] / 4  # an upper bound
        before = self.w[places]
        now = self.least(pull + size * before, size)
        change = now - before
        moved = np.flatnonzero(change)
        constant = self.constant
        if self.logistic and self.problem.intercept and not self.careful:
            self.constant += sums[1] / sums[2]
        self.journal.append(Change(self.number + 1, constant, places[moved], before[moved]))
        self.w[places] = now
        self.penalty += float(np.sum(self.penalty_of(now) - self.penalty_of(before)))
        self.queue.append(places[moved])
        self.order.settle(places, np.sqrt(size) * change)
        self.counts.updates += len(places)
        self.counts.at_once = max(self.counts.at_once, len(places))
        self.note_gain(len(places), float((size * change**2).sum()) / 2)

    def accepts(self, job: Job, sums: Floats) -> bool:
        """Returns whether the objective after the changes of a job has not risen."""
        objective = float(sums[0]) + job.penalty
        if not objective <= self.best + ROUNDING * self.null:
            return False
        self.best = min(self.best, objective)
        self.steady += 1
        if self.steady >= STEADY and self.order.at_once < self.most:
            self.order.at_once, self.careful, self.steady = 2 * self.order.at_once, False, 0
        while self.journal and self.journal[0].number <= job.number:
            self.journal.popleft()
        return True

    def take_back(self) -> None:
        """Undoes the changes since the objective fell last, and halves how many features are
        updated at once.
        """
        while self.journal:
            _, self.constant, places, before = self.journal.pop()
            now = self.w[places]
            self.penalty += float(np.sum(self.penalty_of(before) - self.penalty_of(now)))
            self.w[places] = before
            self.queue.append(places)
        self.returns, self.steady = self.returns + 1, 0
        self.ended |= self.careful  # it was rounding
        self.halve()

    def halve(self) -> None:
        """Halves how many features are updated at once; one after the other is the least."""
        self.careful = self.order.at_once == 1
        if not self.careful:
            self.order.at_once //= 2
            self.counts.halvings += 1

    def limit(self, fall: float) -> None:
        """Limits how many features are updated at once near the optimum, where rounding hides
        rises of the objective. fall: of the objective, by a run of updates.
        """
        if fall > HIDDEN * self.null:
            self.most = AT_ONCE
            return
        self.most = max(self.most // 2, 1)
        if self.order.at_once >= self.most:
            self.halve()

    def note_gain(self, updates: int, gain: float) -> None:
        """Ends a run of updates when a window gains little."""
        self.seen, self.gained = self.seen + updates, self.gained + gain
        if self.seen >= self.window:
            self.windows += 1
            self.ended |= self.gained <= INNER * self.aim or self.windows >= MOST_WINDOWS
            self.seen, self.gained = 0, 0.0

    def least(self, pull: Floats, size: Floats) -> Floats:
        """The weights that are least alone; pull: without their own effect."""
        over = np.maximum(np.abs(pull) - self.l1, 0.0) * np.sign(pull)
        if self.problem.positive:
            over = np.maximum(over, 0.0)
        return np.where(size > 0, over / np.where(size > 0, size + self.l2, 1), 0.0)

    def penalty_of(self, w: Floats) -> Floats:
        """The penalty of each weight."""
        return self.l1 * np.abs(w) + self.l2 / 2 * w**2

    # Penalties.

    def largest_lambda(self) -> float:
        """The least penalty at which all weights are 0, as they are when a fit starts."""
        noise = EXACT * math.sqrt(self.last.squares)
        size = self.sizes(self.last.pull)
        reach = self.norm + np.abs(self.centre * self.scale)
        known = size[(self.norm > 0) & (size > noise * reach)]
        return float(known.max(initial=0.0)) / self.problem.alphas[2]

    def sizes(self, pull: Floats) -> Floats:
        """What must be at most l1 in the dual."""
        return np.maximum(pull, 0.0) if self.problem.positive else np.abs(pull)

    def solve(self, penalty: float) -> NDArray[np.void]:
        """Fits the next penalty, beginning with the weights of the one before; a POINT."""
        first, second, _ = self.problem.alphas
        self.l1, self.l2 = penalty * first, penalty * second
        self.penalty = float(self.penalty_of(self.w).sum())
        before, most = self.counts.updates, self.problem.max_epochs
        gap, epochs, looks, self.most = self.gap(), 0, 0, AT_ONCE
        while gap > self.problem.tolerance * self.null and epochs < most and looks < MOST_LOOKS:
            if self.problem.over() or not math.isfinite(gap):
                break
            loss = self.last.loss + self.penalty
            self.run(gap)
            gap, looks = self.gap(), looks + 1
            self.limit(loss - self.last.loss - self.penalty)
            epochs = -(-(self.counts.updates - before) // max(self.window, 1))
        point = np.zeros((), POINT)
        point["lambda"], point["gap"] = penalty, gap
        point["objective"] = self.last.loss + self.penalty
        point["null"] = self.null if self.finite else math.nan
        inner = float((self.w * self.scale) @ self.centre)
        point["intercept"] = self.constant - inner if self.problem.intercept else 0.0
        point["held"] = point["held_error"] = math.nan
        point["epochs"], point["n_weights"] = epochs, np.count_nonzero(self.w)
        return point

    def run(self, gap: float) -> None:
        """Updates weights by the priorities of the last pass, until little is gained."""
        h = self.curvature * (self.last.curvature if self.logistic else 1.0)
        change = self.least(self.last.pull + h * self.w, h) - self.w
        self.order.renew(np.sqrt(h) * change)
        moving = np.flatnonzero(change)
        if self.problem.schedule == DYNAMIC:
            urgent = np.argsort(-np.abs(change[moving]), kind="stable")
            self.columns.prepare(moving[urgent[: KEPT // 4]])
        support = int(np.count_nonzero(self.w))
        some = min(len(moving), 4 * support + LEAST_WINDOW)
        self.window = max(LEAST_WINDOW, some, len(self.norm) // 8)
        if self.problem.schedule == RANDOM:
            self.window = len(self.norm)
        self.aim, self.best = gap, self.last.loss + self.penalty
        self.ended, self.gained, self.seen, self.windows = False, 0.0, 0, 0
        self.journal.clear()
        Dynamic(2**62, DEPTH).run(self, None, [self.rows], self.workers)
        self.last = self.look()
        if not self.last.loss + self.penalty <= self.best + ROUNDING * self.null and self.journal:
            self.take_back()
            self.last = self.look()

    def look(self) -> Look:
        """A pass over all features at the weights, after the steps of the intercept."""
        self.counts.looks += 1
        empty = np.zeros(0, np.intp)
        for _ in range(NEWTON if self.logistic and self.problem.intercept else 1):
            job = self.job(empty)
            _, _, sums = self.rows.step(
                job.constant, job.changed, job.weight, empty.astype(np.int32)
            )
            shift = float(sums[1] / sums[2]) if self.problem.intercept else 0.0
            if not self.logistic or abs(sums[1]) <= SMALL_SLOPE * sums[2]:
                break
            self.constant += shift
        pull, more = self.rows.look(shift)
        pull[self.norm == 0] = 0
        return Look(pull, float(sums[0]), float(sums[2]), shift, *more.tolist())

    def gap(self) -> float:
        """An upper bound of the objective above the least one, at the last pass."""
        last, w, l1, l2 = self.last, self.w, self.l1, self.l2
        objective = last.loss + self.penalty
        ridge = l2 * float(w @ w)
        most = float(self.sizes(last.pull - l2 * w).max(initial=0.0))
        if self.logistic:
            factor = l1 / most if most > l1 else 1.0
            dual = self.rows.dual(last.shift, factor) - factor**2 / 2 * ridge
            return objective if math.isnan(dual) else max(objective - dual, 0.0)
        every, product = last.squares + ridge, last.product + float(w @ last.pull)
        factor = max(product / every, 0.0) if every > 0 else 0.0
        if most * factor > l1:
            factor = l1 / most
        return max(objective - factor * product + factor**2 / 2 * every, 0.0)
